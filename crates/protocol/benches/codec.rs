//! Cost of the two hot paths of the wire: encoding output, decoding a request's envelope.

use divan::counter::BytesCount;
use divan::{Bencher, black_box};
use sidecar_protocol::process::{StartParams, Stream};
use sidecar_protocol::{Incoming, envelope, frame};

fn main() {
    divan::main();
}

#[divan::bench(args = [64, 4096, 65_536])]
fn encode_output(bencher: Bencher<'_, '_>, size: usize) {
    let payload = vec![b'x'; size];
    bencher.counter(BytesCount::new(size)).bench(|| {
        frame::output("24640-4b085802-17c9-4a7b-8563-c1e966b51c15", 1, Stream::Stdout, black_box(&payload))
    });
}

/// The envelope alone: params stay undecoded, whatever their size.
#[divan::bench(args = [64, 65_536])]
fn decode_envelope(bencher: Bencher<'_, '_>, size: usize) {
    let text = format!(r#"{{"id":1,"method":"process/write","params":{{"chunk":"{}"}}}}"#, "A".repeat(size));
    bencher.counter(BytesCount::new(text.len())).bench(|| envelope::decode(black_box(&text)).is_ok());
}

#[divan::bench]
fn decode_start(bencher: Bencher<'_, '_>) {
    let text = include_str!("../tests/golden/process.start.request.json");
    bencher.bench(|| match envelope::decode(black_box(text)) {
        Ok(Incoming::Request { params, .. }) => envelope::params::<StartParams>(params).is_ok(),
        _ => false,
    });
}
