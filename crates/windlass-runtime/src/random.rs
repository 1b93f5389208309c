//! Randomness that keeps processes and sources out of step. Not for secrets.

use uuid::Uuid;

/// Returns a number from 0 to 1.
pub(crate) fn fraction() -> f64 {
    // The last 32 bits of a random UUID are all random.
    let bits = Uuid::new_v4().as_u128() as u32;
    f64::from(bits) / f64::from(u32::MAX)
}
