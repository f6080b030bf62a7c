//! Every act of fs/* on everything that a launch may have planted, and on every place that it may not reach. What each
//! must answer is one table; that nothing outside was touched or told is looked at after each cell.
//!
//! The positive control is in the table: the rows of what is inside the policy, and [`ground`], which does outside with
//! the server's own rights what the acts must not be able to do.

pub(crate) mod ground;
mod sizes;

use self::ground::{Ground, assert_untold, picture};
use crate::acts::{Act, outcome};
use crate::common::Client;

/// `ok`: done, and an act that is to change something has done so. `same`: answered with a result, and nothing was
/// changed. A number: the code of the error without its -32, and nothing was changed. `-`: not tried, because it
/// belongs to the machine.
///
/// A hard link is the file that it names, wherever else that has a name: one that was there before may be acted on. No launch
/// makes one to what it may not write.
///
/// What only looks at a name (`stat`, `real`, `missing`, `mkdir` of what is there) tells as much of what lies outside as
/// a launch can learn by stat(2), which Landlock does not deny.
const TABLE: &str = "
thing         read write mkdir stat list remove copyFrom copyTo treeTo mvFrom mvTo real walk openR openW symlink watch missing
file          ok   ok    603   ok   004  ok     ok       ok     004    ok     ok   ok   004  ok    ok    ok      004   ok
dir           600  600   same  ok   ok   ok     ok       600    ok     ok     600  ok   ok   600   600   600     ok    ok
new           004  ok    ok    004  004  same   004      ok     ok     004    ok   004  004  004   ok    ok      004   ok
odd-name      ok   ok    603   ok   004  ok     ok       ok     004    ok     ok   ok   004  ok    ok    ok      004   ok
link-inside   ok   ok    603   ok   004  ok     ok       ok     004    ok     ok   ok   004  ok    ok    ok      004   ok
hard-link     ok   ok    603   ok   004  ok     ok       ok     004    ok     ok   ok   004  ok    ok    ok      004   ok
link          600  600   603   ok   004  ok     ok       600    004    ok     ok   ok   004  600   600   ok      004   ok
relative-link 600  600   603   ok   004  ok     ok       600    004    ok     ok   ok   004  600   600   ok      004   ok
chain         600  600   603   ok   004  ok     ok       600    004    ok     ok   ok   004  600   600   ok      004   ok
through       600  600   603   ok   004  600    600      600    004    600    600  ok   004  600   600   600     004   ok
through-new   004  600   600   004  004  same   004      600    600    004    600  004  004  004   600   600     004   ok
link-to-dir   600  600   same  ok   600  ok     ok       600    004    ok     ok   ok   600  600   600   ok      600   ok
dangling      004  600   603   004  004  ok     ok       004    004    ok     ok   004  004  004   600   ok      004   ok
absolute      600  600   603   ok   004  600    600      600    004    600    600  ok   004  600   600   600     004   ok
absolute-dir  600  600   same  ok   600  600    600      600    600    600    600  ok   600  600   600   600     600   ok
dotdot        600  600   603   ok   004  600    600      600    004    600    600  ok   004  600   600   600     004   ok
state         600  600   603   ok   004  600    600      600    004    600    600  ok   004  600   600   600     004   ok
state-dir     600  600   same  ok   600  600    600      600    600    600    600  ok   600  600   600   600     600   ok
protected     600  600   603   ok   004  600    600      600    004    600    600  ok   004  600   600   600     004   ok
protected-dir 600  600   same  ok   600  ok     ok       600    004    ok     ok   ok   600  600   600   ok      600   ok
readable      ok   600   603   ok   004  600    ok       600    004    600    600  ok   004  ok    600   600     004   ok
readable-dir  600  600   same  ok   ok   600    ok       600    600    600    600  ok   ok   600   600   600     ok    ok
fifo          600  600   603   ok   004  ok     600      600    004    ok     ok   ok   004  600   600   ok      004   ok
device        600  600   603   ok   004  ok     600      600    004    600    ok   ok   004  600   600   ok      004   ok
socket        600  600   603   ok   004  ok     600      600    004    ok     ok   ok   004  600   600   ok      004   ok
proc-environ  600  600   603   ok   004  600    600      600    600    600    600  600  004  600   600   600     004   ok
proc-dir      600  600   same  ok   600  600    600      600    600    600    600  600  600  600   600   600     600   ok
proc-root     600  600   603   600  600  600    600      600    600    600    600  600  600  600   600   600     600   ok
proc-exe      600  600   603   600  600  600    600      600    600    600    600  600  600  600   600   600     600   ok
proc-fd       600  600   603   600  600  600    600      600    600    600    600  600  600  600   600   600     600   ok
sys           600  600   603   ok   004  600    600      600    600    600    600  600  004  600   600   600     004   ok
sys-dir       600  600   same  ok   600  600    600      600    600    600    600  600  600  600   600   600     600   ok
dev-zero      600  600   603   ok   004  ok     ok       600    004    ok     ok   ok   004  600   600   ok      004   ok
dev-dir       600  600   same  ok   600  -      600      600    600    -      -    ok   600  600   600   -       600   ok
";

