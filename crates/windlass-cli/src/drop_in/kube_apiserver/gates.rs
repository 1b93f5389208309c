//! Feature gates that are switched on or off. They have no effect here, but wrong ones are errors.

use std::collections::BTreeMap;

use windlass_schema::go_format::parse_bool;

use super::flags::Flags;

/// The feature gates of Kubernetes 1.36, sorted, with the value of locked gates.
const GATES: &str = include_str!("feature_gates.txt");

/// Checks the names and values of feature gates, with the errors of kube-apiserver.
pub(super) fn check_feature_gates(flags: &Flags) -> Result<(), String> {
    let mut values: BTreeMap<&str, bool> = BTreeMap::new();
    for (gate, value) in flags.pairs("feature-gates") {
        let gate = gate.strip_prefix("kube:").unwrap_or(gate);
        let value = value.ok_or_else(|| format!("missing bool value for {gate}"))?;
        let invalid = || {
            let problem = format!("strconv.ParseBool: parsing {value:?}: invalid syntax");
            format!("invalid value of {gate}={value}, err: {problem}")
        };
        // The last one counts.
        values.insert(gate, parse_bool(value).ok_or_else(invalid)?);
    }
    let problems: Vec<String> =
        values.into_iter().filter_map(|(gate, value)| check_feature_gate(gate, value).err()).collect();
    match &problems[..] {
        [] => Ok(()),
        [one] => Err(one.clone()),
        several => Err(format!("[{}]", several.join(", "))),
    }
}

fn check_feature_gate(gate: &str, value: bool) -> Result<(), String> {
    let mut known = GATES.lines().map(|line| line.split_once(' ').unwrap_or((line, "")));
    let Some((_, locked)) = known.find(|(known, _)| *known == gate) else {
        return Err(format!("unrecognized feature gate: {gate}"));
    };
    match parse_bool(locked).filter(|locked| *locked != value) {
        Some(locked) => Err(format!("cannot set feature gate {gate} to {value}, feature is locked to {locked}")),
        None => Ok(()),
    }
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
        assert!(GATES.lines().all(|line| line.split_once(' ').is_none_or(|(_, locked)| parse_bool(locked).is_some())));
        for (line, expected) in [
            ("--feature-gates=WatchList=true,kube:AllAlpha=false", Ok(())),
            ("--feature-gates=Foo=true", Err("unrecognized feature gate: Foo")),
            ("--feature-gates=SidecarContainers=true,GitRepoVolumeDriver=false,AllBeta=false", Ok(())),
            ("--feature-gates=SidecarContainers=false,SidecarContainers=true", Ok(())),
            (
                "--feature-gates=SidecarContainers=false",
                Err("cannot set feature gate SidecarContainers to false, feature is locked to true"),
            ),
            (
                "--feature-gates=Foo=true,GitRepoVolumeDriver=true",
                Err("[unrecognized feature gate: Foo, \
                     cannot set feature gate GitRepoVolumeDriver to true, feature is locked to false]"),
            ),
            ("--feature-gates=WatchList", Err("missing bool value for WatchList")),
            (
                "--feature-gates=WatchList=x",
                Err("invalid value of WatchList=x, err: strconv.ParseBool: parsing \"x\": invalid syntax"),
            ),
        ] {
            assert_eq!(check_feature_gates(&flags(line)), expected.map_err(str::to_owned), "{line}");
        }
    }
}
