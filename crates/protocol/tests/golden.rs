//! The frames of the protocol, byte for byte. A changed file under `golden/` is a changed wire.
//!
//! `UPDATE_GOLDEN=1 cargo test -p sidecar-protocol --test golden` writes the files anew; read the diff then.

#![expect(clippy::unwrap_used, reason = "a test")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sidecar_protocol::envelope::{self, Incoming};
use sidecar_protocol::error::{self, ErrorData, ErrorKind, RpcError};
use sidecar_protocol::fs::*;
use sidecar_protocol::path::Spelling;
use sidecar_protocol::process::*;
use sidecar_protocol::session::*;
use sidecar_protocol::{Method, PROTOCOL_VERSION, RequestId, WirePath, frame, method};

/// File name without `.json` → frame.
type Frames = BTreeMap<String, String>;

fn uri(path: &str) -> WirePath {
    WirePath::new(path, Spelling::Uri)
}

fn plain(path: &str) -> WirePath {
    WirePath::new(path, Spelling::Plain)
}

/// Encodes, checks that decoding and encoding again changes nothing, and files the frame.
struct Book(Frames);

impl Book {
    fn put(&mut self, name: String, frame: String) {
        assert!(self.0.insert(name.clone(), frame).is_none(), "two frames are named {name}");
    }

    /// The frame that is read again is leaked: what borrows from it can be held against what was sent.
    fn request<T: Serialize + Deserialize<'static>>(&mut self, method: Method, variant: &str, params: &T) {
        let id = RequestId::Int(7);
        let frame = envelope::request(&id, method.name(), params);
        let again = match envelope::decode(frame.clone().leak()).unwrap() {
            Incoming::Request { params, .. } => envelope::params::<T>(params).unwrap(),
            other => panic!("{other:?}"),
        };
        assert_eq!(envelope::request(&id, method.name(), &again), frame);
        self.put(file_name(method.name(), &format!("request{variant}")), frame);
    }

    fn response<T: Serialize + DeserializeOwned>(&mut self, method: Method, variant: &str, result: &T) {
        let id = RequestId::Int(7);
        let frame = envelope::response(&id, result);
        let again: T = match envelope::decode(&frame).unwrap() {
            Incoming::Response { outcome: Ok(raw), .. } => serde_json::from_str(raw.get()).unwrap(),
            other => panic!("{other:?}"),
        };
        assert_eq!(envelope::response(&id, &again), frame);
        self.put(file_name(method.name(), &format!("response{variant}")), frame);
    }

    fn notification<T: Serialize + DeserializeOwned>(&mut self, name: &str, variant: &str, params: &T) {
        let frame = envelope::notification(name, params);
        let again = match envelope::decode(&frame).unwrap() {
            Incoming::Notification { params, .. } => envelope::params::<T>(params).unwrap(),
            other => panic!("{other:?}"),
        };
        assert_eq!(envelope::notification(name, &again), frame);
        self.put(file_name(name, &format!("notification{variant}")), frame);
    }

    fn error(&mut self, name: &str, id: &RequestId, error: &RpcError) {
        let frame = envelope::error_response(id, error);
        match envelope::decode(&frame).unwrap() {
            Incoming::Response { outcome: Err(again), .. } => assert_eq!(&again, error),
            other => panic!("{other:?}"),
        }
        self.put(format!("error.{name}"), frame);
    }
}

fn file_name(method: &str, rest: &str) -> String {
    format!("{}.{rest}", method.replace('/', "."))
}

fn session(book: &mut Book) {
    use Method::{EnvironmentInfo as Info, EnvironmentStatus, Initialize, SessionEnd};

    let client = "codex-environment".to_owned();
    book.request(
        Initialize,
        "",
        &InitializeParams { client_name: client.clone(), resume_session_id: Some(None) },
    );
    book.request(
        Initialize,
        ".v0",
        &InitializeParams { client_name: client.clone(), resume_session_id: None },
    );
    let resumed = Some(Some("00000000-0000-4000-8000-000000000001".to_owned()));
    book.request(
        Initialize,
        ".resume",
        &InitializeParams { client_name: client, resume_session_id: resumed },
    );
    book.response(
        Initialize,
        "",
        &InitializeResult {
            protocol_version: PROTOCOL_VERSION.to_owned(),
            session_id: "00000000-0000-4000-8000-000000000001".to_owned(),
            environment_info: Some(environment()),
        },
    );
    book.notification(method::INITIALIZED, "", &Empty {});
    book.request(Info, "", &Empty {});
    book.response(Info, "", &environment());
    book.request(SessionEnd, "", &Empty {});
    book.response(SessionEnd, "", &Empty {});
    book.request(EnvironmentStatus, "", &Empty {});
    book.response(EnvironmentStatus, "", &StatusResult { status: "ready".to_owned() });
}

