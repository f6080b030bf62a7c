//! A unix socket: who may connect goes by the peer's uid, and no launch may. Messages go as lines.

use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::errno::Errno;
use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::PeerPidfd;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::Mode;
use sidecar_intake::Place;
use sidecar_protocol::RpcError;
use socket2::{Domain, SockAddr, Socket, Type};
use tokio::net::unix::UCred;
use tokio::net::{UnixListener, UnixStream};

use super::lines;
use crate::auth::throttle::{Failure, Origin};
use crate::caller::Caller;
use crate::health::State;
use crate::metrics::labels;
use crate::server::Shared;

/// Connections that wait to be accepted.
const BACKLOG: i32 = 128;

const ROOT: u32 = 0;

/// What the kernel tells of a peer in another pid namespace: another container.
const ELSEWHERE: i32 = 0;

/// The socket's file; removed with this, unless somebody has put another one in its place.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    identity: (u64, u64),
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if identity(&self.path).is_ok_and(|identity| identity == self.identity) {
            // Nothing is left to be done about one that stays.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Listens on a path, with a file that only this user may connect to. Replaces the file of a server that is gone.
pub(crate) fn listen(path: &Path) -> io::Result<(UnixListener, SocketFile)> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    // Before it has a name: the file is never there with more rights.
    rustix::fs::fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    let address = SockAddr::unix(path)?;
    match socket.bind(&address) {
        Err(e) if e.kind() == io::ErrorKind::AddrInUse && is_stale(path, &address)? => {
            fs::remove_file(path)?;
            socket.bind(&address)?;
        }
        bound => bound?,
    }
    let file = SocketFile { path: path.to_owned(), identity: identity(path)? };
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok((UnixListener::from_std(std::os::fd::OwnedFd::from(socket).into())?, file))
}

/// Whether it is a socket that nobody listens on.
fn is_stale(path: &Path, address: &SockAddr) -> io::Result<bool> {
    if !fs::symlink_metadata(path)?.file_type().is_socket() {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, "it exists, and is no socket"));
    }
    let probe = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    // A listener with a full backlog would make a blocking probe wait.
    probe.set_nonblocking(true)?;
    Ok(matches!(probe.connect(address), Err(e) if e.kind() == io::ErrorKind::ConnectionRefused))
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    fs::symlink_metadata(path).map(|metadata| (metadata.dev(), metadata.ino()))
}

/// Serves one connection to its end.
pub(crate) async fn serve(shared: Arc<Shared>, stream: UnixStream, place: Place) {
    let (peer, permit) = match admit(&shared, &stream) {
        Ok(admitted) => admitted,
        Err(error) => {
            if let Some(reason) = labels::rejection(&error) {
                shared.metrics.requests.rejected(reason);
            }
            let uid = stream.peer_cred().map_or(u32::MAX, |peer| peer.uid());
            if !matches!(shared.failures.fail(Origin::User(uid)), Failure::More { .. }) {
                tracing::warn!(uid, reason = error.message, "refused a peer of the unix socket");
            }
            tokio::select! {
                () = lines::refuse(stream, &error) => {}
                () = place.lost() => {}
                () = tokio::time::sleep(shared.config.limits.handshake) => {}
            }
            return;
        }
    };
    drop(place);
    tracing::info!(uid = peer.uid(), pid = peer.pid(), "connected");
    let (input, output) = stream.into_split();
    lines::serve(shared, input, output, true, Caller::unix(peer.uid(), peer.pid())).await;
    drop(permit);
}

/// Who the peer is, and its share of the connections.
fn admit(
    shared: &Shared,
    stream: &UnixStream,
) -> Result<(UCred, tokio::sync::OwnedSemaphorePermit), RpcError> {
    let peer = stream
        .peer_cred()
        .map_err(|e| RpcError::invalid_request(format!("the peer's credentials cannot be told: {e}")))?;
    may_connect(peer.uid(), peer.pid(), rustix::process::geteuid().as_raw(), |pid| {
        look_at(stream, || shared.sandbox.is_launch(pid))
    })
    .map_err(RpcError::invalid_request)?;
    if shared.health.get() == State::Draining {
        return Err(RpcError::invalid_request("the sidecar is shutting down"));
    }
    let permit = shared.connections.clone().try_acquire_owned().map_err(|_| {
        let limit = shared.config.limits.connections;
        let message = format!("there are {limit} connections already (limits.connections)");
        RpcError::limit("limits.connections", message)
    })?;
    Ok((peer, permit))
}

