//! The data that the graph keeps of an object: as little as possible.

use std::{
    collections::{BTreeSet, HashSet},
    fmt,
    sync::Arc,
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

pub(super) const FOREGROUND: &str = "foregroundDeletion";
pub(super) const ORPHAN: &str = "orphan";

/// A UID: 24 bytes in the usual format, otherwise the original text.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Uid {
    Usual([u8; 16]),
    Other(Box<str>),
}

/// An API version and a kind.
#[derive(Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Kind {
    // The kind before the version, as identities are compared.
    pub(super) kind: Box<str>,
    pub(super) api_version: Box<str>,
}

/// The location and UID of an object. Ordered as alternatives of an owner are tried.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Identity {
    pub(super) kind: Arc<Kind>,
    /// Empty for cluster-scoped objects.
    pub(super) namespace: Arc<str>,
    pub(super) name: Box<str>,
    pub(super) uid: Uid,
}

/// An owner reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) uid: Uid,
    pub(super) kind: Arc<Kind>,
    pub(super) name: Box<str>,
    /// Whether the owner's foreground deletion waits for the dependent.
    pub(super) blocks: bool,
}

/// The deletion state of an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Phase {
    pub(super) deleting: bool,
    /// Whether it has the finalizer `foregroundDeletion`.
    pub(super) foreground: bool,
    /// Whether it has the finalizer `orphan`.
    pub(super) orphan: bool,
}

/// The data of an object that a watch reports.
#[derive(Clone, Debug)]
pub(super) struct Observed {
    pub(super) identity: Identity,
    pub(super) owners: Box<[Owner]>,
    pub(super) phase: Phase,
}

/// The watch that reported an object.
pub(super) type Source = u16;

#[derive(Debug)]
pub(super) struct Node {
    pub(super) identity: Identity,
    pub(super) owners: Box<[Owner]>,
    /// Indices of the nodes that refer to this one as an owner.
    pub(super) dependents: BTreeSet<u32>,
    pub(super) phase: Phase,
    /// The watch that has seen it; `None` if it is only known from the references of its dependents.
    pub(super) source: Option<Source>,
}

/// Strings that many nodes share.
#[derive(Debug, Default)]
pub(super) struct Names {
    kinds: Pool<Kind>,
    namespaces: Pool<str>,
}

impl Uid {
    pub(super) fn new(text: &str) -> Self {
        let mut bytes = [0; 16];
        let mut digits = 0;
        let usual = text.len() == 36
            && text.bytes().enumerate().all(|(at, byte)| match (at, byte) {
                (8 | 13 | 18 | 23, _) => byte == b'-',
                // Uppercase letters would not be restored.
                (_, b'0'..=b'9' | b'a'..=b'f') => {
                    let digit = if byte.is_ascii_digit() { byte - b'0' } else { byte - b'a' + 10 };
                    bytes[digits / 2] |= if digits % 2 == 0 { digit << 4 } else { digit };
                    digits += 1;
                    true
                }
                _ => false,
            });
        if usual { Self::Usual(bytes) } else { Self::Other(text.into()) }
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Other(text) => f.write_str(text),
            Self::Usual(bytes) => {
                for (at, byte) in bytes.iter().enumerate() {
                    let dash = if matches!(at, 4 | 6 | 8 | 10) { "-" } else { "" };
                    write!(f, "{dash}{byte:02x}")?;
                }
                Ok(())
            }
        }
    }
}

impl fmt::Debug for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, namespace, name, uid } = self;
        write!(f, "[{}/{}, namespace: {namespace}, name: {name}, uid: {uid}]", kind.api_version, kind.kind)
    }
}

impl Identity {
    pub(super) fn is_namespaced(&self) -> bool {
        !self.namespace.is_empty()
    }
}

impl Owner {
    /// Returns whether the reference describes the owner, apart from its namespace.
    pub(super) fn describes(&self, owner: &Identity) -> bool {
        self.uid == owner.uid && self.kind == owner.kind && self.name == owner.name
    }

    /// The identity of the owner in a namespace.
    pub(super) fn identity(&self, namespace: &Arc<str>) -> Identity {
        Identity {
            kind: self.kind.clone(),
            namespace: namespace.clone(),
            name: self.name.clone(),
            uid: self.uid.clone(),
        }
    }
}

