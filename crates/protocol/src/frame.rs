//! The encoder of the one hot message, `process/output`: base64 straight into the frame, no second pass over it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::process::Stream;

/// Encodes one `process/output`, byte for byte as serde would.
pub fn output(process_id: &str, seq: u64, stream: Stream, bytes: &[u8]) -> String {
    // 128 bytes hold the fixed text, the stream's name and a u64.
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4 + process_id.len() + 128);
    out.push_str(r#"{"method":"process/output","params":{"processId":"#);
    push_json_string(&mut out, process_id);
    out.push_str(r#","seq":"#);
    out.push_str(&seq.to_string());
    out.push_str(r#","stream":""#);
    out.push_str(stream.name());
    out.push_str(r#"","chunk":""#);
    STANDARD.encode_string(bytes, &mut out);
    out.push_str(r#""}}"#);
    out
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
    use crate::process::OutputNotification;

    proptest! {
        #[test]
        fn equals_what_serde_gives(id in ".{0,40}", seq: u64, which in 0usize..3, bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let stream = [Stream::Stdout, Stream::Stderr, Stream::Pty][which];
            let serde = envelope::notification(crate::method::PROCESS_OUTPUT, &OutputNotification {
                process_id: id.clone(), seq, stream, chunk: STANDARD.encode(&bytes),
            });
            prop_assert_eq!(output(&id, seq, stream, &bytes), serde);
        }
    }
}
