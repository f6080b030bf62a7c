//! Links, commands and flags of the docs lead somewhere.
#![expect(clippy::unwrap_used, reason = "a test")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use e2e::programs;

const REPOSITORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Flags of other programs that the docs name alone, in backquotes.
const OF_OTHERS: &[&str] = &[
    // Cargo's, Helm's, the image builder's and Claude Code's.
    "--features",
    "--scope",
    "--set",
    "--target",
    "--token",
    // The stock server's, which docs/config.md translates.
    "--ws-auth",
    "--ws-shared-secret-file",
    "--ws-issuer",
    "--ws-audience",
    "--ws-max-clock-skew-seconds",
    "--ws-token-file",
    "--ws-token-sha256",
];

/// All pages, by their paths from the repository.
fn pages() -> BTreeMap<PathBuf, String> {
    let mut waiting = vec![PathBuf::from("docs"), PathBuf::from("deploy")];
    let mut files: Vec<_> =
        ["README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"]
            .map(PathBuf::from)
            .into();
    while let Some(directory) = waiting.pop() {
        for entry in fs::read_dir(Path::new(REPOSITORY).join(&directory)).unwrap() {
            let entry = entry.unwrap();
            let path = directory.join(entry.file_name());
            if entry.file_type().unwrap().is_dir() {
                waiting.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                files.push(path);
            }
        }
    }
    assert!(files.len() > 20, "{files:?}");
    let read = |path: PathBuf| (path.clone(), fs::read_to_string(Path::new(REPOSITORY).join(path)).unwrap());
    files.into_iter().map(read).collect()
}

/// The lines of a page, each with whether it is in a fenced block.
fn lines(page: &str) -> Vec<(bool, &str)> {
    let mut is_code = false;
    let mut lines = Vec::new();
    for line in page.lines() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else {
            lines.push((is_code, line));
        }
    }
    lines
}

/// What is in single backquotes on a line of text, and the line without it.
fn spans(line: &str) -> (Vec<&str>, String) {
    let pieces: Vec<_> = line.split('`').collect();
    let code = pieces.iter().skip(1).step_by(2).copied().collect();
    let text = pieces.iter().step_by(2).copied().collect::<Vec<_>>().join("``");
    (code, text)
}

/// The targets of the links on a line.
fn links(text: &str) -> Vec<&str> {
    text.split("](").skip(1).filter_map(|rest| rest.split(')').next()).collect()
}

