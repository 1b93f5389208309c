//! Cutting a block of addresses into equal parts.

use ipnet::{AddrParseError, IpNet};

/// Why a block cannot be cut.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum SplitError {
    /// It is not a block of addresses.
    #[error("{block:?} is not a block of addresses, as 10.0.0.0/16")]
    Block {
        /// What was given.
        block: String,
        /// What is wrong with it.
        source: AddrParseError,
    },
    /// Bits of the address are outside of the block's mask.
    #[error("{block} is an address within {network}: did you mean {network}?")]
    Host {
        /// What was given.
        block: IpNet,
        /// The block that it is in.
        network: IpNet,
    },
    /// There are not so many parts in it.
    #[error("{block} has no room for {count} subnets")]
    TooMany {
        /// The block.
        block: IpNet,
        /// How many were asked for.
        count: u32,
    },
}

/// The first `count` of the largest equal parts of a block that are at least so many.
pub fn split(block: &str, count: u32) -> Result<Vec<IpNet>, SplitError> {
    let invalid = |source| SplitError::Block { block: block.to_owned(), source };
    let block: IpNet = block.parse().map_err(invalid)?;
    if block.addr() != block.network() {
        return Err(SplitError::Host { block, network: block.trunc() });
    }
    // As many bits as number `count` parts.
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
    fn a_block_is_cut_into_equal_parts() {
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
    fn what_does_not_fit_is_refused_in_words() {
        for (block, count, expected) in [
            ("10.0.0.0/31", 3, "10.0.0.0/31 has no room for 3 subnets"),
            ("fd00::/127", 1024, "fd00::/127 has no room for 1024 subnets"),
            ("10.0.0.0/16", u32::MAX, "10.0.0.0/16 has no room for 4294967295 subnets"),
            ("10.0.0.7/16", 1, "10.0.0.7/16 is an address within 10.0.0.0/16: did you mean 10.0.0.0/16?"),
            ("ten", 1, "\"ten\" is not a block of addresses, as 10.0.0.0/16"),
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
