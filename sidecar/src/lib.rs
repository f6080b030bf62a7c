//! The exec/fs sandbox sidecar
