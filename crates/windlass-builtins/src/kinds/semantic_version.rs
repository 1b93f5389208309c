//! Semantic versions, as semver.org defines them.

use std::cmp::Ordering;

/// A version without its build metadata, which does not matter for the order.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Version<'a> {
    core: [u64; 3],
    prerelease: &'a str,
}

impl<'a> Version<'a> {
    /// Parses a version; `None` if the string is not a version.
    pub(super) fn parse(text: &'a str) -> Option<Self> {
        let is_word =
            |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        let is_identifier = |word: &str| is_word(word) && (!is_digits(word) || is_number(word));
        let (version, build) = text.split_once('+').map_or((text, None), |(version, build)| (version, Some(build)));
        let (core, prerelease) =
            version.split_once('-').map_or((version, None), |(core, prerelease)| (core, Some(prerelease)));
        let mut numbers = core.split('.').map(|word| word.parse().ok().filter(|_| is_number(word)));
        let core = [numbers.next()??, numbers.next()??, numbers.next()??];
        let is_valid = numbers.next().is_none()
            && prerelease.is_none_or(|prerelease| prerelease.split('.').all(is_identifier))
            && build.is_none_or(|build| build.split('.').all(is_word));
        is_valid.then_some(Self { core, prerelease: prerelease.unwrap_or_default() })
    }

    /// Compares the precedence of two versions.
    pub(super) fn cmp(&self, other: &Self) -> Ordering {
        self.core.cmp(&other.core).then_with(|| match (self.prerelease, other.prerelease) {
            ("", "") => Ordering::Equal,
            ("", _) => Ordering::Greater,
            (_, "") => Ordering::Less,
            (a, b) => a.split('.').map(precedence).cmp(b.split('.').map(precedence)),
        })
    }
}

/// The precedence of an identifier: numbers, by value, come before words.
fn precedence(word: &str) -> (bool, usize, &str) {
    if is_digits(word) { (false, word.len(), word) } else { (true, 0, word) }
}

fn is_digits(word: &str) -> bool {
    word.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_number(word: &str) -> bool {
    !word.is_empty() && is_digits(word) && (word == "0" || !word.starts_with('0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_parsed_as_semver_defines_them() {
        for valid in ["0.0.0", "1.2.3", "1.0.0-alpha.1", "1.0.0--.0a", "1.0.0+001", "1.0.0-rc+b.7"] {
            assert!(Version::parse(valid).is_some(), "{valid}");
        }
        for invalid in ["", "1", "1.2", "1.2.3.4", "v1.2.3", "01.2.3", "1.0.0-", "1.0.0-01", "1.0.0-a..b", "1.0.0+"] {
            assert!(Version::parse(invalid).is_none(), "{invalid}");
        }
    }

    #[test]
    fn prereleases_come_before_their_release() {
        let ordered = [
            "1.0.0-2",
            "1.0.0-11",
            "1.0.0-alpha",
            "1.0.0-alpha.1",
            "1.0.0-alpha.beta",
            "1.0.0-rc.1",
            "1.0.0",
            "1.0.1",
            "1.2.0",
            "10.0.0",
        ];
        let versions: Vec<_> = ordered.iter().filter_map(|text| Version::parse(text)).collect();
        assert_eq!(versions.len(), ordered.len());
        for (i, a) in versions.iter().enumerate() {
            for (j, b) in versions.iter().enumerate() {
                assert_eq!(a.cmp(b), i.cmp(&j), "{} {}", ordered[i], ordered[j]);
            }
        }
        let same = [Version::parse("1.0.0+a"), Version::parse("1.0.0+b")].map(Option::unwrap_or_default);
        assert_eq!(same[0].cmp(&same[1]), Ordering::Equal);
    }
}
