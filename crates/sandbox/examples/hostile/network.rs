//! Ways onto the network, each with a marker that a listener can find again; and sockets that should not be.

use std::io::{self, Error, Write as _};
use std::mem::size_of;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::UnixStream;

use crate::{Outcome, sys};

const MSG_FASTOPEN: usize = 0x2000_0000;
const TCP_FASTOPEN_CONNECT: usize = 30;
const IPPROTO_MPTCP: usize = 262;
const SO_REUSEPORT: usize = 15;
const STREAM: usize = libc::SOCK_STREAM as usize;
const LOOPBACK: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

pub(crate) fn run(attack: &str, rest: &[&str]) -> Option<Outcome> {
    Some(match (attack, rest) {
        ("send", [how, address, marker]) => send(how, address.parse().ok()?, marker)?,
        ("connect-abstract", [name]) => std::os::unix::net::SocketAddr::from_abstract_name(name)
            .and_then(|address| UnixStream::connect_addr(&address))
            .map(drop),
        ("connect-unix", [path]) => UnixStream::connect(path).map(drop),
        ("socket", [family, kind, protocol]) => {
            sys(libc::SYS_socket, &[family.parse().ok()?, kind.parse().ok()?, protocol.parse().ok()?])
                .map(drop)
        }
        ("listen-without-bind", []) => listen_without_bind(),
        ("bind", [address]) => TcpListener::bind(*address).map(drop),
        ("bind-same", [address]) => {
            let SocketAddr::V4(address) = address.parse().ok()? else { return None };
            bind_same(address)
        }
        _ => return None,
    })
}

fn send(how: &str, address: SocketAddr, marker: &str) -> Option<Outcome> {
    let bytes = marker.as_bytes();
    Some(match how {
        "connect" => TcpStream::connect(address).and_then(|mut s| s.write_all(bytes)),
        "mptcp" => mptcp(address, bytes),
        "fastopen-connect" => fastopen_connect(address, bytes),
        "fastopen-sendto" => fast_open(address, bytes, libc::SYS_sendto),
        "fastopen-sendmsg" => fast_open(address, bytes, libc::SYS_sendmsg),
        "fastopen-sendmmsg" => fast_open(address, bytes, libc::SYS_sendmmsg),
        "udp" => udp_socket(address).and_then(|s| s.send_to(bytes, address)).map(drop),
        "udp-connected" => udp_socket(address)
            .and_then(|s| s.connect(address).map(|()| s))
            .and_then(|s| s.send(bytes))
            .map(drop),
        "io_uring" => uring(address, bytes),
        _ => return None,
    })
}

fn udp_socket(to: SocketAddr) -> io::Result<UdpSocket> {
    let any: IpAddr = if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    UdpSocket::bind((any, 0))
}

/// A TCP socket, or one of another protocol's streams, of the address's family.
fn stream(to: SocketAddr, protocol: usize) -> io::Result<usize> {
    let family = if to.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    sys(libc::SYS_socket, &[family as usize, STREAM, protocol])
}

/// A `struct sockaddr_in`, or a `struct sockaddr_in6`.
fn raw_address(address: SocketAddr) -> Vec<u8> {
    let port = address.port().to_be_bytes();
    let family = |family: i32| (family as u16).to_ne_bytes();
    match address.ip() {
        IpAddr::V4(ip) => [&family(libc::AF_INET)[..], &port, &ip.octets(), &[0; 8]].concat(),
        IpAddr::V6(ip) => [&family(libc::AF_INET6)[..], &port, &[0; 4], &ip.octets(), &[0; 4]].concat(),
    }
}

fn connect(socket: usize, address: SocketAddr) -> Outcome {
    let raw = raw_address(address);
    sys(libc::SYS_connect, &[socket, raw.as_ptr() as usize, raw.len()]).map(drop)
}

fn write(socket: usize, bytes: &[u8]) -> Outcome {
    sys(libc::SYS_write, &[socket, bytes.as_ptr() as usize, bytes.len()]).map(drop)
}

fn mptcp(address: SocketAddr, bytes: &[u8]) -> Outcome {
    let socket = stream(address, IPPROTO_MPTCP)?;
    connect(socket, address)?;
    write(socket, bytes)
}

fn fastopen_connect(address: SocketAddr, bytes: &[u8]) -> Outcome {
    let socket = stream(address, 0)?;
    let on = 1i32;
    let tcp = libc::IPPROTO_TCP as usize;
    let option = [socket, tcp, TCP_FASTOPEN_CONNECT, (&raw const on) as usize, size_of::<i32>()];
    sys(libc::SYS_setsockopt, &option)?;
    connect(socket, address)?;
    write(socket, bytes)
}

