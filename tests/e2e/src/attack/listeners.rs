//! A TCP and a UDP listener that keep all that arrives, so that a leak is told by its receiver and not by the sender's
//! errno.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::{Arc, Condvar, Mutex};

use crate::GIVE_UP;

/// All that has arrived so far.
#[derive(Debug, Default)]
struct Heard {
    bytes: Mutex<Vec<u8>>,
    grown: Condvar,
}

impl Heard {
    fn add(&self, bytes: &[u8]) {
        self.bytes.lock().unwrap().extend_from_slice(bytes);
        self.grown.notify_all();
    }
}

/// Both listeners; they live as long as the program.
#[derive(Debug)]
pub struct Listeners {
    /// Where TCP is listened on.
    pub tcp: SocketAddr,
    /// Where UDP is listened on.
    pub udp: SocketAddr,
    heard: [Arc<Heard>; 2],
}

impl Listeners {
    /// On 127.0.0.1, and on ::1 where the machine has it.
    pub fn everywhere() -> Vec<Self> {
        let v6 = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_ok();
        let v6 = v6.then(|| Self::start(Ipv6Addr::LOCALHOST.into()));
        std::iter::once(Self::start(Ipv4Addr::LOCALHOST.into())).chain(v6).collect()
    }

    /// Starts them on free ports of this address.
    fn start(ip: IpAddr) -> Self {
        let heard = [Arc::<Heard>::default(), Arc::<Heard>::default()];
        let listener = TcpListener::bind((ip, 0)).unwrap();
        let tcp = listener.local_addr().unwrap();
        let sink = Arc::clone(&heard[0]);
        // One after the other, in the order in which the kernel has taken them.
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut bytes = Vec::new();
                // A connection that is cut off has still delivered what came before.
                let _ = stream.and_then(|mut stream| stream.read_to_end(&mut bytes));
                sink.add(&bytes);
            }
        });
        let socket = UdpSocket::bind((ip, 0)).unwrap();
        let udp = socket.local_addr().unwrap();
        let sink = Arc::clone(&heard[1]);
        std::thread::spawn(move || {
            let mut datagram = [0; 2048];
            while let Ok(len) = socket.recv(&mut datagram) {
                sink.add(&datagram[..len]);
            }
        });
        Self { tcp, udp, heard }
    }

    /// Whether `marker` has arrived. Both keep the order, so once a sentinel has come, all that was sent before it has.
    pub fn arrived(&self, marker: &str) -> bool {
        let sentinel = format!("sentinel behind {marker};");
        TcpStream::connect(self.tcp).unwrap().write_all(sentinel.as_bytes()).unwrap();
        UdpSocket::bind((self.udp.ip(), 0)).unwrap().send_to(sentinel.as_bytes(), self.udp).unwrap();
        let marker = format!("<{marker}>");
        self.heard.iter().any(|heard| {
            let bytes = heard.bytes.lock().unwrap();
            let (bytes, waited) =
                heard.grown.wait_timeout_while(bytes, GIVE_UP, |b| !holds(b, &sentinel)).unwrap();
            assert!(!waited.timed_out(), "the listener has not heard the sentinel");
            holds(&bytes, &marker)
        })
    }
}

fn holds(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}
