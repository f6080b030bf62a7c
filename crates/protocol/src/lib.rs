//! The exec/fs protocol: wire types and framing.
//!
//! | module | what it holds |
//! |---|---|
//! | [`envelope`] | one message: request, response, notification |
//! | [`method`] | the one table of methods |
//! | [`error`] | error codes and the `data` of an error |
//! | [`path`] | plain paths and `file://` URIs |
//! | [`session`] | `initialize`, `environment/*` |
//! | [`process`] | `process/*` and its notifications |
//! | [`fs`] | `fs/*` |
//! | `schema` | the JSON Schema of all of it, with the feature of that name |
//! | [`frame`] | the messages that carry bytes, encoded and read without JSON |
//! | [`bulk`] | a large text, taken out of a message |
//!
//! It knows no tokio, no files and no clock.
//!
//! # Changing the protocol
//! 1. Add the row to [`method::Method`]; the compiler then names each place that must know it.
//! 2. Add the types to the module of its group; every new field is optional, for older clients.
//! 3. Add its frames to `tests/golden/`; the golden test fails until it holds them.
//! 4. Add the types to `schema`, and write docs/protocol.schema.json anew (`make docs-tables`).
//! 5. Add the handler to `sidecar/src/rpc/` and the line to the table in docs/protocol.md.

mod base64;
pub mod bulk;
pub mod envelope;
pub mod error;
pub mod frame;
pub mod fs;
mod lenient;
pub mod method;
pub mod path;
pub mod process;
#[cfg(feature = "schema")]
pub mod schema;
pub mod session;

pub use base64::BASE64;
pub use envelope::{Incoming, RequestId};
pub use error::{ErrorData, ErrorKind, RpcError};
pub use method::Method;
pub use path::WirePath;

/// `protocolVersion` of the initialize result; the only value that generation v0 knows.
pub const PROTOCOL_VERSION: &str = "exec-server.v0";

/// Largest incoming message by default, bytes; what the stock client sends at most.
pub const MAX_MESSAGE_BYTES: usize = 64 << 20;

/// Largest frame that is sent, bytes; a larger message goes out in several. The stock client takes 16 MiB; smaller frames let
/// others in between, and are all that the WebSocket library copies at once.
pub const MAX_FRAME_BYTES: usize = 256 << 10;

/// Most payload in one `process/output`, bytes before base64.
pub const MAX_CHUNK_BYTES: usize = 64 << 10;

/// Longest `processId`, bytes.
pub const MAX_PROCESS_ID_BYTES: usize = 256;

/// Longest `handleId`, bytes.
pub const MAX_HANDLE_ID_BYTES: usize = 32;

/// Most open handles of one connection, unless the server is configured otherwise.
pub const MAX_HANDLES: usize = 128;

/// Most bytes in one `fs/readBlock` or `fs/writeBlock`, before base64.
pub const MAX_BLOCK_BYTES: usize = 1 << 20;

/// Most JSON values in one outgoing message; the stock client's limit.
pub const MAX_MESSAGE_VALUES: usize = 262_144;
