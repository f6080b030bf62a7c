//! The text of a patch.

use std::path::PathBuf;

use super::{Change, Hunk, Line, Patch};

const BEGIN: &str = "*** Begin Patch";
const END: &str = "*** End Patch";
const ADD: &str = "*** Add File:";
const DELETE: &str = "*** Delete File:";
const UPDATE: &str = "*** Update File:";
const MOVE: &str = "*** Move to:";
const END_OF_FILE: &str = "*** End of File";

/// Why a text is no patch.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line} of the patch: {why}")]
pub struct ParseError {
    /// From 1.
    pub line: usize,
    /// What was found, and what was expected.
    pub why: String,
}

/// Reads a patch. What stands before its first line or after its last one must be blank, or the shell's here-document that
/// some models put it in.
///
/// # Errors
/// [`ParseError`] names the line.
pub fn parse(text: &str) -> Result<Patch, ParseError> {
    let mut lines = Lines::new(text);
    lines.skip_to_begin()?;
    let mut patch = Patch::default();
    loop {
        let Some((at, line)) = lines.next() else {
            return Err(lines.error(format!("the text ends here; expected \"{END}\" as the last line")));
        };
        let header = line.trim_end();
        if header == END {
            break;
        } else if let Some(path) = header.strip_prefix(ADD) {
            patch.changes.push(Change::Add { path: name(path, at)?, content: lines.content()? });
        } else if let Some(path) = header.strip_prefix(DELETE) {
            patch.changes.push(Change::Delete { path: name(path, at)? });
        } else if let Some(path) = header.strip_prefix(UPDATE) {
            patch.changes.push(lines.update(name(path, at)?, at)?);
        } else if !header.is_empty() {
            return Err(ParseError {
                line: at,
                why: format!(
                    "{header:?}; expected \"{ADD} PATH\", \"{DELETE} PATH\", \"{UPDATE} PATH\" or \"{END}\""
                ),
            });
        }
    }
    if patch.changes.is_empty() {
        return Err(lines.error("the patch names no file".to_owned()));
    }
    lines.expect_end()?;
    Ok(patch)
}

fn name(path: &str, line: usize) -> Result<PathBuf, ParseError> {
    let path = path.trim();
    if path.is_empty() {
        return Err(ParseError { line, why: "a path is missing".to_owned() });
    }
    Ok(PathBuf::from(path))
}

/// The lines that are left, with their numbers.
struct Lines<'a> {
    lines: Vec<&'a str>,
    next: usize,
}

impl<'a> Lines<'a> {
    fn new(text: &'a str) -> Self {
        Self { lines: text.split('\n').collect(), next: 0 }
    }

    fn next(&mut self) -> Option<(usize, &'a str)> {
        let line = *self.lines.get(self.next)?;
        self.next += 1;
        Some((self.next, line))
    }

