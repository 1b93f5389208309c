//! ServiceCIDRs: the networks that cluster IPs are allocated from.

use jiff::Timestamp;
use serde_json::{Value, json};
use windlass_schema::field::{ErrorList, Path};
use windlass_schema::names::{is_valid_cidr, parse_cidr_sloppy};

use crate::columns::{AGE, Column, NAME, Printer, age, column, name};
use crate::field_errors::FieldErrors;
use crate::object::{copy, items, set};
use crate::strategy::{Strategy, WriteContext};
use crate::validate::go_struct;

/// Strategy of ServiceCIDRs.
#[derive(Debug, Clone, Copy)]
pub struct ServiceCidr;

pub(crate) const PRINTER: Printer = Printer::new(COLUMNS, cells);

impl Strategy for ServiceCidr {
    fn prepare_for_create(&self, object: &mut Value, _context: &WriteContext<'_>) {
        set(object, "/status", json!({}));
    }

    fn validate(&self, object: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        validate_networks(object, &mut errors);
        errors
    }

    fn validate_update(&self, object: &Value, old: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        let path = Path::new("spec").child("cidrs");
        let (new, had) = (items(object, "/spec/cidrs"), items(old, "/spec/cidrs"));
        let mut keep = |count: usize| {
            for (index, (new, _)) in new.iter().zip(had).take(count).enumerate().filter(|(_, (new, had))| new != had) {
                errors.invalid(&path.index(index), new.clone(), "field is immutable");
            }
        };
        match (had.len(), new.len()) {
            (before, after) if before == after => keep(before),
            // The other IP family may be added.
            (1, 2) => {
                keep(1);
                validate_networks(object, &mut errors);
            }
            _ => errors.invalid(&path, copy(object, "/spec/cidrs"), "field is immutable"),
        }
        errors
    }
}

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let ranges: Vec<_> = items(object, "/spec/cidrs").iter().filter_map(Value::as_str).collect();
    vec![name(object), ranges.join(",").into(), age(object, now)]
}

fn validate_networks(object: &Value, errors: &mut ErrorList) {
    let path = Path::new("spec").child("cidrs");
    let networks: Vec<&str> =
        items(object, "/spec/cidrs").iter().map(|network| network.as_str().unwrap_or_default()).collect();
    if networks.is_empty() {
        return errors.required_because(&path, "at least one CIDR required");
    }
    if networks.len() > 2 {
        let shown = go_struct(&[("CIDRs", &copy(object, "/spec/cidrs"))]);
        return errors.invalid_shown(&path, shown, "may only hold up to 2 values");
    }
    for (index, network) in networks.iter().enumerate() {
        errors.extend(is_valid_cidr(&path.index(index), network));
    }
    let family = |network: &str| parse_cidr_sloppy(network).map(|(ip, _)| ip.is_ipv4());
    if let [first, second] = networks[..]
        && family(first).is_some()
        && family(first) == family(second)
    {
        let detail = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64";
        errors.invalid(&path, copy(object, "/spec/cidrs"), detail);
    }
}

const COLUMNS: &[Column] = &[
    NAME,
    column(
        "CIDRs",
        "string",
        "CIDRs defines the IP blocks in CIDR notation (e.g. \"192.168.0.0/24\" or \"2001:db8::/64\") from which to assign service cluster IPs. Max of two CIDRs is allowed, one of each IP family. This field is immutable.",
    ),
    AGE,
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::tests::expectations::{check_create, check_update};
    use expect_test::expect;

    fn of(networks: &[&str]) -> Value {
        json!({"metadata": {"name": "s"}, "spec": {"cidrs": networks}})
    }

    #[test]
    fn there_is_at_most_one_network_per_family() {
        check_create(&ServiceCidr, of(&["10.0.0.0/16", "2001:db8::/112"]), expect![[""]]);
        check_create(
            &ServiceCidr,
            of(&[]),
            expect![[r#"
            spec.cidrs: Required value: at least one CIDR required
        "#]],
        );
        check_create(
            &ServiceCidr,
            of(&["10.0.0.1/16", "x"]),
            expect![[r#"
            spec.cidrs[0]: Invalid value: "10.0.0.1/16": must not have bits set beyond the prefix length
            spec.cidrs[1]: Invalid value: "x": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)
        "#]],
        );
        check_create(
            &ServiceCidr,
            of(&["10.0.0.0/16", "10.1.0.0/16"]),
            expect![[r#"
            spec.cidrs: Invalid value: ["10.0.0.0/16","10.1.0.0/16"]: may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64
        "#]],
        );
        check_create(
            &ServiceCidr,
            of(&["a", "b", "c"]),
            expect![[r#"
            spec.cidrs: Invalid value: {"CIDRs":["a","b","c"]}: may only hold up to 2 values
        "#]],
        );
    }

    #[test]
    fn networks_never_change_but_the_other_family_may_be_added() {
        let old = || of(&["10.0.0.0/16"]);
        check_update(
            &ServiceCidr,
            of(&["10.1.0.0/16"]),
            old(),
            expect![[r#"
            spec.cidrs[0]: Invalid value: "10.1.0.0/16": field is immutable
        "#]],
        );
        check_update(&ServiceCidr, of(&["10.0.0.0/16", "2001:db8::/112"]), old(), expect![[""]]);
        check_update(
            &ServiceCidr,
            of(&["10.1.0.0/16", "10.2.0.0/16"]),
            old(),
            expect![[r#"
            spec.cidrs[0]: Invalid value: "10.1.0.0/16": field is immutable
            spec.cidrs: Invalid value: ["10.1.0.0/16","10.2.0.0/16"]: may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64
        "#]],
        );
        check_update(
            &ServiceCidr,
            of(&[]),
            old(),
            expect![[r#"
            spec.cidrs: Invalid value: []: field is immutable
        "#]],
        );
    }
}