/// What one cell must be, by the table.
fn rows() -> impl Iterator<Item = (&'static str, Vec<&'static str>)> {
    TABLE.trim().lines().skip(1).map(|line| {
        let mut words = line.split_whitespace();
        let thing = words.next().expect("a thing");
        let cells: Vec<&str> = words.collect();
        assert_eq!(cells.len(), Act::ALL.len(), "{line}");
        (thing, cells)
    })
}

/// Tries one cell, and describes what came of it.
async fn cell(ground: &mut Ground, client: &mut Client, thing: &str, act: Act, mode: Option<&str>) -> String {
    let (here, aside) = ground.here();
    let Some(path) = ground.plant(thing, &here) else { return String::from("-") };
    let before = (picture(&here), ground.untouchable());
    let ids = act.send(client, &path, &aside, 1, mode).await;
    let outcome = outcome(client, ids).await;
    let after = (picture(&here), ground.untouchable());
    let what = format!("{act:?} on {thing} ({}): {outcome:?}", path.display());
    assert_eq!(before.1, after.1, "{what}: something outside has changed");
    assert_untold(&format!("{outcome:?}"), &what);
    for (_, content) in after.0.values() {
        assert_untold(&String::from_utf8_lossy(content), &what);
    }
    let is_changed = before.0 != after.0;
    match outcome {
        Ok(_) if is_changed == act.changes() => String::from("ok"),
        Ok(_) if !is_changed => String::from("same"),
        Ok(_) => String::from("changed"),
        Err(error) => {
            let code = error["code"].as_i64().expect("a code").rem_euclid(1000) as u64;
            assert!(error["data"]["path"].is_string() || error["data"]["kind"].is_string(), "{what}");
            format!("{:03}{}", 1000 - code, if is_changed { "*" } else { "" })
        }
    }
}

async fn whole_table(mode: Option<&str>) {
    let mut ground = Ground::start().await;
    let mut client = ground.fixture.client().await;
    for (thing, wanted) in rows() {
        let mut seen = Vec::new();
        for (act, wanted) in Act::ALL.into_iter().zip(&wanted) {
            seen.push(match *wanted {
                "-" => String::from("-"),
                _ => cell(&mut ground, &mut client, thing, act, mode).await,
            });
        }
        if seen.iter().all(|cell| cell == "-") {
            let is_root = rustix::process::geteuid().is_root();
            assert!(thing == "sys" || thing == "device" && !is_root, "{thing} cannot be made");
            continue;
        }
        let wanted: Vec<String> = match mode {
            Some("readOnly") => {
                let cells = Act::ALL.into_iter().zip(&wanted).zip(&seen);
                cells.map(|((act, wanted), seen)| read_only(act, wanted, seen)).collect()
            }
            _ => wanted.iter().map(ToString::to_string).collect(),
        };
        assert_eq!(seen.join(" "), wanted.join(" "), "{thing}; the columns are {:?}", Act::ALL);
    }
}

/// What a cell must be where nothing may be written: as in the table, or denied. What is refused anyway may be denied
/// for this reason first.
fn read_only(act: Act, wanted: &str, seen: &str) -> String {
    let is_denied = act.changes() && (wanted == "ok" || seen == "600");
    String::from(if is_denied { "600" } else { wanted })
}

#[tokio::test]
async fn under_the_default_policy() {
    whole_table(None).await;
}

#[tokio::test]
async fn with_the_network() {
    whole_table(Some("workspaceWrite")).await;
}

#[tokio::test]
async fn on_a_thread_of_its_own() {
    whole_table(Some("workspaceWriteNoNetwork")).await;
}

#[tokio::test]
async fn read_only_changes_nothing() {
    whole_table(Some("readOnly")).await;
}
