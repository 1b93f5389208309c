//! Names of operations and tags, formed as in kube-apiserver so that generated clients agree.

/// Returns a group as tags begin: `core`, `rbacAuthorization`, `openapiParityExampleCom`.
fn group_words(group: &str) -> String {
    let group = group.strip_suffix(".k8s.io").unwrap_or(group);
    let mut words = group.split(['.', '-']);
    let first = words.next().filter(|first| !first.is_empty()).unwrap_or("core");
    words.fold(first.to_owned(), |words, word| words + &capital(word))
}

/// Returns the tag of a group version's operations: `apps_v1`.
pub(super) fn tag(group: &str, version: &str) -> String {
    format!("{}_{version}", group_words(group))
}

/// Returns the group version as part of operation names: `AppsV1`.
pub(super) fn group_version(group: &str, version: &str) -> String {
    capital(&group_words(group)) + &capital(version)
}

/// Capitalizes a word.
pub(super) fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
