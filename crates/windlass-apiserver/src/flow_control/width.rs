//! The number of seats that a request occupies, estimated as kube-apiserver does.

use std::time::Duration;

use super::queue_set::Work;
use crate::{query::Query, storage::ResourceCache, verb::Verb};

/// The bytes of a list for one seat.
const BYTES_PER_SEAT: usize = 100_000;
/// The bytes of a list that are in memory at a time.
const LIST_BYTES: usize = 1_000_000;
/// Maximum number of seats of a list, and of a write.
const MAX_LIST_SEATS: usize = 100;
const MAX_WRITE_SEATS: usize = 10;
/// Number of watchers per additional seat that a write occupies.
const WATCHERS_PER_SEAT: usize = 10;
/// Time for which a write occupies the seats of its watchers.
const EVENT_DURATION: Duration = Duration::from_millis(5);
/// The number of objects from whose sizes the size of a list is estimated.
const SAMPLE: usize = 8;

/// The properties of a request that determine its seats.
pub(crate) enum Width<'a> {
    /// One seat.
    One,
    /// A request for a resource.
    Resource { verb: Verb, cache: &'a ResourceCache, query: &'a Query<'a> },
}

impl Width<'_> {
    /// Returns whether the request is a watch.
    pub(super) fn is_watch(&self) -> bool {
        matches!(self, Self::Resource { verb: Verb::Watch, .. })
    }

    /// Returns the work of the request in a level with at most this many seats per request.
    pub(super) fn work(&self, max_seats: usize) -> Work {
        let Self::Resource { verb, cache, query } = self else { return Work::ONE };
        match verb {
            Verb::List => list(cache, query, max_seats),
            Verb::Watch if sends_initial_events(query) => list(cache, query, max_seats),
            Verb::Create | Verb::Update | Verb::Patch | Verb::Delete => write(cache.watchers.count(), max_seats),
            Verb::Get | Verb::Watch | Verb::DeleteCollection | Verb::Unknown => Work::ONE,
        }
    }
}

fn sends_initial_events(query: &Query<'_>) -> bool {
    query.flag("sendInitialEvents") || matches!(query.text("resourceVersion"), "" | "0")
}

fn list(cache: &ResourceCache, query: &Query<'_>, max_seats: usize) -> Work {
    let one = query.text("fieldSelector").starts_with("metadata.name=");
    let limit = query.text("limit").parse().ok().filter(|limit| *limit > 0).unwrap_or(usize::MAX);
    let snapshot = cache.snapshot();
    let sampled = snapshot.len().clamp(1, SAMPLE);
    let size = snapshot.objects().take(sampled).map(|object| object.bytes().len()).sum::<usize>() / sampled;
    let count = if one { 1 } else { snapshot.len().min(limit) };
    let bytes = count.saturating_mul(size).min(LIST_BYTES);
    let seats = bytes.div_ceil(BYTES_PER_SEAT).clamp(1, max_seats.clamp(1, MAX_LIST_SEATS));
    Work { seats, ..Work::ONE }
}

fn write(watchers: usize, max_seats: usize) -> Work {
    if watchers < WATCHERS_PER_SEAT {
        return Work::ONE;
    }
    let wanted = watchers.div_ceil(WATCHERS_PER_SEAT);
    let seats = wanted.min(max_seats.clamp(1, MAX_WRITE_SEATS));
    // Fewer seats are occupied for longer.
    Work { final_seats: seats, linger: EVENT_DURATION.mul_f64(wanted as f64 / seats as f64), ..Work::ONE }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_with_many_watchers_keep_their_seats_longer() {
        assert_eq!(write(9, 15), Work::ONE);
        assert_eq!(write(10, 15), Work { seats: 1, final_seats: 1, linger: EVENT_DURATION });
        assert_eq!(write(95, 15), Work { seats: 1, final_seats: 10, linger: EVENT_DURATION });
        assert_eq!(write(400, 15), Work { seats: 1, final_seats: 10, linger: EVENT_DURATION * 4 });
        assert_eq!(write(40, 2), Work { seats: 1, final_seats: 2, linger: EVENT_DURATION * 2 });
    }
}
