//! Every act of fs/*, ten thousand times each, while somebody swaps what it acts on for a symlink that leads outside.
//!
//! The acts go through names that lead inside at one moment and outside at the next. Nothing outside may be touched or
//! told, whatever the moment. How often an act met the one or the other is counted, and a test goes on until it has met
//! both: a race that nobody ran shows nothing.

mod swapper;

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use serde_json::Value;
use sidecar_sandbox::Profile;

use self::swapper::Swapper;
use crate::acts::{Act, Aside, WRITTEN, outcome};
use crate::common::{Client, Fixture, encode};
use crate::escapes::ground::{SECRET, assert_untold, furnish, picture};

/// Calls of each act.
const ROUNDS: usize = 10_000;

/// Acts that are under way at a time; a connection may have 64 watches, and 128 requests in flight.
const AT_A_TIME: usize = 24;

/// What the names lead to. The same names are there inside and outside.
const NAMES: [&str; 7] =
    ["door/secret", "leaf", "door", "door/below", "door/new", "door/below/secret", "view/exe"];

/// How often an act must have been let in, and refused, before its race counts.
const ENOUGH: usize = 100;

/// How often an act was let in, or refused.
#[derive(Debug, Default)]
struct Met {
    done: usize,
    refused: usize,
}

impl Met {
    fn is_enough(&self, act: Act) -> bool {
        self.done >= ENOUGH && (self.refused >= ENOUGH || !act.is_refused_outside())
    }
}

async fn race(act: Act) {
    let fixture = Fixture::start().await;
    let mut client = fixture.client().await;
    furnish(&fixture.outside(""));
    let arena = fixture.ws("arena");
    let swapper = Swapper::start(&arena, &fixture.outside(""));
    let outside = picture(&fixture.outside(""));
    let asides: Vec<Aside> = (0..AT_A_TIME).map(|slot| aside(&fixture.ws("aside"), slot)).collect();
    let mut met = Met::default();
    let mut under_way: VecDeque<(PathBuf, Vec<i64>)> = VecDeque::new();
    let mut round = 0;
    while round < ROUNDS || !met.is_enough(act) {
        assert!(round < 20 * ROUNDS, "{act:?} does not meet both: {met:?} at {} swaps", swapper.turns());
        if under_way.len() == AT_A_TIME {
            settle(&mut client, act, under_way.pop_front(), &mut met).await;
        }
        let aside = &asides[round % AT_A_TIME];
        renew(act, aside);
        let path = arena.join(NAMES[round % NAMES.len()]);
        // Now and then on a thread of its own.
        let mode = (round % 16 == 0).then_some("workspaceWrite");
        under_way.push_back((path.clone(), act.send(&mut client, &path, aside, round, mode).await));
        round += 1;
        if round % 1000 == 0 {
            assert_eq!(
                picture(&fixture.outside("")),
                outside,
                "{act:?}: outside was touched by round {round}"
            );
        }
    }
    while let Some(last) = under_way.pop_front() {
        settle(&mut client, act, Some(last), &mut met).await;
    }
    let turns = swapper.stop();
    assert_eq!(picture(&fixture.outside("")), outside, "{act:?}: outside was touched");
    for place in ["arena", "aside"] {
        for (path, (_, content)) in picture(&fixture.ws(place)) {
            assert_untold(&String::from_utf8_lossy(&content), &path.display());
        }
    }
    println!("{act:?}: {round} rounds, {turns} swaps; {met:?}");
}

/// Takes the outcome of one round.
async fn settle(client: &mut Client, act: Act, round: Option<(PathBuf, Vec<i64>)>, met: &mut Met) {
    let Some((path, ids)) = round else { return };
    let outcome = outcome(client, ids).await;
    let what = format!("{act:?} on {}: {outcome:?}", path.display());
    assert_untold(&format!("{outcome:?}"), &what);
    while client.has_notifications() {
        let notification = client.notification().await;
        assert_untold(&notification.to_string(), &what);
    }
    match outcome {
        Ok(_) => met.done += 1,
        Err(error) => {
            let code = error["code"].as_i64().expect("a code");
            assert!([-32600, -32603, -32004].contains(&code), "{what}");
            met.refused += usize::from(is_denied(&error));
        }
    }
}

/// Whether the kernel has kept it from going outside.
fn is_denied(error: &Value) -> bool {
    error["data"]["kind"] == "permissionDenied" || error["data"]["errno"] == 18
}

impl Act {
    /// A launch may stat everywhere, and so may these.
    fn is_refused_outside(self) -> bool {
        !matches!(self, Act::GetMetadata | Act::Canonicalize | Act::WatchMissing)
    }
}

fn aside(dir: &Path, slot: usize) -> Aside {
    let at = |name: &str| dir.join(format!("{name}-{slot}"));
    std::fs::create_dir_all(at("tree").join("below")).expect("made");
    std::fs::write(at("tree").join("secret"), "from inside").expect("written");
    let aside = Aside { file: at("file"), tree: at("tree"), free: at("free") };
    std::fs::write(&aside.file, "from inside").expect("written");
    aside
}

/// What an earlier round may have used up.
fn renew(act: Act, aside: &Aside) {
    match act {
        Act::RenameTo => std::fs::write(&aside.file, "from inside").expect("written"),
        Act::CopyFrom | Act::RenameFrom => {
            // Whichever it was.
            let _ = std::fs::remove_file(&aside.free);
            let _ = std::fs::remove_dir_all(&aside.free);
        }
        _ => {}
    }
}

/// Positive control: where nothing is enforced, the same races are lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_sandbox_the_race_is_lost() {
    let fixture = Fixture::with(|config| {
        (config.sandbox.default, config.sandbox.ceiling) = (Profile::None, Profile::None);
    })
    .await;
    let mut client = fixture.client().await;
    furnish(&fixture.outside(""));
    let arena = fixture.ws("arena");
    let _swapper = Swapper::start(&arena, &fixture.outside(""));
    let aside = aside(&fixture.ws("aside"), 0);
    let path = arena.join("door/secret");
    let is_told = |read: Value| read[0]["dataBase64"] == encode(SECRET);
    loop {
        let ids = Act::ReadFile.send(&mut client, &path, &aside, 0, None).await;
        if outcome(&mut client, ids).await.is_ok_and(is_told) {
            break;
        }
    }
    while std::fs::read_to_string(fixture.outside("dir/secret")).expect("read") != WRITTEN {
        let ids = Act::WriteFile.send(&mut client, &path, &aside, 0, None).await;
        let _ = outcome(&mut client, ids).await;
    }
}

/// A test for each act, and none forgotten.
macro_rules! races {
    ($($test:ident: $act:ident),+ $(,)?) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                race(Act::$act).await;
            }
        )+

        #[test]
        fn every_act_has_its_race() {
            assert_eq!([$(Act::$act),+], Act::ALL);
        }
    };
}

races![
    read_file: ReadFile,
    write_file: WriteFile,
    create_directory: CreateDirectory,
    get_metadata: GetMetadata,
    read_directory: ReadDirectory,
    remove: Remove,
    copy_from: CopyFrom,
    copy_to: CopyTo,
    copy_tree_to: CopyTreeTo,
    rename_from: RenameFrom,
    rename_to: RenameTo,
    canonicalize: Canonicalize,
    walk: Walk,
    open_read: OpenRead,
    open_replace: OpenReplace,
    create_symlink: CreateSymlink,
    watch: Watch,
    watch_missing: WatchMissing,
];
