//! A filter over labels that fits into a word, so that a scan can skip objects without reading them.

/// One bit per label of an object. Labels may share a bit: if the filter matches, the object may have the labels; if it
/// does not, the object does not have them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct LabelBits(u64);

impl LabelBits {
    /// Returns the filter of some labels.
    pub(crate) fn of<'a>(labels: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        Self(labels.into_iter().fold(0, |bits, (key, value)| bits | 1 << (hash(key, value) % 64)))
    }

    /// Returns whether an object with this filter may have all labels of the other one.
    pub(crate) fn may_have(self, wanted: Self) -> bool {
        self.0 & wanted.0 == wanted.0
    }
}

/// FNV-1a: keys are short, and a collision costs only a look at the object, so it need not resist attacks.
fn hash(key: &str, value: &str) -> u64 {
    let bytes = key.bytes().chain([b'=']).chain(value.bytes());
    let hash =
        bytes.fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    hash ^ (hash >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_may_have_the_labels_it_has() {
        let object = LabelBits::of([("app", "web"), ("tier", "front")]);
        assert!(object.may_have(LabelBits::of([("app", "web")])));
        assert!(object.may_have(LabelBits::default()));
        let others = (0..100).map(|n| n.to_string());
        let passed = others.filter(|value| object.may_have(LabelBits::of([("shard", value.as_str())]))).count();
        assert!(passed < 15, "{passed} of 100 strangers pass");
    }
}
