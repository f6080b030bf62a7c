//! One message: request, response or notification. Params stay undecoded until the method is known.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::error::RpcError;
use crate::lenient;

/// A request's id: an integer or a string, echoed as it came.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub enum RequestId {
    /// A signed integer.
    Int(i64),
    /// An integer above `i64::MAX`.
    Unsigned(u64),
    /// A string.
    Str(String),
}

impl RequestId {
    /// The id of an error response to what had none: a frame that is no message.
    pub const NONE: RequestId = RequestId::Int(-1);
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RequestId::Int(n) => n.fmt(f),
            RequestId::Unsigned(n) => n.fmt(f),
            RequestId::Str(s) => s.fmt(f),
        }
    }
}

/// A decoded message. Params and results borrow from the frame.
#[derive(Debug)]
pub enum Incoming<'a> {
    /// `{id, method, params?}`
    Request {
        /// Echoed in the response.
        id: RequestId,
        /// The method's name.
        method: Cow<'a, str>,
        /// The undecoded params; absent counts as `{}`.
        params: Option<&'a RawValue>,
    },
    /// `{method, params?}`
    Notification {
        /// The method's name.
        method: Cow<'a, str>,
        /// The undecoded params.
        params: Option<&'a RawValue>,
    },
    /// `{id, result}` or `{id, error}`
    Response {
        /// The request's id.
        id: RequestId,
        /// What came back.
        outcome: Result<&'a RawValue, RpcError>,
    },
}

/// Why a frame is no message.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// Not JSON, or a member of the wrong type.
    #[error("not a valid message: {0}")]
    Json(#[from] serde_json::Error),
    /// JSON, but none of the three shapes.
    #[error("not a message: {0}")]
    Shape(&'static str),
}

#[derive(Deserialize)]
struct Wire<'a> {
    #[serde(default, deserialize_with = "lenient::present")]
    id: Option<Option<RequestId>>,
    #[serde(default, borrow)]
    method: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    params: Option<&'a RawValue>,
    #[serde(default, borrow, deserialize_with = "raw_or_null")]
    result: Option<&'a RawValue>,
    #[serde(default)]
    error: Option<RpcError>,
}

/// A `null` result is a result; `Option` alone would take it for an absent one.
fn raw_or_null<'de, D: serde::Deserializer<'de>>(d: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(d).map(Some)
}

/// Decodes one frame. `"jsonrpc"` and unknown members are tolerated.
///
/// # Errors
/// [`DecodeError`] where the text is not JSON or none of the three shapes.
pub fn decode(text: &str) -> Result<Incoming<'_>, DecodeError> {
    // serde's derive would take an array as a struct's fields in order.
    if !text.trim_start().starts_with('{') {
        let _: serde::de::IgnoredAny = serde_json::from_str(text)?;
        return Err(DecodeError::Shape("expected one JSON object"));
    }
    let wire: Wire<'_> = serde_json::from_str(text)?;
    match (wire.id, wire.method, wire.result, wire.error) {
        (Some(Some(id)), Some(method), None, None) => {
            Ok(Incoming::Request { id, method, params: wire.params })
        }
        (None, Some(method), None, None) => Ok(Incoming::Notification { method, params: wire.params }),
        (Some(Some(id)), None, Some(result), None) => Ok(Incoming::Response { id, outcome: Ok(result) }),
        (Some(Some(id)), None, None, Some(error)) => Ok(Incoming::Response { id, outcome: Err(error) }),
        (Some(None), ..) => Err(DecodeError::Shape("id must be an integer or a string")),
        (_, None, None, None) => Err(DecodeError::Shape("method is missing")),
        _ => Err(DecodeError::Shape("members of a request and of a response are mixed")),
    }
}

/// Decodes params; absent params count as `{}`.
///
/// # Errors
/// -32602 that says which field is wrong.
pub fn params<'a, T: Deserialize<'a>>(raw: Option<&'a RawValue>) -> Result<T, RpcError> {
    serde_json::from_str(raw.map_or("{}", RawValue::get))
        .map_err(|e| RpcError::invalid_params(format!("invalid params: {e}")))
}

/// Encodes a request.
///
/// # Panics
/// Never for the types of this crate: they have string keys only.
pub fn request<T: Serialize>(id: &RequestId, method: &str, params: &T) -> String {
    #[derive(Serialize)]
    struct Out<'a, T> {
        id: &'a RequestId,
        method: &'a str,
        params: &'a T,
    }
    encode(&Out { id, method, params })
}

/// Encodes a notification.
pub fn notification<T: Serialize>(method: &str, params: &T) -> String {
    #[derive(Serialize)]
    struct Out<'a, T> {
        method: &'a str,
        params: &'a T,
    }
    encode(&Out { method, params })
}

/// Encodes a response with its result.
pub fn response<T: Serialize>(id: &RequestId, result: &T) -> String {
    #[derive(Serialize)]
    struct Out<'a, T> {
        id: &'a RequestId,
        result: &'a T,
    }
    encode(&Out { id, result })
}

/// Encodes an error response.
pub fn error_response(id: &RequestId, error: &RpcError) -> String {
    #[derive(Serialize)]
    struct Out<'a> {
        id: &'a RequestId,
        error: &'a RpcError,
    }
    encode(&Out { id, error })
}

fn encode<T: Serialize>(value: &T) -> String {
    serde_json::to_string(value).unwrap_or_else(|e| {
        let error = RpcError::internal(format!("the answer could not be encoded: {e}"));
        format!(r#"{{"id":-1,"error":{{"code":{},"message":{:?}}}}}"#, error.code, error.message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_three_shapes() {
        assert!(matches!(
            decode(r#"{"jsonrpc":"2.0","id":"a","method":"m"}"#),
            Ok(Incoming::Request { id: RequestId::Str(s), params: None, .. }) if s == "a"
        ));
        assert!(matches!(
            decode(r#"{"id":18446744073709551615,"method":"m","params":{}}"#),
            Ok(Incoming::Request { id: RequestId::Unsigned(u64::MAX), .. })
        ));
        assert!(
            matches!(decode(r#"{"method":"m\n"}"#), Ok(Incoming::Notification { method, .. }) if method == "m\n")
        );
        assert!(matches!(decode(r#"{"id":1,"result":null}"#), Ok(Incoming::Response { outcome: Ok(_), .. })));
        assert!(matches!(
            decode(r#"{"id":1,"error":{"code":-1,"message":"x"}}"#),
            Ok(Incoming::Response { outcome: Err(_), .. })
        ));
    }

    #[test]
    fn what_is_no_message() {
        for text in [
            "",
            "{",
            "[]",
            "[1,2]",
            "3",
            "{}",
            r#"{"id":1}"#,
            r#"{"id":null,"method":"m"}"#,
            r#"{"id":1.5,"method":"m"}"#,
            r#"{"id":1,"method":2}"#,
            r#"{"id":1,"method":"m","result":1}"#,
            r#"{"id":1,"id":2,"method":"m"}"#,
            "{\"id\":1,\"method\":\"m\"} x",
        ] {
            assert!(decode(text).is_err(), "{text}");
        }
    }

    #[test]
    fn ids_are_echoed_as_they_came() {
        for id in ["7", "-7", "\"7\"", "\"\"", "18446744073709551615"] {
            let parsed: RequestId = serde_json::from_str(id).unwrap();
            assert_eq!(response(&parsed, &()), format!(r#"{{"id":{id},"result":null}}"#));
        }
    }
}
