//! Medians, ratios of medians, and how far they spread over one run.

use std::ops::Range;

/// Groups of consecutive rounds whose figures make up the spread.
const GROUPS: usize = 5;

/// A figure, and the lowest and highest that parts of the run gave.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Measured {
    pub(crate) value: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

/// The median.
pub(crate) fn median(values: &[f64]) -> f64 {
    percentile(values, 50)
}

/// The value below which this percentage lies.
pub(crate) fn percentile(values: &[f64], percent: usize) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted[(sorted.len() * percent / 100).min(sorted.len() - 1)]
}

/// One figure of a sequence of rounds.
pub(crate) fn of(values: &[f64], figure: impl Fn(&[f64]) -> f64) -> Measured {
    measured(values.len(), |rounds| figure(&values[rounds]))
}

/// The ratio of two sequences that were measured in turns, as the ratio of one figure of each.
pub(crate) fn ratio_of(top: &[f64], bottom: &[f64], figure: impl Fn(&[f64]) -> f64) -> Measured {
    measured(top.len(), |rounds| figure(&top[rounds.clone()]) / figure(&bottom[rounds]))
}

/// The ratio of medians.
pub(crate) fn ratio(top: &[f64], bottom: &[f64]) -> Measured {
    ratio_of(top, bottom, median)
}

fn measured(rounds: usize, figure: impl Fn(Range<usize>) -> f64) -> Measured {
    let size = rounds.div_ceil(GROUPS);
    let parts = (0..rounds).step_by(size).map(|first| figure(first..(first + size).min(rounds)));
    let (low, high) =
        parts.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), part| (low.min(part), high.max(part)));
    Measured { value: figure(0..rounds), low, high }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_of_medians_and_spreads_over_the_groups() {
        let bottom = [1.0; 10];
        let top = [2.0, 2.0, 2.0, 2.0, 3.0, 3.0, 2.0, 2.0, 1.0, 1.0];
        assert_eq!(ratio(&top, &bottom), Measured { value: 2.0, low: 1.0, high: 3.0 });
        assert_eq!(of(&[5.0], median), Measured { value: 5.0, low: 5.0, high: 5.0 });
        assert_eq!(percentile(&[1.0, 2.0, 3.0, 4.0], 99), 4.0);
    }
}
