//! The messages that carry bytes. The encoders write base64 straight into the frame, no second pass over it, and what they give
//! is UTF-8, which nobody need check. The reader knows `process/output` by the words that the encoder uses.

use std::borrow::Cow;

use ::base64::Engine as _;
use memchr::memchr2;
use serde::Deserialize;

use crate::process::Stream;
use crate::{BASE64, MAX_FRAME_BYTES, RequestId};

/// What `process/output` begins with.
const OUTPUT: &str = r#"{"method":"process/output","params":{"processId":"#;
const SEQ: &str = r#","seq":"#;
const STREAM: &str = r#","stream":""#;
const CHUNK: &str = r#"","chunk":""#;
const END: &str = r#""}}"#;

/// A `process/output` whose text is not copied.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Output<'a> {
    /// Which process.
    #[serde(borrow)]
    pub process_id: Cow<'a, str>,
    /// Its number.
    pub seq: u64,
    /// Where it came from.
    pub stream: Stream,
    /// The bytes, base64, which nobody has looked at yet.
    #[serde(borrow)]
    pub chunk: Cow<'a, str>,
}

impl<'a> Output<'a> {
    /// Reads a message in the very words of [`output`], at a fraction of what it costs to take JSON apart. `None` for any
    /// other, which may be a `process/output` all the same.
    pub fn read(text: &'a str) -> Option<Self> {
        let (process_id, rest) = text.strip_prefix(OUTPUT)?.strip_prefix('"')?.split_once('"')?;
        let (seq, rest) = rest.strip_prefix(SEQ)?.split_once(',')?;
        // More than JSON allows of a number would do for `parse`.
        if !seq.bytes().all(|byte| byte.is_ascii_digit()) || (seq.len() > 1 && seq.starts_with('0')) {
            return None;
        }
        let seq = seq.parse().ok()?;
        let rest = rest.strip_prefix(&STREAM[1..])?;
        let stream = Stream::ALL
            .into_iter()
            .find(|stream| rest.strip_prefix(stream.name()).is_some_and(|rest| rest.starts_with(CHUNK)))?;
        let chunk = rest[stream.name().len() + CHUNK.len()..].strip_suffix(END)?;
        (is_plain(process_id) && process_id.bytes().all(|byte| byte >= b' ') && is_plain(chunk)).then_some(
            Self { process_id: Cow::Borrowed(process_id), seq, stream, chunk: Cow::Borrowed(chunk) },
        )
    }
}

/// Whether a text is its own JSON string, control characters aside: what is to be base64 is looked at again by who decodes it.
fn is_plain(text: &str) -> bool {
    memchr2(b'"', b'\\', text.as_bytes()).is_none()
}

/// Encodes one `process/output`, byte for byte as serde would.
pub fn output(process_id: &str, seq: u64, stream: Stream, bytes: &[u8]) -> Vec<u8> {
    output_in(Vec::new(), process_id, seq, stream, bytes)
}

