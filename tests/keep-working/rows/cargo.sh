# cargo: a path dependency, build --offline and test --offline
cargo new --quiet --vcs=none --lib dependency
cargo new --quiet --vcs=none app
echo 'pub fn answer() -> u8 { 42 }' >dependency/src/lib.rs
echo 'dependency = { path = "../dependency" }' >>app/Cargo.toml
cat >app/src/main.rs <<'END'
fn main() { println!("{}", std::thread::spawn(dependency::answer).join().unwrap()); }
#[test]
fn answers() { assert_eq!(dependency::answer(), 42); }
END
cd app
cargo build --quiet --offline
is "$(target/debug/app)" 42
has "$(cargo test --offline 2>&1)" 'test answers ... ok'
