//! `connect`: joins stdin and stdout, one JSON message per line, to a listener. For `kubectl exec -i` and ssh.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail};
use futures_util::{SinkExt as _, StreamExt as _};
use tokio::io::{
    AsyncBufRead, AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _,
    BufReader, stdin, stdout,
};
use tokio::net::{TcpStream, UnixStream};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::http::header::{AUTHORIZATION, HeaderValue};

use sandbox_sidecar::config::{AuthMode, Config, ListenUrl};

/// Largest message that is passed on: what either side takes at most by default.
const MAX_MESSAGE: u64 = sidecar_protocol::MAX_MESSAGE_BYTES as u64;

/// Where to.
#[derive(Debug, PartialEq, Eq)]
enum Target {
    Unix(PathBuf),
    Ws { url: String, authority: String },
}

/// Where the server of this config listens, and the file that holds a token for it: its unix socket, if it has one.
pub(crate) fn own(config: &Config) -> anyhow::Result<(String, Option<PathBuf>)> {
    let socket = config.listen.iter().find_map(|url| match url {
        ListenUrl::Unix(path) => Some((format!("unix:{}", path.display()), None)),
        ListenUrl::Ws(_) | ListenUrl::Wss(_) | ListenUrl::Stdio => None,
    });
    let tcp = || {
        let plain = |url: &&ListenUrl| !url.is_tls();
        let mut address = config.listen.iter().filter(plain).find_map(ListenUrl::tcp)?;
        if address.ip().is_unspecified() {
            address.set_ip(match address {
                SocketAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
                SocketAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
            });
        }
        let token_file = match &config.auth {
            AuthMode::TokenFile(file) | AuthMode::Generated(file) => Some(file.clone()),
            // Signed tokens are with their clients alone.
            AuthMode::Signed(_) | AuthMode::Off => None,
        };
        (address.port() != 0).then(|| (format!("ws://{address}"), token_file))
    };
    socket.or_else(tcp).ok_or_else(|| {
        anyhow!("the config names no listener that can be found: say ws://HOST:PORT or unix:PATH")
    })
}

/// Returns when either side has ended.
pub(crate) async fn connect(target: &str, token_file: Option<&Path>) -> anyhow::Result<()> {
    match parse(target)? {
        Target::Unix(path) => {
            let stream = UnixStream::connect(&path).await;
            join(stream.with_context(|| format!("cannot connect to {}", path.display()))?).await
        }
        Target::Ws { url, authority } => {
            let token = token_file.map(read_token).transpose()?;
            let stream = TcpStream::connect(&authority).await;
            let stream = stream.with_context(|| format!("cannot connect to {authority}"))?;
            stream.set_nodelay(true)?;
            let mut request = url.as_str().into_client_request().context("the URL")?;
            if let Some(token) = token {
                let value = HeaderValue::from_str(&format!("Bearer {token}")).context("the token")?;
                request.headers_mut().insert(AUTHORIZATION, value);
            }
            let (socket, _) = tokio_tungstenite::client_async(request, stream)
                .await
                .with_context(|| format!("{url} refused the connection"))?;
            translate(socket).await
        }
    }
}

fn parse(target: &str) -> anyhow::Result<Target> {
    if let Some(path) = target.strip_prefix("unix:") {
        let path = path.strip_prefix("//").unwrap_or(path);
        return Ok(Target::Unix(PathBuf::from(path)));
    }
    let Some(rest) = target.strip_prefix("ws://") else {
        bail!("expected ws://HOST:PORT or unix:PATH, not {target:?}");
    };
    let authority = rest.split('/').next().unwrap_or_default();
    if authority.is_empty() || authority.contains('@') {
        bail!("expected ws://HOST:PORT, not {target:?}");
    }
    let has_port = authority.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    let authority = if has_port { authority.to_owned() } else { format!("{authority}:80") };
    Ok(Target::Ws { url: target.to_owned(), authority })
}

/// The first token of a token file: `name:token`, or a bare token.
fn read_token(file: &Path) -> anyhow::Result<String> {
    let text = std::fs::read_to_string(file).with_context(|| format!("token file {}", file.display()))?;
    let line = text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#'));
    let line = line.ok_or_else(|| anyhow!("token file {}: it holds no token", file.display()))?;
    let token = match line.split_once(':') {
        Some((name, token)) if name != "sha256" => token.trim(),
        _ => line,
    };
    if token.starts_with("sha256:") {
        bail!("token file {}: it holds the digest of a token, not the token", file.display());
    }
    Ok(token.to_owned())
}

