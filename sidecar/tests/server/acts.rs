//! Every way in which fs/* can act on a path, for the tests that try all of them on the same thing.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use sidecar_protocol::WirePath;
use sidecar_protocol::path::Spelling;

use crate::common::{Client, encode, with};

/// What the acts write.
pub(crate) const WRITTEN: &str = "written by an act";

/// One way to act on a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Act {
    ReadFile,
    WriteFile,
    CreateDirectory,
    GetMetadata,
    ReadDirectory,
    Remove,
    CopyFrom,
    CopyTo,
    CopyTreeTo,
    RenameFrom,
    RenameTo,
    Canonicalize,
    Walk,
    OpenRead,
    OpenReplace,
    CreateSymlink,
    Watch,
    WatchMissing,
}

/// Places inside the policy that an act needs beside the path.
#[derive(Debug, Clone)]
pub(crate) struct Aside {
    /// A file; to be made anew after each [`Act::RenameTo`].
    pub(crate) file: PathBuf,
    /// A directory with something in it.
    pub(crate) tree: PathBuf,
    /// Nothing is there yet.
    pub(crate) free: PathBuf,
}

impl Act {
    pub(crate) const ALL: [Act; 18] = [
        Act::ReadFile,
        Act::WriteFile,
        Act::CreateDirectory,
        Act::GetMetadata,
        Act::ReadDirectory,
        Act::Remove,
        Act::CopyFrom,
        Act::CopyTo,
        Act::CopyTreeTo,
        Act::RenameFrom,
        Act::RenameTo,
        Act::Canonicalize,
        Act::Walk,
        Act::OpenRead,
        Act::OpenReplace,
        Act::CreateSymlink,
        Act::Watch,
        Act::WatchMissing,
    ];

    /// Whether it is there to change something.
    pub(crate) fn changes(self) -> bool {
        use Act::*;
        matches!(
            self,
            WriteFile
                | CreateDirectory
                | Remove
                | CopyFrom
                | CopyTo
                | CopyTreeTo
                | RenameFrom
                | RenameTo
                | OpenReplace
                | CreateSymlink
        )
    }

    /// The calls that it takes; `number` tells their handles and watches from others. Paths go as URIs: they need not be
    /// UTF-8.
    fn calls(self, path: &Path, aside: &Aside, number: usize) -> Vec<(&'static str, Value)> {
        let at = json!({ "path": uri(path) });
        let (handle, watch) = (json!({ "handleId": number.to_string() }), json!({ "watchId": number }));
        let data = encode(WRITTEN);
        let copy = |from: &Path, to: &Path| json!({ "sourcePath": uri(from), "destinationPath": uri(to), "recursive": true });
        let rename = |from: &Path, to: &Path| json!({ "sourcePath": uri(from), "destinationPath": uri(to), "overwrite": true });
        let opened =
            |mode: &str| with(with(at.clone(), "handleId", handle["handleId"].clone()), "mode", json!(mode));
        let block = |key: &str, value: Value| with(with(handle.clone(), "offset", json!(0)), key, value);
        match self {
            Act::ReadFile => vec![("fs/readFile", at)],
            Act::WriteFile => vec![("fs/writeFile", with(at, "dataBase64", json!(data)))],
            Act::CreateDirectory => vec![("fs/createDirectory", at)],
            Act::GetMetadata => vec![("fs/getMetadata", at)],
            Act::ReadDirectory => vec![("fs/readDirectory", at)],
            Act::Remove => vec![("fs/remove", at)],
            Act::CopyFrom => vec![("fs/copy", copy(path, &aside.free))],
            Act::CopyTo => vec![("fs/copy", copy(&aside.file, path))],
            Act::CopyTreeTo => vec![("fs/copy", copy(&aside.tree, path))],
            Act::RenameFrom => vec![("fs/rename", rename(path, &aside.free))],
            Act::RenameTo => vec![("fs/rename", rename(&aside.file, path))],
            Act::Canonicalize => vec![("fs/canonicalize", at)],
            Act::Walk => {
                vec![("fs/walk", with(at, "options", json!({ "followDirectorySymlinks": true })))]
            }
            Act::OpenRead => vec![
                ("fs/open", opened("read")),
                ("fs/readBlock", block("len", json!(1 << 16))),
                ("fs/close", handle),
            ],
            Act::OpenReplace => vec![
                ("fs/open", opened("replace")),
                ("fs/writeBlock", block("chunk", json!(data))),
                ("fs/close", handle),
            ],
            Act::CreateSymlink => {
                vec![("fs/createSymlink", with(with(at, "target", json!(WRITTEN)), "overwrite", json!(true)))]
            }
            Act::Watch => {
                vec![("fs/watch", with(at, "watchId", json!(number))), ("fs/unwatch", watch)]
            }
            Act::WatchMissing => vec![
                ("fs/watchMissing", with(watch.clone(), "missing", json!([uri(path)]))),
                ("fs/unwatch", watch),
            ],
        }
    }

    /// Sends the calls without waiting. The ids are for [`outcome`].
    pub(crate) async fn send(
        self,
        client: &mut Client,
        path: &Path,
        aside: &Aside,
        number: usize,
        sandbox: Option<&str>,
    ) -> Vec<i64> {
        let mut ids = Vec::new();
        for (method, mut params) in self.calls(path, aside, number) {
            if let Some(mode) = sandbox {
                params = with(params, "sandbox", json!({ "mode": mode }));
            }
            ids.push(client.request(method, params).await);
        }
        ids
    }
}

/// What came of an act: its results, or the first error.
pub(crate) async fn outcome(client: &mut Client, ids: Vec<i64>) -> Result<Value, Value> {
    let mut outcomes = Vec::new();
    for id in ids {
        outcomes.push(client.outcome(id).await);
    }
    outcomes.into_iter().collect::<Result<Vec<Value>, Value>>().map(Value::Array)
}

fn uri(path: &Path) -> String {
    WirePath::new(path, Spelling::Uri).to_string()
}