    fn peek(&self) -> Option<&'a str> {
        self.lines.get(self.next).copied()
    }

    /// About the line that was read last.
    fn error(&self, why: String) -> ParseError {
        ParseError { line: self.next.max(1), why }
    }

    fn skip_to_begin(&mut self) -> Result<(), ParseError> {
        while let Some((_, line)) = self.next() {
            match line.trim() {
                BEGIN => return Ok(()),
                "" => {}
                line if line.contains("<<") => {}
                line => return Err(self.error(format!("{line:?}; expected \"{BEGIN}\" as the first line"))),
            }
        }
        Err(ParseError { line: 1, why: format!("no line is \"{BEGIN}\"") })
    }

    /// What follows the end: nothing, or the end of a here-document, which is one word.
    fn expect_end(&mut self) -> Result<(), ParseError> {
        let mut words = 0;
        while let Some((_, line)) = self.next() {
            words += usize::from(!line.trim().is_empty());
            if words > 1 || line.trim().contains(char::is_whitespace) {
                return Err(self.error(format!("{line:?} follows \"{END}\"; one call takes one patch")));
            }
        }
        Ok(())
    }

    /// The lines of a new file.
    fn content(&mut self) -> Result<String, ParseError> {
        let mut content = String::new();
        while let Some(line) = self.peek().filter(|line| !line.starts_with("*** ")) {
            self.next += 1;
            match line.strip_prefix('+') {
                Some(line) => {
                    content.push_str(line);
                    content.push('\n');
                }
                None if line.trim().is_empty() => {}
                None => {
                    return Err(self.error(format!("{line:?}; each line of a new file starts with \"+\"")));
                }
            }
        }
        Ok(content)
    }

    fn update(&mut self, path: PathBuf, at: usize) -> Result<Change, ParseError> {
        let mut move_to = None;
        if let Some(to) = self.peek().and_then(|line| line.strip_prefix(MOVE)) {
            self.next += 1;
            move_to = Some(name(to, self.next)?);
        }
        let mut hunks: Vec<Hunk> = Vec::new();
        // A header has been read whose lines are still to come.
        let mut is_open = false;
        while let Some(line) = self.peek() {
            if line.trim_end() == END_OF_FILE {
                self.next += 1;
                match hunks.last_mut().filter(|hunk| !hunk.lines.is_empty()) {
                    Some(hunk) => hunk.is_end_of_file = true,
                    None => return Err(self.error("no lines precede the end of the file".to_owned())),
                }
                is_open = false;
                continue;
            }
            if line.starts_with("*** ") {
                break;
            }
            self.next += 1;
            if let Some(context) = header(line) {
                if !is_open {
                    hunks.push(Hunk { at: self.next, ..Hunk::default() });
                    is_open = true;
                }
                if let (Some(hunk), Some(context)) = (hunks.last_mut(), context) {
                    hunk.context.push(context.to_owned());
                }
                continue;
            }
            let text = self.line(line)?;
            if hunks.is_empty() || hunks.last().is_some_and(|hunk| hunk.is_end_of_file) {
                hunks.push(Hunk { at: self.next, ..Hunk::default() });
            }
            if let Some(hunk) = hunks.last_mut() {
                hunk.lines.push(text);
            }
            is_open = false;
        }
        // A blank line before the next header belongs to no hunk.
        if let Some(hunk) = hunks.last_mut().filter(|hunk| !hunk.is_end_of_file) {
            while self.ends_blank(hunk) {
                hunk.lines.pop();
            }
        }
        if let Some(empty) = hunks.iter().find(|hunk| hunk.lines.is_empty()) {
            return Err(ParseError { line: empty.at, why: "the hunk has no lines".to_owned() });
        }
        if hunks.is_empty() && move_to.is_none() {
            return Err(ParseError { line: at, why: "the update has no hunk, and no new name".to_owned() });
        }
        Ok(Change::Update { path, move_to, hunks })
    }

    /// Whether the last line of a hunk is one without any mark, right before a header.
    fn ends_blank(&self, hunk: &Hunk) -> bool {
        let trailing = hunk.lines.iter().rev().take_while(|line| **line == Line::Keep(String::new())).count();
        trailing > 0
            && self.lines.get(self.next - trailing).is_some_and(|line| line.trim_end_matches('\r').is_empty())
    }

    fn line(&self, line: &str) -> Result<Line, ParseError> {
        let text = |from: usize| line[from..].to_owned();
        match line.as_bytes().first() {
            None => Ok(Line::Keep(String::new())),
            Some(b' ') => Ok(Line::Keep(text(1))),
            Some(b'-') => Ok(Line::Remove(text(1))),
            Some(b'+') => Ok(Line::Add(text(1))),
            Some(b'\r') if line.len() == 1 => Ok(Line::Keep(String::new())),
            Some(_) => Err(self.error(format!(
                "{line:?}; each line of a hunk starts with \" \" (stays), \"-\" (goes) or \"+\" (is new)"
            ))),
        }
    }
}

