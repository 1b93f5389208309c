//! Order of API versions: `v10 > v2 > v1 > v11beta2 > v10beta3 > v3beta1 > v12alpha1 > foo10 > foo1`.

use std::cmp::Ordering;

/// The maturity of a version according to its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Maturity {
    Alpha,
    Beta,
    Stable,
}

/// Parses a version of the form `v1`, `v1beta2` or `v1alpha3`.
fn parse(version: &str) -> Option<(Maturity, i64, i64)> {
    let rest = version.strip_prefix('v')?;
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let number = |text: &str| text.parse::<i64>().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()));
    let major = number(&rest[..digits])?;
    match &rest[digits..] {
        "" => Some((Maturity::Stable, major, 0)),
        rest => match (rest.strip_prefix("beta"), rest.strip_prefix("alpha")) {
            (Some(minor), _) => Some((Maturity::Beta, major, number(minor)?)),
            (_, Some(minor)) => Some((Maturity::Alpha, major, number(minor)?)),
            _ => None,
        },
    }
}

/// Compares two versions in the order of discovery; the greater one is preferred. Names that are not versions come
/// last, in alphabetical order.
pub fn compare_versions(a: &str, b: &str) -> Ordering {
    match (parse(a), parse(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        (Some(_), None) => Ordering::Greater,
        (None, Some(_)) => Ordering::Less,
        (None, None) => b.cmp(a),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stable_versions_come_before_beta_before_alpha_before_the_rest() {
        let ordered = [
            "v10",
            "v2",
            "v1",
            "v11beta2",
            "v10beta3",
            "v3beta1",
            "v12alpha1",
            "v11alpha2",
            "bar",
            "foo1",
            "foo10",
            "v1gamma1",
        ];
        let mut sorted = ordered;
        sorted.reverse();
        sorted.sort_by(|a, b| compare_versions(b, a));
        assert_eq!(sorted, ordered);
    }
}