/// Both sides speak lines: bytes go as they are.
async fn join(stream: UnixStream) -> anyhow::Result<()> {
    let (mut from_server, mut to_server) = stream.into_split();
    let mut stdout = stdout();
    let up = async {
        tokio::io::copy(&mut stdin(), &mut to_server).await?;
        // The server ends the connection then, after what it still has to say.
        to_server.shutdown().await?;
        std::future::pending::<std::io::Result<()>>().await
    };
    let down = async {
        let mut buffer = vec![0; 64 << 10];
        while let len @ 1.. = from_server.read(&mut buffer).await? {
            stdout.write_all(&buffer[..len]).await?;
            stdout.flush().await?;
        }
        Ok(())
    };
    let ended: std::io::Result<()> = tokio::select! {
        ended = up => ended,
        ended = down => ended,
    };
    Ok(ended?)
}

/// A message per line here, a message per frame there.
async fn translate<S: AsyncRead + AsyncWrite + Unpin>(socket: WebSocketStream<S>) -> anyhow::Result<()> {
    let (mut to_server, mut from_server) = socket.split();
    let (mut lines, mut stdout) = (BufReader::new(stdin()), stdout());
    let up = async {
        while let Some(line) = next_line(&mut lines).await? {
            to_server.send(Message::text(line)).await?;
        }
        to_server.close().await?;
        std::future::pending::<anyhow::Result<()>>().await
    };
    let down = async {
        while let Some(frame) = from_server.next().await {
            match frame? {
                Message::Text(text) => {
                    // Between JSON values a line break is as good as a space; within strings there is none.
                    stdout.write_all(text.replace(['\n', '\r'], " ").as_bytes()).await?;
                    stdout.write_all(b"\n").await?;
                    stdout.flush().await?;
                }
                Message::Close(Some(close)) if !close.reason.is_empty() => bail!("{}", close.reason),
                _ => {}
            }
        }
        Ok(())
    };
    tokio::select! {
        ended = up => ended,
        ended = down => ended,
    }
}

/// The next line that is not blank; `None` at the end of input.
async fn next_line(input: &mut (impl AsyncBufRead + Unpin)) -> anyhow::Result<Option<String>> {
    loop {
        let mut line = String::new();
        let read = (&mut *input).take(MAX_MESSAGE).read_line(&mut line).await?;
        if read == 0 {
            return Ok(None);
        }
        if read as u64 == MAX_MESSAGE && !line.ends_with('\n') {
            bail!("a line is over the limit of {MAX_MESSAGE} bytes");
        }
        line.truncate(line.trim_end().len());
        if !line.is_empty() {
            return Ok(Some(line));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets() {
        let unix = |path: &str| Target::Unix(PathBuf::from(path));
        assert_eq!(parse("unix:/run/s").expect("a path"), unix("/run/s"));
        assert_eq!(parse("unix:///run/s").expect("a path"), unix("/run/s"));
        let authority = |url: &str| match parse(url).expect(url) {
            Target::Ws { authority, .. } => authority,
            Target::Unix(_) => panic!("{url}"),
        };
        assert_eq!(authority("ws://127.0.0.1:8790"), "127.0.0.1:8790");
        assert_eq!(authority("ws://[::1]:8790/"), "[::1]:8790");
        assert_eq!(authority("ws://host/path"), "host:80");
        for bad in ["http://x", "ws://", "wss://x", "ws://user@host"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_token_of_a_file() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("token");
        let read = |text: &str| {
            std::fs::write(&file, text).expect("written");
            read_token(&file)
        };
        for text in ["x:y:secret", "# old\n\nname: y:secret\nother"] {
            assert_eq!(read(text).expect(text), "y:secret");
        }
        assert_eq!(read(" bare \n").expect("bare"), "bare");
        for text in ["", "sha256:00", "name:sha256:00"] {
            assert!(read(text).is_err(), "{text:?}");
        }
    }

    #[tokio::test]
    async fn lines() {
        let mut input = BufReader::new(&b"\n{}\r\n  \n{\"a\":1}"[..]);
        assert_eq!(next_line(&mut input).await.expect("a line").as_deref(), Some("{}"));
        assert_eq!(next_line(&mut input).await.expect("a line").as_deref(), Some("{\"a\":1}"));
        assert_eq!(next_line(&mut input).await.expect("the end"), None);
    }
}
