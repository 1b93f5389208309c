//! Charging writes to quotas: what a write adds to a quota, and whether the quota has room for it.

use jiff::Timestamp;
use serde_json::{Map, Value};
use windlass_schema::sorting::Gather as _;

use super::{Evaluator, Usage, Write};
use crate::object::{entries, set, text};
use crate::resource_list::list;

/// Returns the resource names in a list of a quota, in order.
pub fn names<'a>(quota: &'a Value, pointer: &str) -> Vec<&'a str> {
    entries(quota, pointer).map(|(name, _)| name).collect()
}

/// Returns whether a quota applies to a write.
///
/// # Errors
/// Returns why the write is forbidden regardless of its usage.
pub fn applies_to(quota: &Value, evaluator: &Evaluator, write: &Write<'_>) -> Result<bool, String> {
    let mut limited = names(quota, "/status/hard");
    limited.retain(|name| evaluator.knows(name));
    if limited.is_empty() || !evaluator.is_in_scope(quota, write.object) {
        return Ok(false);
    }
    let name = text(quota, "/metadata/name");
    if let Some(missing) = evaluator.missing(&limited, write.object) {
        return Err(format!("failed quota: {name}: {missing}"));
    }
    let used = names(quota, "/status/used");
    if limited.iter().any(|name| !used.contains(name)) {
        return Err(format!("status unknown for quota: {name}, resources: {}", limited.join(",")));
    }
    Ok(true)
}

/// Returns the usage that a write adds to a quota that applies to it, without resources whose usage does not grow.
///
/// # Errors
/// Returns why the write is forbidden: its usage is negative.
pub fn cost(quota: &Value, evaluator: &Evaluator, write: &Write<'_>, now: Timestamp) -> Result<Usage, String> {
    let mut usage = evaluator.usage(write.object, now);
    let negative: Vec<&str> =
        usage.iter().filter(|(_, quantity)| quantity.sign() < 0).map(|(name, _)| name.as_str()).collect();
    if !negative.is_empty() {
        return Err(format!("quota usage is negative for resource(s): {}", negative.join(",")));
    }
    // On update, the quota already counts the old object, unless that was out of scope.
    if let Some(old) = write.old.filter(|old| evaluator.is_in_scope(quota, old)) {
        for (name, before) in evaluator.usage(old, now) {
            if let Some(quantity) = usage.get_mut(&name) {
                quantity.sub(&before);
            }
        }
    }
    usage.retain(|_, quantity| quantity.sign() > 0);
    Ok(usage)
}

/// Returns the charged quota; `None` if it does not limit any of the added resources.
///
/// # Errors
/// Returns why the write is forbidden: it would exceed the quota.
pub fn charged(quota: &Value, cost: &Usage, write: &Write<'_>) -> Result<Option<Value>, String> {
    let (hard, used) = (list(quota, "/status/hard"), list(quota, "/status/used"));
    let requested: Usage =
        cost.iter().filter(|(name, _)| hard.contains_key(*name)).map(|(name, q)| (name.clone(), q.clone())).gather();
    if requested.is_empty() {
        return Ok(None);
    }
    let mut after = used.clone();
    for (name, quantity) in &requested {
        match after.get_mut(name) {
            Some(sum) => sum.add(quantity),
            None => {
                after.insert(name.clone(), quantity.clone());
            }
        }
    }
    // A status reports existing usage, so it is charged even if it exceeds the quota.
    if write.subresource != "status" {
        let exceeded: Vec<&String> = requested.keys().filter(|name| after[*name] > hard[*name]).collect();
        if !exceeded.is_empty() {
            let shown = |list: &Usage| {
                let parts = exceeded.iter().filter_map(|name| Some(format!("{name}={}", list.get(*name)?)));
                parts.collect::<Vec<_>>().join(",")
            };
            let name = text(quota, "/metadata/name");
            let (requested, used, hard) = (shown(&requested), shown(&used), shown(&hard));
            return Err(format!("exceeded quota: {name}, requested: {requested}, used: {used}, limited: {hard}"));
        }
    }
    Ok(Some(with_used(quota, &after)))
}

/// Returns a quota with a charge reverted because the write failed.
pub fn reverted(quota: &Value, cost: &Usage) -> Value {
    let mut used = list(quota, "/status/used");
    for (name, sum) in &mut used {
        if let Some(quantity) = cost.get(name) {
            sum.sub(quantity);
        }
    }
    with_used(quota, &used)
}

fn with_used(quota: &Value, used: &Usage) -> Value {
    let mut quota = quota.clone();
    let used: Map<String, Value> = used.iter().map(|(name, sum)| (name.clone(), sum.to_string().into())).gather();
    set(&mut quota, "/status/used", used);
    quota
}
