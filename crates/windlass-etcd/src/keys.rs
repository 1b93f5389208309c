//! From the keys of the store to those of etcd, and back.

use bytes::Bytes;
use windlass_store::Error;

use crate::EtcdError;

/// The prefix of all keys: `/windlass` for `/windlass/core/pods/...`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Prefix(String);

impl Prefix {
    /// Parses a prefix; slashes at both ends make no difference.
    pub(crate) fn parse(prefix: &str) -> Result<Self, EtcdError> {
        let path = prefix.trim_matches('/');
        if path.is_empty() || path.chars().any(char::is_control) {
            return Err(EtcdError::Prefix { prefix: prefix.to_owned() });
        }
        Ok(Self(format!("/{path}")))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// A key that never exists, since all keys have another slash. Reading it returns the newest revision.
    pub(crate) fn probe(&self) -> Bytes {
        Bytes::copy_from_slice(self.0.as_bytes())
    }

    /// Returns the key in etcd of a key of the store, which must begin with a slash.
    pub(crate) fn key(&self, key: &str) -> Result<Bytes, Error> {
        if !key.starts_with('/') {
            return Err(Error::Storage { cause: format!("key {key:?} does not begin with a slash") });
        }
        Ok(Bytes::from(format!("{}{key}", self.0)))
    }

    /// Returns the first and the end of the keys in etcd that begin with a prefix of the store, after a key if one is
    /// given.
    pub(crate) fn range(&self, prefix: &str, after: Option<&str>) -> Result<(Bytes, Bytes), Error> {
        let prefix = self.key(if prefix.is_empty() { "/" } else { prefix })?;
        let end = end(&prefix);
        let start = match after {
            Some(after) => prefix.max(Bytes::from(format!("{}{after}\0", self.0))),
            None => prefix,
        };
        Ok((start, end))
    }

    /// Returns the key of the store for a key in etcd; `None` if it is not one, for example because it is not UTF-8.
    pub(crate) fn strip<'a>(&self, key: &'a [u8]) -> Option<&'a str> {
        let key = key.strip_prefix(self.0.as_bytes())?;
        std::str::from_utf8(key).ok().filter(|key| key.starts_with('/'))
    }
}

/// Returns the first key after all that begin with a prefix.
fn end(prefix: &[u8]) -> Bytes {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            break;
        }
    }
    end.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_below_the_prefix() {
        let prefix = Prefix::parse("windlass/").unwrap();
        assert_eq!(prefix.key("/core/pods/a").unwrap(), "/windlass/core/pods/a");
        assert!(prefix.key("core").is_err());
        assert_eq!(prefix.strip(b"/windlass/core/pods/a"), Some("/core/pods/a"));
        for foreign in [&b"/windlass2/a"[..], b"/windlass", b"/wind", b"/windlass/\xff"] {
            assert_eq!(prefix.strip(foreign), None, "{foreign:?}");
        }
        for invalid in ["", "/", "//", "/a\0"] {
            assert!(Prefix::parse(invalid).is_err(), "{invalid:?}");
        }
    }

    #[test]
    fn ranges_have_all_keys_of_a_prefix_and_no_others() {
        let prefix = Prefix::parse("/windlass").unwrap();
        let range = |of: &str, after: Option<&str>| prefix.range(of, after).unwrap();
        // Neighbors such as /windlass2 are not part of everything.
        assert_eq!(range("", None), ("/windlass/".into(), "/windlass0".into()));
        assert_eq!(range("/", None), range("", None));
        assert_eq!(range("/a/", Some("/a/b")), ("/windlass/a/b\0".into(), "/windlass/a0".into()));
        assert_eq!(range("/b/", Some("/a/x")), ("/windlass/b/".into(), "/windlass/b0".into()));
        assert_eq!(end(b"a\xff\xff"), &b"b"[..]);
    }
}
