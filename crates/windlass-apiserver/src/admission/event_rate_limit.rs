//! EventRateLimit: limits how many events are written, by the server, namespace, user or source.

use std::collections::HashMap;

use async_trait::async_trait;
use http::StatusCode;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::Instant;

use super::{
    Admission, Attributes, Operation,
    configuration::{EventLimit, EventLimitType},
};
use crate::status::{ApiError, Result};

pub(crate) struct EventRateLimit {
    limits: Vec<Limiter>,
}

struct Limiter {
    limit: EventLimit,
    buckets: Mutex<Buckets>,
}

/// The buckets of a limit by key; of those above the limit's size, the one that was not used for the longest time is
/// dropped.
#[derive(Default)]
struct Buckets {
    by_key: HashMap<String, Bucket>,
    uses: u64,
}

struct Bucket {
    tokens: f64,
    filled: Instant,
    last_use: u64,
}

impl EventRateLimit {
    pub(crate) fn new(limits: Vec<EventLimit>) -> Self {
        let limiter = |limit| Limiter { limit, buckets: Mutex::default() };
        Self { limits: limits.into_iter().map(limiter).collect() }
    }
}

#[async_trait]
impl Admission for EventRateLimit {
    async fn validate(&self, write: &Attributes<'_>, object: &Value) -> Result<()> {
        let is_event = &*write.resource.plural == "events" && matches!(&*write.resource.group, "" | "events.k8s.io");
        let writes = matches!(write.operation, Operation::Create | Operation::Update);
        if !is_event || !writes || write.dry_run {
            return Ok(());
        }
        // All limits count the event, even if one of them rejects it.
        let reached: Vec<_> =
            self.limits.iter().filter_map(|limiter| limiter.reject(write, object, Instant::now())).collect();
        let message = match reached.as_slice() {
            [] => return Ok(()),
            [one] => one.clone(),
            all => format!("[{}]", all.join(", ")),
        };
        let message = format!("Too many requests: {message}");
        Err(ApiError::new(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", message))
    }
}

impl Limiter {
    /// Counts an event; returns the reason if there are too many.
    fn reject(&self, write: &Attributes<'_>, event: &Value, now: Instant) -> Option<String> {
        let kind = self.limit.kind;
        let key = match kind {
            EventLimitType::Server => String::new(),
            EventLimitType::Namespace => write.namespace.to_owned(),
            EventLimitType::User => write.user.name.clone(),
            EventLimitType::SourceAndObject => source_and_object(event),
        };
        let accepted = self.buckets.lock().take(&key, &self.limit, now);
        (!accepted).then(|| format!("limit reached on type {} for key {key}", kind.name()))
    }
}

impl Buckets {
    /// Takes a token from a bucket; returns false if it has none.
    fn take(&mut self, key: &str, limit: &EventLimit, now: Instant) -> bool {
        self.uses += 1;
        if !self.by_key.contains_key(key) {
            if self.by_key.len() >= limit.cache_size {
                let oldest = self.by_key.iter().min_by_key(|(_, bucket)| bucket.last_use);
                if let Some(oldest) = oldest.map(|(key, _)| key.clone()) {
                    self.by_key.remove(&oldest);
                }
            }
            let bucket = Bucket { tokens: f64::from(limit.burst), filled: now, last_use: self.uses };
            self.by_key.insert(key.to_owned(), bucket);
        }
        let Some(bucket) = self.by_key.get_mut(key) else { return true };
        let elapsed = now.saturating_duration_since(bucket.filled).as_secs_f64();
        bucket.tokens = elapsed.mul_add(f64::from(limit.qps), bucket.tokens).min(f64::from(limit.burst));
        (bucket.filled, bucket.last_use) = (now, self.uses);
        if bucket.tokens < 1.0 {
            return false;
        }
        bucket.tokens -= 1.0;
        true
    }
}

/// Returns the key of the source of an event and the object that it names.
fn source_and_object(event: &Value) -> String {
    let about = if event["involvedObject"].is_object() { &event["involvedObject"] } else { &event["regarding"] };
    let source = if event["source"].is_object() { &event["source"] } else { &event["deprecatedSource"] };
    let texts = [
        (source, "component"),
        (source, "host"),
        (about, "kind"),
        (about, "namespace"),
        (about, "name"),
        (about, "uid"),
        (about, "apiVersion"),
    ];
    texts.map(|(object, field)| object[field].as_str().unwrap_or_default()).concat()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn limit(cache_size: usize) -> EventLimit {
        EventLimit { kind: EventLimitType::Namespace, qps: 2, burst: 3, cache_size }
    }

    #[test]
    fn a_bucket_has_a_burst_and_is_filled_over_time() {
        let (mut buckets, limit, start) = (Buckets::default(), limit(2), Instant::now());
        let mut take = |key: &str, millis: u64| buckets.take(key, &limit, start + Duration::from_millis(millis));
        assert_eq!([take("a", 0), take("a", 0), take("a", 0), take("a", 0)], [true, true, true, false]);
        assert!(take("b", 0), "another key has a bucket of its own");
        assert_eq!([take("a", 499), take("a", 500), take("a", 500)], [false, true, false]);
        assert_eq!([take("a", 9000), take("a", 9000), take("a", 9000), take("a", 9000)], [true, true, true, false]);
    }

    #[test]
    fn the_least_recently_used_bucket_is_dropped() {
        let (mut buckets, limit, now) = (Buckets::default(), limit(2), Instant::now());
        for key in ["a", "a", "a", "b", "a", "c"] {
            buckets.take(key, &limit, now);
        }
        let mut keys: Vec<_> = buckets.by_key.keys().cloned().collect();
        keys.sort_unstable();
        assert_eq!(keys, ["a", "c"]);
        assert!(!buckets.take("a", &limit, now), "it is still empty");
    }
}
