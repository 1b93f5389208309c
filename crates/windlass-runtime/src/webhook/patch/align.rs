//! Alignment of the elements of two lists.

use serde_json::Value;

/// Maximum number of pairs in the changed middles of two lists that are compared; longer lists are aligned by position
/// only.
const MAX_PAIRS: usize = 250_000;

/// An element of the old list, of the new one, or of both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pair {
    Both(usize, usize),
    Old(usize),
    New(usize),
}

/// Aligns the elements of two lists: each element of either is in exactly one pair, in order.
///
/// Equal elements are paired as far as their order allows. Elements in between are paired by position, unless their
/// names differ.
pub(super) fn align(old: &[Value], new: &[Value]) -> Vec<Pair> {
    let prefix = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let suffix = old[prefix..].iter().rev().zip(new[prefix..].iter().rev()).take_while(|(a, b)| a == b).count();
    let (old_end, new_end) = (old.len() - suffix, new.len() - suffix);

    let mut pairs: Vec<Pair> = (0..prefix).map(|index| Pair::Both(index, index)).collect();
    let (mut from, mut to) = (prefix, prefix);
    for (same_old, same_new) in common(&old[prefix..old_end], &new[prefix..new_end]) {
        let (same_old, same_new) = (prefix + same_old, prefix + same_new);
        gap(&mut pairs, old, new, from..same_old, to..same_new);
        pairs.push(Pair::Both(same_old, same_new));
        (from, to) = (same_old + 1, same_new + 1);
    }
    gap(&mut pairs, old, new, from..old_end, to..new_end);
    pairs.extend((0..suffix).map(|index| Pair::Both(old_end + index, new_end + index)));
    pairs
}

/// Aligns two stretches without common elements: by name if elements have one, by position if they have the same
/// length.
fn gap(pairs: &mut Vec<Pair>, old: &[Value], new: &[Value], from: std::ops::Range<usize>, to: std::ops::Range<usize>) {
    let by_place = from.len() == to.len();
    let mut next = from.start;
    for (place, index) in to.enumerate() {
        let found = match name(&new[index]) {
            Some(wanted) => (next..from.end).find(|old_index| name(&old[*old_index]) == Some(wanted)),
            None => Some(from.start + place)
                .filter(|old_index| by_place && *old_index >= next && name(&old[*old_index]).is_none()),
        };
        if let Some(found) = found {
            pairs.extend((next..found).map(Pair::Old));
            pairs.push(Pair::Both(found, index));
            next = found + 1;
        } else {
            pairs.push(Pair::New(index));
        }
    }
    pairs.extend((next..from.end).map(Pair::Old));
}

/// Returns the name of an element of a Kubernetes list.
fn name(element: &Value) -> Option<&str> {
    ["name", "key", "type", "uid"].iter().find_map(|key| element.get(key)?.as_str())
}

/// Returns a longest common subsequence, as pairs of indices.
fn common(old: &[Value], new: &[Value]) -> Vec<(usize, usize)> {
    let width = new.len() + 1;
    if old.is_empty() || new.is_empty() || old.len().saturating_mul(new.len()) > MAX_PAIRS {
        return Vec::new();
    }
    // lengths[i * width + j]: length of the longest common subsequence of old[i..] and new[j..].
    let mut lengths = vec![0u32; (old.len() + 1) * width];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            lengths[i * width + j] = match old[i] == new[j] {
                true => lengths[(i + 1) * width + j + 1] + 1,
                false => lengths[(i + 1) * width + j].max(lengths[i * width + j + 1]),
            };
        }
    }
    let (mut i, mut j, mut pairs) = (0, 0, Vec::new());
    while i < old.len() && j < new.len() {
        if old[i] == new[j] {
            pairs.push((i, j));
            (i, j) = (i + 1, j + 1);
        } else if lengths[(i + 1) * width + j] >= lengths[i * width + j + 1] {
            i += 1;
        } else {
            j += 1;
        }
    }
    pairs
}
