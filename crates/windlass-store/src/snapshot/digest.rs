//! Comparing the contents of two stores.

use crc32fast::Hasher;

use crate::Entry;

/// Count, size and checksum of entries. Their order and their revisions make no difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Digest {
    /// Number of entries.
    pub entries: u64,
    /// Size of all keys and values.
    pub bytes: u64,
    /// Sum of the CRC-32 of each entry: of the size of the key, the key and the value.
    pub checksum: u64,
}

impl Digest {
    /// Adds an entry.
    pub fn add(&mut self, entry: &Entry) {
        let mut hasher = Hasher::new();
        hasher.update(&(entry.key.len() as u64).to_le_bytes());
        hasher.update(entry.key.as_bytes());
        hasher.update(&entry.value);
        self.entries += 1;
        self.bytes += (entry.key.len() + entry.value.len()) as u64;
        self.checksum = self.checksum.wrapping_add(hasher.finalize().into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Revision;

    fn digest(entries: &[(&str, &'static str, u64)]) -> Digest {
        let mut digest = Digest::default();
        for (key, value, revision) in entries {
            digest.add(&Entry { key: (*key).into(), value: (*value).into(), revision: Revision(*revision) });
        }
        digest
    }

    #[test]
    fn entries_are_compared_regardless_of_their_order_and_revisions() {
        let one = digest(&[("/a", "1", 1), ("/b", "2", 2)]);
        assert_eq!(one, digest(&[("/b", "2", 7), ("/a", "1", 9)]));
        assert_eq!((one.entries, one.bytes), (2, 6));
        for other in [
            &[("/a", "2", 1), ("/b", "1", 2)][..],
            &[("/a", "1", 1)],
            &[("/a", "1", 1), ("/b", "3", 2)],
            &[("/a", "1", 1), ("/b2", "", 2)],
            &[("/a1", "", 1), ("/b", "2", 2)],
        ] {
            assert_ne!(one, digest(other), "{other:?}");
        }
    }
}
