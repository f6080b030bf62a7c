//! TCP port lists: what reaches a listener, counted there and not by the errno; each refusal beside what goes through.

#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use std::io::Read as _;
use std::net::{Ipv4Addr, TcpListener, UdpSocket};

use common::World;
use sidecar_sandbox::{Error, Network, OnUnsupported, Permissions, Ports, Profile, Request, Sandbox, State};

const OPEN: Request = Request::Profile(Profile::WorkspaceWrite);

fn ports(connect: Option<&[u16]>, bind: Option<&[u16]>, udp: bool) -> Network {
    let set = |list: &[u16]| list.iter().copied().collect();
    Network::Ports(Ports { connect: connect.map(set), bind: bind.map(set), udp })
}

fn python(world: &World, request: &Request, script: &str) -> common::Done {
    let (child, io) = world.launch(request, world.command(&["python3", "-c", script])).unwrap();
    common::finish(child, io)
}

fn listener() -> (TcpListener, u16) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

/// Everything that came in, connection by connection. The senders are gone, so nothing more will come.
fn received(listener: &TcpListener) -> Vec<String> {
    listener.set_nonblocking(true).unwrap();
    let mut all = Vec::new();
    while let Ok((mut stream, _)) = listener.accept() {
        let mut text = String::new();
        stream.set_nonblocking(false).unwrap();
        stream.read_to_string(&mut text).unwrap();
        all.push(text);
    }
    all
}

/// Each way to get bytes to a TCP port; a way that fails must not end the others.
const EVERY_WAY: &str = r#"
import socket, sys
def way(f):
    try: f()
    except OSError as e: print(f.__name__, e.strerror)
def stream(proto=0): return socket.socket(socket.AF_INET, socket.SOCK_STREAM, proto)
def connect():
    with stream() as s: s.connect(to); s.sendall(b"connect")
def sendto_fastopen():
    with stream() as s: s.sendto(b"sendto", socket.MSG_FASTOPEN, to)
def sendmsg_fastopen():
    with stream() as s: s.sendmsg([b"sendmsg"], [], socket.MSG_FASTOPEN, to)
def fastopen_connect():
    with stream() as s: s.setsockopt(6, 30, 1); s.connect(to); s.sendall(b"fastopen_connect")
def mptcp():
    with stream(262) as s: s.connect(to); s.sendall(b"mptcp")
def v6_mapped():
    with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as s:
        s.connect(("::ffff:127.0.0.1", to[1])); s.sendall(b"v6")
for port in sys.argv[1:]:
    to = ("127.0.0.1", int(port))
    for f in connect, sendto_fastopen, sendmsg_fastopen, fastopen_connect, mptcp, v6_mapped: way(f)
"#;

fn every_way(world: &World, request: &Request, port: u16) -> common::Done {
    let port = port.to_string();
    let (child, io) = world.launch(request, world.command(&["python3", "-c", EVERY_WAY, &port])).unwrap();
    common::finish(child, io)
}

#[test]
fn only_listed_ports_are_reached() {
    let (listed, port) = listener();
    let (other, other_port) = listener();
    let world = World::with(|o| o.network = ports(Some(&[port]), None, false));
    let unlisted = every_way(&world, &OPEN, other_port);
    assert_eq!(received(&other), Vec::<String>::new(), "{unlisted:?}");
    assert!(unlisted.stdout.contains("connect Permission denied"), "{unlisted:?}");
    let done = every_way(&world, &OPEN, port);
    assert_eq!(received(&listed), ["connect", "fastopen_connect", "v6"], "{done:?}");
    // The control: the other port is there for a launch without a list.
    let open = World::new();
    every_way(&open, &OPEN, other_port);
    assert!(received(&other).contains(&"connect".to_owned()));
    // No network at all is tighter than a list.
    every_way(&world, &Request::Default, port);
    assert_eq!(received(&listed), Vec::<String>::new());
}

#[test]
fn a_request_for_the_network_gets_the_ceilings_ports() {
    let (listed, port) = listener();
    let (other, other_port) = listener();
    let world = World::with(|o| o.network = ports(Some(&[port]), None, false));
    let stock = Request::Permissions(Permissions {
        entries: None,
        network: true,
        cwd: world.workspace.clone(),
        workspace_roots: vec![],
    });
    for request in [stock, Request::Ceiling] {
        every_way(&world, &request, port);
        every_way(&world, &request, other_port);
        assert_eq!(received(&listed), ["connect", "fastopen_connect", "v6"], "{request:?}");
        assert_eq!(received(&other), Vec::<String>::new(), "{request:?}");
        assert_eq!(
            world.sandbox.prepare(&request).unwrap().receipt().network,
            ports(Some(&[port]), None, false)
        );
    }
}

