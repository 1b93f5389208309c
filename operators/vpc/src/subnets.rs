//! Splits a CIDR block into equal parts.

use ipnet::{AddrParseError, IpNet};

/// Reasons why a block cannot be split.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum SplitError {
    /// Not a CIDR block.
    #[error("{block:?} is not a CIDR block such as 10.0.0.0/16")]
    Block {
        /// The given text.
        block: String,
        /// The parse error.
        source: AddrParseError,
    },
    /// The address has bits set beyond the prefix.
    #[error("{block} has host bits set; did you mean {network}?")]
    Host {
        /// The given block.
        block: IpNet,
        /// The block that contains it.
        network: IpNet,
    },
    /// The block has fewer addresses than requested subnets.
    #[error("{block} has no room for {count} subnets")]
    TooMany {
        /// The block.
        block: IpNet,
        /// The requested number of subnets.
        count: u32,
    },
}

/// Splits a block into the largest equal parts of which there are at least `count`, and returns the first `count`.
pub fn split(block: &str, count: u32) -> Result<Vec<IpNet>, SplitError> {
    let invalid = |source| SplitError::Block { block: block.to_owned(), source };
    let block: IpNet = block.parse().map_err(invalid)?;
    if block.addr() != block.network() {
        return Err(SplitError::Host { block, network: block.trunc() });
    }
    // Number of bits that `count` parts require.
    let bits = u32::BITS - count.saturating_sub(1).leading_zeros();
    let length = u32::from(block.prefix_len()) + bits;
    let parts = u8::try_from(length).ok().and_then(|length| block.subnets(length).ok());
    let parts = parts.ok_or(SplitError::TooMany { block, count })?;
    Ok(parts.take(count as usize).collect())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn texts(block: &str, count: u32) -> Result<Vec<String>, String> {
        let parts = split(block, count).map_err(|error| error.to_string())?;
        Ok(parts.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn a_block_is_split_into_equal_parts() {
        for (block, count, expected) in [
            ("10.0.0.0/16", 1, &["10.0.0.0/16"][..]),
            ("10.0.0.0/16", 2, &["10.0.0.0/17", "10.0.128.0/17"]),
            ("10.0.0.0/16", 3, &["10.0.0.0/18", "10.0.64.0/18", "10.0.128.0/18"]),
            ("192.168.1.0/31", 2, &["192.168.1.0/32", "192.168.1.1/32"]),
            ("fd00::/48", 2, &["fd00::/49", "fd00:0:0:8000::/49"]),
        ] {
            assert_eq!(texts(block, count).unwrap(), expected, "{block} in {count}");
        }
    }

    #[test]
    fn splits_that_do_not_fit_are_rejected_with_a_reason() {
        for (block, count, expected) in [
            ("10.0.0.0/31", 3, "10.0.0.0/31 has no room for 3 subnets"),
            ("fd00::/127", 1024, "fd00::/127 has no room for 1024 subnets"),
            ("10.0.0.0/16", u32::MAX, "10.0.0.0/16 has no room for 4294967295 subnets"),
            ("10.0.0.7/16", 1, "10.0.0.7/16 has host bits set; did you mean 10.0.0.0/16?"),
            ("ten", 1, "\"ten\" is not a CIDR block such as 10.0.0.0/16"),
        ] {
            assert_eq!(texts(block, count).unwrap_err(), expected);
        }
    }

    proptest! {
        #[test]
        fn parts_are_within_the_block_and_apart(address: u32, length in 0u8..=32, count in 1u32..300) {
            let block = IpNet::new(std::net::IpAddr::V4(address.into()), length).unwrap().trunc();
            if let Ok(parts) = split(&block.to_string(), count) {
                prop_assert_eq!(parts.len(), count as usize);
                prop_assert!(parts.iter().all(|part| block.contains(part)));
                prop_assert!(parts.windows(2).all(|pair| pair[0].broadcast() < pair[1].network()));
            }
        }

        #[test]
        fn no_text_is_too_much(block: String, count: u32) {
            let _ = split(&block, count.min(2000));
        }
    }
}
