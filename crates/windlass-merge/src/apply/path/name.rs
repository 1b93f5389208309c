//! Field names: short strings that are copied without allocating.

use std::cmp::Ordering;
use std::fmt;

/// Maximum length of an inline name. Nearly all field names and label keys are shorter.
const INLINE: usize = 22;

/// The name of a field, or the string value of a key or set item. Up to 22 bytes need no allocation.
#[derive(Clone)]
pub struct Name(Repr);

#[derive(Clone)]
enum Repr {
    Inline(u8, [u8; INLINE]),
    Heap(Box<str>),
}

impl Name {
    /// Copies a string.
    pub fn new(text: &str) -> Self {
        if text.len() > INLINE {
            return Self(Repr::Heap(text.into()));
        }
        let mut bytes = [0; INLINE];
        bytes[..text.len()].copy_from_slice(text.as_bytes());
        Self(Repr::Inline(text.len() as u8, bytes))
    }

    /// Returns the bytes of the name; sufficient for comparisons and cheaper than `as_str`, which checks for UTF-8.
    pub fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            Repr::Inline(length, bytes) => &bytes[..usize::from(*length)],
            Repr::Heap(text) => text.as_bytes(),
        }
    }

    /// Returns the name as a string.
    pub fn as_str(&self) -> &str {
        match &self.0 {
            Repr::Inline(length, bytes) => {
                std::str::from_utf8(&bytes[..usize::from(*length)]).expect("an inline name must be valid UTF-8")
            }
            Repr::Heap(text) => text,
        }
    }
}

impl PartialEq for Name {
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for Name {}

impl PartialOrd for Name {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Name {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_bytes().cmp(other.as_bytes())
    }
}

impl From<&str> for Name {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
