//! `explain`: which rights each path gets under a profile, and from which rules.

use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use sandbox_sidecar::config::Config;
use serde_json::{Value, json};
use sidecar_sandbox::{Access, Explanation, Request, Sandbox};

/// What is explained where no path is given, beside the places of the config.
const USUAL: [&str; 8] = ["/", "/etc", "/usr", "/proc", "/tmp", "/run", "/dev/null", "/dev/shm"];

/// The answer for each path.
pub(crate) struct Answer {
    profile: String,
    network: String,
    explanations: Vec<(PathBuf, Explanation)>,
}

/// Under the config's default profile. Relative paths are relative to the current directory.
pub(crate) fn explain(config: Config, paths: Vec<PathBuf>) -> anyhow::Result<Answer> {
    let paths = if paths.is_empty() { usual(&config) } else { paths };
    let sandbox = Sandbox::start(config.sandbox)?;
    let prepared = sandbox.prepare(&Request::Default)?;
    let cwd = std::env::current_dir().context("the current directory")?;
    let explanations =
        paths.into_iter().map(|path| (path.clone(), prepared.explain(&cwd.join(path)))).collect();
    let receipt = prepared.receipt();
    Ok(Answer { profile: receipt.profile.clone(), network: receipt.network.to_string(), explanations })
}

fn usual(config: &Config) -> Vec<PathBuf> {
    let roots = &config.sandbox.roots;
    let own = [&roots.workspace].into_iter().chain(&roots.home).map(PathBuf::as_path);
    let own = own.chain(roots.writable(&config.sandbox.profiles));
    let other = roots.read_roots.iter().chain(&roots.protected).map(PathBuf::as_path);
    let mut paths: Vec<PathBuf> =
        own.chain(other).map(Path::to_owned).chain(USUAL.map(PathBuf::from)).collect();
    let mut seen = std::collections::HashSet::new();
    paths.retain(|path| seen.insert(path.clone()));
    paths
}

impl Answer {
    pub(crate) fn to_json(&self) -> Value {
        let path = |(asked, explanation): &(PathBuf, Explanation)| {
            let Access { read, list, execute, write } = explanation.access;
            let rule = |rule: &sidecar_sandbox::Rule| json!({ "layer": rule.layer, "tree": rule.tree, "grant": rule.grant, "from": rule.from });
            json!({
                "path": asked,
                "resolved": explanation.path,
                "access": { "read": read, "list": list, "execute": execute, "write": write },
                "rules": explanation.rules.iter().map(rule).collect::<Vec<_>>(),
            })
        };
        json!({ "profile": self.profile, "network": self.network, "paths": self.explanations.iter().map(path).collect::<Vec<_>>() })
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "profile {}; r read, l list, x execute, w write", self.profile)?;
        writeln!(f, "network {}", self.network)?;
        for (asked, explanation) in &self.explanations {
            let Access { read, list, execute, write } = explanation.access;
            let letters = [(read, 'r'), (list, 'l'), (execute, 'x'), (write, 'w')];
            let rights: String = letters.map(|(has, letter)| if has { letter } else { '-' }).iter().collect();
            write!(f, "{rights}  {}", asked.display())?;
            if *asked != explanation.path {
                write!(f, " -> {}", explanation.path.display())?;
            }
            writeln!(f)?;
            for rule in &explanation.rules {
                let layer = if rule.layer == 0 { "ceiling" } else { "profile" };
                writeln!(f, "        {layer}: {} {} by {}", rule.grant, rule.tree.display(), rule.from)?;
            }
            if explanation.rules.is_empty() && !read {
                writeln!(f, "        no rule covers it")?;
            }
        }
        Ok(())
    }
}
