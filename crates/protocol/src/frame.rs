//! The encoders of the messages that carry bytes: base64 straight into the frame, no second pass over it. What they give is
//! UTF-8, which nobody need check.

use ::base64::Engine as _;

use crate::process::Stream;
use crate::{BASE64, RequestId};

/// Encodes one `process/output`, byte for byte as serde would.
pub fn output(process_id: &str, seq: u64, stream: Stream, bytes: &[u8]) -> Vec<u8> {
    output_in(Vec::new(), process_id, seq, stream, bytes)
}

/// The same in the memory of a message that is not needed any more. What that said is overwritten, so it is best not cleared:
/// to fill the memory with zeros first would be one more pass over it.
pub fn output_in(mut out: Vec<u8>, process_id: &str, seq: u64, stream: Stream, bytes: &[u8]) -> Vec<u8> {
    const END: &[u8] = br#""}}"#;
    // The fixed text, the stream's name and a u64.
    let mut head = Vec::with_capacity(process_id.len() + 128);
    head.extend_from_slice(br#"{"method":"process/output","params":{"processId":"#);
    push_json_string(&mut head, process_id);
    head.extend_from_slice(br#","seq":"#);
    head.extend_from_slice(seq.to_string().as_bytes());
    head.extend_from_slice(br#","stream":""#);
    head.extend_from_slice(stream.name().as_bytes());
    head.extend_from_slice(br#"","chunk":""#);
    out.resize(head.len() + bytes.len().div_ceil(3) * 4 + END.len(), 0);
    out[..head.len()].copy_from_slice(&head);
    let encoded = encode(bytes, &mut out[head.len()..]);
    out.truncate(head.len() + encoded);
    out.extend_from_slice(END);
    out
}

/// No response that carries so many bytes of a file is longer, in bytes.
pub fn response_bytes(id: &RequestId, payload: usize) -> usize {
    let id = match id {
        // Of a byte JSON makes six at most.
        RequestId::Str(id) => id.len() * 6,
        _ => 0,
    };
    // 96 bytes hold the fixed text, and an id that is a number.
    payload.div_ceil(3) * 4 + id + 96
}

/// A response that carries what a file holds, made while that is read: it is in memory once, as base64.
#[derive(Debug)]
pub struct FileResponse {
    text: Vec<u8>,
}

impl FileResponse {
    /// What can be pushed without padding: a multiple of it.
    pub const GROUP: usize = 3;

    /// To `fs/readFile`, for a file of about so many bytes.
    pub fn file(id: &RequestId, size: usize) -> Self {
        Self { text: response(id, r#"{"dataBase64":""#, size) }
    }

    /// To `fs/readBlock`, for a block of at most so many bytes.
    pub fn block(id: &RequestId, len: usize) -> Self {
        Self { text: response(id, r#"{"chunk":""#, len) }
    }

    /// The next bytes: a multiple of [`FileResponse::GROUP`], but for the last.
    pub fn push(&mut self, bytes: &[u8]) {
        debug_assert!(!self.text.ends_with(b"="), "no bytes come after the last");
        push_base64(&mut self.text, bytes);
    }

    /// The whole message with a file.
    pub fn finish_file(self) -> Vec<u8> {
        self.finish(br#""}}"#)
    }

    /// The whole message with a block, and whether the file ends with it.
    pub fn finish_block(self, eof: bool) -> Vec<u8> {
        self.finish(if eof { br#"","eof":true}}"# } else { br#"","eof":false}}"# })
    }

    fn finish(mut self, end: &[u8]) -> Vec<u8> {
        self.text.extend_from_slice(end);
        self.text
    }
}

/// A response up to the payload in its result, with room for that.
fn response(id: &RequestId, begin: &str, payload: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(response_bytes(id, payload));
    out.extend_from_slice(br#"{"id":"#);
    match id {
        RequestId::Str(id) => push_json_string(&mut out, id),
        number => out.extend_from_slice(number.to_string().as_bytes()),
    }
    out.extend_from_slice(br#","result":"#);
    out.extend_from_slice(begin.as_bytes());
    out
}

/// In one go, where the library's own way goes by pieces of a kilobyte, each of which it checks and copies.
fn push_base64(out: &mut Vec<u8>, bytes: &[u8]) {
    let begin = out.len();
    out.resize(begin + bytes.len().div_ceil(3) * 4, 0);
    encode(bytes, &mut out[begin..]);
}

/// Gives the length. There is to be room.
fn encode(bytes: &[u8], into: &mut [u8]) -> usize {
    let encoded = BASE64.encode_slice(bytes, into);
    debug_assert_eq!(encoded, Ok(bytes.len().div_ceil(3) * 4), "there is room for it");
    encoded.unwrap_or_default()
}

fn push_json_string(out: &mut Vec<u8>, text: &str) {
    // A string always serializes; the fallback only spares the caller a panic path.
    out.extend_from_slice(serde_json::to_string(text).as_deref().unwrap_or("\"\"").as_bytes());
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
            prop_assert_eq!(output(&id, seq, stream, &bytes), serde.as_bytes());
            prop_assert_eq!(output_in(id.repeat(3).into(), &id, seq, stream, &bytes), serde.into_bytes());
        }

        #[test]
        fn responses_equal_what_serde_gives(id in ".{0,9}", number: i64, parts in proptest::collection::vec(0usize..9, 0..5), eof: bool) {
            for id in [RequestId::Str(id), RequestId::Int(number)] {
                let bytes: Vec<u8> = (0..=u8::MAX).cycle().take(parts.iter().sum()).collect();
                let encoded = BASE64.encode(&bytes);
                let serde = envelope::response(&id, &ReadBlockResult { chunk: encoded.clone(), eof });
                prop_assert!(serde.len() <= response_bytes(&id, bytes.len()));
                let pushed = |mut response: FileResponse| {
                    bytes.chunks(2 * FileResponse::GROUP).for_each(|part| response.push(part));
                    response
                };
                prop_assert_eq!(pushed(FileResponse::block(&id, bytes.len())).finish_block(eof), serde.into_bytes());
                let file = pushed(FileResponse::file(&id, 0)).finish_file();
                prop_assert!(file.len() <= response_bytes(&id, bytes.len()));
                prop_assert_eq!(file, envelope::response(&id, &ReadFileResult { data_base64: encoded }).into_bytes());
            }
        }
    }
}
