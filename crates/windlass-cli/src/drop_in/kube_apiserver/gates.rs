//! Feature gates and API groups that are switched on or off. Neither has an effect here, but wrong ones are errors.

use std::collections::BTreeSet;

use super::flags::{Flags, boolean};

/// The feature gates of Kubernetes 1.36, sorted.
const GATES: &str = include_str!("feature_gates.txt");

/// Keys that stand for many versions.
const ALL: [&str; 5] = ["api/all", "api/alpha", "api/beta", "api/ga", "api/legacy"];

/// Checks the names and values of feature gates, with the errors of kube-apiserver.
pub(super) fn check_feature_gates(flags: &Flags) -> Result<(), String> {
    for (gate, value) in flags.pairs("feature-gates") {
        let gate = gate.strip_prefix("kube:").unwrap_or(gate);
        let value = value.ok_or_else(|| format!("missing bool value for {gate}"))?;
        if boolean(value).is_none() {
            let problem = format!("strconv.ParseBool: parsing {value:?}: invalid syntax");
            return Err(format!("invalid value of {gate}={value}, err: {problem}"));
        }
        if !GATES.lines().any(|known| known == gate) {
            return Err(format!("unrecognized feature gate: {gate}"));
        }
    }
    Ok(())
}

/// Checks the versions that are switched on or off, with the errors of kube-apiserver.
pub(super) fn check_runtime_config(flags: &Flags, groups: &BTreeSet<&str>) -> Result<(), String> {
    let mut unknown = BTreeSet::new();
    for (key, value) in flags.pairs("runtime-config") {
        let value = value.unwrap_or("true");
        if !value.is_empty() && boolean(value).is_none() {
            return Err(format!("invalid value {key}={value}"));
        }
        if ALL.contains(&key) || key == "v1" {
            continue;
        }
        let Some((group, _)) = key.split_once('/') else { return Err(format!("runtime-config invalid key {key}")) };
        if !groups.contains(group) {
            unknown.insert(key);
        }
    }
    if unknown.is_empty() {
        return Ok(());
    }
    Err(format!("unknown api groups {}", unknown.into_iter().collect::<Vec<_>>().join(",")))
}

#[cfg(test)]
mod tests {
    use super::super::flags::{Parsed, parse};
    use super::*;

    fn flags(line: &str) -> Flags {
        match parse(&[line.to_owned()]) {
            Ok(Parsed::Flags(flags)) => flags,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn wrong_feature_gates_are_errors() {
        assert!(GATES.lines().is_sorted());
        for (line, expected) in [
            ("--feature-gates=WatchList=true,kube:AllAlpha=false", Ok(())),
            ("--feature-gates=Foo=true", Err("unrecognized feature gate: Foo")),
            ("--feature-gates=WatchList", Err("missing bool value for WatchList")),
            (
                "--feature-gates=WatchList=x",
                Err("invalid value of WatchList=x, err: strconv.ParseBool: parsing \"x\": invalid syntax"),
            ),
        ] {
            assert_eq!(check_feature_gates(&flags(line)), expected.map_err(str::to_owned), "{line}");
        }
    }

    #[test]
    fn unknown_groups_are_errors() {
        let groups = BTreeSet::from(["apps", "batch"]);
        for (line, expected) in [
            ("--runtime-config=api/all=true,apps/v1beta1=false,v1", Ok(())),
            ("--runtime-config=foo/v1=true,bar/v1", Err("unknown api groups bar/v1,foo/v1")),
            ("--runtime-config=foo", Err("runtime-config invalid key foo")),
            ("--runtime-config=apps/v1=maybe", Err("invalid value apps/v1=maybe")),
        ] {
            assert_eq!(check_runtime_config(&flags(line), &groups), expected.map_err(str::to_owned), "{line}");
        }
    }
}