/// The name that a heading has in a link.
fn slug(heading: &str) -> String {
    let kept = heading.trim().to_lowercase();
    let kept = kept.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

fn anchors(page: &str) -> BTreeSet<String> {
    let headings = lines(page).into_iter().filter(|(is_code, line)| !is_code && line.starts_with('#'));
    headings.map(|(_, line)| slug(line.trim_start_matches('#'))).collect()
}

#[test]
fn every_link_leads_somewhere() {
    let pages = pages();
    let (mut checked, mut bad) = (0, Vec::new());
    for (path, page) in &pages {
        for (_, line) in lines(page).into_iter().filter(|(is_code, _)| !is_code) {
            for link in links(&spans(line).1) {
                checked += 1;
                if let Some(rest) = link.strip_prefix("https://") {
                    let host = rest.split('/').next().unwrap_or_default();
                    if !host.contains('.') || rest.contains(char::is_whitespace) {
                        bad.push(format!("{}: {link} is no address", path.display()));
                    }
                    continue;
                }
                let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
                let target = if file.is_empty() { path.clone() } else { path.parent().unwrap().join(file) };
                let place = Path::new(REPOSITORY).join(&target);
                if !place.exists() {
                    bad.push(format!("{}: {link} is not there", path.display()));
                } else if !anchor.is_empty() && !anchors(&fs::read_to_string(place).unwrap()).contains(anchor)
                {
                    bad.push(format!("{}: {link} has no such heading", path.display()));
                }
            }
        }
    }
    assert!(checked > 100, "{checked}");
    assert!(bad.is_empty(), "{bad:#?}");
}

#[test]
fn the_book_has_every_page() {
    let summary = fs::read_to_string(Path::new(REPOSITORY).join("docs/SUMMARY.md")).unwrap();
    let listed: BTreeSet<_> =
        summary.lines().flat_map(links).map(|link| Path::new("docs").join(link)).collect();
    let pages: BTreeSet<_> = pages().into_keys().filter(|path| path.starts_with("docs")).collect();
    let missing: Vec<_> = pages.difference(&listed).filter(|path| !path.ends_with("SUMMARY.md")).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// The flags of a program's commands, by command; those of the program itself are under "".
struct Helps(BTreeMap<(&'static str, String), BTreeSet<String>>);

impl Helps {
    fn read() -> Self {
        let mut helps = BTreeMap::new();
        for (name, program) in
            [("agent-client", programs::agent_client()), ("sandbox-sidecar", programs::sandbox_sidecar())]
        {
            let top = help(&program, &["--help"]);
            let commands = top.split("Commands:\n").nth(1).unwrap().split("\n\n").next().unwrap();
            let commands = commands.lines().filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
            for command in commands.filter(|command| !command.is_empty()) {
                helps.insert((name, command.to_owned()), flags(&help(&program, &[command, "--help"])));
            }
            helps.insert((name, String::new()), flags(&top));
        }
        Self(helps)
    }

    fn commands(&self, program: &str) -> impl Iterator<Item = &str> {
        self.0.keys().filter(move |(name, _)| *name == program).map(|(_, command)| command.as_str())
    }

    /// Whether any command of either program has the flag.
    fn any(&self, flag: &str) -> bool {
        self.0.values().any(|flags| flags.contains(flag))
    }
}

fn help(program: &Path, args: &[&str]) -> String {
    String::from_utf8(Command::new(program).args(args).output().unwrap().stdout).unwrap()
}

/// Both forms of each flag that a help text lists.
fn flags(help: &str) -> BTreeSet<String> {
    let words = help.split(|c: char| c.is_whitespace() || matches!(c, ',' | '[' | ']' | '=' | '|'));
    words.filter(|word| word.starts_with('-') && word.len() > 1).map(ToOwned::to_owned).collect()
}

/// What is wrong with a command line of one of the programs.
fn complaint(helps: &Helps, program: &'static str, words: &[&str]) -> Option<String> {
    let clean = |word: &str| {
        word.trim_matches(|c| matches!(c, '[' | ']' | '(' | ')' | '"' | '\'' | ',' | ';' | '.' | '|'))
            .to_owned()
    };
    let words: Vec<_> = words.iter().map(|word| clean(word)).collect();
    let command = words.first().filter(|word| word.starts_with(|c: char| c.is_ascii_lowercase()));
    let command = match command {
        Some(word) if helps.commands(program).any(|known| known == word) => word.clone(),
        Some(word) if word.chars().all(|c| c.is_ascii_lowercase() || c == '-') => {
            return Some(format!("{program} has no command {word:?}"));
        }
        _ => String::new(),
    };
    let flags = &helps.0[&(program, command.clone())];
    // All arguments of this one are another program's.
    if command == "sh" {
        return None;
    }
    for word in words.iter().take_while(|word| *word != "--") {
        let flag = word.split(['=', '…']).next().unwrap_or_default();
        let known = match flag.strip_prefix('-') {
            None | Some("") => true,
            Some(long) if long.starts_with('-') => flags.contains(flag),
            Some(short) => {
                short.chars().all(|c| !c.is_ascii_alphabetic() || flags.contains(&format!("-{c}")))
            }
        };
        if !known {
            return Some(format!("{program} {command} has no flag {flag}"));
        }
    }
    None
}

/// The command lines of the two programs in a piece of code.
fn command_lines(code: &str) -> Vec<(&'static str, Vec<&str>)> {
    let mut found = Vec::new();
    let words: Vec<_> = code.split_whitespace().collect();
    for (at, word) in words.iter().enumerate() {
        let name = word.rsplit('/').next().unwrap_or_default().trim_start_matches(['(', '"']);
        let program = ["agent-client", "sandbox-sidecar"].into_iter().find(|program| *program == name);
        let Some(program) = program else { continue };
        // In front of it there is nothing, or the end of something: else it is an argument, or prose.
        let begins = at == 0
            || matches!(words[at - 1], "--" | "|" | "&&" | "exec" | "run:" | "…")
            || words[at - 1].ends_with(';')
            || words[at - 1].contains('=');
        if begins {
            let rest = &words[at + 1..];
            let end = rest.iter().position(|word| matches!(*word, "|" | "&&" | "||" | "#" | ">" | "<" | "→"));
            found.push((program, rest[..end.unwrap_or(rest.len())].to_vec()));
        }
    }
    found
}

#[test]
fn every_command_and_flag_exists() {
    let helps = Helps::read();
    let (mut checked, mut bad) = (0, Vec::new());
    for (path, page) in pages() {
        let mut check = |code: &str| {
            for (program, words) in command_lines(code) {
                checked += 1;
                bad.extend(
                    complaint(&helps, program, &words)
                        .map(|why| format!("{}: {why}: {code}", path.display())),
                );
            }
        };
        let mut named = Vec::new();
        for (is_code, line) in lines(&page) {
            if is_code {
                check(line);
                continue;
            }
            for span in spans(line).0 {
                check(span);
                let flag = span.split([' ', '=', '[']).next().unwrap_or_default();
                if flag.starts_with("--") && flag.len() > 2 {
                    named.push(flag.to_owned());
                }
            }
        }
        for flag in named {
            checked += 1;
            if !helps.any(&flag) && !OF_OTHERS.contains(&flag.as_str()) {
                bad.push(format!("{}: no program has {flag}", path.display()));
            }
        }
    }
    assert!(checked > 100, "{checked}");
    assert!(bad.is_empty(), "{bad:#?}");
}

#[test]
fn every_make_target_exists() {
    let makefile = fs::read_to_string(Path::new(REPOSITORY).join("Makefile")).unwrap();
    let targets: BTreeSet<_> =
        makefile.lines().filter_map(|line| line.split_once(" ## ")?.0.split(':').next()).collect();
    let named = |page: &str| -> Vec<String> {
        let mut named = Vec::new();
        for (is_code, line) in lines(page) {
            let codes = if is_code { vec![line] } else { spans(line).0 };
            let made = codes.into_iter().filter_map(|code| code.strip_prefix("make "));
            let targets = made.filter_map(|rest| rest.split_whitespace().next());
            named.extend(targets.filter(|target| !target.starts_with('-')).map(ToOwned::to_owned));
        }
        named
    };
    let (mut checked, mut bad) = (0, Vec::new());
    for (path, page) in pages() {
        for target in named(&page) {
            checked += 1;
            if !targets.contains(target.as_str()) {
                bad.push(format!("{}: make {target}", path.display()));
            }
        }
    }
    assert!(checked > 10 && bad.is_empty(), "{checked} {bad:#?}");
}
