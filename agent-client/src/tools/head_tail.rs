//! Output of bounded size: the head and the tail of a stream, and how much is between them. No character is split.

use std::collections::VecDeque;

/// The first and the last bytes of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeadTail {
    limit: usize,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    /// What was between them.
    omitted_bytes: u64,
    omitted_lines: u64,
}

impl HeadTail {
    /// Keeps `limit` bytes, half of them of the head.
    pub fn new(limit: usize) -> Self {
        Self { limit, head: Vec::new(), tail: VecDeque::new(), omitted_bytes: 0, omitted_lines: 0 }
    }

    /// Adds what the stream goes on with.
    pub fn push(&mut self, bytes: &[u8]) {
        let room = if self.tail.is_empty() { (self.limit / 2).saturating_sub(self.head.len()) } else { 0 };
        let (head, rest) = bytes.split_at(room.min(bytes.len()));
        self.head.extend(head);
        self.tail.extend(rest);
        let over = self.tail.len().saturating_sub(self.limit - self.limit / 2);
        self.omit(over);
    }

    /// Leaves out the first `count` bytes of the tail.
    fn omit(&mut self, count: usize) {
        let lines = self.tail.drain(..count).filter(|byte| *byte == b'\n').count();
        self.omitted_bytes += count as u64;
        self.omitted_lines += lines as u64;
    }

    /// All that the stream had.
    pub fn total_bytes(&self) -> u64 {
        self.omitted_bytes + (self.head.len() + self.tail.len()) as u64
    }

    /// What is left out.
    pub fn omitted_bytes(&self) -> u64 {
        self.omitted_bytes
    }

    /// The stream, where nothing is left out.
    pub fn complete(&self) -> Option<Vec<u8>> {
        (self.omitted_bytes == 0).then(|| self.head.iter().chain(&self.tail).copied().collect())
    }

    /// Takes what there is; what comes next starts anew. A character of which only the first bytes have come stays for
    /// then, unless this is the end.
    #[must_use]
    pub fn take(&mut self, is_end: bool) -> Self {
        let mut taken = std::mem::replace(self, Self::new(self.limit));
        let mut last: Vec<u8> = taken.head.iter().chain(&taken.tail).rev().take(3).copied().collect();
        last.reverse();
        let begun = if is_end { 0 } else { begun(&last) };
        for byte in last.iter().skip(last.len() - begun) {
            if taken.tail.pop_back().is_none() {
                taken.head.pop();
            }
            self.push(&[*byte]);
        }
        taken
    }

    /// The same stream within fewer bytes.
    #[must_use]
    pub fn shortened(mut self, limit: usize) -> Self {
        if self.omitted_bytes == 0 && self.head.len() + self.tail.len() <= limit {
            return self;
        }
        let (head, tail) = (limit / 2, limit - limit / 2);
        if self.head.len() > head {
            // What the head gives up is the start of what is between.
            for byte in self.head.drain(head..).rev() {
                self.tail.push_front(byte);
            }
        }
        let over = self.tail.len().saturating_sub(tail);
        self.omit(over);
        self.limit = limit;
        self
    }

    /// As text: the head, a line that counts what is left out, the tail. Bytes that are no UTF-8 become U+FFFD.
    pub fn to_text(&self) -> String {
        if let Some(all) = self.complete() {
            return String::from_utf8_lossy(&all).into_owned();
        }
        let head = &self.head[..self.head.len() - begun(&self.head)];
        let tail: Vec<u8> = self.tail.iter().copied().collect();
        // The rest of a character that began in what is left out.
        let torn = tail.iter().take(3).take_while(|byte| **byte & 0xc0 == 0x80).count();
        let bytes = self.omitted_bytes + (self.head.len() - head.len() + torn) as u64;
        let mut text = String::from_utf8_lossy(head).into_owned();
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text += &format!("[... {} lines, {bytes} bytes left out ...]\n", self.omitted_lines);
        text + &String::from_utf8_lossy(&tail[torn..])
    }
}

/// How many bytes at the end are the start of a character whose rest is missing.
fn begun(bytes: &[u8]) -> usize {
    for back in 1..=bytes.len().min(3) {
        let byte = bytes[bytes.len() - back];
        let length = match byte {
            0x80..=0xbf => continue,
            0xc2..=0xdf => 2,
            0xe0..=0xef => 3,
            0xf0..=0xf4 => 4,
            _ => 1,
        };
        return if length > back { back } else { 0 };
    }
    0
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What a torn character would become.
    const TORN: char = '\u{fffd}';

    #[test]
    fn what_fits_is_all_there() {
        let mut output = HeadTail::new(10);
        output.push(b"12345");
        output.push(b"67890");
        assert_eq!((output.to_text().as_str(), output.omitted_bytes()), ("1234567890", 0));
    }

    #[test]
    fn the_middle_is_counted() {
        let mut output = HeadTail::new(10);
        output.push(b"first\n");
        output.push(b"2\n3\n4\n");
        output.push(b"last\n");
        assert_eq!(output.to_text(), "first\n[... 4 lines, 7 bytes left out ...]\nlast\n");
        assert_eq!(output.total_bytes(), 17);
    }

    #[test]
    fn shortening_counts_what_was_left_out_before() {
        let mut output = HeadTail::new(20);
        output.push("0123456789".repeat(4).as_bytes());
        let short = output.shortened(4);
        assert_eq!(short.to_text(), "01\n[... 0 lines, 36 bytes left out ...]\n89");
        assert_eq!(short.total_bytes(), 40);
    }

    #[test]
    fn a_character_that_has_begun_waits_for_its_rest() {
        let mut output = HeadTail::new(100);
        output.push(b"a\xe2\x98");
        assert_eq!(output.take(false).to_text(), "a");
        output.push(b"\x95b");
        assert_eq!(output.take(false).to_text(), "\u{2615}b");
        output.push(b"c\xe2\x98");
        assert_eq!(output.take(true).to_text(), "c\u{fffd}", "nothing will come");
        output.push(b"\xff");
        assert_eq!(output.take(false).to_text(), "\u{fffd}", "it begins no character");
    }

    proptest! {
        #[test]
        fn no_character_is_split(
            text in "[a☕é𝄞\n]{0,200}", cuts in proptest::collection::vec(1usize..9, 1..40), limit in 0usize..60,
        ) {
            let mut output = HeadTail::new(usize::MAX);
            let mut seen = String::new();
            let (mut rest, mut cuts) = (text.as_bytes(), cuts.into_iter().cycle());
            while !rest.is_empty() {
                let (now, later) = rest.split_at(cuts.next().unwrap_or(1).min(rest.len()));
                output.push(now);
                rest = later;
                seen += &output.take(rest.is_empty()).to_text();
            }
            prop_assert_eq!(&seen, &text);
            let mut short = HeadTail::new(limit);
            for chunk in text.as_bytes().chunks(3) {
                short.push(chunk);
            }
            prop_assert_eq!(short.to_text().matches(TORN).count(), 0);
            prop_assert_eq!(short.total_bytes(), text.len() as u64);
            let mut long = HeadTail::new(1000);
            long.push(text.as_bytes());
            prop_assert_eq!(long.shortened(limit).to_text().matches(TORN).count(), 0);
        }
    }
}