impl Phase {
    pub(super) fn of(meta: &ObjectMeta) -> Self {
        let has = |name: &str| meta.finalizers.iter().flatten().any(|finalizer| finalizer == name);
        Self { deleting: meta.deletion_timestamp.is_some(), foreground: has(FOREGROUND), orphan: has(ORPHAN) }
    }

    /// Returns whether it waits until its dependents are deleted.
    pub(super) fn waits(self) -> bool {
        self.deleting && self.foreground
    }

    /// Returns whether it waits until its dependents have been orphaned.
    pub(super) fn orphans(self) -> bool {
        self.deleting && self.orphan
    }
}

impl Node {
    pub(super) fn is_virtual(&self) -> bool {
        self.source.is_none()
    }
}

impl Names {
    pub(super) fn kind(&mut self, api_version: &str, kind: &str) -> Arc<Kind> {
        self.kinds.get(Kind { kind: kind.into(), api_version: api_version.into() })
    }

    pub(super) fn namespace(&mut self, namespace: Option<&str>) -> Arc<str> {
        self.namespaces.get_ref(namespace.unwrap_or_default())
    }

    pub(super) fn owner(&mut self, reference: &OwnerReference) -> Owner {
        Owner {
            uid: Uid::new(&reference.uid),
            kind: self.kind(&reference.api_version, &reference.kind),
            name: reference.name.as_str().into(),
            blocks: reference.block_owner_deletion == Some(true),
        }
    }

    /// Extracts the data for the graph. Returns `None` for an object without a UID, which no server sends.
    pub(super) fn observed(&mut self, kind: &Arc<Kind>, meta: &ObjectMeta) -> Option<Observed> {
        let identity = Identity {
            kind: kind.clone(),
            namespace: self.namespace(meta.namespace.as_deref()),
            name: meta.name.as_deref().unwrap_or_default().into(),
            uid: Uid::new(meta.uid.as_deref().filter(|uid| !uid.is_empty())?),
        };
        let owners = meta.owner_references.iter().flatten().map(|reference| self.owner(reference)).collect();
        Some(Observed { identity, owners, phase: Phase::of(meta) })
    }
}

/// Interned values, each kept while it is in use.
#[derive(Debug)]
struct Pool<T: ?Sized> {
    values: HashSet<Arc<T>>,
    /// Size of the pool at which unused values are dropped.
    sweep_at: usize,
}

impl<T: ?Sized> Default for Pool<T> {
    fn default() -> Self {
        Self { values: HashSet::new(), sweep_at: 64 }
    }
}

impl<T: Eq + std::hash::Hash + ?Sized> Pool<T> {
    fn insert(&mut self, value: Arc<T>) -> Arc<T> {
        if self.values.len() >= self.sweep_at {
            self.values.retain(|value| Arc::strong_count(value) > 1);
            self.sweep_at = (self.values.len() * 2).max(64);
        }
        self.values.insert(value.clone());
        value
    }
}

impl Pool<Kind> {
    fn get(&mut self, value: Kind) -> Arc<Kind> {
        match self.values.get(&value) {
            Some(known) => known.clone(),
            None => self.insert(Arc::new(value)),
        }
    }
}

impl Pool<str> {
    fn get_ref(&mut self, value: &str) -> Arc<str> {
        match self.values.get(value) {
            Some(known) => known.clone(),
            None => self.insert(value.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uid_round_trips() {
        for text in [
            "3f2b8c1e-0d4a-4b5c-9e6f-7a8b9c0d1e2f",
            "3F2B8C1E-0D4A-4B5C-9E6F-7A8B9C0D1E2F",
            "3f2b8c1e00d4a-4b5c-9e6f-7a8b9c0d1e2f",
            "",
            "mine",
        ] {
            assert_eq!(Uid::new(text).to_string(), text);
        }
        assert!(matches!(Uid::new("3f2b8c1e-0d4a-4b5c-9e6f-7a8b9c0d1e2f"), Uid::Usual(_)));
        assert_ne!(Uid::new("a"), Uid::new("b"));
    }

    #[test]
    fn a_node_needs_little_memory() {
        assert!(size_of::<Node>() <= 144, "{}", size_of::<Node>());
    }

    #[test]
    fn unused_names_are_dropped() {
        let mut names = Names::default();
        let kept = names.namespace(Some("kept"));
        for at in 0..10_000 {
            names.namespace(Some(&format!("test-{at}")));
        }
        assert!(names.namespaces.values.len() <= 64);
        assert!(Arc::ptr_eq(&kept, &names.namespace(Some("kept"))));
    }
}
