//! Which characters are printable: letters, marks, numbers, punctuation, symbols and the space.

use std::sync::LazyLock;

use regex::Regex;

static OTHER: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"[^\p{L}\p{M}\p{N}\p{P}\p{S} ]").expect("the pattern must compile"));

/// The index of the first character that is not printable.
pub(super) fn first_other(text: &str) -> Option<usize> {
    OTHER.find(text).map(|found| found.start())
}