fn environment() -> EnvironmentInfo {
    EnvironmentInfo {
        shell: Shell { name: "bash".to_owned(), path: "/bin/bash".to_owned() },
        cwd: uri("/workspace"),
        user_home_dir: Some(uri("/home/agent")),
        temp_dir: uri("/tmp"),
        temporary_directories: Vec::new(),
        platform_os: "linux".to_owned(),
        executor_version: "0.1.0".to_owned(),
        prepend_path_dirs: Vec::new(),
        capabilities: Capabilities {
            fs_watch_missing: true,
            file_write_streaming: true,
            sandboxed_file_streaming: true,
            ..Capabilities::default()
        },
        sidecar: Some(SidecarInfo {
            version: "0.1.0".to_owned(),
            workspace_root: uri("/workspace"),
            landlock_abi: 7,
            profiles: vec!["readOnly".to_owned(), "workspaceWriteNoNetwork".to_owned()],
            default_profile: "workspaceWriteNoNetwork".to_owned(),
            limits: Limits {
                message_bytes: 64 << 20,
                retained_bytes: 1 << 20,
                retained_chunks: 50_000,
                processes: 256,
                detached_ttl_seconds: 60,
            },
        }),
    }
}

fn process(book: &mut Book) {
    use Method::{ProcessRead, ProcessSignal, ProcessStart, ProcessTerminate, ProcessWrite};

    let id = || "p-1".to_owned();
    book.request(ProcessStart, "", &start_with_everything());
    book.request(
        ProcessStart,
        ".v0",
        &StartParams {
            process_id: id(),
            argv: vec!["echo".to_owned(), "hi".to_owned()],
            cwd: plain("/workspace/a b"),
            env: BTreeMap::new(),
            tty: false,
            arg0: None,
            env_policy: None,
            pipe_stdin: true,
            size: None,
            timeout_ms: None,
            idle_timeout_ms: None,
            limits: None,
            sandbox: None,
            metadata: None,
            enforce_managed_network: None,
            managed_network: None,
            network_proxy: None,
        },
    );
    book.response(
        ProcessStart,
        "",
        &StartResult {
            process_id: id(),
            sandbox_type: Some("linuxSeccomp".to_owned()),
            enforcement: Some(Enforcement {
                status: "partial".to_owned(),
                abi: 7,
                profile: "workspaceWriteNoNetwork".to_owned(),
                parts: [("fsRead", "full"), ("fsWrite", "full"), ("unixPath", "unsupported")]
                    .map(|(part, state)| (part.to_owned(), state.to_owned()))
                    .into(),
                network: None,
                unenforced: vec![Unenforced { what: "unixPath".to_owned(), why: "needs ABI 9".to_owned() }],
            }),
        },
    );
    book.request(
        ProcessRead,
        "",
        &ReadParams { process_id: id(), after_seq: 3, max_bytes: Some(65_536), wait_ms: 10_000 },
    );
    book.response(
        ProcessRead,
        "",
        &ReadResult {
            chunks: vec![Chunk { seq: 4, stream: Stream::Stderr, chunk: "aGkK".to_owned() }],
            next_seq: 7,
            exited: true,
            exit_code: Some(3),
            closed: true,
            failure: None,
            sandbox_denied: true,
            dropped_bytes: 0,
        },
    );
    book.response(ProcessRead, ".running", &ReadResult { next_seq: 1, ..ReadResult::default() });
    book.request(
        ProcessWrite,
        "",
        &WriteParams { process_id: id(), chunk: "Ym9iCg==".to_owned(), write_id: Some("1".to_owned()) },
    );
    for status in
        [WriteStatus::Accepted, WriteStatus::UnknownProcess, WriteStatus::StdinClosed, WriteStatus::Starting]
    {
        let name = serde_json::to_value(status).unwrap();
        book.response(ProcessWrite, &format!(".{}", name.as_str().unwrap()), &WriteResult::from(status));
    }
    book.request(ProcessSignal, "", &SignalParams { process_id: id(), pid: None, signal: Signal::Interrupt });
    book.response(ProcessSignal, "", &Empty {});
    book.request(
        ProcessTerminate,
        "",
        &TerminateParams { process_id: id(), pid: Some(4711), grace_ms: Some(500), descendants: true },
    );
    book.response(ProcessTerminate, "", &TerminateResult { running: false });

    book.put(
        file_name(method::PROCESS_OUTPUT, "notification"),
        String::from_utf8(frame::output("p-1", 1, Stream::Stdout, b"hi\n")).expect("text"),
    );
    book.notification(
        method::PROCESS_EXITED,
        "",
        &ExitedNotification {
            process_id: id(),
            seq: 2,
            exit_code: 0,
            signal: None,
            cause: Some(Cause::Exit),
            sandbox_denied: false,
            hint: None,
        },
    );
    book.notification(
        method::PROCESS_EXITED,
        ".signal",
        &ExitedNotification {
            process_id: id(),
            seq: 2,
            exit_code: 137,
            signal: Some("SIGKILL".to_owned()),
            cause: Some(Cause::Terminated),
            sandbox_denied: true,
            hint: Some("writeRoots += \"/x\"".to_owned()),
        },
    );
    book.notification(method::PROCESS_CLOSED, "", &ClosedNotification { process_id: id(), seq: 3 });
    book.notification(method::PROCESS_ACK, "", &AckNotification { process_id: id(), seq: 2 });
}

