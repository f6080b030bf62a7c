//! The words by which commands tell that something was denied to them, found in output as fast as it passes.

use std::collections::BTreeMap;
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

/// The same with fragments that are more frequent in text and, as two words share one, fewer: 32 spellings in all, up to
/// which vector instructions look at twice as many bytes at once.
const FEWER: [(&str, usize); 7] = {
    let mut words = WORDS;
    // "and", in "sandbox" and in "landlock".
    (words[4].1, words[5].1) = (1, 1);
    words
};

/// Output with a fragment in more bytes than this is text, for which the rare ones are better.
const CALM: usize = 4 << 10;

/// Bytes of a fragment.
const FRAGMENT: usize = 3;

/// The longest of the words, bytes.
pub(super) const LONGEST: usize = WORDS[0].0.len();

/// Looks for the fragments, each in every case: so few and so short that vector instructions find them. To look for the
/// words themselves takes ten times as long.
struct Search {
    fragments: AhoCorasick,
    /// By pattern, the words and where the fragment is in them.
    words: Vec<Vec<(&'static str, usize)>>,
}

static RARE: LazyLock<Option<Search>> = LazyLock::new(|| Search::new(WORDS));
static FEW: LazyLock<Option<Search>> = LazyLock::new(|| Search::new(FEWER));

/// Where the words are in a text, in whatever case, in the order of the text.
pub(super) fn find(text: &[u8]) -> impl Iterator<Item = Range<usize>> {
    RARE.as_ref().into_iter().flat_map(move |search| search.find(text))
}

/// Looks at output that most likely says nothing, in the way that was better for what came before it.
#[derive(Debug, Default)]
pub(super) struct Glance {
    is_text: bool,
}

impl Glance {
    /// Whether any of the words is in the output.
    pub(super) fn says_any(&mut self, output: &[u8]) -> bool {
        let search = if self.is_text { &RARE } else { &FEW };
        let mut candidates = 0;
        let says_any = search.as_ref().is_some_and(|search| {
            let mut found = search.candidates(output).inspect(|_| candidates += 1);
            found.any(|(at, words)| words.iter().any(|word| range(output, at, *word).is_some()))
        });
        self.is_text = candidates * CALM > output.len();
        says_any
    }
}

impl Search {
    fn new(words: [(&'static str, usize); 7]) -> Option<Search> {
        let mut by_fragment = BTreeMap::<Vec<u8>, Vec<_>>::new();
        for (word, at) in words {
            for fragment in cases(&word.as_bytes()[at..at + FRAGMENT]) {
                by_fragment.entry(fragment).or_default().push((word, at));
            }
        }
        let (fragments, words): (Vec<_>, Vec<_>) = by_fragment.into_iter().unzip();
        // Of the kinds of matches, the one for which it uses vector instructions.
        let fragments = AhoCorasick::builder().match_kind(MatchKind::LeftmostFirst).build(fragments).ok()?;
        Some(Search { fragments, words })
    }

    /// Where the fragments are, and the words that have them.
    fn candidates<'a>(
        &'a self,
        text: &'a [u8],
    ) -> impl Iterator<Item = (usize, &'a [(&'static str, usize)])> + 'a {
        self.fragments.find_iter(text).map(|found| (found.start(), &*self.words[found.pattern().as_usize()]))
    }

    fn find<'a>(&'a self, text: &'a [u8]) -> impl Iterator<Item = Range<usize>> + 'a {
        self.candidates(text)
            .flat_map(move |(at, words)| words.iter().filter_map(move |word| range(text, at, *word)))
    }
}

/// Where a word is whose fragment is at `found`.
fn range(text: &[u8], found: usize, (word, at): (&str, usize)) -> Option<Range<usize>> {
    let start = found.checked_sub(at)?;
    let range = start..start + word.len();
    text.get(range.clone())?.eq_ignore_ascii_case(word.as_bytes()).then_some(range)
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

    #[test]
    fn what_came_before_decides_how_to_look() {
        let spellings = FEW.as_ref().expect("it is built").fragments.patterns_len();
        assert_eq!(spellings, 32, "what the library has room for in a vector");
        let mut glance = Glance::default();
        let text = "and so on, ".repeat(CALM);
        assert!(!glance.says_any(text.as_bytes()) && glance.is_text);
        assert!(!glance.says_any(&[0; CALM]) && !glance.is_text);
        assert!(glance.says_any(b"sandbox") && glance.is_text);
        assert!(glance.says_any(b"Permission denied") && glance.says_any(b"LandLock"));
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
            prop_assert_eq!(&found, &there);
            for is_text in [false, true] {
                prop_assert_eq!(Glance { is_text }.says_any(text.as_bytes()), !there.is_empty());
            }
        }
    }
}
