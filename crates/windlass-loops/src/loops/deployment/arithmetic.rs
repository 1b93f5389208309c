//! The sizes of replica sets during a rollout: numbers in, numbers out.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// The limits of a rolling update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fenceposts {
    /// Number of pods beyond the desired number.
    pub(super) surge: i32,
    /// Number of desired pods that may be unavailable.
    pub(super) unavailable: i32,
}

/// The numbers of a replica set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Size {
    /// Desired pods.
    pub(super) replicas: i32,
    /// Available pods.
    pub(super) available: i32,
    /// The maximum number of pods of all replica sets when it was last scaled, if known.
    pub(super) max_before: Option<i32>,
}

/// Computes both limits for a desired number of pods. `maxUnavailable` is rounded down and `maxSurge` up; if both are
/// zero, one pod may be unavailable, because the rollout could not proceed otherwise.
pub(super) fn fenceposts(surge: Option<&IntOrString>, unavailable: Option<&IntOrString>, desired: i32) -> Fenceposts {
    let surge = scaled(surge, desired, f64::ceil);
    let mut unavailable = scaled(unavailable, desired, f64::floor);
    if surge == 0 && unavailable == 0 {
        unavailable = 1;
    }
    Fenceposts { surge, unavailable: unavailable.min(desired) }
}

/// A number, or a percentage of `whole`; zero if it is neither.
fn scaled(value: Option<&IntOrString>, whole: i32, round: fn(f64) -> f64) -> i32 {
    match value {
        None => 0,
        Some(IntOrString::Int(number)) => *number,
        Some(IntOrString::String(text)) => {
            let percent = text.strip_suffix('%').and_then(|number| number.parse::<i32>().ok()).unwrap_or_default();
            rounded(round(f64::from(percent) * f64::from(whole) / 100.0))
        }
    }
}

/// Converts an integral float.
#[expect(clippy::cast_possible_truncation, reason = "the cast saturates")]
fn rounded(number: f64) -> i32 {
    number as i32
}

/// Adds sizes. Several replica sets of the maximum size do not overflow.
pub(super) fn sum(sizes: impl IntoIterator<Item = i32>) -> i32 {
    sizes.into_iter().fold(0, i32::saturating_add)
}

/// The size of the new replica set in a rolling update; `total` is the current size of all replica sets.
pub(super) fn new_replicas(desired: i32, surge: i32, total: i32, new: i32) -> i32 {
    let room = desired.saturating_add(surge).saturating_sub(total);
    if room <= 0 { new } else { new.saturating_add(room.min(desired.saturating_sub(new))) }
}

/// The sizes of the old replica sets, oldest first, for the next step of a rolling update: first unavailable pods are
/// removed, then as many as the available pods of all replica sets allow.
pub(super) fn scale_down_old(desired: i32, posts: Fenceposts, new: Size, old: &[Size]) -> Vec<i32> {
    let mut sizes: Vec<i32> = old.iter().map(|set| set.replicas).collect();
    let old_total = sum(sizes.iter().copied());
    let at_least = desired.saturating_sub(posts.unavailable);
    // Unavailable pods of the new replica set must not let more old ones be removed.
    let unavailable = new.replicas.saturating_sub(new.available);
    let most = old_total.saturating_add(new.replicas).saturating_sub(at_least).saturating_sub(unavailable);
    if old_total == 0 || most <= 0 {
        return sizes;
    }
    let mut gone = 0;
    for (size, set) in sizes.iter_mut().zip(old) {
        let unhealthy = set.replicas.saturating_sub(set.available).clamp(0, (most - gone).max(0));
        *size -= unhealthy;
        gone += unhealthy;
    }
    let available = sum(old.iter().map(|set| set.available)).saturating_add(new.available);
    let mut surplus = available.saturating_sub(at_least);
    for size in &mut sizes {
        let next = (*size).clamp(0, surplus.max(0));
        *size -= next;
        surplus -= next;
    }
    sizes
}

/// The sizes of replica sets, largest first, after proportional scaling. `largest` is the maximum number of pods now,
/// `present` is the number of pods in the status.
pub(super) fn proportional(desired: i32, largest: i32, present: i32, sets: &[Size]) -> Vec<i32> {
    let allowed = if desired > 0 { largest } else { 0 };
    let mut sizes: Vec<i32> = sets.iter().map(|set| set.replicas).collect();
    let to_add = allowed.saturating_sub(sum(sizes.iter().copied()));
    if to_add == 0 {
        return sizes;
    }
    let mut added = 0;
    for (size, set) in sizes.iter_mut().zip(sets) {
        let rest = to_add.saturating_sub(added);
        let fraction = fraction(desired, largest, present, *set);
        let proportion = if rest == 0 || set.replicas == 0 {
            0
        } else if to_add > 0 {
            fraction.min(rest)
        } else {
            fraction.max(rest)
        };
        *size = size.saturating_add(proportion);
        added = added.saturating_add(proportion);
    }
    // The remainder from rounding.
    if let Some(first) = sizes.first_mut() {
        *first = first.saturating_add(to_add.saturating_sub(added)).max(0);
    }
    sizes
}

/// The change in size of one replica set, by its share.
fn fraction(desired: i32, largest: i32, present: i32, set: Size) -> i32 {
    if desired == 0 {
        return -set.replicas;
    }
    // The annotation may be missing or invalid.
    let before = set.max_before.filter(|before| *before > 0).unwrap_or(present);
    if before == 0 {
        return 0;
    }
    rounded((f64::from(set.replicas) * f64::from(largest) / f64::from(before)).round()).saturating_sub(set.replicas)
}

#[cfg(test)]
mod tests;
