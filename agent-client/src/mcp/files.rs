//! read_file, write_file and list_dir.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rmcp::model::{CallToolResult, ContentBlock};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;
use sidecar_protocol::error::NOT_FOUND;
use sidecar_protocol::fs::WalkOptions;

use super::answer::{Answer, Failure, both};
use super::{Call, Server, arguments};
use crate::error::Error;
use crate::filesystem::entry::word;
use crate::filesystem::{Attributes, Kind, TreeEntry};
use crate::tools::{BYTES_PER_TOKEN, DEFAULT_OUTPUT_TOKENS};

/// Lines that read_file returns by default.
const DEFAULT_LINES: usize = 2000;
/// Bytes of text that it returns at most: as much as a window of a command does by default.
const MAX_TEXT: usize = DEFAULT_OUTPUT_TOKENS * BYTES_PER_TOKEN;
/// Larger text files are for commands such as sed and grep, bytes.
const MAX_FILE: u64 = 32 << 20;
/// Larger images are refused by the models' own interfaces, bytes.
const MAX_IMAGE: u64 = 3 << 20;
/// Entries that list_dir returns by default.
const DEFAULT_ENTRIES: usize = 200;

/// What read_file returns.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub(super) struct FileRead {
    /// The file, relative to the workspace root where it is below it.
    path: String,
    /// Bytes of the file.
    size: u64,
    /// The lines; of an image, nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<String>,
    /// Number of the first line returned.
    #[serde(skip_serializing_if = "Option::is_none")]
    start_line: Option<usize>,
    /// Lines that the file has.
    #[serde(skip_serializing_if = "Option::is_none")]
    total_lines: Option<usize>,
    /// Where to go on, if there is more.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_offset: Option<usize>,
    /// The type of an image.
    #[serde(skip_serializing_if = "Option::is_none")]
    mime_type: Option<String>,
}

/// What write_file returns.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Written {
    /// The file.
    path: String,
    /// Its size.
    bytes: usize,
    /// Whether it is new.
    created: bool,
}

/// What list_dir returns.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Listed {
    /// The directory.
    path: String,
    /// What is in it.
    entries: Vec<Entry>,
    /// How many entries there are.
    total: usize,
    /// Where to go on, if there is more.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_offset: Option<usize>,
    /// Whether the directory has more entries than can be listed.
    truncated: bool,
}

/// An entry of a directory.
#[derive(Debug, Serialize, JsonSchema)]
struct Entry {
    /// Its path below the directory.
    path: String,
    /// file, directory, symlink, or what else it is.
    kind: String,
    /// Bytes of a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    /// Where a symlink leads.
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<String>,
}

impl Server {
    pub(super) async fn read_file(&self, arguments: arguments::ReadFile, call: &Call) -> Answer {
        let there = self.place.there(&arguments.path);
        let path = self.place.told(&there);
        let files = self.place.files().within(call.sandbox.clone());
        let about = |error| Failure::about(&path, error);
        let size = files.metadata(&there).await.map_err(about)?.size;
        if size > MAX_FILE {
            return Err(Failure::new(format!(
                "{path} has {size} bytes, more than the {MAX_FILE} that are read here; use exec_command with sed -n, head, \
                 tail or grep"
            )));
        }
        let content = files.read(&there).await.map_err(about)?;
        if let Some(kind) = image(&content) {
            return shown(
                FileRead { path, size, mime_type: Some(kind.to_owned()), ..FileRead::default() },
                &content,
            );
        }
        let Ok(text) = String::from_utf8(content) else {
            return Err(Failure::new(format!(
                "{path} is neither UTF-8 text nor an image ({size} bytes); use exec_command with file, xxd or strings"
            )));
        };
        let first = arguments.offset.unwrap_or(1).max(1);
        lines(
            &text,
            first,
            arguments.limit.unwrap_or(DEFAULT_LINES),
            FileRead { path, size, ..FileRead::default() },
        )
    }

    pub(super) async fn write_file(&self, arguments: arguments::WriteFile, call: &Call) -> Answer {
        let there = self.place.there(&arguments.path);
        let files = self.place.files().within(call.sandbox.clone());
        let path = self.place.told(&there);
        let created = match files.metadata(&there).await {
            Ok(_) => false,
            Err(Error::Rpc { error, .. }) if error.code == NOT_FOUND => true,
            Err(error) => return Err(Failure::about(&path, error)),
        };
        let attributes = Attributes { create_parents: true, ..Attributes::default() };
        let writing = files.write(&there, arguments.content.as_bytes(), attributes).await;
        writing.map_err(|error| Failure::about(&path, error))?;
        let written = Written { path, bytes: arguments.content.len(), created };
        let verb = if created { "Created" } else { "Replaced" };
        both(format!("{verb} {} ({} bytes)", written.path, written.bytes), &written)
    }

