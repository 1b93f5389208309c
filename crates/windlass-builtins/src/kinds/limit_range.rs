//! LimitRanges: limits per object of a namespace.

pub mod admission;

use std::cmp::Ordering;
use std::collections::BTreeSet;

use serde_json::{Map, Value};
use windlass_schema::field::{ErrorList, Path};
use windlass_schema::quantity::{Format, Quantity};
use windlass_schema::sorting::Gather as _;

use super::pod::validation::resources::{validate_container_resource_name, validate_resource_name};
use crate::field_errors::FieldErrors;
use crate::object::{items, map, set, text};
use crate::resource_list::{ResourceList, list, may_be_overcommitted, round_up};
use crate::strategy::Strategy;

/// Strategy of LimitRanges.
#[derive(Debug, Clone, Copy)]
pub struct LimitRange;

/// Larger numbers of milli-units do not fit into 64 bits.
const MAX_MILLI_VALUE: i64 = i64::MAX / 1000;

impl Strategy for LimitRange {
    fn default(&self, object: &mut Value) {
        for item in object.pointer_mut("/spec/limits").and_then(Value::as_array_mut).into_iter().flatten() {
            if text(item, "/type") == "Container" {
                default_container(item);
            }
            for field in ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"] {
                round_up(item, &format!("/{field}"));
            }
        }
    }

    fn validate(&self, object: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        let path = Path::new("spec").child("limits");
        let mut types = BTreeSet::new();
        for (index, item) in items(object, "/spec/limits").iter().enumerate() {
            let path = path.index(index);
            let kind = text(item, "/type");
            let before = errors.len();
            errors.qualified_name(&path.child("type"), kind);
            let is_standard = matches!(kind, "Pod" | "Container" | "PersistentVolumeClaim");
            if errors.len() == before && !kind.contains('/') && !is_standard {
                errors.invalid(&path.child("type"), kind, "must be a standard limit type or fully qualified");
            }
            if !types.insert(kind) {
                errors.duplicate(&path.child("type"), kind);
            }
            validate_item(item, &path, &mut errors);
        }
        errors
    }
}

/// The default limit defaults to the maximum; the default request to the default limit, then to the minimum.
fn default_container(item: &mut Value) {
    let of = |item: &Value, field: &str| map(item, &format!("/{field}")).cloned().unwrap_or_default();
    let fill = |into: &mut Map<String, Value>, from: Map<String, Value>| {
        for (name, value) in from {
            into.entry(name).or_insert(value);
        }
    };
    let mut limits = of(item, "default");
    fill(&mut limits, of(item, "max"));
    let mut requests = of(item, "defaultRequest");
    fill(&mut requests, limits.clone());
    fill(&mut requests, of(item, "min"));
    for (field, list) in [("/default", limits), ("/defaultRequest", requests)] {
        if !list.is_empty() {
            set(item, field, list);
        }
    }
}

/// The quantities of an item.
#[derive(Default)]
struct Amounts {
    min: ResourceList,
    max: ResourceList,
    default: ResourceList,
    request: ResourceList,
    ratio: ResourceList,
}

fn validate_item(item: &Value, path: &Path, errors: &mut ErrorList) {
    let kind = text(item, "/type");
    let take = |field: &str, errors: &mut ErrorList| {
        let found = list(item, &format!("/{field}"));
        for name in found.keys() {
            let at = path.child(field).key(name);
            match kind {
                "Pod" | "Container" => validate_container_resource_name(name, &at, errors),
                _ => validate_resource_name(name, &at, errors),
            }
        }
        found
    };
    let mut amounts = Amounts { max: take("max", errors), min: take("min", errors), ..Amounts::default() };
    if kind == "Pod" {
        for field in ["default", "defaultRequest"] {
            if map(item, &format!("/{field}")).is_some_and(|list| !list.is_empty()) {
                errors.forbidden(&path.child(field), "may not be specified when `type` is 'Pod'");
            }
        }
    } else {
        amounts.default = take("default", errors);
        amounts.request = take("defaultRequest", errors);
    }
    let is_bounded = amounts.min.contains_key("storage") || amounts.max.contains_key("storage");
    if kind == "PersistentVolumeClaim" && !is_bounded {
        let detail = "either minimum or maximum storage value is required, but neither was provided";
        errors.required_because(&path.child("limits"), detail);
    }
    amounts.ratio = take("maxLimitRequestRatio", errors);
    let all = [&amounts.min, &amounts.max, &amounts.default, &amounts.request, &amounts.ratio];
    let names: BTreeSet<&String> = all.iter().flat_map(|list| list.keys()).gather();
    for name in names {
        validate_amounts(name, &amounts, path, errors);
    }
}

