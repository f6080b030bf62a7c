//! A TCP proxy in front of a server: it cuts connections on demand, and tells what goes through.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};

use crate::GIVE_UP;

/// A running proxy. It ends with the test's process.
#[derive(Debug)]
pub struct Proxy {
    addr: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    target: SocketAddr,
    cut: bool,
    streams: Vec<TcpStream>,
    /// Connections that were asked for since the last cut.
    attempts: usize,
    /// Bytes from the server.
    received: u64,
}

impl Proxy {
    /// In front of the server at a `ws://` URL.
    pub fn new(url: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let state = State { target: target(url), cut: false, streams: Vec::new(), attempts: 0, received: 0 };
        let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() });
        let own = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                own.take(stream);
            }
        });
        Self { addr, shared }
    }

    /// `ws://127.0.0.1:PORT`
    pub fn url(&self) -> String {
        format!("ws://{}", self.addr)
    }

    /// Ends every connection, and lets no new one through.
    pub fn cut(&self) {
        let mut state = self.shared.state.lock().unwrap();
        state.cut = true;
        state.attempts = 0;
        for stream in state.streams.drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Lets connections through again.
    pub fn restore(&self) {
        self.shared.state.lock().unwrap().cut = false;
    }

    /// Leads to another server from here on.
    pub fn lead_to(&self, url: &str) {
        self.shared.state.lock().unwrap().target = target(url);
    }

    /// Waits until somebody has tried to connect since the cut: the cut was noticed.
    pub fn wait_for_attempts(&self, attempts: usize) {
        self.wait("an attempt to connect", |state| state.attempts >= attempts);
    }

    /// Waits until so many bytes more have come from the server.
    pub fn wait_for_bytes(&self, more: u64) {
        let from = self.shared.state.lock().unwrap().received;
        self.wait("output", |state| state.received >= from + more);
    }

    fn wait(&self, what: &str, until: impl Fn(&State) -> bool) {
        let state = self.shared.state.lock().unwrap();
        let (_state, waited) =
            self.shared.changed.wait_timeout_while(state, GIVE_UP, |state| !until(state)).unwrap();
        assert!(!waited.timed_out(), "{what} never came");
    }
}

fn target(url: &str) -> SocketAddr {
    url.strip_prefix("ws://").unwrap().parse().unwrap()
}

impl Shared {
    fn take(self: &Arc<Self>, client: TcpStream) {
        let mut state = self.state.lock().unwrap();
        state.attempts += 1;
        self.changed.notify_all();
        if state.cut {
            return;
        }
        let Ok(server) = TcpStream::connect(state.target) else { return };
        for stream in [&client, &server] {
            stream.set_nodelay(true).unwrap();
            state.streams.push(stream.try_clone().unwrap());
        }
        let (up, down) = (client.try_clone().unwrap(), server.try_clone().unwrap());
        let (first, second) = (Arc::clone(self), Arc::clone(self));
        std::thread::spawn(move || first.copy(up, server, false));
        std::thread::spawn(move || second.copy(down, client, true));
    }

    fn copy(&self, mut from: TcpStream, mut to: TcpStream, counted: bool) {
        let mut block = vec![0; 64 << 10];
        while let Ok(len @ 1..) = from.read(&mut block) {
            if to.write_all(&block[..len]).is_err() {
                break;
            }
            if counted {
                self.state.lock().unwrap().received += len as u64;
                self.changed.notify_all();
            }
        }
        let _ = to.shutdown(Shutdown::Write);
        let _ = from.shutdown(Shutdown::Read);
    }
}
