//! The parts of DER that keys need. Pure.

pub(crate) const INTEGER: u8 = 0x02;
pub(crate) const BIT_STRING: u8 = 0x03;
pub(crate) const OCTET_STRING: u8 = 0x04;
pub(crate) const NULL: u8 = 0x05;
pub(crate) const OBJECT_IDENTIFIER: u8 = 0x06;
pub(crate) const SEQUENCE: u8 = 0x30;

/// Reads values one after another.
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Returns whether everything was read.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the content of the next value if it has this tag; otherwise the value is not read.
    pub(crate) fn read(&mut self, tag: u8) -> Option<&'a [u8]> {
        let (&found, rest) = self.0.split_first()?;
        let (&first, rest) = rest.split_first()?;
        if found != tag {
            return None;
        }
        let (length, rest) = if first < 0x80 {
            (usize::from(first), rest)
        } else {
            let count = usize::from(first & 0x7f);
            let digits = rest.get(..count).filter(|digits| (1..=4).contains(&digits.len()))?;
            let length = digits.iter().fold(0_usize, |length, digit| length << 8 | usize::from(*digit));
            (length, &rest[count..])
        };
        let content = rest.get(..length)?;
        self.0 = &rest[length..];
        Some(content)
    }
}

/// Encodes a value with its tag and length.
pub(crate) fn tagged(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut encoded = vec![tag];
    match u8::try_from(content.len()) {
        Ok(length) if length < 0x80 => encoded.push(length),
        _ => {
            let digits = content.len().to_be_bytes();
            let digits = &digits[digits.iter().take_while(|digit| **digit == 0).count()..];
            encoded.push(0x80 | digits.len() as u8);
            encoded.extend_from_slice(digits);
        }
    }
    encoded.extend_from_slice(content);
    encoded
}

/// Encodes a sequence of encoded values.
pub(crate) fn sequence(parts: &[Vec<u8>]) -> Vec<u8> {
    tagged(SEQUENCE, &parts.concat())
}

/// Encodes a non-negative integer.
pub(crate) fn integer(bytes: &[u8]) -> Vec<u8> {
    let mut content = bytes[bytes.iter().take_while(|byte| **byte == 0).count()..].to_vec();
    if content.first().is_none_or(|first| *first >= 0x80) {
        content.insert(0, 0);
    }
    tagged(INTEGER, &content)
}

/// Encodes whole bytes as a bit string.
pub(crate) fn bit_string(bytes: &[u8]) -> Vec<u8> {
    tagged(BIT_STRING, &[&[0], bytes].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_every_length_are_read_as_they_were_written() {
        for length in [0, 1, 0x7f, 0x80, 0xff, 0x100, 0xffff, 0x1_0000] {
            let content = vec![7; length];
            let encoded = [tagged(OCTET_STRING, &content), integer(&[0, 0x80])].concat();
            let mut reader = Reader::new(&encoded);
            assert_eq!(reader.read(INTEGER), None, "another tag");
            assert_eq!(reader.read(OCTET_STRING), Some(&*content));
            assert_eq!(reader.read(INTEGER), Some(&[0, 0x80][..]));
            assert!(reader.is_empty());
            for end in 0..encoded.len().min(300) {
                // Part of a value is not a value.
                let mut reader = Reader::new(&encoded[..end]);
                assert!(end >= encoded.len() - 4 || reader.read(OCTET_STRING).is_none(), "{length} {end}");
            }
        }
        assert_eq!(Reader::new(&[0x04, 0x85, 0, 0, 0, 0, 0]).read(OCTET_STRING), None);
        assert_eq!(Reader::new(&[0x04, 0x80, 0, 0]).read(OCTET_STRING), None);
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..40)) {
            let mut reader = Reader::new(&bytes);
            for tag in [SEQUENCE, INTEGER, OCTET_STRING] {
                reader.read(tag);
            }
        }
    }
}
