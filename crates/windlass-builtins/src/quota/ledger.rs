//! What a write costs a quota, and whether the quota can pay.

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::{Evaluator, Usage, Write};
use crate::kinds::pod::resources::list;
use crate::object::{entries, set, text};

/// The names in a list of a quota, in order.
pub fn names<'a>(quota: &'a Value, pointer: &str) -> Vec<&'a str> {
    entries(quota, pointer).map(|(name, _)| name).collect()
}

/// Whether a quota counts an object that is written.
///
/// # Errors
/// Why the write is forbidden whatever it costs.
pub fn concerns(quota: &Value, evaluator: &Evaluator, write: &Write<'_>) -> Result<bool, String> {
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

/// What a write costs a quota that it concerns, without what costs nothing.
///
/// # Errors
/// Why the write is forbidden: it asks for less than nothing.
pub fn cost(quota: &Value, evaluator: &Evaluator, write: &Write<'_>, now: Timestamp) -> Result<Usage, String> {
    let mut usage = evaluator.usage(write.object, now);
    let negative: Vec<&str> =
        usage.iter().filter(|(_, quantity)| quantity.sign() < 0).map(|(name, _)| name.as_str()).collect();
    if !negative.is_empty() {
        return Err(format!("quota usage is negative for resource(s): {}", negative.join(",")));
    }
    // Before an update the quota had counted it already, unless it was out of scope.
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

/// A quota that has paid; nothing, if it does not limit what is bought.
///
/// # Errors
/// Why the write is forbidden: the quota has not enough left.
pub fn charged(quota: &Value, cost: &Usage, write: &Write<'_>) -> Result<Option<Value>, String> {
    let (hard, used) = (list(quota, "/status/hard"), list(quota, "/status/used"));
    let requested: Usage =
        cost.iter().filter(|(name, _)| hard.contains_key(*name)).map(|(name, q)| (name.clone(), q.clone())).collect();
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
    // What is reported is true whether it is allowed or not.
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

/// A quota that has its money back: what was paid for did not come to be.
pub fn given_back(quota: &Value, cost: &Usage) -> Value {
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
    let used: Map<String, Value> = used.iter().map(|(name, sum)| (name.clone(), sum.to_string().into())).collect();
    set(&mut quota, "/status/used", used);
    quota
}
