//! The engine of the hot paths: base64 by the widest instructions that the processor has.

use std::sync::LazyLock;

use base64::engine::Simd;
use base64::engine::general_purpose::PAD;

/// The standard alphabet, padded; for payloads. What is found out about the processor is found out once.
pub static BASE64: LazyLock<Simd> = LazyLock::new(|| Simd::standard(PAD));
