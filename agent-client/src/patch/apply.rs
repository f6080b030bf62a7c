//! Hunks, applied to a text. A hunk's lines are looked for below the one before it: as they are, and then with less and less
//! regard for white space and for the shapes of quotes and dashes, which models change without meaning to. Lines that stay
//! are left as the file has them.

use super::{Hunk, Line};

/// A hunk that does not apply.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("hunk {number} (line {at} of the patch) does not apply: {why}")]
pub struct Misfit {
    /// Which hunk of the file, from 1.
    pub number: usize,
    /// Where it starts in the patch, from 1.
    pub at: usize,
    /// What is not there, and what is in its stead.
    pub why: String,
}

/// The text with its hunks applied. Line ends are kept: where the text has CRLF, so has what is added.
///
/// # Errors
/// [`Misfit`]: the first hunk whose lines are not there.
pub fn apply(text: &str, hunks: &[Hunk]) -> Result<String, Misfit> {
    let mut file = File::new(text);
    let mut edits = Vec::with_capacity(hunks.len());
    // Where the next hunk is looked for.
    let mut from = 0;
    for (index, hunk) in hunks.iter().enumerate() {
        let misfit = |why| Misfit { number: index + 1, at: hunk.at, why };
        for context in &hunk.context {
            let found = file.find(&[context], from, false);
            from = found.ok_or_else(|| misfit(file.missing(&[context], from, false)))? + 1;
        }
        let old = hunk.old();
        let at = if old.is_empty() {
            if hunk.context.is_empty() || hunk.is_end_of_file { file.lines.len() } else { from }
        } else {
            file.find(&old, from, hunk.is_end_of_file)
                .ok_or_else(|| misfit(file.missing(&old, from, hunk.is_end_of_file)))?
        };
        from = at + old.len();
        edits.push((at, hunk));
    }
    // From the bottom up, so that the places above stay where they are.
    for (at, hunk) in edits.into_iter().rev() {
        file.edit(at, hunk);
    }
    Ok(file.into_text())
}

struct File<'a> {
    lines: Vec<std::borrow::Cow<'a, str>>,
    /// What a new line ends with.
    is_crlf: bool,
    /// Whether the last line has an end.
    is_ended: bool,
}

impl<'a> File<'a> {
    fn new(text: &'a str) -> Self {
        let mut lines: Vec<_> = text.split('\n').map(std::borrow::Cow::Borrowed).collect();
        let is_ended = lines.last().is_some_and(|last| last.is_empty());
        if is_ended {
            lines.pop();
        }
        let is_crlf = text.contains("\r\n") && text.matches("\r\n").count() * 2 > lines.len();
        Self { lines, is_crlf, is_ended: is_ended || text.is_empty() }
    }

    /// Where these lines are, at `from` or below, or at the very end.
    fn find(&self, wanted: &[&(impl AsRef<str> + ?Sized)], from: usize, is_end: bool) -> Option<usize> {
        let last = self.lines.len().checked_sub(wanted.len())?;
        let from = if is_end { from.max(last) } else { from };
        LIKENESSES.iter().find_map(|like| {
            (from..=last).find(|at| {
                wanted.iter().zip(&self.lines[*at..]).all(|(wanted, line)| like(wanted.as_ref(), line))
            })
        })
    }

    /// What to tell of lines that are not there: the line up to which the best candidate agrees.
    fn missing(&self, wanted: &[&(impl AsRef<str> + ?Sized)], from: usize, is_end: bool) -> String {
        let agree = |at: usize| {
            let pairs = wanted.iter().zip(&self.lines[at..]);
            pairs
                .take_while(|(wanted, line)| LIKENESSES.iter().any(|like| like(wanted.as_ref(), line)))
                .count()
        };
        let best = (0..self.lines.len())
            .map(|at| (agree(at), at))
            .max_by_key(|(count, at)| (*count, usize::MAX - at));
        match best {
            Some((count, at)) if count == wanted.len() && is_end => format!(
                "its lines are at line {} of the file, which is not its end; leave \"*** End of File\" out",
                at + 1
            ),
            Some((count, at)) if count == wanted.len() && at < from => format!(
                "its lines are at line {} of the file, above the place where the hunk before it ends; \
                 order the hunks from the top down",
                at + 1
            ),
            Some((count, at)) if count > 0 => {
                let line = at + count;
                let is = self
                    .lines
                    .get(line)
                    .map_or_else(|| "the end of the file".to_owned(), |l| format!("{l:?}"));
                let expected = wanted.get(count).map_or("", |wanted| wanted.as_ref());
                format!(
                    "line {} of the file is {is}, where the hunk has {expected:?}; read the file again and \
                     repeat its lines as they are",
                    line + 1
                )
            }
            _ => format!(
                "no line of the file is {:?}; read the file again and repeat its lines as they are",
                wanted.first().map_or("", |wanted| wanted.as_ref())
            ),
        }
    }

    fn edit(&mut self, at: usize, hunk: &Hunk) {
        let end = at + hunk.old().len();
        // What comes to stand at the end has a line end, as text files do.
        self.is_ended |= end == self.lines.len() && !matches!(hunk.lines.last(), Some(Line::Keep(_)));
        let mut old = self.lines.splice(at..end, []).collect::<Vec<_>>().into_iter();
        let mut new = Vec::with_capacity(hunk.lines.len());
        for line in &hunk.lines {
            match line {
                Line::Keep(_) => new.extend(old.next()),
                Line::Remove(_) => drop(old.next()),
                Line::Add(text) => {
                    let text = text.strip_suffix('\r').unwrap_or(text);
                    new.push(format!("{text}{}", if self.is_crlf { "\r" } else { "" }).into());
                }
            }
        }
        // A last line without an end gets it before another one follows.
        if at == self.lines.len() && at > 0 && self.is_crlf && !self.lines[at - 1].ends_with('\r') {
            self.lines[at - 1].to_mut().push('\r');
        }
        self.lines.splice(at..at, new);
    }

    fn into_text(self) -> String {
        let mut text = self.lines.join("\n");
        if self.is_ended && !self.lines.is_empty() {
            text.push('\n');
        }
        text
    }
}

/// Whether a line of a hunk is a line of the file, the strictest first.
const LIKENESSES: [fn(&str, &str) -> bool; 4] = [
    |wanted, line| wanted == line,
    |wanted, line| wanted.trim_end() == line.trim_end(),
    |wanted, line| wanted.trim() == line.trim(),
    |wanted, line| wanted.trim().chars().map(plain).eq(line.trim().chars().map(plain)),
];

/// The ASCII character that a typographic one stands for.
fn plain(character: char) -> char {
    match character {
        '\u{2010}'..='\u{2015}' | '\u{2212}' => '-',
        '\u{2018}'..='\u{201b}' => '\'',
        '\u{201c}'..='\u{201f}' => '"',
        '\u{a0}' | '\u{2002}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}' => ' ',
        other => other,
    }
}

#[cfg(test)]
mod tests;
