//! Stable sorting with little code, for slices that are not sorted often, and for maps and sets that are collected.
//!
//! The standard library's sorts are compiled for every type and comparison, to about 5 KB of machine code each. These
//! sort positions instead of elements, which needs one sort for all types, an allocation, and a few hundred bytes per
//! use.

use std::cmp::Ordering;

/// Like [`slice::sort_by`].
pub fn sort_by<T>(items: &mut [T], compare: impl Fn(&T, &T) -> Ordering) {
    let positions = sorted_positions(items.len(), &|one, other| compare(&items[one], &items[other]));
    for_each_swap(positions, &mut |one, other| items.swap(one, other));
}

/// Like [`slice::sort_by_key`].
pub fn sort_by_key<T, K: Ord>(items: &mut [T], key: impl Fn(&T) -> K) {
    sort_by(items, |one, other| key(one).cmp(&key(other)));
}

/// [`Iterator::collect`] for ordered maps and sets, with less code: the standard library sorts what it collects, with a
/// sort that is compiled for every call.
pub trait Gather: Iterator + Sized {
    /// Collects the elements one by one.
    fn gather<C: Default + Extend<Self::Item>>(self) -> C {
        let mut all = C::default();
        all.extend(self);
        all
    }
}

impl<I: Iterator> Gather for I {}

/// Returns the position of every element before it is sorted.
fn sorted_positions(count: usize, compare: &dyn Fn(usize, usize) -> Ordering) -> Vec<usize> {
    let mut positions: Vec<usize> = (0..count).collect();
    positions.sort_by(|one, other| compare(*one, *other));
    positions
}

/// Calls a function with the swaps that bring every element to its place.
fn for_each_swap(mut positions: Vec<usize>, swap: &mut dyn FnMut(usize, usize)) {
    for start in 0..positions.len() {
        // Each cycle of the permutation is followed once; its positions are then in place.
        let mut place = start;
        loop {
            let from = std::mem::replace(&mut positions[place], place);
            if from == start {
                break;
            }
            swap(place, from);
            place = from;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn elements_are_sorted_like_by_the_standard_library(keys in prop::collection::vec(0_u8..8, 0..40)) {
            // The position tells elements with equal keys apart.
            let items: Vec<(u8, usize)> = keys.into_iter().zip(0..).collect();
            let (mut expected, mut by_key, mut by_comparison) = (items.clone(), items.clone(), items);
            expected.sort_by_key(|(key, _)| *key);
            sort_by_key(&mut by_key, |(key, _)| *key);
            sort_by(&mut by_comparison, |one, other| one.0.cmp(&other.0));
            prop_assert_eq!(&by_key, &expected);
            prop_assert_eq!(&by_comparison, &expected);
        }
    }
}
