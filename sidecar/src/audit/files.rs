//! The record of a file operation. It is made from the request before that is served, so that no operation has to know
//! of the trail, and told when the answer is known.

use serde::Deserialize;
use serde_json::value::RawValue;
use sidecar_protocol::{Method, WirePath};

use crate::rpc::Params;

/// What a request is about to do to files.
#[derive(Debug)]
pub(crate) struct FileRecord {
    pub(crate) event: &'static str,
    pub(crate) path: String,
    pub(crate) destination: Option<String>,
    pub(crate) bytes: Option<u64>,
}

/// The params that a record needs, of whichever method.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Paths<'a> {
    path: Option<WirePath>,
    source_path: Option<WirePath>,
    destination_path: Option<WirePath>,
    #[serde(borrow)]
    data_base64: Option<&'a RawValue>,
    mode: Option<&'a RawValue>,
}

impl FileRecord {
    /// `None`: nothing to be recorded, or nothing that will be served.
    pub(crate) fn of(method: Method, params: Params<'_>, reads: bool) -> Option<FileRecord> {
        let event = match method.name() {
            "fs/writeFile" => "fs.write",
            "fs/createDirectory" => "fs.mkdir",
            "fs/remove" => "fs.remove",
            "fs/rename" => "fs.rename",
            "fs/createSymlink" => "fs.symlink",
            "fs/copy" => "fs.copy",
            // To write, it is opened under another mode.
            "fs/open" => "fs.read",
            "fs/readFile" | "fs/readDirectory" | "fs/walk" | "fs/getMetadata" | "fs/canonicalize"
                if reads =>
            {
                "fs.read"
            }
            _ => return None,
        };
        let bulk = params.bulk;
        let params: Paths<'_> = serde_json::from_str(params.raw?.get()).ok()?;
        let writes = params.mode.is_some_and(|mode| mode.get() == "\"replace\"");
        let event = if method.name() == "fs/open" && writes { "fs.write" } else { event };
        if event == "fs.read" && !reads {
            return None;
        }
        let text = |path: WirePath| path.as_path().to_string_lossy().into_owned();
        Some(FileRecord {
            event,
            path: text(params.path.or(params.source_path)?),
            destination: params.destination_path.map(text),
            bytes: params.data_base64.map(|data| decoded(bulk.unwrap_or(data.get()))),
        })
    }
}

/// How many bytes a JSON string of base64 stands for.
fn decoded(json: &str) -> u64 {
    let text = json.trim_matches('"');
    (text.trim_end_matches('=').len() as u64) * 3 / 4
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(method: Method, params: &str, reads: bool) -> Option<FileRecord> {
        let params: &RawValue = serde_json::from_str(params).expect("JSON");
        FileRecord::of(method, Params { raw: Some(params), bulk: None }, reads)
    }

    #[test]
    fn what_is_recorded() {
        let write = record(Method::FsWriteFile, r#"{"path":"file:///a%20b","dataBase64":"aGV5Cg=="}"#, false);
        let write = write.expect("recorded");
        assert_eq!((write.event, write.path.as_str(), write.bytes), ("fs.write", "/a b", Some(4)));
        let copy = record(Method::FsCopy, r#"{"sourcePath":"/a","destinationPath":"/b"}"#, false);
        let copy = copy.expect("recorded");
        assert_eq!((copy.path.as_str(), copy.destination.as_deref()), ("/a", Some("/b")));
        assert!(record(Method::FsReadFile, r#"{"path":"/a"}"#, false).is_none());
        assert_eq!(record(Method::FsReadFile, r#"{"path":"/a"}"#, true).expect("recorded").event, "fs.read");
        // What the call itself refuses did nothing.
        assert!(record(Method::FsRemove, r#"{"path":"relative"}"#, false).is_none());
        assert!(record(Method::FsRemove, "{}", false).is_none());
    }
}
