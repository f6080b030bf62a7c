//! A policy made ready: descriptors that exist before any fork.

use std::path::Path;

use crate::receipt::Receipt;

/// A policy made ready for launches and file operations.
#[derive(Debug)]
pub struct Prepared {
    receipt: Receipt,
}

impl Prepared {
    /// What will be enforced.
    pub fn receipt(&self) -> &Receipt {
        &self.receipt
    }

    /// Whether `path` is a root of the policy, which `fs/remove` refuses.
    pub fn is_root(&self, _path: &Path) -> bool {
        unimplemented!()
    }

    /// What in the operator's config would grant `path`, where nothing does now.
    pub fn hint(&self, _path: &Path, _write: bool) -> Option<String> {
        unimplemented!()
    }
}
