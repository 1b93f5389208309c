//! Labels and names.

use std::{collections::BTreeMap, fmt::Write};

/// Maximum length of a name that is valid everywhere: for a Service, a label value, and a pod's host name.
const LONGEST: usize = 63;

/// The [recommended labels](https://kubernetes.io/docs/concepts/overview/working-with-objects/common-labels/).
///
/// ```
/// use windlass_runtime::objects::meta::Labels;
///
/// let labels = Labels::app("mysql").instance("mysql-abcxyz").component("database").managed_by("foo-operator");
/// assert_eq!(labels.selector()["app.kubernetes.io/instance"], "mysql-abcxyz");
/// assert_eq!(labels.all()["app.kubernetes.io/managed-by"], "foo-operator");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Labels {
    labels: BTreeMap<String, String>,
}

/// Labels that identify related objects, and never change.
const IDENTITY: [&str; 3] = ["app.kubernetes.io/name", "app.kubernetes.io/instance", "app.kubernetes.io/component"];

impl Labels {
    /// Sets the name of the application, such as `mysql`.
    pub fn app(name: &str) -> Self {
        Self::default().with("app.kubernetes.io/name", name)
    }

    /// Sets the instance: the name of the object that it is created for.
    #[must_use]
    pub fn instance(self, instance: &str) -> Self {
        self.with("app.kubernetes.io/instance", instance)
    }

    /// Sets the component within the application, such as `database`.
    #[must_use]
    pub fn component(self, component: &str) -> Self {
        self.with("app.kubernetes.io/component", component)
    }

    /// Sets the version of the application.
    #[must_use]
    pub fn version(self, version: &str) -> Self {
        self.with("app.kubernetes.io/version", version)
    }

    /// Sets the higher-level application that this is part of.
    #[must_use]
    pub fn part_of(self, whole: &str) -> Self {
        self.with("app.kubernetes.io/part-of", whole)
    }

    /// Sets the operator.
    #[must_use]
    pub fn managed_by(self, operator: &str) -> Self {
        self.with("app.kubernetes.io/managed-by", operator)
    }

    /// Sets any other label. An invalid value is [converted](label_value).
    #[must_use]
    pub fn with(mut self, label: &str, value: &str) -> Self {
        self.labels.insert(label.to_owned(), label_value(value));
        self
    }

    /// Returns all labels, for an object's metadata.
    pub fn all(&self) -> BTreeMap<String, String> {
        self.labels.clone()
    }

    /// Returns name, instance and component: the labels that select the pods of a Service or Deployment. They do not
    /// change with the version, as selectors must not.
    pub fn selector(&self) -> BTreeMap<String, String> {
        let identity = self.labels.iter().filter(|(label, _)| IDENTITY.contains(&label.as_str()));
        identity.map(|(label, value)| (label.clone(), value.clone())).collect()
    }
}

/// Converts a string to a label value: unchanged if it is valid, otherwise with invalid characters replaced and a hash of
/// the original appended, so that different strings have different values.
pub fn label_value(text: &str) -> String {
    let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let is_edge = |c: char| !c.is_ascii_alphanumeric();
    if text.len() <= LONGEST && text.chars().all(good) && !text.starts_with(is_edge) && !text.ends_with(is_edge) {
        return text.to_owned();
    }
    let kept: String = text.chars().map(|c| if good(c) { c } else { '-' }).collect();
    shortened(kept.trim_matches(is_edge), &[text])
}

/// Returns the name of a child: `parent-suffix`, always the same for the same input, and at most 63 characters. If that
/// is too long, the parent's name is truncated and a hash of both is inserted, so that different children have
/// different names.
///
/// ```
/// use windlass_runtime::objects::meta::child_name;
///
/// assert_eq!(child_name("web", "config"), "web-config");
/// let name = child_name(&"very-long-".repeat(10), "config");
/// assert_eq!(name.len(), 63);
/// assert!(name.starts_with("very-long-") && name.ends_with("-config"));
/// ```
pub fn child_name(parent: &str, suffix: &str) -> String {
    let name = if suffix.is_empty() { parent.to_owned() } else { format!("{parent}-{suffix}") };
    if name.len() <= LONGEST {
        return name;
    }
    let hash = hash_of(&[parent, suffix]);
    // Leaves space for the hash and two dashes; a suffix that leaves none is truncated with the rest.
    match (LONGEST - hash.len() - 2).checked_sub(suffix.len()).filter(|&room| room > 0 && !suffix.is_empty()) {
        Some(room) => format!("{}-{hash}-{suffix}", cut(parent, room).trim_end_matches(['-', '.'])),
        None => shortened(&name, &[parent, suffix]),
    }
}

fn shortened(text: &str, original: &[&str]) -> String {
    let hash = hash_of(original);
    let kept = cut(text, LONGEST - hash.len() - 1).trim_end_matches(['-', '.', '_']);
    if kept.is_empty() { hash } else { format!("{kept}-{hash}") }
}

/// Truncates to at most this many bytes, in whole characters.
fn cut(text: &str, length: usize) -> &str {
    let mut end = length.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Returns eight hexadecimal digits of FNV-1a. Names outlive processes and versions of this library, so the hash must,
/// too.
fn hash_of(parts: &[&str]) -> String {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    let bytes = parts.iter().flat_map(|part| part.bytes().chain([0]));
    for byte in bytes {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    let mut text = String::new();
    write!(text, "{:08x}", (hash >> 32) ^ (hash & 0xffff_ffff)).expect("writing to a string must succeed");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_children_fit_and_differ() {
        let long = "a".repeat(100);
        let table = [
            ("web", "config"),
            ("web", ""),
            (long.as_str(), "config"),
            (long.as_str(), "config2"),
            (long.as_str(), ""),
            ("web", long.as_str()),
            ("web2", long.as_str()),
            (&long[..99], "config"),
        ];
        let names: Vec<String> = table.iter().map(|(parent, suffix)| child_name(parent, suffix)).collect();
        for name in &names {
            assert!(name.len() <= LONGEST, "{name}");
            assert!(name.ends_with(|c: char| c.is_ascii_alphanumeric()), "{name}");
        }
        let different: std::collections::BTreeSet<_> = names.iter().collect();
        assert_eq!(different.len(), names.len());
        assert_eq!(names, table.map(|(parent, suffix)| child_name(parent, suffix)));
    }

    #[test]
    fn the_hash_never_changes() {
        assert_eq!(
            child_name(&"a".repeat(64), "x"),
            format!("{}-{}-x", "a".repeat(52), hash_of(&[&"a".repeat(64), "x"]))
        );
        assert_eq!(hash_of(&["web", "config"]), "50dd14b3");
    }

    #[test]
    fn values_of_labels_are_made_valid() {
        assert_eq!(label_value("v1.2_3"), "v1.2_3");
        assert_eq!(label_value(""), "");
        for text in ["a/b", "-a", "a-", "übergang", "a b", &"x".repeat(64), "///"] {
            let value = label_value(text);
            assert!(value.len() <= LONGEST && !value.starts_with('-') && !value.ends_with('-'), "{text} -> {value}");
            assert!(value.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c)), "{text} -> {value}");
            assert_ne!(value, text);
        }
        assert_ne!(label_value("a/b"), label_value("a b"));
    }
}
