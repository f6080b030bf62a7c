//! A message with one large text in its params: a file's content. To take the JSON apart is a slow pass over it, and it is done
//! more than once; so the text is taken out first, by a search for its end, and what is left is a small message.

use std::borrow::Cow;

use memchr::memchr2;

/// A text from which on it is worth it, bytes.
const LARGE: usize = 16 << 10;

/// The text begins within so many bytes, or nobody looks for it.
const HEAD: usize = 4 << 10;

/// The members that may be taken out: base64, which needs no escapes.
const MEMBERS: [&str; 2] = ["dataBase64", "chunk"];

/// Stands in the text's place. It is no base64, so a client that sends it by itself is refused as ever.
const MARK: &str = "*";

/// A message in two parts.
#[derive(Debug)]
pub struct Bulk<'a> {
    /// The message, with a mark in the place of the text.
    pub rest: String,
    /// The text, which may hold anything but a quote or a backslash. Nobody has looked whether it is base64.
    pub text: &'a str,
}

impl<'a> Bulk<'a> {
    /// Takes the large text out of a message that has one.
    pub fn split(message: &'a str) -> Option<Self> {
        if message.len() < LARGE {
            return None;
        }
        let (begin, end) = find(message)?;
        Some(Self { rest: [&message[..begin], MARK, &message[end..]].concat(), text: &message[begin..end] })
    }
}

/// What a member was before its text was taken out, if it was.
pub fn restored<'a>(member: Cow<'a, str>, taken: Option<&'a str>) -> Cow<'a, str> {
    match taken {
        Some(text) if member == MARK => Cow::Borrowed(text),
        _ => member,
    }
}

/// Where the first large text is, if it is the value of such a member of `params` itself.
fn find(message: &str) -> Option<(usize, usize)> {
    let bytes = message.as_bytes();
    let (mut at, mut depth) = (0_usize, 0_usize);
    // The last string of the envelope and of what is in it, and whether a value is to come.
    let (mut outer, mut inner, mut is_value) = ("", "", false);
    while at < HEAD {
        let byte = *bytes.get(at)?;
        at += 1;
        match byte {
            b'"' => {
                let begin = at;
                let (end, is_plain) = string_end(bytes, begin)?;
                if end - begin >= LARGE {
                    let is_member = depth == 2 && is_value && outer == "params" && MEMBERS.contains(&inner);
                    return (is_member && is_plain).then_some((begin, end));
                }
                match depth {
                    1 => outer = &message[begin..end],
                    2 => inner = &message[begin..end],
                    _ => {}
                }
                at = end + 1;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.checked_sub(1)?,
            _ => {}
        }
        if !byte.is_ascii_whitespace() {
            is_value = byte == b':';
        }
    }
    None
}

/// Where the string ends that begins there, and whether it has no escapes.
fn string_end(bytes: &[u8], mut at: usize) -> Option<(usize, bool)> {
    let mut is_plain = true;
    loop {
        at += memchr2(b'"', b'\\', bytes.get(at..)?)?;
        if bytes[at] == b'"' {
            return Some((at, is_plain));
        }
        // Whatever is escaped does not end it.
        is_plain = false;
        at += 2;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn text() -> String {
        "QUJD".repeat(LARGE / 4)
    }

    #[test]
    fn what_is_taken_out() {
        let text = text();
        for (before, behind) in [
            (r#"{"id":1,"method":"fs/writeFile","params":{"path":"/a","dataBase64":""#, r#""}}"#),
            (r#"{"params":{"chunk":""#, r#"","offset":0},"method":"fs/writeBlock","id":"x"}"#),
            (r#" { "params" : { "path" : "/\"\\ \u00e9" , "dataBase64" : ""#, r#"" } }"#),
            (r#"{"id":1,"x":[{"y":"params"}],"params":{"sandbox":{"a":[1]},"chunk":""#, r#""}}"#),
        ] {
            let message = format!("{before}{text}{behind}");
            let bulk = Bulk::split(&message).expect(before);
            assert_eq!(bulk.text, text);
            assert_eq!(bulk.rest, format!("{before}*{behind}"));
        }
    }

    #[test]
    fn what_stays() {
        let text = text();
        for (before, behind) in [
            // Somewhere else, or something else.
            (r#"{"params":{"other":""#, r#""}}"#),
            (r#"{"other":{"chunk":""#, r#""}}"#),
            (r#"{"params":{"sandbox":{"chunk":""#, r#""}}}"#),
            (r#"{"params":["chunk",""#, r#""]}"#),
            (r#"{"params":{"path":"chunk",""#, r#"":1}}"#),
            (r#"{"chunk":""#, r#""}"#),
            (r#""chunk":""#, r#"""#),
            // With escapes, or without an end.
            (r#"{"params":{"chunk":""#, r#"\/"}}"#),
            (r#"{"params":{"chunk":""#, ""),
            (r#"}{"params":{"chunk":""#, r#""}}"#),
        ] {
            assert!(Bulk::split(&format!("{before}{text}{behind}")).is_none(), "{before}");
        }
        assert!(
            Bulk::split(&format!(r#"{{"params":{{"chunk":"{}"}}}}"#, &text[4..])).is_none(),
            "a small one"
        );
    }

    proptest! {
        #[test]
        fn the_parts_are_the_whole(id in ".{0,9}", path in ".{0,40}", also in ".{0,9}", first: bool, length in 0..4_usize) {
            let text = &"QUJD".repeat(LARGE / 4 - 2 + length);
            let mut params = json!({ "path": path, "dataBase64": text, "nested": { "chunk": also, "list": [also, 1] } });
            if first {
                params = json!({ "chunk": text, "a": also });
            }
            let message = json!({ "id": id, "method": "m", "params": params }).to_string();
            let Some(bulk) = Bulk::split(&message) else {
                prop_assert!(text.len() < LARGE);
                return Ok(());
            };
            let mut whole: Value = serde_json::from_str(&bulk.rest).unwrap();
            let member = &mut whole["params"][if first { "chunk" } else { "dataBase64" }];
            let restored = restored(Cow::Owned(member.as_str().unwrap().to_owned()), Some(bulk.text)).into_owned();
            *member = restored.into();
            prop_assert_eq!(whole.to_string(), message);
        }

        #[test]
        fn anything_is_survived(before in r#"[\{\[\}\]":, a\\]{0,30}"#, behind in r#"[\{\[\}\]":, a\\]{0,9}"#) {
            let message = format!(r#"{before}{{"params":{{"chunk":"{}"{behind}"#, text());
            if let Some(bulk) = Bulk::split(&message) {
                prop_assert_eq!(bulk.rest.replacen(MARK, bulk.text, 1), message);
            }
        }
    }
}
