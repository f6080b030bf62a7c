//! A session against a reference: whatever is asked, in whatever order, over however many connections, the answers and the
//! events are those that a model of a few lines foretells.
//!
//! The operations are drawn from a fixed seed. With `MODEL_CASES` set, that many cases are drawn at random; what fails is
//! kept in `model.regressions`, and comes first from then on.

mod drive;
mod reference;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, FileFailurePersistence, RngAlgorithm, TestRng, TestRunner};

use self::drive::Drive;
use self::reference::{Kind, SLOTS};

/// Cases of an ordinary run.
const CASES: u32 = 24;

/// One thing that a client, or its network, does. The first number says to which process.
#[derive(Debug, Clone)]
pub(crate) enum Op {
    Start(usize, Kind),
    /// Twice under one id, where that is true.
    Write(usize, Vec<u8>, bool),
    CloseStdin(usize),
    /// Start, write and close at once, without waiting for answers.
    Burst(usize, Vec<u8>),
    Read(usize),
    Acknowledge(usize),
    Interrupt(usize),
    Terminate(usize),
    Resize(usize, u16),
    List,
    /// The connection is lost; the client comes back.
    Reconnect,
    /// Somebody else wants the session while its client is there.
    Rival,
    /// The same while its client is silent.
    TakeOver,
}

/// How a case ends.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Ending {
    /// The client ends its session.
    Ended,
    /// It stays away.
    Expired,
    /// The server goes.
    Shutdown,
}

fn op() -> impl Strategy<Value = Op> {
    let slot = || 0..SLOTS;
    let bytes = || vec(any::<u8>(), 1..2000);
    prop_oneof![
        8 => (slot(), Kind::any()).prop_map(|(slot, kind)| Op::Start(slot, kind)),
        8 => (slot(), bytes(), any::<bool>()).prop_map(|(slot, bytes, twice)| Op::Write(slot, bytes, twice)),
        2 => slot().prop_map(Op::CloseStdin),
        2 => (slot(), bytes()).prop_map(|(slot, bytes)| Op::Burst(slot, bytes)),
        4 => slot().prop_map(Op::Read),
        4 => slot().prop_map(Op::Acknowledge),
        1 => slot().prop_map(Op::Interrupt),
        2 => slot().prop_map(Op::Terminate),
        2 => (slot(), 0..3u16).prop_map(|(slot, rows)| Op::Resize(slot, rows)),
        2 => Just(Op::List),
        4 => Just(Op::Reconnect),
        2 => Just(Op::Rival),
    ]
}

fn ending() -> impl Strategy<Value = Ending> {
    prop_oneof![Just(Ending::Ended), Just(Ending::Expired), Just(Ending::Shutdown)]
}

/// A silent client costs two seconds, so there is one in few cases.
fn case() -> impl Strategy<Value = (Vec<Op>, Ending)> {
    let ops = (vec(op(), 1..25), vec(op(), 0..5), 0..6);
    let ops = ops.prop_map(|(mut ops, rest, silent)| {
        if silent == 0 {
            ops.push(Op::TakeOver);
        }
        ops.extend(rest);
        ops
    });
    (ops, ending())
}

#[test]
fn a_session_does_what_the_model_says() {
    let more = std::env::var("MODEL_CASES").ok().and_then(|cases| cases.parse().ok());
    let persistence = FileFailurePersistence::WithSource("regressions");
    let config = Config {
        cases: more.unwrap_or(CASES),
        failure_persistence: Some(Box::new(persistence)),
        source_file: Some(file!()),
        max_shrink_iters: 200,
        ..Config::default()
    };
    let mut runner = match more {
        Some(_) => TestRunner::new(config),
        None => TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha)),
    };
    let outcome = runner.run(&case(), |(ops, ending)| {
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        runtime.block_on(async {
            let mut drive = Drive::start(ending).await;
            for op in ops {
                drive.take(op).await;
            }
            drive.end(ending).await;
        });
        Ok(())
    });
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
}