    pub(super) async fn list_dir(&self, arguments: arguments::ListDir, call: &Call) -> Answer {
        let there = self.place.there(arguments.path.as_deref().unwrap_or("."));
        let files = self.place.files().within(call.sandbox.clone());
        let depth = arguments.depth.unwrap_or(1);
        let options = WalkOptions { max_depth: Some(depth), details: Some(true), ..WalkOptions::default() };
        let path = self.place.told(&there);
        let mut tree = files.walk(&there, options).await.map_err(|error| Failure::about(&path, error))?;
        tree.entries.sort_by(|a, b| a.path.cmp(&b.path));
        let first = arguments.offset.unwrap_or(1).max(1);
        let limit = arguments.limit.unwrap_or(DEFAULT_ENTRIES);
        let total = tree.entries.len();
        let shown = tree.entries.iter().skip(first - 1).take(limit);
        let listed = Listed {
            path,
            entries: shown.map(|entry| entry_of(entry, &there)).collect(),
            total,
            next_offset: (first - 1 + limit < total).then_some(first + limit),
            truncated: tree.truncated,
        };
        both(listing(&listed), &listed)
    }
}

/// The type of an image that models are shown, by its first bytes.
fn image(content: &[u8]) -> Option<&'static str> {
    match content {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}

fn shown(file: FileRead, content: &[u8]) -> Answer {
    let kind = file.mime_type.clone().unwrap_or_default();
    if file.size > MAX_IMAGE {
        return Err(Failure::new(format!(
            "{} is an image of {} bytes, more than the {MAX_IMAGE} that are shown; make it smaller by a command first",
            file.path, file.size
        )));
    }
    let mut result = CallToolResult::success(vec![ContentBlock::image(STANDARD.encode(content), kind)]);
    result.structured_content = Some(json!(file));
    Ok(result)
}

fn lines(text: &str, first: usize, limit: usize, file: FileRead) -> Answer {
    let total = text.lines().count();
    if first > total.max(1) {
        return Err(Failure::new(format!(
            "{} has {total} lines; offset {first} is beyond its end",
            file.path
        )));
    }
    let mut content = String::new();
    let mut taken = 0;
    for line in text.split_inclusive('\n').skip(first - 1).take(limit) {
        if content.len() + line.len() > MAX_TEXT {
            if taken == 0 {
                return Err(Failure::new(format!(
                    "line {first} of {} has {} bytes, more than the {MAX_TEXT} that are returned; use exec_command with cut",
                    file.path,
                    line.len()
                )));
            }
            break;
        }
        content += line;
        taken += 1;
    }
    let next = first + taken;
    let next_offset = (next <= total).then_some(next);
    let read = FileRead {
        content: Some(content.clone()),
        start_line: Some(first),
        total_lines: Some(total),
        next_offset,
        ..file
    };
    let mut answer = both(content, &read)?;
    if let Some(next) = next_offset {
        let more = format!("[lines {first} to {} of {total}; go on with offset {next}]", next - 1);
        answer.content.push(ContentBlock::text(more));
    }
    Ok(answer)
}

fn entry_of(entry: &TreeEntry, start: &std::path::Path) -> Entry {
    let details = entry.details.as_ref();
    let target = details.and_then(|details| details.symlink_target.as_ref());
    Entry {
        path: entry.path.strip_prefix(start).unwrap_or(&entry.path).display().to_string(),
        kind: word(entry.kind).to_owned(),
        size: details.filter(|_| entry.kind == Kind::File).map(|details| details.size),
        target: target.map(|target| target.display().to_string()),
    }
}

fn listing(listed: &Listed) -> String {
    let mut text = format!("{} ({} entries)\n", listed.path, listed.total);
    for entry in &listed.entries {
        text += &entry.path;
        match (entry.kind.as_str(), &entry.target) {
            ("directory", _) => text.push('/'),
            (_, Some(target)) => text += &format!(" -> {target}"),
            _ => {}
        }
        text.push('\n');
    }
    if let Some(next) = listed.next_offset {
        text += &format!("[go on with offset {next}]\n");
    }
    if listed.truncated {
        text += "[there is more than can be listed; list a directory below, or use search]\n";
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, first: usize, limit: usize) -> Result<(String, Option<u64>), String> {
        let result = lines(text, first, limit, FileRead { path: "f".into(), ..FileRead::default() });
        let value = result.map_err(|failure| failure.to_string())?.structured_content.unwrap_or_default();
        Ok((value["content"].as_str().unwrap_or_default().to_owned(), value["next_offset"].as_u64()))
    }

    #[test]
    fn lines_come_in_pieces() {
        let text = "a\nb\nc";
        assert_eq!(read(text, 1, 2000), Ok(("a\nb\nc".into(), None)));
        assert_eq!(read(text, 1, 2), Ok(("a\nb\n".into(), Some(3))));
        assert_eq!(read(text, 3, 2), Ok(("c".into(), None)));
        assert_eq!(read("", 1, 2), Ok((String::new(), None)));
        assert!(read(text, 4, 2).unwrap_err().contains("3 lines"));
        let long = format!("{}\n", "x".repeat(99)).repeat(1000);
        let (piece, next) = read(&long, 1, 2000).unwrap_or_default();
        assert_eq!((piece.len(), next), (MAX_TEXT, Some(401)));
        assert!(read(&"x".repeat(MAX_TEXT + 1), 1, 1).unwrap_err().contains("cut"));
    }

    #[test]
    fn images_are_known_by_their_content() {
        assert_eq!(image(b"\x89PNG\r\n\x1a\nrest"), Some("image/png"));
        assert_eq!(image(b"GIF89a"), Some("image/gif"));
        assert_eq!(image(b"RIFF1234WEBPVP8 "), Some("image/webp"));
        assert_eq!(image(b"<svg/>"), None);
    }
}
