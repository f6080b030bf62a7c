//! The arguments of a launch as they are recorded: secrets masked, long ones cut.

use std::ops::Range;

use regex::Regex;
use serde::Serialize;
use sha2::{Digest as _, Sha256};

/// The longest argument that is recorded whole, bytes.
const MAX_BYTES: usize = 1024;

/// The most arguments that are recorded.
const MAX_ARGUMENTS: usize = 256;

const MASK: &str = "[redacted]";

/// The arguments.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Argv {
    argv: Vec<String>,
    /// Those that are cut.
    #[serde(rename = "argv_cut", skip_serializing_if = "Vec::is_empty")]
    cut: Vec<Cut>,
    /// How many there were, where some are left out.
    #[serde(rename = "argv_count", skip_serializing_if = "Option::is_none")]
    count: Option<usize>,
}

/// What is told of a cut argument. Both are taken after the masking: a hash must not give a short secret away.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Cut {
    index: usize,
    bytes: usize,
    sha256: String,
}

impl Argv {
    pub(crate) fn new(argv: &[String], patterns: &[Regex]) -> Argv {
        let mut out = Argv::default();
        for (index, mut argument) in redact(argv, patterns).into_iter().take(MAX_ARGUMENTS).enumerate() {
            if argument.len() > MAX_BYTES {
                let sha256 = Sha256::digest(&argument).iter().map(|byte| format!("{byte:02x}")).collect();
                out.cut.push(Cut { index, bytes: argument.len(), sha256 });
                argument.truncate(argument.floor_char_boundary(MAX_BYTES));
            }
            out.argv.push(argument);
        }
        out.count = (argv.len() > MAX_ARGUMENTS).then_some(argv.len());
        out
    }
}

/// Looks at the arguments joined by spaces, so that a pattern can tell `--token` from the argument behind it. A pattern
/// with a group masks what that group matched, another one all that it matched.
fn redact(argv: &[String], patterns: &[Regex]) -> Vec<String> {
    if patterns.is_empty() {
        return argv.to_vec();
    }
    let text = argv.join(" ");
    let mut secrets: Vec<Range<usize>> = patterns
        .iter()
        .flat_map(|pattern| pattern.captures_iter(&text))
        .filter_map(|found| found.get(1).or(found.get(0)).map(|part| part.range()))
        .filter(|range| !range.is_empty())
        .collect();
    secrets.sort_by_key(|range| range.start);
    let mut start = 0;
    let mut masked = Vec::with_capacity(argv.len());
    for argument in argv {
        let whole = start..start + argument.len();
        masked.push(mask(&text, &whole, &secrets));
        start = whole.end + 1;
    }
    masked
}

/// One argument without the secrets in it; those are in order and may overlap.
fn mask(text: &str, whole: &Range<usize>, secrets: &[Range<usize>]) -> String {
    let mut out = String::new();
    let mut at = whole.start;
    for secret in secrets.iter().filter(|secret| secret.start < whole.end && secret.end > whole.start) {
        let (start, end) = (secret.start.max(whole.start), secret.end.min(whole.end));
        if end <= at {
            continue;
        }
        if start >= at {
            out.push_str(&text[at..start]);
            out.push_str(MASK);
        }
        at = end;
    }
    out.push_str(&text[at..whole.end]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn argv(words: &[&str], patterns: &[&str]) -> Argv {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let patterns: Vec<Regex> = patterns.iter().map(|p| Regex::new(p).expect(p)).collect();
        Argv::new(&words, &patterns)
    }

    #[test]
    fn masking() {
        let masked = |words: &[&str], patterns: &[&str]| argv(words, patterns).argv;
        assert_eq!(masked(&["a", "b c"], &[]), ["a", "b c"]);
        assert_eq!(masked(&["curl", "-u", "me:pw"], &["me:pw"]), ["curl", "-u", "[redacted]"]);
        assert_eq!(
            masked(&["x", "--token", "s3cret", "y"], &[r"--token[= ](\S+)"]),
            ["x", "--token", "[redacted]", "y"]
        );
        assert_eq!(masked(&["--token=s3cret"], &[r"--token[= ](\S+)"]), ["--token=[redacted]"]);
        // Without a group the match goes as a whole, over as many arguments as it spans.
        assert_eq!(masked(&["--token", "s3cret", "y"], &[r"--token \S+"]), ["[redacted]", "[redacted]", "y"]);
        // Overlapping matches, an empty match, a character of several bytes.
        assert_eq!(masked(&["xabcdeéf"], &["abc", "cde", "z*"]), ["x[redacted]éf"]);
        assert_eq!(masked(&["", "aa", ""], &["a"]), ["", "[redacted][redacted]", ""]);
    }

    #[test]
    fn cutting() {
        let long = "é".repeat(MAX_BYTES);
        let cut = argv(&["a", &long], &[]);
        assert_eq!(cut.argv[1].len(), MAX_BYTES);
        assert_eq!((cut.cut.len(), cut.cut[0].index, cut.cut[0].bytes), (1, 1, 2 * MAX_BYTES));
        let sha256: String = Sha256::digest(&long).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(cut.cut[0].sha256, sha256);
        assert_eq!(cut.count, None);
        let many = argv(&["x"; MAX_ARGUMENTS + 1], &[]);
        assert_eq!((many.argv.len(), many.count), (MAX_ARGUMENTS, Some(MAX_ARGUMENTS + 1)));
    }

    #[test]
    fn a_secret_at_the_cut_is_masked_first() {
        let long = format!("{}secret", "x".repeat(MAX_BYTES - 3));
        let cut = argv(&[&long], &["secret"]);
        assert!(!cut.argv[0].contains("sec") && cut.cut[0].bytes == MAX_BYTES - 3 + MASK.len());
    }
}