/// What a line that opens a hunk says of its place.
fn header(line: &str) -> Option<Option<&str>> {
    let line = line.trim_end();
    if line == "@@" {
        return Some(None);
    }
    let context = line.strip_prefix("@@ ")?;
    // A unified diff has "@@ -1,2 +1,3 @@ context" there.
    let context = match context.strip_prefix('-').and_then(|rest| rest.split_once(" @@")) {
        Some((_, context)) => context.trim_start(),
        None => context,
    };
    Some((!context.is_empty()).then_some(context))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_change() {
        let text = "*** Begin Patch\n*** Add File: a b\n+one\n+\n*** Delete File: d\n*** Update File: u\n*** Move to: v\n\
            @@ class A\n@@   def f():\n keep\n-old\n+new\n\n@@\n+end\n*** End of File\n*** Update File: w\n@@ -1,2 +1,2 @@ fn x\n-1\n*** End Patch\n";
        let keep = |text: &str| Line::Keep(text.to_owned());
        let patch = parse(text).unwrap();
        assert_eq!(patch.changes[0], Change::Add { path: "a b".into(), content: "one\n\n".into() });
        assert_eq!(patch.changes[1], Change::Delete { path: "d".into() });
        let Change::Update { path, move_to, hunks } = &patch.changes[2] else { panic!("{patch:?}") };
        assert_eq!((path.to_str(), move_to.as_deref().and_then(|p| p.to_str())), (Some("u"), Some("v")));
        assert_eq!(hunks[0].context, ["class A", "  def f():"]);
        let lines = [keep("keep"), Line::Remove("old".into()), Line::Add("new".into()), keep("")];
        assert_eq!((hunks[0].at, hunks[0].lines.as_slice()), (8, lines.as_slice()));
        assert!(hunks[1].is_end_of_file && hunks[1].context.is_empty());
        let Change::Update { hunks, .. } = &patch.changes[3] else { panic!("{patch:?}") };
        assert_eq!(hunks[0].context, ["fn x"]);
    }

    #[test]
    fn what_some_models_put_around_it() {
        let patch = "*** Begin Patch\n*** Delete File: d\n*** End Patch";
        for text in
            [patch.to_owned(), format!("\n{patch}\n\n"), format!("apply_patch <<'EOF'\n{patch}\nEOF\n")]
        {
            assert_eq!(parse(&text).unwrap().changes.len(), 1, "{text}");
        }
        let first = "*** Begin Patch\n*** Update File: u\n-old\n\n*** Delete File: d\n*** End Patch";
        let Change::Update { hunks, .. } = &parse(first).unwrap().changes[0] else { panic!() };
        assert_eq!(hunks[0].lines, [Line::Remove("old".into())], "the blank line is no context");
    }

    #[test]
    fn an_error_names_its_line() {
        for (text, line, expected) in [
            ("", 1, "*** Begin Patch"),
            ("hello", 1, "*** Begin Patch"),
            ("*** Begin Patch\n*** Delete File: d", 2, "*** End Patch"),
            ("*** Begin Patch\n*** End Patch", 2, "names no file"),
            ("*** Begin Patch\n*** Add File: a\nx\n*** End Patch", 3, "\"+\""),
            ("*** Begin Patch\n*** Update File: a\nx\n*** End Patch", 3, "starts with"),
            ("*** Begin Patch\n*** Update File: a\n*** End Patch", 2, "no hunk"),
            ("*** Begin Patch\n*** Update File: a\n@@ f\n*** End Patch", 3, "no lines"),
            ("*** Begin Patch\n*** Rename File: a\n*** End Patch", 2, "*** Update File: PATH"),
            ("*** Begin Patch\n*** Delete File: \n*** End Patch", 2, "a path is missing"),
            ("*** Begin Patch\n*** Delete File: d\n*** End Patch\n*** Begin Patch", 4, "one patch"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.why.contains(expected) && error.line == line, "{text:?}: {error}");
        }
    }
}
