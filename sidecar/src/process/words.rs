//! The words by which commands tell that something was denied to them, found in output as fast as it passes.

use std::ops::Range;
use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, MatchKind};

/// What commands say, in lower case; the same words that the stock server looks for. Beside each, where in it three bytes
/// begin that are rare in other text.
const WORDS: [(&str, usize); 7] = [
    ("operation not permitted", 8),
    ("permission denied", 9),
    ("read-only file system", 3),
    ("seccomp", 2),
    ("sandbox", 3),
    ("landlock", 3),
    ("failed to write file", 5),
];

/// Bytes of a fragment.
const FRAGMENT: usize = 3;

/// The longest of the words, bytes.
pub(super) const LONGEST: usize = WORDS[0].0.len();

/// Looks for the fragments, each in every case: so few and so short that vector instructions find them. To look for the
/// words themselves takes ten times as long.
struct Search {
    fragments: AhoCorasick,
    /// By pattern, the word and where the fragment is in it.
    words: Vec<(&'static str, usize)>,
}

static SEARCH: LazyLock<Option<Search>> = LazyLock::new(Search::new);

/// Where the words are in a text, in whatever case, in the order of the text.
pub(super) fn find(text: &[u8]) -> impl Iterator<Item = Range<usize>> {
    SEARCH.as_ref().into_iter().flat_map(move |search| search.find(text))
}

impl Search {
    fn new() -> Option<Search> {
        let variants = WORDS.into_iter().flat_map(|(word, at)| {
            cases(&word.as_bytes()[at..at + FRAGMENT]).into_iter().map(move |fragment| (fragment, (word, at)))
        });
        let (fragments, words): (Vec<_>, Vec<_>) = variants.unzip();
        // Of the kinds of matches, the one for which it uses vector instructions.
        let fragments = AhoCorasick::builder().match_kind(MatchKind::LeftmostFirst).build(fragments).ok()?;
        Some(Search { fragments, words })
    }

    fn find<'a>(&'a self, text: &'a [u8]) -> impl Iterator<Item = Range<usize>> + 'a {
        self.fragments.find_iter(text).filter_map(move |found| {
            let (word, at) = self.words[found.pattern().as_usize()];
            let start = found.start().checked_sub(at)?;
            let range = start..start + word.len();
            text.get(range.clone())?.eq_ignore_ascii_case(word.as_bytes()).then_some(range)
        })
    }
}

/// Every spelling in upper and lower case.
fn cases(lower: &[u8]) -> Vec<Vec<u8>> {
    lower.iter().fold(vec![Vec::new()], |spellings, byte| {
        let mut variants = vec![*byte, byte.to_ascii_uppercase()];
        variants.dedup();
        let longer = |spelling: &Vec<u8>, byte| [spelling.as_slice(), &[byte]].concat();
        spellings
            .iter()
            .flat_map(|spelling| variants.iter().map(move |byte| longer(spelling, *byte)))
            .collect()
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn each_word_is_found_in_any_case() {
        for (word, _) in WORDS {
            assert!(word.len() <= LONGEST);
            for text in [word.to_owned(), word.to_uppercase(), format!("n n d-o{word}d t")] {
                let at = text.to_lowercase().find(word).expect("it is there");
                assert!(find(text.as_bytes()).eq(std::iter::once(at..at + word.len())), "{text}");
            }
        }
    }

    proptest! {
        /// Pieces of the words in all kinds of order, against a search that is as simple as can be.
        #[test]
        fn what_is_found_is_what_is_there(pieces in proptest::collection::vec((0..WORDS.len(), 0..24usize, 0..24usize, any::<bool>()), 0..20)) {
            let piece = |(word, from, len, upper): (usize, usize, usize, bool)| {
                let word: String = WORDS[word].0.chars().skip(from / 4).take(len).collect();
                if upper { word.to_uppercase() } else { word }
            };
            let text: String = pieces.into_iter().map(piece).collect();
            let lower = text.to_lowercase();
            let mut there: Vec<_> = WORDS.iter().flat_map(|(word, _)| {
                lower.match_indices(word).map(|(at, _)| at..at + word.len())
            }).collect();
            let mut found: Vec<_> = find(text.as_bytes()).collect();
            found.sort_by_key(|range| (range.start, range.end));
            there.sort_by_key(|range| (range.start, range.end));
            prop_assert_eq!(found, there);
        }
    }
}
