//! The sidecar's own doors: its API over TCP and over a unix socket, its connections.

use std::io::{Error, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;

use crate::{Outcome, sys};

pub(crate) fn run(attack: &str, rest: &[&str]) -> Option<Outcome> {
    Some(match (attack, rest) {
        ("api-tcp", [address]) => upgrade(address, ""),
        ("api-tcp", [address, token]) => upgrade(address, &format!("Authorization: Bearer {token}\r\n")),
        ("api-unix", [path]) => over_unix(path),
        ("half-open", [address, count]) => half_open(address, count.parse().ok()?),
        _ => return None,
    })
}

/// `ok` where the server lets it in; its status code otherwise.
fn upgrade(address: &str, header: &str) -> Outcome {
    let mut stream = TcpStream::connect(address)?;
    let request = format!(
        "GET / HTTP/1.1\r\nHost: {address}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{header}\r\n"
    );
    stream.write_all(request.as_bytes())?;
    let mut head = [0; 12];
    stream.read_exact(&mut head)?;
    match &head[9..] {
        b"101" => Ok(()),
        status => Err(Error::other(String::from_utf8_lossy(status).into_owned())),
    }
}

/// `ok` where the server answers the handshake with a result.
fn over_unix(path: &str) -> Outcome {
    let mut stream = UnixStream::connect(path)?;
    let refused = || Error::other("refused");
    let request = "{\"id\":1,\"method\":\"initialize\",\"params\":{\"clientName\":\"hostile\"}}\n";
    stream.write_all(request.as_bytes()).map_err(|_| refused())?;
    let mut answer = Vec::new();
    let mut piece = [0; 4096];
    while !answer.contains(&b'\n') {
        match stream.read(&mut piece) {
            Ok(n) if n > 0 => answer.extend_from_slice(&piece[..n]),
            _ => break,
        }
    }
    if String::from_utf8_lossy(&answer).contains("\"result\"") { Ok(()) } else { Err(refused()) }
}

/// Holds connections open that never finish their first request; waits to be killed.
fn half_open(address: &str, count: usize) -> Outcome {
    let mut held = Vec::new();
    for _ in 0..count {
        let mut stream = TcpStream::connect(address)?;
        // The server may have closed it by now.
        let _ = stream.write_all(b"GET / HTTP/1.1\r\nHost:");
        held.push(stream);
    }
    println!("ok");
    std::io::stdout().flush()?;
    loop {
        let _ = sys(libc::SYS_ppoll, &[0, 0, 0, 0, 8]);
    }
}