fn more_of_process(book: &mut Book) {
    use Method::{ProcessCloseStdin, ProcessList, ProcessResize, ProcessSnapshot, ProcessStart, ProcessWait};

    let id = || "p-1".to_owned();
    let about = || ProcessParams { process_id: id() };
    let limits = ResourceLimits {
        memory_bytes: Some(1 << 30),
        processes: Some(64),
        open_files: Some(1024),
        file_bytes: Some(1 << 20),
        cpu_seconds: Some(60),
    };
    let limited = StartParams {
        timeout_ms: Some(60_000),
        idle_timeout_ms: Some(5_000),
        limits: Some(limits),
        ..start_with_everything()
    };
    book.request(ProcessStart, ".limits", &limited);
    book.request(ProcessCloseStdin, "", &about());
    book.response(ProcessCloseStdin, "", &CloseStdinResult { status: WriteStatus::Accepted });
    book.request(ProcessResize, "", &ResizeParams { process_id: id(), rows: 50, cols: 132 });
    book.response(ProcessResize, "", &Empty {});
    book.request(ProcessWait, "", &WaitParams { process_id: id(), timeout_ms: Some(1000) });
    book.response(
        ProcessWait,
        "",
        &WaitResult { exited: true, exit_code: Some(143), signal: Some("SIGTERM".to_owned()), closed: true },
    );
    book.response(ProcessWait, ".running", &WaitResult::default());
    book.request(ProcessList, "", &ListParams::default());
    book.request(ProcessList, ".all", &ListParams { all: true });
    let summary = ProcessSummary {
        process_id: id(),
        state: ProcessState::Closed,
        argv: vec!["make".to_owned(), "-j".to_owned()],
        tty: false,
        pid: Some(42),
        started_at_ms: 1_795_957_592_179,
        exit_code: Some(0),
        background: true,
    };
    book.response(ProcessList, "", &ListResult { processes: vec![summary] });
    book.request(ProcessSnapshot, "", &about());
    let stream = StreamSnapshot {
        stream: Stream::Stdout,
        head: "Zmlyc3Q=".to_owned(),
        tail: "bGFzdA==".to_owned(),
        dropped_bytes: 5,
    };
    book.response(
        ProcessSnapshot,
        "",
        &SnapshotResult {
            streams: vec![stream],
            next_seq: 9,
            exited: true,
            exit_code: Some(0),
            closed: false,
        },
    );
}

/// What each generation of clients looks for in the answer to its handshake: one answer holds it all.
fn generations(book: &mut Book) {
    let answer = book.0["initialize.response"].clone();
    let frame: serde_json::Value = serde_json::from_str(&answer).unwrap();
    let result = &frame["result"];
    for (generation, keys) in
        [("v0", &["protocolVersion"][..]), ("v1", &["sessionId"]), ("v2", &["sessionId", "environmentInfo"])]
    {
        let seen: serde_json::Map<String, serde_json::Value> =
            keys.iter().map(|key| ((*key).to_owned(), result[*key].clone())).collect();
        assert!(seen.values().all(|value| !value.is_null()), "{generation} misses something of {keys:?}");
        book.put(format!("generation.{generation}"), serde_json::to_string(&seen).unwrap());
    }
}

