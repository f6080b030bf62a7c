//! Paths: spellings, percent-encoding, and the pair of roots. No path leads out of the root that it was mapped into.

#![no_main]

use std::path::{Component, Path};
use std::sync::LazyLock;

use agent_client::Mapping;
use libfuzzer_sys::fuzz_target;
use sidecar_protocol::WirePath;
use sidecar_protocol::path::Spelling;

const LOCAL: &str = "/no such/local root";
const WORKSPACE: &str = "/work space/ü";

static MAPPING: LazyLock<Mapping> =
    LazyLock::new(|| Mapping::new(Path::new(LOCAL), Some(Path::new(WORKSPACE))));

fuzz_target!(|text: &str| {
    for text in
        [text.to_owned(), format!("file://{text}"), format!("{LOCAL}/{text}"), format!("{WORKSPACE}/{text}")]
    {
        let Ok(path) = WirePath::parse(&text) else { continue };
        assert!(path.as_path().is_absolute());
        let uri = Spelling::Uri.write(path.as_path());
        let again = WirePath::parse(&uri).expect("what is sent can be read");
        assert_eq!(again.as_path(), path.as_path());
        mapped(path.as_path());
    }
});

fn mapped(path: &Path) {
    if let Ok(there) = MAPPING.to_workspace(path) {
        below(&there, WORKSPACE);
        let back = MAPPING.to_local(&there).expect("it came from there");
        below(&back, LOCAL);
        assert_eq!(MAPPING.to_workspace(&back).expect("it is below the root"), there);
    }
    if let Some(here) = MAPPING.to_local(path) {
        below(&here, LOCAL);
    }
}

fn below(path: &Path, root: &str) {
    assert!(path.starts_with(root), "{path:?}");
    assert!(path.components().all(|part| part != Component::ParentDir), "{path:?}");
}
