//! Ranges of sizes and costs, with saturating arithmetic.

/// A range of the size of a value or of the cost of an expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Estimate {
    /// The minimum.
    pub min: u64,
    /// The maximum.
    pub max: u64,
}

/// The cost of a call and, if known, the size of its result.
#[derive(Debug, Clone, Copy)]
pub(super) struct CallEstimate {
    pub(super) cost: Estimate,
    pub(super) size: Option<Estimate>,
}

/// The sizes of keys and values of a list or map.
#[derive(Debug, Clone, Copy)]
pub(super) struct EntrySize {
    pub(super) of_map: bool,
    pub(super) key: Estimate,
    pub(super) value: Estimate,
}

impl Estimate {
    /// Zero.
    pub const ZERO: Self = Self::fixed(0);
    /// One.
    pub const ONE: Self = Self::fixed(1);
    /// Any value.
    pub const UNKNOWN: Self = Self { min: 0, max: u64::MAX };
    /// The identity of `union`.
    pub(super) const EMPTY: Self = Self { min: u64::MAX, max: 0 };

    /// Returns the range of a single value.
    pub const fn fixed(value: u64) -> Self {
        Self { min: value, max: value }
    }

    /// Returns the sum.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self { min: self.min.saturating_add(other.min), max: self.max.saturating_add(other.max) }
    }

    /// Returns the product.
    #[must_use]
    pub fn multiply(self, other: Self) -> Self {
        Self { min: self.min.saturating_mul(other.min), max: self.max.saturating_mul(other.max) }
    }

    /// Returns the product with a factor, rounded up.
    #[must_use]
    pub fn scale(self, factor: f64) -> Self {
        Self { min: scale(self.min, factor), max: scale(self.max, factor) }
    }

    /// Returns the range that covers both.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self { min: self.min.min(other.min), max: self.max.max(other.max) }
    }
}

impl CallEstimate {
    pub(super) fn cost(cost: Estimate) -> Self {
        Self { cost, size: None }
    }

    pub(super) fn sized(cost: Estimate, size: Estimate) -> Self {
        Self { cost, size: Some(size) }
    }
}

impl EntrySize {
    pub(super) fn union(self, other: Self) -> Self {
        Self { of_map: self.of_map, key: self.key.union(other.key), value: self.value.union(other.value) }
    }
}

fn scale(value: u64, factor: f64) -> u64 {
    // A float that does not fit becomes the maximum integer.
    (value as f64 * factor).ceil() as u64
}