/// A start as the stock client sends it in its workspace-write mode, with our own fields on top.
fn start_with_everything() -> StartParams {
    let special = |kind: &str, subpath: Option<&str>| EntryPath::Special {
        value: SpecialPath { kind: kind.to_owned(), subpath: subpath.map(str::to_owned) },
    };
    let entry = |path, access| FileSystemEntry { path, access, missing_path_behavior: None };
    let entries = vec![
        entry(special("root", None), Access::Read),
        entry(special("project_roots", None), Access::Write),
        FileSystemEntry {
            path: special("project_roots", Some(".git")),
            access: Access::Read,
            missing_path_behavior: Some("skip".to_owned()),
        },
        entry(EntryPath::Path { path: uri("/workspace/secret") }, Access::Deny),
        entry(EntryPath::GlobPattern { pattern: "**/*.pem".to_owned() }, Access::Deny),
    ];
    StartParams {
        process_id: "p-1".to_owned(),
        argv: vec!["/bin/bash".to_owned(), "-lc".to_owned(), "echo ☕".to_owned()],
        cwd: uri("/workspace/a b"),
        env: [("TERM".to_owned(), "dumb".to_owned())].into(),
        tty: true,
        arg0: Some("sh".to_owned()),
        env_policy: Some(EnvPolicy {
            inherit: Inherit::Core,
            ignore_default_excludes: true,
            exclude: vec!["CODEX_*".to_owned()],
            set: [("A".to_owned(), "1".to_owned())].into(),
            include_only: vec!["PATH".to_owned()],
        }),
        pipe_stdin: false,
        size: Some(Size { rows: 50, cols: 132 }),
        timeout_ms: None,
        idle_timeout_ms: None,
        limits: None,
        sandbox: Some(Sandbox {
            mode: Some("readOnly".to_owned()),
            permissions: Some(Permissions::Managed {
                file_system: FileSystem::Restricted { entries },
                network: NetworkAccess::Restricted,
            }),
            cwd: Some(uri("/workspace")),
            workspace_roots: vec![uri("/workspace")],
        }),
        metadata: Some(serde_json::json!({"toolCallId": "c0"})),
        enforce_managed_network: Some(false),
        managed_network: None,
        network_proxy: None,
    }
}

fn files(book: &mut Book) {
    use Method::{
        FsCopy, FsCreateDirectory, FsGetMetadata, FsReadDirectory, FsReadFile, FsRemove, FsWriteFile,
    };

    let path = || uri("/workspace/a b.txt");
    let about = PathParams { path: path(), follow_symlinks: None, sandbox: None };
    let tight = Some(Sandbox { mode: Some("readOnly".to_owned()), ..Sandbox::default() });
    book.request(FsReadFile, "", &PathParams { path: path(), follow_symlinks: None, sandbox: tight });
    book.response(FsReadFile, "", &ReadFileResult { data_base64: "aGkK".to_owned() });
    book.request(
        FsWriteFile,
        "",
        &WriteFileParams {
            path: path(),
            data_base64: "aGkK".into(),
            mode: Some(0o640),
            permissions: Some(0o600),
            modified_at_ms: Some(1_700_000_000_000),
            create_parents: true,
            follow_symlinks: None,
            sandbox: None,
        },
    );
    book.response(FsWriteFile, "", &WriteFileResult { atomic: true });
    book.request(
        FsCreateDirectory,
        "",
        &CreateDirectoryParams {
            path: plain("/workspace/d"),
            recursive: Some(false),
            permissions: Some(0o700),
            follow_symlinks: None,
            sandbox: None,
        },
    );
    book.response(FsCreateDirectory, "", &Empty {});
    book.request(FsGetMetadata, "", &about);
    book.response(
        FsGetMetadata,
        "",
        &Metadata {
            is_directory: false,
            is_file: true,
            is_symlink: true,
            size: 11,
            created_at_ms: 0,
            modified_at_ms: 1_795_957_592_179,
            mode: 0o644,
            uid: 65_532,
            gid: 65_532,
            symlink_target: Some("b.txt".to_owned()),
        },
    );
    book.request(FsReadDirectory, "", &about);
    book.response(
        FsReadDirectory,
        "",
        &ReadDirectoryResult {
            entries: vec![DirectoryEntry {
                file_name: "bad-\u{fffd}".to_owned(),
                name_base64: Some("YmFkLf8=".to_owned()),
                is_directory: false,
                is_file: true,
                is_symlink: false,
            }],
            truncated: false,
        },
    );
    book.request(
        FsRemove,
        "",
        &RemoveParams {
            path: path(),
            recursive: Some(true),
            force: Some(false),
            follow_symlinks: None,
            sandbox: None,
        },
    );
    book.response(FsRemove, "", &Empty {});
    book.request(
        FsCopy,
        "",
        &CopyParams {
            source_path: path(),
            destination_path: uri("/workspace/c.txt"),
            recursive: true,
            sandbox: None,
        },
    );
    book.response(FsCopy, "", &Empty {});
}