/// The same in the memory of a message that is not needed any more. What that said is overwritten, so it is best not cleared:
/// to fill the memory with zeros first would be one more pass over it.
pub fn output_in(mut out: Vec<u8>, process_id: &str, seq: u64, stream: Stream, bytes: &[u8]) -> Vec<u8> {
    // The fixed text, the stream's name and a u64.
    let mut head = Vec::with_capacity(process_id.len() + 128);
    head.extend_from_slice(OUTPUT.as_bytes());
    push_json_string(&mut head, process_id);
    head.extend_from_slice(SEQ.as_bytes());
    head.extend_from_slice(seq.to_string().as_bytes());
    head.extend_from_slice(STREAM.as_bytes());
    head.extend_from_slice(stream.name().as_bytes());
    head.extend_from_slice(CHUNK.as_bytes());
    out.resize(head.len() + bytes.len().div_ceil(3) * 4 + END.len(), 0);
    out[..head.len()].copy_from_slice(&head);
    let encoded = encode(bytes, &mut out[head.len()..]);
    out.truncate(head.len() + encoded);
    out.extend_from_slice(END.as_bytes());
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

/// A response with a block of a file, made while that is read: a part that has just been read is still in the processor's cache.
#[derive(Debug)]
pub struct BlockResponse {
    text: Vec<u8>,
}

impl BlockResponse {
    /// What can be pushed without padding: a multiple of it.
    pub const GROUP: usize = 3;

    /// For a block of at most so many bytes, made in `memory`; what that holds is lost.
    pub fn new(mut memory: Vec<u8>, id: &RequestId, len: usize) -> Self {
        memory.clear();
        memory.reserve_exact(response_bytes(id, len));
        begin_response(&mut memory, id, r#"{"chunk":""#);
        Self { text: memory }
    }

    /// The next bytes: a multiple of [`BlockResponse::GROUP`], but for the last.
    pub fn push(&mut self, bytes: &[u8]) {
        debug_assert!(!self.text.ends_with(b"="), "no bytes come after the last");
        push_base64(&mut self.text, bytes);
    }

    /// The whole message, and whether the file ends with it.
    pub fn finish(mut self, eof: bool) -> Vec<u8> {
        let end: &[u8] = if eof { br#"","eof":true}}"# } else { br#"","eof":false}}"# };
        self.text.extend_from_slice(end);
        self.text
    }
}

/// A response with a whole file. The bytes are kept as they are: base64, which is a third longer, is made of them part by part
/// while they are sent.
#[derive(Debug)]
pub struct FileResponse {
    /// What comes before the payload; empty once it was given out.
    begin: Vec<u8>,
    payload: Vec<u8>,
    /// How much of it was given out.
    given: usize,
    /// What comes behind it; empty once it was given out.
    end: &'static str,
}

impl FileResponse {
    /// Bytes of a file in one part: with what is around them they fit one frame. A multiple of 3, so that no base64 but the
    /// last is padded.
    const PART: usize = (MAX_FRAME_BYTES - 1024) / 4 * 3;

    /// With what the file holds.
    pub fn new(id: &RequestId, bytes: Vec<u8>) -> Self {
        let mut begin = Vec::new();
        begin_response(&mut begin, id, r#"{"dataBase64":""#);
        Self { begin, payload: bytes, given: 0, end: END }
    }

    /// Whether all of it was given out.
    pub fn is_empty(&self) -> bool {
        self.end.is_empty()
    }

    /// Bytes of the message that were not given out yet.
    pub fn len(&self) -> usize {
        self.begin.len() + (self.payload.len() - self.given).div_ceil(3) * 4 + self.end.len()
    }
}

/// The parts of the message.
impl Iterator for FileResponse {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        if self.is_empty() {
            return None;
        }
        let rest = &self.payload[self.given..];
        let part = &rest[..rest.len().min(Self::PART)];
        let mut text = std::mem::take(&mut self.begin);
        text.reserve_exact(part.len().div_ceil(3) * 4 + self.end.len());
        push_base64(&mut text, part);
        self.given += part.len();
        if self.given == self.payload.len() {
            text.extend_from_slice(std::mem::take(&mut self.end).as_bytes());
        }
        Some(text)
    }
}

/// A response up to the payload in its result.
fn begin_response(out: &mut Vec<u8>, id: &RequestId, begin: &str) {
    out.extend_from_slice(br#"{"id":"#);
    match id {
        RequestId::Str(id) => push_json_string(out, id),
        number => out.extend_from_slice(number.to_string().as_bytes()),
    }
    out.extend_from_slice(br#","result":"#);
    out.extend_from_slice(begin.as_bytes());
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

    fn by_serde(text: &str) -> Option<Output<'_>> {
        match envelope::decode(text) {
            Ok(envelope::Incoming::Notification { method, params })
                if method == crate::method::PROCESS_OUTPUT =>
            {
                envelope::params(params).ok()
            }
            _ => None,
        }
    }

    proptest! {
        #[test]
        fn equals_what_serde_gives(id in ".{0,40}", seq: u64, which in 0usize..3, bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let stream = Stream::ALL[which];
            let serde = envelope::notification(crate::method::PROCESS_OUTPUT, &OutputNotification {
                process_id: id.clone(), seq, stream, chunk: BASE64.encode(&bytes),
            });
            prop_assert_eq!(output(&id, seq, stream, &bytes), serde.as_bytes());
            prop_assert_eq!(output_in(id.repeat(3).into(), &id, seq, stream, &bytes), serde.as_bytes());
            let read = Output::read(&serde);
            prop_assert_eq!(read.is_some(), serde_json::to_string(&id).unwrap() == format!("\"{id}\""), "{}", serde);
            if let Some(read) = read {
                prop_assert_eq!(read, by_serde(&serde).unwrap());
            }
        }

        #[test]
        fn what_is_read_is_what_serde_reads(at in 0usize..120, cut in 0usize..3, put in r#"[-"\\\\,:{}0-9a-z é]{0,3}"#) {
            let mut text = String::from_utf8(output("p-1", 20, Stream::Stderr, b"some output")).unwrap();
            let at = at.min(text.len());
            text.replace_range(at..(at + cut).min(text.len()), &put);
            if let Some(read) = Output::read(&text) {
                prop_assert_eq!(read, by_serde(&text).expect("a message"), "{}", text);
            }
        }

        #[test]
        fn responses_equal_what_serde_gives(id in ".{0,9}", number: i64, parts in 0usize..4, more in 0usize..4, eof: bool) {
            for id in [RequestId::Str(id), RequestId::Int(number)] {
                let bytes: Vec<u8> = (0..=250).cycle().take(parts * FileResponse::PART / 2 + more).collect();
                let encoded = BASE64.encode(&bytes);
                let mut block = BlockResponse::new(b"what was there".to_vec(), &id, bytes.len());
                bytes.chunks(2 * BlockResponse::GROUP).for_each(|part| block.push(part));
                let block = block.finish(eof);
                prop_assert!(block.len() <= response_bytes(&id, bytes.len()));
                let expected = envelope::response(&id, &ReadBlockResult { chunk: encoded.clone(), eof });
                prop_assert!(block == expected.as_bytes());
                let file = FileResponse::new(&id, bytes);
                let (len, parts) = (file.len(), file.collect::<Vec<_>>());
                prop_assert!(parts.iter().all(|part| part.len() <= MAX_FRAME_BYTES));
                let file = parts.concat();
                prop_assert_eq!(file.len(), len);
                let expected = envelope::response(&id, &ReadFileResult { data_base64: encoded });
                prop_assert!(file == expected.as_bytes());
            }
        }
    }
}