fn validate_amounts(name: &str, amounts: &Amounts, path: &Path, errors: &mut ErrorList) {
    let (min, max) = (amounts.min.get(name), amounts.max.get(name));
    let (default, request) = (amounts.default.get(name), amounts.request.get(name));
    // The reported field and value differ from rule to rule, as in kube-apiserver.
    let mut ordered =
        |low: (Option<&Quantity>, &str), high: (Option<&Quantity>, &str), field: &str, shows_low: bool| {
            if let (Some(less), Some(more)) = (low.0, high.0)
                && less > more
            {
                let shown = if shows_low { less } else { more };
                let detail = format!("{} value {less} is greater than {} value {more}", low.1, high.1);
                errors.invalid(&path.child(field).key(name), shown.to_string(), detail);
            }
        };
    ordered((min, "min"), (max, "max"), "min", true);
    ordered((min, "min"), (request, "default request"), "defaultRequest", false);
    ordered((request, "default request"), (max, "max"), "defaultRequest", true);
    ordered((request, "default request"), (default, "default limit"), "defaultRequest", true);
    ordered((min, "min"), (default, "default"), "default", true);
    ordered((default, "default"), (max, "max"), "default", false);
    if let Some(ratio) = amounts.ratio.get(name) {
        validate_ratio(ratio, min, max, &path.child("maxLimitRequestRatio").key(name), errors);
    }
    if let (Some(default), Some(request)) = (default, request)
        && !may_be_overcommitted(name)
        && default != request
    {
        let detail = format!("default value {default} must equal to defaultRequest value {request} in {name}");
        errors.invalid(&path.child("defaultRequest").key(name), request.to_string(), detail);
    }
}