/// The rest of `fs/*`: names, trees, blocks, watches.
fn more_files(book: &mut Book) {
    use Method::{
        FsCanonicalize, FsClose, FsCreateSymlink, FsOpen, FsReadBlock, FsRename, FsUnwatch, FsWalk, FsWatch,
        FsWatchMissing, FsWriteBlock,
    };

    let path = || uri("/workspace/a b.txt");
    let bad_name = WirePath::parse("file:///workspace/bad-%FF").unwrap();
    book.request(
        FsRename,
        "",
        &RenameParams {
            source_path: path(),
            destination_path: uri("/workspace/c.txt"),
            overwrite: true,
            sandbox: None,
        },
    );
    book.response(FsRename, "", &Empty {});
    book.request(
        FsCreateSymlink,
        "",
        &CreateSymlinkParams {
            path: path(),
            target: "../caf\u{fffd}".to_owned(),
            target_base64: Some("Li4vY2Fm6Q==".to_owned()),
            overwrite: true,
            sandbox: None,
        },
    );
    book.response(FsCreateSymlink, "", &Empty {});
    book.request(
        FsCanonicalize,
        "",
        &PathParams { path: uri("/workspace/d/../link"), follow_symlinks: None, sandbox: None },
    );
    book.response(FsCanonicalize, "", &CanonicalizeResult { path: path() });
    let options = WalkOptions {
        max_depth: Some(6),
        max_directories: Some(2000),
        max_entries: Some(10_000),
        follow_directory_symlinks: Some(true),
        prune_hidden_directories: Some(true),
        details: Some(true),
    };
    book.request(FsWalk, "", &WalkParams { path: uri("/workspace"), options, sandbox: None });
    let entry = |path, kind| WalkEntry { path, kind, details: None };
    let link = Details {
        size: 7,
        modified_at_ms: 1_700_000_000_000,
        mode: 0o777,
        symlink_target: Some("../caf\u{fffd}".to_owned()),
        symlink_target_base64: Some("Li4vY2Fm6Q==".to_owned()),
    };
    book.response(
        FsWalk,
        "",
        &WalkResult {
            entries: vec![
                entry(uri("/workspace/d"), EntryKind::Directory),
                entry(bad_name, EntryKind::File),
                WalkEntry { details: Some(link), ..entry(uri("/workspace/link"), EntryKind::Symlink) },
                entry(uri("/workspace/fifo"), EntryKind::Other),
            ],
            errors: vec![WalkError {
                path: uri("/workspace/d"),
                message: "Permission denied (os error 13)".to_owned(),
            }],
            truncated: true,
        },
    );
    let handle = || Handle { handle_id: "h-1".to_owned() };
    let open = |mode| OpenParams {
        handle_id: "h-1".to_owned(),
        path: path(),
        mode,
        permissions: None,
        modified_at_ms: None,
        sandbox: None,
    };
    book.request(FsOpen, "", &open(OpenMode::Read));
    let replace = OpenParams {
        permissions: Some(0o755),
        modified_at_ms: Some(1_700_000_000_000),
        ..open(OpenMode::Replace)
    };
    book.request(FsOpen, ".replace", &replace);
    book.response(FsOpen, "", &handle());
    book.request(FsReadBlock, "", &ReadBlockParams { handle_id: "h-1".to_owned(), offset: 0, len: 1 << 20 });
    book.response(FsReadBlock, "", &ReadBlockResult { chunk: "aGkK".to_owned(), eof: true });
    book.request(
        FsWriteBlock,
        "",
        &WriteBlockParams { handle_id: "h-1".to_owned(), offset: 1 << 20, chunk: "aGkK".into() },
    );
    book.response(FsWriteBlock, "", &Empty {});
    book.request(FsClose, "", &CloseParams { handle_id: "h-1".to_owned(), discard: false });
    book.request(FsClose, ".discard", &CloseParams { handle_id: "h-1".to_owned(), discard: true });
    book.response(FsClose, "", &Empty {});
    book.request(
        FsWatchMissing,
        "",
        &WatchMissingParams {
            watch_id: WatchId::Number(1),
            missing: vec![uri("/workspace/.git"), uri("/.git")],
            present: vec![uri("/workspace")],
            sandbox: None,
        },
    );
    book.response(FsWatchMissing, "", &WatchResult { watching: true });
    book.notification(method::FS_MISSING_CHANGED, "", &Watch { watch_id: WatchId::Number(1) });
    let id = || WatchId::Text("w-1".to_owned());
    book.request(FsWatch, "", &WatchParams { watch_id: id(), path: uri("/workspace"), sandbox: None });
    book.response(FsWatch, "", &WatchResult { watching: true });
    book.notification(
        method::FS_CHANGED,
        "",
        &ChangedNotification { watch_id: id(), paths: vec![path()], overflow: false },
    );
    book.request(FsUnwatch, "", &Watch { watch_id: id() });
    book.response(FsUnwatch, "", &Empty {});
}