/// A `struct mmsghdr` of the kernel's; musl has another one.
#[repr(C)]
struct Message {
    name: usize,
    name_len: usize,
    vectors: usize,
    vectors_len: usize,
    control: [usize; 3],
    sent: usize,
}

/// Connects in the send itself.
fn fast_open(address: SocketAddr, bytes: &[u8], nr: libc::c_long) -> Outcome {
    let socket = stream(address, 0)?;
    let raw = raw_address(address);
    let vector = [bytes.as_ptr() as usize, bytes.len()];
    let mut message = Message {
        name: raw.as_ptr() as usize,
        name_len: raw.len(),
        vectors: vector.as_ptr() as usize,
        vectors_len: 1,
        control: [0; 3],
        sent: 0,
    };
    let message = (&raw mut message) as usize;
    let result = match nr {
        libc::SYS_sendto => {
            let (at, len) = (bytes.as_ptr() as usize, bytes.len());
            sys(nr, &[socket, at, len, MSG_FASTOPEN, raw.as_ptr() as usize, raw.len()])
        }
        libc::SYS_sendmsg => sys(nr, &[socket, message, MSG_FASTOPEN]),
        _ => sys(nr, &[socket, message, 1, MSG_FASTOPEN]),
    };
    result.map(drop)
}

/// Makes the ring; a kernel or sandbox that gives none ends it here. Where there is one, the connect goes through it.
fn uring(address: SocketAddr, bytes: &[u8]) -> Outcome {
    const ENTRIES: usize = 4;
    const IORING_OP_CONNECT: u8 = 16;
    const IORING_OFF_SQES: usize = 0x1000_0000;
    const GET_EVENTS: usize = 1;
    let mut params = [0u32; 30];
    let ring = sys(libc::SYS_io_uring_setup, &[ENTRIES, params.as_mut_ptr() as usize])?;
    let socket = stream(address, 0)?;
    let map = |offset: usize| -> io::Result<usize> {
        let protection = (libc::PROT_READ | libc::PROT_WRITE) as usize;
        sys(libc::SYS_mmap, &[0, 4096, protection, libc::MAP_SHARED as usize, ring, offset])
    };
    let (queue, entries) = (map(0)?, map(IORING_OFF_SQES)?);
    let raw = raw_address(address);
    // struct io_uring_params: sq_off starts at byte 40; tail is its second word, array its seventh.
    let (tail, array) = (params[11] as usize, params[16] as usize);
    // SAFETY: both mappings are a page, and the offsets are the kernel's own.
    unsafe {
        let entry = entries as *mut u8;
        entry.write(IORING_OP_CONNECT);
        entry.add(4).cast::<i32>().write(socket as i32);
        entry.add(8).cast::<u64>().write(raw.len() as u64);
        entry.add(16).cast::<u64>().write(raw.as_ptr() as u64);
        ((queue + array) as *mut u32).write(0);
        ((queue + tail) as *mut u32).write_volatile(1);
    }
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
    sys(libc::SYS_io_uring_enter, &[ring, 1, 1, GET_EVENTS, 0, 0])?;
    write(socket, bytes)
}

/// The kernel picks the port in `listen`.
fn listen_without_bind() -> Outcome {
    let socket = stream(LOOPBACK, 0)?;
    sys(libc::SYS_listen, &[socket, 1]).map(drop)
}

/// Takes the place of a listener, as two that agree on it could.
fn bind_same(address: SocketAddrV4) -> Outcome {
    for ip in [*address.ip(), Ipv4Addr::UNSPECIFIED] {
        let socket = stream(LOOPBACK, 0)?;
        let on = 1i32;
        for option in [libc::SO_REUSEADDR as usize, SO_REUSEPORT] {
            let level = libc::SOL_SOCKET as usize;
            sys(libc::SYS_setsockopt, &[socket, level, option, (&raw const on) as usize, size_of::<i32>()])?;
        }
        let raw = raw_address((ip, address.port()).into());
        let bound = sys(libc::SYS_bind, &[socket, raw.as_ptr() as usize, raw.len()])
            .and_then(|_| sys(libc::SYS_listen, &[socket, 1]));
        match bound {
            Ok(_) => return Ok(()),
            Err(e) if e.raw_os_error() == Some(libc::EADDRINUSE) => {}
            Err(e) => return Err(e),
        }
    }
    Err(Error::from_raw_os_error(libc::EADDRINUSE))
}
