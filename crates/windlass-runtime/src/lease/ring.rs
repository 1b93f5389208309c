//! Assignment of keys to the members of a group, by rendezvous hashing: each member bids for each key, and the highest
//! bid wins.
//!
//! A new member takes about its share from every other, and a member that leaves distributes its keys to all others; no
//! other key moves. Every process computes the same result on every platform: the hash is defined here and never
//! changes within one [`FORMAT`].

use std::sync::Arc;

use crate::key::ObjectKey;

/// Prefix of the text of a ring. A ring of an unknown format is assumed to claim everything.
const FORMAT: &str = "v1:";

/// A set of members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ring {
    /// Sorted by name, each with its hash.
    members: Vec<(Arc<str>, u64)>,
}

impl Ring {
    pub(crate) fn new(members: impl IntoIterator<Item = Arc<str>>) -> Self {
        let mut members: Vec<_> = members.into_iter().map(|name| (name.clone(), mixed(bytes_hash(&[&name])))).collect();
        members.sort();
        members.dedup();
        Self { members }
    }

    /// Parses a ring from its [text](Self::text).
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let names = text.strip_prefix(FORMAT)?;
        Some(Self::new(names.split(',').filter(|name| !name.is_empty()).map(Arc::from)))
    }

    pub(crate) fn text(&self) -> String {
        let names: Vec<&str> = self.members.iter().map(|(name, _)| &**name).collect();
        format!("{FORMAT}{}", names.join(","))
    }

    /// Returns the owner of a key; `None` in an empty ring.
    pub(crate) fn owner(&self, key: KeyHash) -> Option<&Arc<str>> {
        self.members.iter().max_by_key(|(name, hash)| (mixed(hash ^ key.0), name)).map(|(name, _)| name)
    }

    pub(crate) fn claims(&self, member: &str, key: KeyHash) -> bool {
        self.owner(key).is_some_and(|owner| **owner == *member)
    }
}

/// Hash of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyHash(u64);

impl KeyHash {
    pub(crate) fn of(key: &ObjectKey) -> Self {
        Self(mixed(bytes_hash(&[key.namespace().unwrap_or_default(), "\0", key.name()])))
    }

    pub(crate) fn of_name(name: &str) -> Self {
        Self(mixed(bytes_hash(&[name])))
    }
}

/// FNV-1a.
fn bytes_hash(parts: &[&str]) -> u64 {
    let bytes = parts.iter().flat_map(|part| part.bytes());
    bytes.fold(0xCBF2_9CE4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3))
}

/// The finalizer of SplitMix64: every bit of the result depends on every bit of the value.
fn mixed(value: u64) -> u64 {
    let value = value.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn ring(count: usize) -> Ring {
        Ring::new((0..count).map(|number| format!("operator-{number}").into()))
    }

    fn keys() -> impl Iterator<Item = KeyHash> {
        (0..20_000).map(|number| KeyHash::of(&ObjectKey::namespaced("default", &format!("object-{number}"))))
    }

    #[test]
    fn the_hash_is_the_same_for_ever() {
        assert_eq!(bytes_hash(&["a"]), 0xAF63_DC4C_8601_EC8C);
        assert_eq!(mixed(0), 0xE220_A839_7B1D_CDAF);
        let ring = ring(5);
        let owners: Vec<_> = keys().take(8).map(|key| &ring.owner(key).unwrap()["operator-".len()..]).collect();
        assert_eq!(owners, ["1", "1", "3", "2", "0", "2", "2", "3"]);
    }

    #[test]
    fn every_member_has_about_its_share() {
        for count in [1, 2, 3, 5, 10] {
            let ring = ring(count);
            let mut shares = BTreeMap::new();
            for key in keys() {
                *shares.entry(ring.owner(key).unwrap().clone()).or_insert(0usize) += 1;
            }
            assert_eq!(shares.len(), count);
            let fair = 20_000 / count;
            assert!(shares.values().all(|share| share.abs_diff(fair) < fair / 5), "{shares:?}");
        }
    }

    #[test]
    fn only_keys_of_a_joining_or_leaving_member_move() {
        let (before, after) = (ring(5), ring(6));
        let newcomer: Arc<str> = "operator-5".into();
        let mut moved = 0;
        for key in keys() {
            let (old, new) = (before.owner(key), after.owner(key));
            if old != new {
                assert_eq!(new, Some(&newcomer));
                moved += 1;
            }
        }
        assert!((20_000 / 7..20_000 / 5).contains(&moved), "{moved}");
    }

    #[test]
    fn a_ring_survives_its_text_and_other_formats_are_not_understood() {
        for count in [0, 1, 3] {
            assert_eq!(Ring::parse(&ring(count).text()), Some(ring(count)));
        }
        assert_eq!(Ring::parse("v2:a,b"), None);
        assert_eq!(Ring::parse(""), None);
        assert_eq!(ring(0).owner(KeyHash::of_name("a")), None);
    }
}
