//! Sets of completion indexes, written as `0,2-5,7`.

use std::{collections::BTreeSet, fmt};

/// Indexes as sorted, non-adjacent intervals.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Indexes(Vec<(i64, i64)>);

impl Indexes {
    /// Parses indexes below `completions`. Invalid parts are skipped.
    pub(super) fn parse(text: &str, completions: i64) -> Self {
        let mut intervals: Vec<(i64, i64)> = Vec::new();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let (first, last) = part.split_once('-').map_or((part, None), |(first, last)| (first, Some(last)));
            let Ok(first) = first.parse::<i64>() else { continue };
            if first >= completions {
                break;
            }
            let last = match last.map(str::parse::<i64>) {
                None => first,
                Some(Ok(last)) => last.min(completions - 1),
                Some(Err(_)) => continue,
            };
            match intervals.last_mut() {
                Some(before) if before.1 == first - 1 => before.1 = last,
                _ => intervals.push((first, last)),
            }
        }
        Self(intervals)
    }

    /// Adds indexes.
    pub(super) fn with(&self, indexes: &BTreeSet<i64>) -> Self {
        self.merged(&Self(indexes.iter().map(|index| (*index, *index)).collect()))
    }

    /// The union of two sets.
    pub(super) fn merged(&self, other: &Self) -> Self {
        let mut all: Vec<(i64, i64)> = self.0.iter().chain(&other.0).copied().collect();
        all.sort_unstable();
        let mut merged: Vec<(i64, i64)> = Vec::with_capacity(all.len());
        for (first, last) in all {
            match merged.last_mut() {
                Some(before) if first <= before.1 + 1 => before.1 = before.1.max(last),
                _ => merged.push((first, last)),
            }
        }
        Self(merged)
    }

    /// The number of indexes.
    pub(super) fn total(&self) -> i64 {
        self.0.iter().map(|(first, last)| last - first + 1).sum()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether an index is in the set.
    pub(super) fn has(&self, index: i64) -> bool {
        let place = self.0.partition_point(|(_, last)| *last < index);
        self.0.get(place).is_some_and(|(first, _)| *first <= index)
    }

    /// The size of the intersection with another set.
    pub(super) fn common(&self, other: &Self) -> i64 {
        let (mut count, mut here, mut there) = (0, 0, 0);
        while let (Some(one), Some(two)) = (self.0.get(here), other.0.get(there)) {
            count += (one.1.min(two.1) - one.0.max(two.0) + 1).max(0);
            if one.1 <= two.1 {
                here += 1;
            }
            if two.1 <= one.1 {
                there += 1;
            }
        }
        count
    }

    /// The first `count` indexes below `completions` that are not in the set.
    pub(super) fn first_absent(&self, count: usize, completions: i64) -> Vec<i64> {
        let mut absent = Vec::with_capacity(count.min(1024));
        let mut candidate = 0;
        for (first, last) in self.0.iter().copied().chain([(completions, completions)]) {
            while candidate < completions.min(first) && absent.len() < count {
                absent.push(candidate);
                candidate += 1;
            }
            candidate = candidate.max(last + 1);
        }
        absent
    }
}

impl fmt::Display for Indexes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, (first, last)) in self.0.iter().enumerate() {
            let comma = if place > 0 { "," } else { "" };
            match last - first {
                0 => write!(f, "{comma}{first}")?,
                1 => write!(f, "{comma}{first},{last}")?,
                _ => write!(f, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_are_parsed_and_formatted() {
        for (text, completions, expected) in [
            ("", 10, ""),
            ("0", 10, "0"),
            ("0,1", 10, "0,1"),
            ("0,1,2", 10, "0-2"),
            ("1-3,5,7-9", 10, "1-3,5,7-9"),
            ("1-3,5,7-9", 8, "1-3,5,7"),
            ("1-3,5,7-9", 5, "1-3"),
            ("a,2,4-b,5", 10, "2,5"),
        ] {
            assert_eq!(Indexes::parse(text, completions).to_string(), expected, "{text} of {completions}");
        }
    }

    #[test]
    fn sets_are_joined_and_compared() {
        let set = Indexes::parse("1-3,6", 100);
        assert_eq!(set.with(&[0, 4, 7, 9].into()).to_string(), "0-4,6,7,9");
        assert_eq!(set.merged(&Indexes::parse("2-7", 100)).to_string(), "1-7");
        assert_eq!((set.total(), set.has(0), set.has(2), set.has(4), set.has(6)), (4, false, true, false, true));
        for (other, common) in [("", 0), ("0-10", 4), ("3-6", 2), ("4,5", 0), ("6-9", 1)] {
            assert_eq!(set.common(&Indexes::parse(other, 100)), common, "{other}");
        }
    }

    #[test]
    fn the_first_absent_indexes_are_found() {
        for (present, count, completions, expected) in [
            ("", 2, 10, vec![0, 1]),
            ("", 5, 3, vec![0, 1, 2]),
            ("0,1,4", 3, 10, vec![2, 3, 5]),
            ("0-9", 3, 10, vec![]),
            ("0-7", 3, 10, vec![8, 9]),
            ("3", 0, 10, vec![]),
        ] {
            assert_eq!(Indexes::parse(present, 100).first_absent(count, completions), expected, "{present} {count}");
        }
    }
}
