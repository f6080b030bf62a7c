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
    let mut message = OutputMessage::new(Vec::new(), process_id, seq, stream, bytes.len());
    message.push(bytes);
    message.finish()
}

/// A `process/output` made while its bytes come: a part that has just been read is still in the processor's cache.
#[derive(Debug)]
pub struct OutputMessage {
    text: Text,
    /// Bytes that are too few yet for a group of base64.
    rest: [u8; GROUP],
    rests: usize,
}

impl OutputMessage {
    /// Without any bytes yet, and with room for `len` of them. It is made in the memory of a message that is not needed any more;
    /// what that said is lost.
    pub fn new(memory: Vec<u8>, process_id: &str, seq: u64, stream: Stream, len: usize) -> Self {
        // The fixed text, the stream's name and a u64.
        let mut head = Vec::with_capacity(process_id.len() + 128);
        head.extend_from_slice(OUTPUT.as_bytes());
        push_json_string(&mut head, process_id);
        head.extend_from_slice(SEQ.as_bytes());
        head.extend_from_slice(seq.to_string().as_bytes());
        head.extend_from_slice(STREAM.as_bytes());
        head.extend_from_slice(stream.name().as_bytes());
        head.extend_from_slice(CHUNK.as_bytes());
        let mut text = Text::new(memory, head.len() + encoded_len(len) + END.len());
        text.put(&head);
        Self { text, rest: [0; GROUP], rests: 0 }
    }

    /// The next bytes.
    pub fn push(&mut self, mut bytes: &[u8]) {
        while self.rests > 0
            && let Some((first, later)) = bytes.split_first()
        {
            (self.rest[self.rests], bytes) = (*first, later);
            self.rests = (self.rests + 1) % GROUP;
            if self.rests == 0 {
                self.text.put_base64(&self.rest);
            }
        }
        let (groups, rest) = bytes.split_at(bytes.len() - bytes.len() % GROUP);
        self.text.put_base64(groups);
        if !rest.is_empty() {
            self.rest[..rest.len()].copy_from_slice(rest);
            self.rests = rest.len();
        }
    }

    /// The whole message.
    pub fn finish(mut self) -> Vec<u8> {
        self.text.put_base64(&self.rest[..self.rests]);
        self.text.put(END.as_bytes());
        self.text.finish()
    }
}

/// A text in memory that held another one. That is overwritten and not cleared first: to fill the memory with zeros would be one
/// more pass over it.
#[derive(Debug)]
struct Text {
    memory: Vec<u8>,
    /// How much of it is the text.
    len: usize,
}

impl Text {
    /// With room for so many bytes.
    fn new(mut memory: Vec<u8>, bytes: usize) -> Self {
        memory.reserve_exact(bytes.saturating_sub(memory.len()));
        Self { memory, len: 0 }
    }

    fn put(&mut self, text: &[u8]) {
        self.room(text.len()).copy_from_slice(text);
        self.len += text.len();
    }

    fn put_base64(&mut self, bytes: &[u8]) {
        self.len += encode(bytes, self.room(encoded_len(bytes.len())));
    }

    /// What the next bytes overwrite.
    fn room(&mut self, bytes: usize) -> &mut [u8] {
        let end = self.len + bytes;
        if self.memory.len() < end {
            self.memory.resize(end, 0);
        }
        &mut self.memory[self.len..end]
    }

    fn finish(mut self) -> Vec<u8> {
        self.memory.truncate(self.len);
        self.memory
    }
}

/// Bytes that base64 makes four letters of.
const GROUP: usize = 3;

/// Letters of base64, padding included.
fn encoded_len(bytes: usize) -> usize {
    bytes.div_ceil(GROUP) * 4
}

/// No response that carries so many bytes of a file is longer, in bytes.
pub fn response_bytes(id: &RequestId, payload: usize) -> usize {
    let id = match id {
        // Of a byte JSON makes six at most.
        RequestId::Str(id) => id.len() * 6,
        _ => 0,
    };
    // 96 bytes hold the fixed text, and an id that is a number.
    encoded_len(payload) + id + 96
}

/// A response with a block of a file, made while that is read: a part that has just been read is still in the processor's cache.
#[derive(Debug)]
pub struct BlockResponse {
    text: Text,
}

impl BlockResponse {
    /// What can be pushed without padding: a multiple of it.
    pub const GROUP: usize = GROUP;

    /// For a block of at most so many bytes, made in `memory`; what that holds is lost.
    pub fn new(memory: Vec<u8>, id: &RequestId, len: usize) -> Self {
        let mut begin = Vec::new();
        begin_response(&mut begin, id, r#"{"chunk":""#);
        let mut text = Text::new(memory, response_bytes(id, len));
        text.put(&begin);
        Self { text }
    }

    /// The next bytes: a multiple of [`BlockResponse::GROUP`], but for the last.
    pub fn push(&mut self, bytes: &[u8]) {
        debug_assert_ne!(self.text.memory[self.text.len - 1], b'=', "no bytes come after the last");
        self.text.put_base64(bytes);
    }

    /// The whole message, and whether the file ends with it.
    pub fn finish(mut self, eof: bool) -> Vec<u8> {
        self.text.put(if eof { br#"","eof":true}}"# } else { br#"","eof":false}}"# });
        self.text.finish()
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
        self.begin.len() + encoded_len(self.payload.len() - self.given) + self.end.len()
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
        text.reserve_exact(encoded_len(part.len()) + self.end.len());
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
    out.resize(begin + encoded_len(bytes.len()), 0);
    encode(bytes, &mut out[begin..]);
}

/// Gives the length. There is to be room.
fn encode(bytes: &[u8], into: &mut [u8]) -> usize {
    let encoded = BASE64.encode_slice(bytes, into);
    debug_assert_eq!(encoded, Ok(encoded_len(bytes.len())), "there is room for it");
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
        fn equals_what_serde_gives(id in ".{0,40}", seq: u64, which in 0usize..3, bytes in proptest::collection::vec(any::<u8>(), 0..300), part in 1usize..80) {
            let stream = Stream::ALL[which];
            let serde = envelope::notification(crate::method::PROCESS_OUTPUT, &OutputNotification {
                process_id: id.clone(), seq, stream, chunk: BASE64.encode(&bytes),
            });
            prop_assert_eq!(output(&id, seq, stream, &bytes), serde.as_bytes());
            let mut parts = OutputMessage::new(id.repeat(3).into(), &id, seq, stream, part);
            bytes.chunks(part).for_each(|part| parts.push(part));
            prop_assert_eq!(parts.finish(), serde.as_bytes());
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
