//! Seeded random numbers (splitmix64): good enough for test choices, and the same on every run.

#[derive(Debug, Clone)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below a bound.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

/// Returns a value whose integrity can be checked: its first eight bytes determine everything else.
pub(crate) fn value(nonce: u64) -> Vec<u8> {
    let mut random = Random(nonce);
    // Some fit into a page many times, some only once, some not at all.
    let words = [4, 60, 225, 225, 225, 600][usize::try_from(nonce % 6).expect("a remainder must fit")];
    let mut value = nonce.to_le_bytes().to_vec();
    for _ in 0..words {
        value.extend_from_slice(&random.next().to_le_bytes());
    }
    value
}

/// Returns the nonce of a value after checking its integrity.
pub(crate) fn nonce(whole: &[u8]) -> u64 {
    let nonce = u64::from_le_bytes(whole[..8].try_into().expect("a value must have a nonce"));
    assert!(whole == value(nonce), "a value is incomplete");
    nonce
}
