//! Cost of a path on the wire: most requests of the file system carry one, and its answer another.

use std::path::Path;

use divan::{Bencher, black_box};
use sidecar_protocol::WirePath;
use sidecar_protocol::path::Spelling;

const SPELLINGS: [&str; 3] = [
    "/workspace/src/process/pump.rs",
    "file:///workspace/src/process/pump.rs",
    "file:///workspace/a%20folder/%C3%A9t%C3%A9.rs",
];

fn main() {
    divan::main();
}

#[divan::bench(args = SPELLINGS)]
fn parse(bencher: Bencher<'_, '_>, text: &str) {
    bencher.bench(|| WirePath::parse(black_box(text)).is_ok());
}

#[divan::bench(args = ["/workspace/src/process/pump.rs", "/workspace/a folder/été.rs"])]
fn write_uri(bencher: Bencher<'_, '_>, path: &str) {
    bencher.bench(|| Spelling::Uri.write(black_box(Path::new(path))));
}
