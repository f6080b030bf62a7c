//! Links that one launch leaves for those after it: in a home that may be written to, as the chart's is, and in the
//! place of a root. What the next launch may do must not follow from where they lead.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::json;

use super::arena::{Conditions, filled, launch, said, unconfined};
use super::report::{Cell, Report, Row};
use crate::{Client, Scratch, Server, programs};

/// Who plants: it may write.
const PLANTER: &str = "workspaceWriteNoNetwork";
/// Those that read files as a policy says; `none` has no policy to be bent.
const READERS: [&str; 3] = ["readOnly", PLANTER, "workspaceWrite"];

/// One link, and what is tried behind it.
struct Plant {
    name: &'static str,
    /// Where it leads, and where it lies.
    link: [&'static str; 2],
    /// What the next launch tries, which needs that the link was followed.
    attack: &'static str,
}

const PLANTS: &[Plant] = &[
    Plant { name: "planted: ~/.cache to /", link: ["/", "{home}/.cache"], attack: "read {outside}/secret" },
    Plant { name: "planted: ~/.local to /, list it", link: ["/", "{home}/.local"], attack: "list /" },
    Plant {
        name: "planted: ~/.cargo to a directory",
        link: ["{outside}", "{home}/.cargo"],
        attack: "read {home}/.cargo/secret",
    },
    Plant {
        name: "planted: ~/.gitconfig to a file",
        link: ["{outside}/secret", "{home}/.gitconfig"],
        attack: "read {outside}/secret",
    },
];

/// Links by protected names, to what the next launch needs.
const TAKEN: &[Plant] = &[
    Plant {
        name: "planted: ~/.ssh to the workspace",
        link: ["{workspace}", "{home}/.ssh"],
        attack: "read {workspace}/file",
    },
    Plant { name: "planted: ~/.aws to /usr", link: ["/usr", "{home}/.aws"], attack: "read {workspace}/file" },
];

/// The rows, each with a link of its own.
pub async fn rows(conditions: &Conditions, wanted: &impl Fn(&str) -> bool, report: &mut Report) {
    const ROOT: &str = "planted: a write root to outside";
    if !PLANTS.iter().chain(TAKEN).map(|plant| plant.name).chain([ROOT]).any(wanted) {
        return;
    }
    let mut ground = Ground::start(conditions).await;
    for plant in PLANTS.iter().filter(|plant| wanted(plant.name)) {
        report.add(&ground.gives_nothing(plant).await);
    }
    for plant in TAKEN.iter().filter(|plant| wanted(plant.name)) {
        report.add(&ground.takes_nothing(plant).await);
    }
    if wanted(ROOT) {
        report.add(&ground.root(ROOT).await);
    }
}

/// A server with a home, and a directory of the workspace, as roots to write to.
struct Ground {
    server: Server,
    client: Client,
    places: BTreeMap<&'static str, String>,
    launches: u32,
}

impl Ground {
    async fn start(conditions: &Conditions) -> Self {
        let scratch = Scratch::new();
        let (workspace, outside) = (scratch.workspace(), scratch.outside());
        fs::copy(programs::hostile(), workspace.join("hostile")).unwrap();
        fs::write(workspace.join("file"), "content").unwrap();
        fs::write(outside.join("secret"), "content").unwrap();
        let root = workspace.join("root");
        fs::create_dir(&root).unwrap();
        let home = scratch.home();
        let places = [("home", &home), ("outside", &outside), ("workspace", &workspace)];
        let places = places.map(|(name, at)| (name, at.display().to_string())).into();
        let builder = conditions.builder(scratch).arg("--ceiling").arg("workspaceWrite");
        let server = builder.arg("--write-root").arg(home).arg("--write-root").arg(root).start();
        let client = Client::open(&server).await;
        Self { server, client, places, launches: 0 }
    }

    fn fill(&self, words: &str) -> Vec<String> {
        filled(&self.places, words).unwrap()
    }

    /// What the hostile program says in a launch; or why there is none.
    async fn launch(&mut self, words: &str, profile: &str) -> String {
        self.launches += 1;
        let (words, process) = (self.fill(words), format!("planted-{}", self.launches));
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let hostile = self.server.workspace().join("hostile");
        match self.client.call("process/start", launch(&hostile, &words, &process, profile)).await {
            Ok(_) => said(&self.client.finish(&process).await),
            Err(error) => format!("no launch: {}", error["message"]),
        }
    }

