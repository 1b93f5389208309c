//! How many pods which replica set may have: numbers in, numbers out.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// How far a rolling update may go from what is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fenceposts {
    /// How many pods there may be beyond those asked for.
    pub(super) surge: i32,
    /// How many of those asked for may be missing.
    pub(super) unavailable: i32,
}

/// A replica set as far as numbers matter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Size {
    /// How many pods it is to have.
    pub(super) replicas: i32,
    /// How many of them are available.
    pub(super) available: i32,
    /// How many pods all sets together could have when it was last scaled, if that is known.
    pub(super) max_before: Option<i32>,
}

/// Both fenceposts for so many pods. What is missing is rounded down and what is beyond is rounded up; if both come to
/// nothing, one pod may be missing, as nothing could ever move otherwise.
pub(super) fn fenceposts(surge: Option<&IntOrString>, unavailable: Option<&IntOrString>, desired: i32) -> Fenceposts {
    let surge = scaled(surge, desired, f64::ceil);
    let mut unavailable = scaled(unavailable, desired, f64::floor);
    if surge == 0 && unavailable == 0 {
        unavailable = 1;
    }
    Fenceposts { surge, unavailable: unavailable.min(desired) }
}

/// A number, or a part of `whole`; nothing, if it is neither.
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

/// What a whole number of floating point is as an integer.
#[expect(clippy::cast_possible_truncation, reason = "what is too large becomes the largest")]
fn rounded(number: f64) -> i32 {
    number as i32
}

/// How many pods the new set of a rolling update may have, when all sets together are to have `total` so far.
pub(super) fn new_replicas(desired: i32, surge: i32, total: i32, new: i32) -> i32 {
    let room = desired.saturating_add(surge).saturating_sub(total);
    if room <= 0 { new } else { new + room.min(desired - new) }
}

/// How many pods of the old sets, the oldest first, go next in a rolling update: first those that are not available,
/// as nobody misses them, then as many as the available ones of all sets allow.
pub(super) fn scale_down_old(desired: i32, posts: Fenceposts, new: Size, old: &[Size]) -> Vec<i32> {
    let mut sizes: Vec<i32> = old.iter().map(|set| set.replicas).collect();
    let total: i32 = sizes.iter().sum::<i32>() + new.replicas;
    let at_least = desired - posts.unavailable;
    // Those of the new set that are not available must not let more of the old ones go.
    let most = total - at_least - (new.replicas - new.available);
    if sizes.iter().sum::<i32>() == 0 || most <= 0 {
        return sizes;
    }
    let mut gone = 0;
    for (size, set) in sizes.iter_mut().zip(old) {
        let unhealthy = (set.replicas - set.available).clamp(0, (most - gone).max(0));
        *size -= unhealthy;
        gone += unhealthy;
    }
    let available = old.iter().map(|set| set.available).sum::<i32>() + new.available;
    let mut surplus = available - at_least;
    for size in &mut sizes {
        let next = (*size).clamp(0, surplus.max(0));
        *size -= next;
        surplus -= next;
    }
    sizes
}

/// The sizes of sets, the largest first, when they are scaled in proportion to `allowed` pods in all. `largest` is how
/// many there may be now, `present` how many the status counts.
pub(super) fn proportional(desired: i32, largest: i32, present: i32, sets: &[Size]) -> Vec<i32> {
    let allowed = if desired > 0 { largest } else { 0 };
    let to_add = allowed - sets.iter().map(|set| set.replicas).sum::<i32>();
    let mut sizes: Vec<i32> = sets.iter().map(|set| set.replicas).collect();
    if to_add == 0 {
        return sizes;
    }
    let mut added = 0;
    for (size, set) in sizes.iter_mut().zip(sets) {
        let rest = to_add - added;
        let fraction = fraction(desired, largest, present, *set);
        let proportion = if rest == 0 || set.replicas == 0 {
            0
        } else if to_add > 0 {
            fraction.min(rest)
        } else {
            fraction.max(rest)
        };
        *size += proportion;
        added += proportion;
    }
    // What rounding has left over.
    if let Some(first) = sizes.first_mut() {
        *first = (*first + to_add - added).max(0);
    }
    sizes
}

/// How many pods a set would get or lose for itself alone.
fn fraction(desired: i32, largest: i32, present: i32, set: Size) -> i32 {
    if desired == 0 {
        return -set.replicas;
    }
    // Somebody may have removed the annotation, or made it nonsense.
    let before = set.max_before.filter(|before| *before > 0).unwrap_or(present);
    if before == 0 {
        return 0;
    }
    rounded((f64::from(set.replicas) * f64::from(largest) / f64::from(before)).round()) - set.replicas
}

#[cfg(test)]
mod tests;