fn errors(book: &mut Book) {
    let id = RequestId::Str("a".to_owned());
    book.error(
        "no-message",
        &RequestId::NONE,
        &RpcError::invalid_request("not a message: method is missing"),
    );
    book.error("invalid-request", &id, &RpcError::invalid_request("process p-1 already exists"));
    book.error("method-not-found", &id, &RpcError::method_not_found("http/request"));
    book.error("invalid-params", &id, &RpcError::invalid_params("argv must not be empty"));
    let launch = ErrorData {
        kind: Some(ErrorKind::SpawnNotFound),
        stage: Some("exec".to_owned()),
        errno: Some(2),
        path: Some("/bin/nope".to_owned()),
        ..ErrorData::default()
    };
    book.error("launch", &id, &RpcError::internal("/bin/nope: No such file or directory").with_data(&launch));
    let missing = ErrorData {
        kind: Some(ErrorKind::NotFound),
        errno: Some(2),
        path: Some("file:///workspace/nope".to_owned()),
        ..ErrorData::default()
    };
    book.error("not-found", &id, &RpcError::new(error::NOT_FOUND, "no such file").with_data(&missing));
    book.error(
        "session-attached",
        &id,
        &RpcError::new(error::SESSION_ATTACHED, "session is attached elsewhere"),
    );
    book.error("limit", &id, &RpcError::limit("limits.processes", "too many processes"));
    let refused = ErrorData {
        kind: Some(ErrorKind::PermissionDenied),
        errno: Some(13),
        path: Some("/etc/x".to_owned()),
        hint: Some("writeRoots += \"/etc\"".to_owned()),
        ..ErrorData::default()
    };
    book.error("refused", &id, &RpcError::invalid_request("/etc/x: Permission denied").with_data(&refused));
}

fn all_frames() -> Frames {
    let mut book = Book(Frames::new());
    session(&mut book);
    process(&mut book);
    more_of_process(&mut book);
    generations(&mut book);
    files(&mut book);
    more_files(&mut book);
    errors(&mut book);
    book.0
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

#[test]
fn frames_are_what_the_files_say() {
    let frames = all_frames();
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        for (name, frame) in &frames {
            std::fs::write(folder().join(format!("{name}.json")), format!("{frame}\n")).unwrap();
        }
    }
    let on_disk: BTreeSet<String> = std::fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let expected: BTreeSet<String> = frames.keys().map(|name| format!("{name}.json")).collect();
    assert_eq!(on_disk, expected, "golden/ holds one file per frame and nothing else");
    for (name, frame) in &frames {
        let file = std::fs::read_to_string(folder().join(format!("{name}.json"))).unwrap();
        assert_eq!(format!("{frame}\n"), file, "{name}.json; UPDATE_GOLDEN=1 writes it anew");
    }
}

#[test]
fn every_method_has_its_frames() {
    let frames = all_frames();
    for method in Method::ALL {
        for kind in ["request", "response"] {
            let prefix = file_name(method.name(), kind);
            assert!(frames.keys().any(|name| name.starts_with(&prefix)), "{prefix}.json is missing");
        }
    }
}