/// What a look at the peer's pid finds. It may be another process's by now, where the peer is gone and has left its socket to
/// somebody else: from Linux 6.5 on the kernel tells whether it is still there after the look.
fn look_at(peer: &impl AsFd, look: impl FnOnce() -> io::Result<bool>) -> io::Result<bool> {
    let process = match getsockopt(peer, PeerPidfd) {
        Err(Errno::ENOPROTOOPT) => return look(),
        process => process?,
    };
    let found = look()?;
    let mut exit = [PollFd::new(&process, PollFlags::IN)];
    match rustix::event::poll(&mut exit, Some(&Timespec::default()))? {
        0 => Ok(found),
        _ => Err(io::ErrorKind::NotFound.into()),
    }
}

/// Whether a peer is let in; otherwise why not. One that can no longer be looked at may have been anything.
fn may_connect(
    uid: u32,
    pid: Option<i32>,
    own: u32,
    is_launch: impl FnOnce(i32) -> io::Result<bool>,
) -> Result<(), &'static str> {
    match pid {
        Some(ELSEWHERE) => Ok(()),
        _ if uid != own && uid != ROOT => Err("this socket is another user's"),
        None => Err("the peer's pid is not known"),
        Some(pid) => match is_launch(pid) {
            Ok(false) => Ok(()),
            Ok(true) => Err("launches may not use the sidecar's API"),
            Err(_) => Err("the peer is gone, or cannot be looked at"),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::os::unix::net;

    use super::*;

    #[test]
    fn who_may_connect() {
        let outsider = |_| Ok(false);
        let launch = |_| Ok(true);
        assert!(may_connect(7, Some(1), 7, outsider).is_ok());
        assert!(may_connect(0, Some(1), 7, outsider).is_ok());
        assert!(may_connect(8, Some(0), 7, launch).is_ok(), "another container");
        assert!(may_connect(8, Some(1), 7, outsider).is_err());
        assert!(may_connect(8, Some(1), 0, outsider).is_err());
        assert!(may_connect(7, None, 7, outsider).is_err());
        assert!(may_connect(7, Some(1), 7, launch).is_err());
        assert!(may_connect(7, Some(1), 7, |_| Err(io::ErrorKind::NotFound.into())).is_err(), "vanished");
    }

    #[test]
    fn a_peer_that_is_gone_is_not_who_has_its_pid() {
        let dir = tempfile::tempdir().expect("a directory");
        let listener = net::UnixListener::bind(dir.path().join("sock")).expect("bound");
        // It leaves its socket to its child, which says so and waits.
        let script = "import os, socket, sys\n\
            s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])\n\
            os.fork() and os._exit(0)\n\
            s.send(b'x'); s.recv(1)";
        let mut peer = std::process::Command::new("python3")
            .args(["-c", script])
            .arg(dir.path().join("sock"))
            .spawn()
            .expect("python3");
        let (mut left, _) = listener.accept().expect("connected");
        assert!(peer.wait().expect("ended").success());
        io::Read::read_exact(&mut left, &mut [0]).expect("the child has it");
        // As if the number were somebody else's by now, who is no launch.
        assert!(look_at(&left, || Ok(false)).is_err());
        let (here, _there) = net::UnixStream::pair().expect("a pair");
        assert!(!look_at(&here, || Ok(false)).expect("this process is there"), "the control");
        assert!(look_at(&here, || Ok(true)).expect("this process is there"));
    }

    #[tokio::test]
    async fn the_file_is_private_goes_with_the_server_and_replaces_a_stale_one() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("sock");
        drop(net::UnixListener::bind(&path).expect("bound"));
        assert!(path.exists(), "a server that was killed leaves its file");
        let (listener, file) = listen(&path).expect("listens");
        assert_eq!(path.metadata().expect("there").permissions().mode() & 0o777, 0o600);
        let error = listen(&path).expect_err("taken");
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        drop((listener, file));
        assert!(!path.exists());
        fs::write(&path, "precious").expect("written");
        assert!(listen(&path).is_err());
        assert_eq!(fs::read(&path).expect("still there"), b"precious");
    }

    #[tokio::test]
    async fn somebody_elses_file_stays() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("sock");
        let (_listener, file) = listen(&path).expect("listens");
        // Keeps the inode from being given to the next file.
        let _first = fs::hard_link(&path, dir.path().join("kept"));
        fs::remove_file(&path).expect("removed");
        fs::write(&path, "another").expect("written");
        drop(file);
        assert!(path.exists());
    }
}
