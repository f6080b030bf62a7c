//! Cost of keeping output: a full ring drops a chunk for each that comes.

#![allow(
    dead_code,
    unreachable_pub,
    unused_imports,
    reason = "the bench is of a part of the module, which is included as it is"
)]

use divan::Bencher;
use divan::counter::BytesCount;
use sidecar_protocol::process::Stream;

#[path = "../src/process/ring.rs"]
mod ring;

/// The default limits.
const RETAINED: (usize, usize) = (1 << 20, 50_000);

fn main() {
    divan::main();
}

fn full(chunk: &[u8]) -> (ring::Ring, u64) {
    let mut ring = ring::Ring::new(RETAINED.0, RETAINED.1);
    let mut seq = 0;
    while ring.dropped() == 0 {
        seq += 1;
        ring.push(seq, Stream::Stdout, &mut chunk.to_vec(), chunk.len());
        ring.show(seq);
    }
    (ring, seq)
}

#[divan::bench(args = [64, 4096, 65_536])]
fn push(bencher: Bencher<'_, '_>, size: usize) {
    // A chunk that fills its buffer is not copied; the other two are of a buffer that is larger.
    let mut buffer = vec![b'x'; 65_536];
    let (mut ring, mut seq) = full(&buffer[..size]);
    bencher.counter(BytesCount::new(size)).bench_local(|| {
        seq += 1;
        ring.push(seq, Stream::Stdout, &mut buffer, size);
        ring.show(seq);
    });
}

/// What each chunk is looked up for that is sent again.
#[divan::bench(args = [64, 65_536])]
fn after(bencher: Bencher<'_, '_>, size: usize) {
    let (ring, seq) = full(&vec![b'x'; size]);
    bencher.bench_local(|| ring.after(seq - 1).count());
}