#[test]
fn the_docs_list_every_method() {
    let docs = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/protocol.md"))
        .unwrap();
    for method in Method::ALL {
        let row = format!("| `{}` |", method.name());
        assert!(docs.contains(&row), "docs/protocol.md has no row for {}", method.name());
    }
}

/// Decodes params as the type that the method takes; a new method does not compile without its line here.
fn decode_params(method: Method, params: Option<&serde_json::value::RawValue>) -> Result<(), RpcError> {
    use envelope::params as decode;
    match method {
        Method::Initialize => decode::<InitializeParams>(params).map(drop),
        Method::EnvironmentInfo | Method::EnvironmentStatus | Method::SessionEnd => {
            decode::<Empty>(params).map(drop)
        }
        Method::ProcessStart => decode::<StartParams>(params).map(drop),
        Method::ProcessRead => decode::<ReadParams>(params).map(drop),
        Method::ProcessWrite => decode::<WriteParams>(params).map(drop),
        Method::ProcessSignal => decode::<SignalParams>(params).map(drop),
        Method::ProcessTerminate => decode::<TerminateParams>(params).map(drop),
        Method::ProcessCloseStdin | Method::ProcessSnapshot => decode::<ProcessParams>(params).map(drop),
        Method::ProcessResize => decode::<ResizeParams>(params).map(drop),
        Method::ProcessWait => decode::<WaitParams>(params).map(drop),
        Method::ProcessList => decode::<ListParams>(params).map(drop),
        Method::FsReadFile | Method::FsGetMetadata | Method::FsReadDirectory => {
            decode::<PathParams>(params).map(drop)
        }
        Method::FsWriteFile => decode::<WriteFileParams<'_>>(params).map(drop),
        Method::FsCreateDirectory => decode::<CreateDirectoryParams>(params).map(drop),
        Method::FsRemove => decode::<RemoveParams>(params).map(drop),
        Method::FsCopy => decode::<CopyParams>(params).map(drop),
        Method::FsRename => decode::<RenameParams>(params).map(drop),
        Method::FsCreateSymlink => decode::<CreateSymlinkParams>(params).map(drop),
        Method::FsCanonicalize => decode::<PathParams>(params).map(drop),
        Method::FsWalk => decode::<WalkParams>(params).map(drop),
        Method::FsOpen => decode::<OpenParams>(params).map(drop),
        Method::FsReadBlock => decode::<ReadBlockParams>(params).map(drop),
        Method::FsWriteBlock => decode::<WriteBlockParams<'_>>(params).map(drop),
        Method::FsClose => decode::<CloseParams>(params).map(drop),
        Method::FsWatchMissing => decode::<WatchMissingParams>(params).map(drop),
        Method::FsWatch => decode::<WatchParams>(params).map(drop),
        Method::FsUnwatch => decode::<Watch>(params).map(drop),
    }
}

#[derive(serde::Deserialize)]
struct Traced<'a> {
    from: &'a str,
    #[serde(borrow)]
    frame: &'a serde_json::value::RawValue,
}

#[test]
fn frames_of_the_stock_client_decode() {
    let traces = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/e2e/traces");
    let mut seen = BTreeSet::new();
    for file in std::fs::read_dir(traces).unwrap() {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        for line in text.lines() {
            let traced: Traced<'_> = serde_json::from_str(line).unwrap();
            let incoming = envelope::decode(traced.frame.get()).unwrap();
            if let (Incoming::Request { method, params, .. }, "client") = (&incoming, traced.from)
                && let Some(method) = Method::from_name(method)
            {
                decode_params(method, *params).unwrap_or_else(|e| panic!("{e}: {line}"));
                seen.insert(method.name());
            }
            if let (Incoming::Notification { method, params }, "server") = (&incoming, traced.from) {
                match method.as_ref() {
                    method::PROCESS_OUTPUT => drop(envelope::params::<OutputNotification>(*params).unwrap()),
                    method::PROCESS_EXITED => drop(envelope::params::<ExitedNotification>(*params).unwrap()),
                    method::PROCESS_CLOSED => drop(envelope::params::<ClosedNotification>(*params).unwrap()),
                    _ => {}
                }
            }
        }
    }
    for method in ["initialize", "process/start", "process/write", "fs/readFile", "fs/writeFile"] {
        assert!(seen.contains(method), "the traces hold no {method}");
    }
}