    /// What the hostile program says without the sandbox.
    fn control(&self, words: &str) -> Cell {
        let hostile = self.server.workspace().join("hostile");
        match unconfined(&hostile, &self.fill(words), "/tmp").as_str() {
            "ok" => Cell::good("ok"),
            seen => Cell::bad(seen),
        }
    }

    /// How `fs/readFile` fails, by its errno; `ok` where it does not.
    async fn read_file(&mut self, path: &Path, profile: &str) -> String {
        let params = json!({"path": path, "sandbox": {"mode": profile}});
        match self.client.call("fs/readFile", params).await {
            Ok(_) => "ok".into(),
            Err(error) => error["data"]["errno"].to_string(),
        }
    }

    /// Neither a launch nor an operation on files gets behind it.
    async fn gives_nothing(&mut self, plant: &Plant) -> Row {
        let [target, at] = plant.link;
        let planted = self.launch(&format!("plant {target} {at}"), PLANTER).await;
        // The way by the link, which is there without the sandbox.
        let control = match planted.as_str() {
            "ok" => self.control(plant.attack),
            _ => Cell::bad(format!("not planted: {planted}")),
        };
        let secret = self.server.scratch().outside().join("secret");
        let mut cells = Vec::new();
        for (column, profile) in READERS.into_iter().enumerate() {
            let seen = self.launch(plant.attack, profile).await;
            let (there, inside) =
                (self.read_file(&secret, profile).await, self.fill("{workspace}/file").remove(0));
            let inside = self.read_file(Path::new(&inside), profile).await;
            let eacces = libc::EACCES.to_string();
            cells.push((
                column,
                match (seen.as_str(), there == eacces, inside.as_str()) {
                    ("EACCES", true, "ok") => Cell::good("EACCES"),
                    _ => Cell::bad(format!("{seen}, fs/readFile: {there} outside, {inside} inside")),
                },
            ));
        }
        self.uproot(plant);
        Row::about(plant.name, "EACCES", &cells, control)
    }

    /// What it leads to is still there for the next launch. The control is that launch without the link.
    async fn takes_nothing(&mut self, plant: &Plant) -> Row {
        let before = self.launch(plant.attack, PLANTER).await;
        let [target, at] = plant.link;
        let planted = self.launch(&format!("plant {target} {at}"), PLANTER).await;
        let mut cells = Vec::new();
        for (column, profile) in READERS.into_iter().enumerate() {
            let seen = self.launch(plant.attack, profile).await;
            cells.push((column, if seen == "ok" { Cell::good(seen) } else { Cell::bad(seen) }));
        }
        self.uproot(plant);
        let control = match (before.as_str(), planted.as_str()) {
            ("ok", "ok") => Cell::good("ok"),
            _ => Cell::bad(format!("{before} before; planted: {planted}")),
        };
        Row::about(plant.name, "ok", &cells, control)
    }

    /// A root that was replaced: nothing is launched until it is a directory again.
    async fn root(&mut self, name: &str) -> Row {
        let planted = self.launch("plant {outside} {workspace}/root", PLANTER).await;
        let control = match planted.as_str() {
            "ok" => self.control("append {workspace}/root/secret"),
            _ => Cell::bad(format!("not planted: {planted}")),
        };
        let mut seen = Vec::new();
        for profile in READERS {
            seen.push(self.launch("append {workspace}/root/secret", profile).await);
        }
        let root = self.server.workspace().join("root");
        fs::remove_file(&root).unwrap();
        fs::create_dir(&root).unwrap();
        let mut cells = Vec::new();
        for (column, (seen, profile)) in seen.into_iter().zip(READERS).enumerate() {
            let refused = seen.starts_with("no launch") && seen.contains("symlink");
            let after = self.launch("read {workspace}/file", profile).await;
            cells.push((
                column,
                match (refused, after.as_str()) {
                    (true, "ok") => Cell::good("no launch"),
                    _ => Cell::bad(format!("{seen}; without the link {after}")),
                },
            ));
        }
        Row::about(name, "no launch", &cells, control)
    }

    /// By the test itself: whatever came of the attack, the next row begins without it.
    fn uproot(&self, plant: &Plant) {
        let at = self.fill(plant.link[1]).remove(0);
        let _ = fs::remove_file(at);
    }
}
