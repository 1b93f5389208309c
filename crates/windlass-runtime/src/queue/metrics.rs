//! Metrics of queues, under client-go's names and controller-runtime's labels.
//!
//! Everything is read from the queues when metrics are scraped, so that ages are current and no timer is needed.

use std::{
    fmt,
    sync::{Arc, Weak},
};

use parking_lot::Mutex;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet},
    metrics::MetricType,
};

use super::stats::{BOUNDS, Durations, Stats};
use crate::metrics::Metrics;

/// The `workqueue_*` metric families of a process. A cheap handle: clones share them.
///
/// | family | meaning |
/// |---|---|
/// | `workqueue_depth{priority}` | number of ready keys |
/// | `workqueue_adds_total` | keys that became ready |
/// | `workqueue_queue_duration_seconds` | time that keys waited for a worker after becoming ready |
/// | `workqueue_work_duration_seconds` | time that workers took to process keys |
/// | `workqueue_unfinished_work_seconds` | total processing time of the keys that are being processed |
/// | `workqueue_longest_running_processor_seconds` | longest processing time of a key that is being processed |
/// | `workqueue_retries_total` | keys that were delayed, after a failure or otherwise |
///
/// Each has the labels `name` and `controller`, both with the name of the queue. A dropped queue is no longer reported.
///
/// ```
/// use windlass_runtime::{metrics::Metrics, queue::{Priority, Queue, QueueMetrics}};
///
/// let metrics = Metrics::new();
/// let queues = QueueMetrics::register(&metrics);
/// let queue = Queue::builder("foo").metrics(&queues).build();
/// queue.add("a", Priority::NORMAL);
/// assert!(metrics.encode().contains(r#"workqueue_depth{name="foo",controller="foo",priority="0"} 1"#));
/// ```
#[derive(Clone, Debug)]
pub struct QueueMetrics {
    queues: Arc<Queues>,
}

impl QueueMetrics {
    /// Registers the families. Must be called once per [`Metrics`], as names must be unique.
    pub fn register(metrics: &Metrics) -> Self {
        let queues = Arc::new(Queues::default());
        metrics.register(|registry| registry.register_collector(Box::new(queues.clone())));
        Self { queues }
    }

    pub(super) fn add(&self, name: &str, queue: Weak<dyn Counted>) {
        let mut queues = self.queues.queues.lock();
        queues.retain(|other| other.queue.strong_count() > 0);
        queues.push(RegisteredQueue { name: name.to_owned(), queue });
    }
}

/// A source of queue statistics.
pub(super) trait Counted: Send + Sync {
    fn stats(&self) -> Stats;
}

#[derive(Default)]
struct Queues {
    queues: Mutex<Vec<RegisteredQueue>>,
}

struct RegisteredQueue {
    name: String,
    queue: Weak<dyn Counted>,
}

impl fmt::Debug for Queues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.queues.lock().iter().map(|queues| &queues.name)).finish()
    }
}

impl Collector for Queues {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        let queues: Vec<(String, Stats)> = {
            let queues = self.queues.lock();
            let alive = queues.iter().filter_map(|queues| Some((queues.name.clone(), queues.queue.upgrade()?)));
            alive.map(|(name, queue)| (name, queue.stats())).collect()
        };
        if queues.is_empty() {
            return Ok(());
        }
        let mut family = |name: &str, help: &str, kind, each: &Each<'_>| {
            let mut metric = encoder.encode_descriptor(name, help, None, kind)?;
            queues.iter().try_for_each(|(name, stats)| {
                let labels = [("name", name.as_str()), ("controller", name.as_str())];
                each(metric.encode_family(&labels)?, stats)
            })
        };

        family("workqueue_adds", "Keys that became ready", MetricType::Counter, &|mut metric, stats| {
            metric.encode_counter::<NoLabelSet, u64, f64>(&stats.adds, None)
        })?;
        family("workqueue_retries", "Keys that were delayed", MetricType::Counter, &|mut metric, stats| {
            metric.encode_counter::<NoLabelSet, u64, f64>(&stats.retries, None)
        })?;
        family(
            "workqueue_unfinished_work_seconds",
            "Total processing time of the keys that are being processed, in seconds",
            MetricType::Gauge,
            &|mut metric, stats| metric.encode_gauge(&stats.unfinished.as_secs_f64()),
        )?;
        family(
            "workqueue_longest_running_processor_seconds",
            "Longest processing time of a key that is being processed, in seconds",
            MetricType::Gauge,
            &|mut metric, stats| metric.encode_gauge(&stats.longest.as_secs_f64()),
        )?;
        family(
            "workqueue_queue_duration_seconds",
            "Time that keys waited for a worker after becoming ready, in seconds",
            MetricType::Histogram,
            &|metric, stats| histogram(metric, &stats.queued),
        )?;
        family(
            "workqueue_work_duration_seconds",
            "Time that workers took to process keys, in seconds",
            MetricType::Histogram,
            &|metric, stats| histogram(metric, &stats.worked),
        )?;

        let mut depth =
            encoder.encode_descriptor("workqueue_depth", "Number of ready keys", None, MetricType::Gauge)?;
        for (name, stats) in &queues {
            for (priority, len) in &stats.depths {
                let priority = priority.0.to_string();
                let labels = [("name", name.as_str()), ("controller", name.as_str()), ("priority", &priority)];
                depth.encode_family(&labels)?.encode_gauge(&(*len as u64))?;
            }
        }
        Ok(())
    }
}

type Each<'a> = dyn Fn(MetricEncoder<'_>, &Stats) -> fmt::Result + 'a;

fn histogram(mut metric: MetricEncoder<'_>, durations: &Durations) -> fmt::Result {
    let bounds = BOUNDS.into_iter().chain([f64::MAX]);
    let buckets: Vec<(f64, u64)> = bounds.zip(durations.buckets).collect();
    metric.encode_histogram::<NoLabelSet>(durations.sum.as_secs_f64(), durations.count, &buckets, None)
}
