//! Numbers for names that distinguish most names without comparing them.

/// Returns a number for a name: its last bytes, in which names differ most, and its length. Equal names have equal
/// numbers; users can choose names whose numbers are equal as well.
pub(crate) fn fingerprint(name: &str) -> u64 {
    let last = match name.as_bytes().last_chunk() {
        Some(last) => u64::from_le_bytes(*last),
        None => name.bytes().fold(0, |number, byte| number << 8 | u64::from(byte)),
    };
    last ^ (name.len() as u64).rotate_right(8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_users_and_groups_have_different_numbers() {
        let names = ["", "a", "b", "ab", "admins", "system:masters", "system:nodes", "system:serviceaccount:a:robot"];
        let numbers: std::collections::BTreeSet<u64> = names.into_iter().map(fingerprint).collect();
        assert_eq!(numbers.len(), names.len());
    }
}