#[test]
fn only_listed_ports_are_bound() {
    let (held, port) = listener();
    let (other, other_port) = listener();
    drop((held, other));
    let bind = |world: &World, port: u16| {
        let script =
            format!("import socket; s = socket.socket(); s.bind(('127.0.0.1', {port})); print('bound')");
        python(world, &OPEN, &script)
    };
    let world = World::with(|o| o.network = ports(None, Some(&[port]), false));
    assert_eq!(bind(&world, port).stdout, "bound\n");
    for refused in [other_port, 0] {
        let done = bind(&world, refused);
        assert!(done.stderr.contains("Permission denied"), "{done:?}");
    }
    assert_eq!(bind(&World::new(), other_port).stdout, "bound\n", "the control");
    let any = World::with(|o| o.network = ports(None, Some(&[0]), false));
    assert_eq!(bind(&any, 0).stdout, "bound\n", "0 is a port of the kernel's choice");
}

#[test]
fn listening_without_bind_is_a_gap_that_the_receipt_names() {
    let listen = "import socket; s = socket.socket(); s.listen(); print('listening')";
    for (bind, state) in [(Some(&[8080][..]), State::Partial), (Some(&[0]), State::Full), (None, State::Full)]
    {
        let world = World::with(|o| o.network = ports(Some(&[443]), bind, false));
        let receipt = world.sandbox.prepare(&OPEN).unwrap().receipt().clone();
        assert_eq!(receipt.part("tcp"), Some(state), "{bind:?}");
        let named = receipt.unenforced.iter().any(|gap| gap.what.contains("tcpBind"));
        assert_eq!(named, state == State::Partial, "{receipt:?}");
        // It is a gap indeed: were it closed one day, the receipt would have to say so.
        assert_eq!(python(&world, &OPEN, listen).stdout, "listening\n", "{bind:?}");
    }
}

#[test]
fn udp_is_all_or_nothing_and_the_receipt_says_which() {
    let receiver = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    receiver.set_nonblocking(true).unwrap();
    let port = receiver.local_addr().unwrap().port();
    let send = format!(
        "import socket\nfor family, to in ((socket.AF_INET, '127.0.0.1'), (socket.AF_INET6, '::ffff:127.0.0.1')):\n \
         try: socket.socket(family, socket.SOCK_DGRAM).sendto(b'x', (to, {port}))\n except OSError as e: print(e.strerror)"
    );
    let cases = [
        (ports(Some(&[443]), None, false), 0, State::Full),
        (ports(None, None, false), 0, State::Full),
        (ports(Some(&[443]), None, true), 2, State::Unsupported),
        (Network::Open, 2, State::Full),
    ];
    for (network, datagrams, state) in cases {
        let world = World::with(|o| o.network = network.clone());
        let done = python(&world, &OPEN, &send);
        let refused = done.stdout.matches("Operation not permitted").count();
        assert_eq!(refused, 2 - datagrams, "{network:?}: {done:?}");
        let came = std::iter::from_fn(|| receiver.recv(&mut [0; 8]).ok()).count();
        assert_eq!(came, datagrams, "{network:?}");
        let receipt = world.sandbox.prepare(&OPEN).unwrap().receipt().clone();
        assert_eq!(receipt.part("udp"), Some(state), "{network:?}");
        assert_eq!(receipt.status == "full", state == State::Full, "{network:?}");
    }
}

#[test]
fn kernels_without_port_rules_refuse_lists() {
    for (abi, on_unsupported) in
        [(3, OnUnsupported::Refuse), (1, OnUnsupported::Refuse), (0, OnUnsupported::Degrade)]
    {
        let world = World::with(|o| o.max_abi = Some(4));
        let mut options = world.sandbox.options().clone();
        options.network = ports(Some(&[443]), None, false);
        options.on_unsupported = on_unsupported;
        assert!(Sandbox::start(options.clone()).is_ok(), "the control: ABI 4 has them");
        options.max_abi = Some(abi);
        let error = Sandbox::start(options.clone()).unwrap_err();
        assert!(matches!(error, Error::Abi { needs: 4, has, .. } if has == abi), "{error}");
        // Without a network no port has to be looked at; without UDP alone neither.
        options.ceiling = Profile::WorkspaceWriteNoNetwork;
        assert!(Sandbox::start(options.clone()).is_ok());
        options.ceiling = Profile::WorkspaceWrite;
        options.network = ports(None, None, false);
        assert!(Sandbox::start(options).is_ok());
    }
}