fn validate_ratio(
    ratio: &Quantity,
    min: Option<&Quantity>,
    max: Option<&Quantity>,
    path: &Path,
    errors: &mut ErrorList,
) {
    if ratio.partial_cmp(&Quantity::new(1, Format::DecimalSi)) == Some(Ordering::Less) {
        errors.invalid(path, ratio.to_string(), format!("ratio {ratio} is less than 1"));
    }
    let (Some(min), Some(max)) = (min, max) else { return };
    let is_fine = [ratio, min, max].iter().all(|amount| amount.value() < MAX_MILLI_VALUE);
    let (allowed, most) = if is_fine {
        (ratio.milli_value() as f64 / 1000.0, max.milli_value() as f64 / min.milli_value() as f64)
    } else {
        (ratio.value() as f64, max.value() as f64 / min.value() as f64)
    };
    if allowed > most {
        errors.invalid(path, ratio.to_string(), format!("ratio {ratio} is greater than max/min = {most:.6}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::tests::expectations::check_create;
    use expect_test::expect;
    use serde_json::json;

    fn range(items: Value) -> Value {
        json!({"metadata": {"name": "r"}, "spec": {"limits": items}})
    }

    #[test]
    fn containers_get_defaults_from_the_bounds() {
        let mut object = range(
            json!([{"type": "Container", "max": {"cpu": "2"}, "min": {"memory": "1Mi"}}, {"type": "Pod", "max": {"cpu": "1"}}]),
        );
        LimitRange.default(&mut object);
        let container = &object["spec"]["limits"][0];
        assert_eq!(container["default"], json!({"cpu": "2"}));
        assert_eq!(container["defaultRequest"], json!({"cpu": "2", "memory": "1Mi"}));
        assert_eq!(object["spec"]["limits"][1], json!({"type": "Pod", "max": {"cpu": "1"}}));
        check_create(&LimitRange, object, expect![[""]]);
    }

    #[test]
    fn bounds_and_defaults_must_be_in_order() {
        let item = json!({"type": "Container", "min": {"cpu": "3"}, "max": {"cpu": "1"}, "default": {"cpu": "2"},
            "defaultRequest": {"cpu": "2500m"}, "maxLimitRequestRatio": {"cpu": "500m"}});
        check_create(
            &LimitRange,
            range(json!([item])),
            expect![[r#"
            spec.limits[0].min[cpu]: Invalid value: "3": min value 3 is greater than max value 1
            spec.limits[0].defaultRequest[cpu]: Invalid value: "2500m": min value 3 is greater than default request value 2500m
            spec.limits[0].defaultRequest[cpu]: Invalid value: "2500m": default request value 2500m is greater than max value 1
            spec.limits[0].defaultRequest[cpu]: Invalid value: "2500m": default request value 2500m is greater than default limit value 2
            spec.limits[0].default[cpu]: Invalid value: "3": min value 3 is greater than default value 2
            spec.limits[0].default[cpu]: Invalid value: "1": default value 2 is greater than max value 1
            spec.limits[0].maxLimitRequestRatio[cpu]: Invalid value: "500m": ratio 500m is less than 1
            spec.limits[0].maxLimitRequestRatio[cpu]: Invalid value: "500m": ratio 500m is greater than max/min = 0.333333
        "#]],
        );
        let item =
            json!({"type": "Pod", "min": {"cpu": "1"}, "max": {"cpu": "2"}, "maxLimitRequestRatio": {"cpu": "3"}});
        check_create(
            &LimitRange,
            range(json!([item])),
            expect![[r#"
            spec.limits[0].maxLimitRequestRatio[cpu]: Invalid value: "3": ratio 3 is greater than max/min = 2.000000
        "#]],
        );
        let item = json!({"type": "Container", "default": {"example.com/gpu": "2"}, "defaultRequest": {"example.com/gpu": "1"}});
        check_create(
            &LimitRange,
            range(json!([item])),
            expect![[r#"
            spec.limits[0].defaultRequest[example.com/gpu]: Invalid value: "1": default value 2 must equal to defaultRequest value 1 in example.com/gpu
        "#]],
        );
    }

    #[test]
    fn types_and_resources_must_be_known() {
        let items = json!([{"type": "Pod", "default": {"cpu": "1"}, "defaultRequest": {"cpu": "1"}}, {"type": "Pod"},
            {"type": "Node"}, {"type": ""}, {"type": "PersistentVolumeClaim"}, {"type": "Container", "max": {"storage": "1", "x": "1"}}]);
        check_create(
            &LimitRange,
            range(items),
            expect![[r#"
            spec.limits[0].default: Forbidden: may not be specified when `type` is 'Pod'
            spec.limits[0].defaultRequest: Forbidden: may not be specified when `type` is 'Pod'
            spec.limits[1].type: Duplicate value: "Pod"
            spec.limits[2].type: Invalid value: "Node": must be a standard limit type or fully qualified
            spec.limits[3].type: Invalid value: "": name part must be non-empty
            spec.limits[3].type: Invalid value: "": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')
            spec.limits[4].limits: Required value: either minimum or maximum storage value is required, but neither was provided
            spec.limits[5].max[storage]: Invalid value: "storage": must be a standard resource for containers
            spec.limits[5].max[x]: Invalid value: "x": must be a standard resource type or fully qualified
            spec.limits[5].max[x]: Invalid value: "x": must be a standard resource for containers
            spec.limits[5].default[storage]: Invalid value: "storage": must be a standard resource for containers
            spec.limits[5].default[x]: Invalid value: "x": must be a standard resource type or fully qualified
            spec.limits[5].default[x]: Invalid value: "x": must be a standard resource for containers
            spec.limits[5].defaultRequest[storage]: Invalid value: "storage": must be a standard resource for containers
            spec.limits[5].defaultRequest[x]: Invalid value: "x": must be a standard resource type or fully qualified
            spec.limits[5].defaultRequest[x]: Invalid value: "x": must be a standard resource for containers
        "#]],
        );
    }
}
