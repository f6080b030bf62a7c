//! The encoders of the messages that carry bytes: base64 straight into the frame, no second pass over it.

use ::base64::Engine as _;

use crate::process::Stream;
use crate::{BASE64, RequestId};

/// Encodes one `process/output`, byte for byte as serde would.
pub fn output(process_id: &str, seq: u64, stream: Stream, bytes: &[u8]) -> String {
    output_in(String::new(), process_id, seq, stream, bytes)
}

/// The same in the memory of a message that is not needed any more; what that said is gone.
pub fn output_in(mut out: String, process_id: &str, seq: u64, stream: Stream, bytes: &[u8]) -> String {
    out.clear();
    // 128 bytes hold the fixed text, the stream's name and a u64.
    out.reserve(bytes.len().div_ceil(3) * 4 + process_id.len() + 128);
    out.push_str(r#"{"method":"process/output","params":{"processId":"#);
    push_json_string(&mut out, process_id);
    out.push_str(r#","seq":"#);
    out.push_str(&seq.to_string());
    out.push_str(r#","stream":""#);
    out.push_str(stream.name());
    out.push_str(r#"","chunk":""#);
    let mut out = out.into_bytes();
    push_base64(&mut out, bytes);
    out.extend_from_slice(br#""}}"#);
    text(out)
}

/// No response to `fs/readBlock` of so many bytes is longer, in bytes.
pub fn block_bytes(id: &RequestId, bytes: usize) -> usize {
    response_bytes(id, bytes)
}

/// The response to `fs/readBlock`.
pub fn block(id: &RequestId, bytes: &[u8], eof: bool) -> String {
    let mut out = response(id, r#"{"chunk":""#, bytes.len()).into_bytes();
    push_base64(&mut out, bytes);
    out.extend_from_slice(if eof { br#"","eof":true}}"# } else { br#"","eof":false}}"# });
    text(out)
}

/// The response to `fs/readFile`, made while the file is read: what it holds is in memory once.
#[derive(Debug)]
pub struct FileResponse {
    text: Vec<u8>,
}

impl FileResponse {
    /// What can be pushed without padding: a multiple of it.
    pub const GROUP: usize = 3;

    /// No response for a file of so many bytes is longer, in bytes.
    pub fn bytes(id: &RequestId, size: usize) -> usize {
        response_bytes(id, size)
    }

    /// For a file of about so many bytes.
    pub fn new(id: &RequestId, size: usize) -> Self {
        Self { text: response(id, r#"{"dataBase64":""#, size).into_bytes() }
    }

    /// The next bytes: a multiple of [`FileResponse::GROUP`], but for the last.
    pub fn push(&mut self, bytes: &[u8]) {
        debug_assert!(!self.text.ends_with(b"="), "no bytes come after the last");
        push_base64(&mut self.text, bytes);
    }

    /// The whole message.
    pub fn finish(mut self) -> String {
        self.text.extend_from_slice(br#""}}"#);
        text(self.text)
    }
}

/// A response up to the payload in its result, with room for that.
fn response(id: &RequestId, begin: &str, payload: usize) -> String {
    let mut out = String::with_capacity(response_bytes(id, payload));
    out.push_str(r#"{"id":"#);
    match id {
        RequestId::Str(id) => push_json_string(&mut out, id),
        number => out.push_str(&number.to_string()),
    }
    out.push_str(r#","result":"#);
    out.push_str(begin);
    out
}

/// In one go, where the library's own way goes by pieces of a kilobyte, each of which it checks and copies.
fn push_base64(out: &mut Vec<u8>, bytes: &[u8]) {
    let begin = out.len();
    out.resize(begin + bytes.len().div_ceil(3) * 4, 0);
    let encoded = BASE64.encode_slice(bytes, &mut out[begin..]);
    debug_assert_eq!(encoded.ok(), Some(out.len() - begin), "there is room for exactly this");
}

/// What was text, and base64 behind it. The fallback only spares the caller a panic path.
fn text(out: Vec<u8>) -> String {
    String::from_utf8(out).unwrap_or_default()
}

fn response_bytes(id: &RequestId, payload: usize) -> usize {
    let id = match id {
        // Of a byte JSON makes six at most.
        RequestId::Str(id) => id.len() * 6,
        _ => 0,
    };
    // 96 bytes hold the fixed text, and an id that is a number.
    payload.div_ceil(3) * 4 + id + 96
}

fn push_json_string(out: &mut String, text: &str) {
    // A string always serializes; the fallback only spares the caller a panic path.
    out.push_str(&serde_json::to_string(text).unwrap_or_else(|_| String::from("\"\"")));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::envelope;
    use crate::fs::{ReadBlockResult, ReadFileResult};
    use crate::process::OutputNotification;

    proptest! {
        #[test]
        fn equals_what_serde_gives(id in ".{0,40}", seq: u64, which in 0usize..3, bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let stream = [Stream::Stdout, Stream::Stderr, Stream::Pty][which];
            let serde = envelope::notification(crate::method::PROCESS_OUTPUT, &OutputNotification {
                process_id: id.clone(), seq, stream, chunk: BASE64.encode(&bytes),
            });
            prop_assert_eq!(output(&id, seq, stream, &bytes), &*serde);
            prop_assert_eq!(output_in(id.repeat(3), &id, seq, stream, &bytes), serde);
        }

        #[test]
        fn responses_equal_what_serde_gives(id in ".{0,9}", number: i64, parts in proptest::collection::vec(0usize..9, 0..5), eof: bool) {
            for id in [RequestId::Str(id), RequestId::Int(number)] {
                let bytes: Vec<u8> = (0..=u8::MAX).cycle().take(parts.iter().sum()).collect();
                let encoded = BASE64.encode(&bytes);
                let serde = envelope::response(&id, &ReadBlockResult { chunk: encoded.clone(), eof });
                prop_assert!(serde.len() <= block_bytes(&id, bytes.len()));
                prop_assert_eq!(block(&id, &bytes, eof), serde);
                let mut file = FileResponse::new(&id, 0);
                bytes.chunks(2 * FileResponse::GROUP).for_each(|part| file.push(part));
                let file = file.finish();
                prop_assert!(file.len() <= FileResponse::bytes(&id, bytes.len()));
                prop_assert_eq!(file, envelope::response(&id, &ReadFileResult { data_base64: encoded }));
            }
        }
    }
}
