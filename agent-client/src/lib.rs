//! Agent-side client of the sandbox sidecar
