use proptest::prelude::*;

use super::super::{Change, parse};
use super::*;

/// The hunks of an update, as a model writes them.
fn hunks(text: &str) -> Vec<Hunk> {
    let patch = parse(&format!("*** Begin Patch\n*** Update File: f\n{text}\n*** End Patch")).unwrap();
    let Some(Change::Update { hunks, .. }) = patch.changes.into_iter().next() else { panic!("no update") };
    hunks
}

fn applied(text: &str, patch: &str) -> String {
    apply(text, &hunks(patch)).unwrap_or_else(|misfit| panic!("{misfit}"))
}

#[test]
fn lines_that_are_there() {
    let text = "a\nb\nc\nb\nd\n";
    for (patch, expected) in [
        ("-b\n+x", "a\nx\nc\nb\nd\n"),
        ("@@ c\n-b\n+x", "a\nb\nc\nx\nd\n"),
        (" c\n-b\n+x\n+y", "a\nb\nc\nx\ny\nd\n"),
        ("@@\n-a\n@@\n-d", "b\nc\nb\n"),
        ("+end", "a\nb\nc\nb\nd\nend\n"),
        ("@@ a\n+after a", "a\nafter a\nb\nc\nb\nd\n"),
        ("@@ b\n@@ b\n-d\n+D", "a\nb\nc\nb\nD\n"),
        (" b\n d\n+e\n*** End of File", "a\nb\nc\nb\nd\ne\n"),
    ] {
        assert_eq!(applied(text, patch), expected, "{patch}");
    }
    assert_eq!(applied("x\ny\nx\n", "-x\n*** End of File"), "x\ny\n", "the last one");
    assert_eq!(applied("", "+first"), "first\n");
    assert_eq!(applied("a\n", "-a"), "");
}

#[test]
fn what_stays_is_as_the_file_has_it() {
    assert_eq!(applied("\tif x:   \n\t\told\n", " if x:\n-    old\n+\t\tnew"), "\tif x:   \n\t\tnew\n");
    assert_eq!(
        applied("say \u{201c}hi\u{201d} \u{2014} now\nold\n", " say \"hi\" - now\n-old\n+new"),
        "say \u{201c}hi\u{201d} \u{2014} now\nnew\n"
    );
    assert_eq!(applied("a\r\nb\r\n", " a\n-b\n+c\n+d"), "a\r\nc\r\nd\r\n");
    assert_eq!(applied("a\nb", "-a\n+x"), "x\nb", "no line end is added where nothing was touched");
    assert_eq!(applied("a\nb", " b\n+c"), "a\nb\nc\n");
}

#[test]
fn a_misfit_says_where_and_what() {
    let text = "fn main() {\n    one();\n    two();\n}\n";
    for (patch, number, expected) in [
        ("-nothing\n+x", 1, "no line of the file is \"nothing\""),
        (
            " fn main() {\n-    one(1);",
            1,
            "line 2 of the file is \"    one();\", where the hunk has \"    one(1);\"",
        ),
        ("-    two();\n@@\n-    one();", 2, "line 2 of the file, above"),
        ("@@ fn other() {\n-    one();", 1, "no line of the file is \"fn other() {\""),
        (" }\n-more", 1, "line 5 of the file is the end of the file"),
        ("-    one();\n*** End of File", 1, "is not its end"),
    ] {
        let misfit = apply(text, &hunks(patch)).unwrap_err();
        assert_eq!(misfit.number, number, "{misfit}");
        assert!(misfit.to_string().contains(expected), "{patch}: {misfit}");
    }
}

/// Lines that differ from one another, so that each has one place.
fn text() -> impl Strategy<Value = Vec<String>> {
    proptest::collection::btree_set("[a-z]{1,6}", 1..20).prop_map(|lines| lines.into_iter().collect())
}

/// For each line: whether it goes, and what comes before it.
fn edits(lines: usize) -> impl Strategy<Value = Vec<(bool, Vec<String>)>> {
    proptest::collection::vec((any::<bool>(), proptest::collection::vec("[A-Z]{1,6}", 0..3)), lines)
}

fn joined(lines: &[String]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

proptest! {
    /// A hunk over the whole file, written from what is to become of each line, comes to just that.
    #[test]
    fn any_edit((lines, edits) in text().prop_flat_map(|lines| { let count = lines.len(); (Just(lines), edits(count)) })) {
        let mut hunk = Hunk { at: 1, ..Hunk::default() };
        let mut expected = Vec::new();
        for (line, (goes, before)) in lines.iter().zip(&edits) {
            hunk.lines.extend(before.iter().cloned().map(Line::Add));
            expected.extend(before.iter().cloned());
            if *goes {
                hunk.lines.push(Line::Remove(line.clone()));
            } else {
                hunk.lines.push(Line::Keep(line.clone()));
                expected.push(line.clone());
            }
        }
        prop_assert_eq!(apply(&joined(&lines), &[hunk]).unwrap(), joined(&expected));
    }

    /// One hunk per line that changes is the same as all at once.
    #[test]
    fn many_hunks((lines, edits) in text().prop_flat_map(|lines| { let count = lines.len(); (Just(lines), edits(count)) })) {
        let mut hunks = Vec::new();
        let mut expected = Vec::new();
        for (line, (goes, _)) in lines.iter().zip(&edits) {
            if *goes {
                let lines = vec![Line::Remove(line.clone()), Line::Add(line.to_uppercase())];
                hunks.push(Hunk { at: 1, lines, ..Hunk::default() });
                expected.push(line.to_uppercase());
            } else {
                expected.push(line.clone());
            }
        }
        prop_assert_eq!(apply(&joined(&lines), &hunks).unwrap(), joined(&expected));
    }

    /// What does not fit is refused, and nothing panics.
    #[test]
    fn any_text_and_any_patch(text in "[ab\\r\\n\\t é]{0,40}", patch in "[-+ @*ab\\n]{0,40}") {
        if let Ok(patch) = parse(&format!("*** Begin Patch\n*** Update File: f\n{patch}\n*** End Patch"))
            && let Some(Change::Update { hunks, .. }) = patch.changes.first()
        {
            let _ = apply(&text, hunks);
        }
    }

    /// Only what is removed goes: every other line of the file is still there, in order.
    #[test]
    fn nothing_else_is_lost(lines in text(), at in any::<prop::sample::Index>()) {
        let at = at.index(lines.len());
        let hunk = Hunk { at: 1, lines: vec![Line::Remove(lines[at].clone())], ..Hunk::default() };
        let mut expected = lines.clone();
        expected.remove(at);
        prop_assert_eq!(apply(&joined(&lines), &[hunk]).unwrap(), joined(&expected));
    }
}
