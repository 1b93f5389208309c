//! The names of operations and tags, made as kube-apiserver makes them so that generated clients agree.

/// `core`, `rbacAuthorization`, `openapiParityExampleCom`: a group as tags begin.
fn group_words(group: &str) -> String {
    let group = group.strip_suffix(".k8s.io").unwrap_or(group);
    let mut words = group.split(['.', '-']);
    let first = words.next().filter(|first| !first.is_empty()).unwrap_or("core");
    words.fold(first.to_owned(), |words, word| words + &capital(word))
}

/// The tag of a group version's operations: `apps_v1`.
pub(super) fn tag(group: &str, version: &str) -> String {
    format!("{}_{version}", group_words(group))
}

/// The part of operation names that says the group version: `AppsV1`.
pub(super) fn group_version(group: &str, version: &str) -> String {
    capital(&group_words(group)) + &capital(version)
}

/// The word with a capital.
pub(super) fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
