//! Capacities of devices, and how much of them requests may consume.

use serde_json::Value;
use windlass_schema::field::{ErrorList, FieldError, Path};
use windlass_schema::quantity::Quantity;

use crate::field_errors::FieldErrors;
use crate::object::{copy, is_set, items};
use crate::resource_list::quantity;

const VALUES: usize = 10;

/// Validates a capacity. Only devices that are allocated several times have a policy for requests.
pub(super) fn validate(capacity: &Value, shared: bool, path: &Path, errors: &mut ErrorList) {
    let path = path.child("requestPolicy");
    if !is_set(capacity, "/requestPolicy") {
        return;
    }
    if !shared {
        return errors.forbidden(&path, "allowMultipleAllocations must be true");
    }
    let policy = &capacity["requestPolicy"];
    let (values, range) = (items(policy, "/validValues"), is_set(policy, "/validRange"));
    let kind = match (values.is_empty(), range) {
        (false, true) => {
            let detail = "exactly one policy can be specified, cannot specify \"validValues\" and \"validRange\" at the same \
                          time";
            return errors.forbidden(&path, detail);
        }
        (true, false) => return,
        (false, false) => "validValues",
        (true, true) => "validRange",
    };
    let Some(default) = quantity(&policy["default"]) else {
        return errors.required_because(&path.child("default"), format!("required when {kind} is defined"));
    };
    let max = quantity(&capacity["value"]).unwrap_or_else(Quantity::zero);
    match kind {
        "validValues" => validate_values(values, &default, &max, &path.child(kind), errors),
        _ => validate_range(&policy["validRange"], &default, &max, &path.child(kind), errors),
    }
}

fn validate_values(values: &[Value], default: &Quantity, max: &Quantity, path: &Path, errors: &mut ErrorList) {
    let values: Vec<Quantity> = values.iter().filter_map(quantity).collect();
    for (index, pair) in values.windows(2).enumerate() {
        if pair[0] > pair[1] {
            let detail = "values must be sorted in ascending order";
            errors.invalid(&path.index(index + 1), pair[1].to_string(), detail);
        }
    }
    if values.len() > VALUES {
        errors.push(FieldError::too_many(path, values.len(), VALUES));
    } else {
        for (index, value) in values.iter().enumerate().filter(|(_, value)| *value > max) {
            let detail = format!("option is larger than capacity value: {max}");
            errors.invalid(&path.index(index), value.to_string(), detail);
        }
        for (index, value) in values.iter().enumerate() {
            if values[..index].iter().any(|other| other.value() == value.value()) {
                errors.duplicate(&path.index(index), &value.value().to_string());
            }
        }
    }
    if values.len() > VALUES || !values.contains(default) {
        errors.invalid(path, default.to_string(), "default value is not valid according to the requestPolicy");
    }
}

fn validate_range(range: &Value, default: &Quantity, max: &Quantity, path: &Path, errors: &mut ErrorList) {
    let Some(low) = quantity(&range["min"]) else {
        return errors.required_because(&path.child("min"), "required when validRange is defined");
    };
    let mut report = |wrong: bool, field: &str, shown: &Quantity, detail: String| {
        if wrong {
            errors.invalid(&path.child(field), shown.to_string(), detail);
        }
    };
    report(low > *max, "min", &low, format!("min is larger than capacity value: {max}"));
    report(*default < low, "min", default, format!("default is less than min: {low}"));
    let high = quantity(&copy(range, "/max"));
    if let Some(high) = &high {
        report(low > *high, "max", &low, format!("min is larger than max: {high}"));
        report(high > max, "max", high, format!("max is larger than capacity value: {max}"));
        report(default > high, "max", default, format!("default is more than max: {high}"));
    }
    let Some(step) = quantity(&copy(range, "/step")) else { return };
    let mut first = low.clone();
    first.add(&step);
    report(first > *max, "step", &step, format!("one step {first} is larger than capacity value: {max}"));
    for value in [Some(default), high.as_ref()].into_iter().flatten() {
        // kube-apiserver divides by the step, and so rejects a step below one in another way.
        let is_multiple = value.value().wrapping_sub(low.value()).checked_rem(step.value()) == Some(0);
        let detail = format!("value is not a multiple of a given step ({step}) from ({low})");
        report(!is_multiple, "step", value, detail);
    }
}
