//! Usage, from the last two measurements. Pure.
//!
//! CPU usage is a rate: the CPU time between two measurements, divided by the time between them, the window. A
//! container without an earlier measurement has no usage yet, unless it is so new that its start can be the earlier
//! one.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use jiff::Timestamp;
use windlass_schema::sorting::Gather as _;

use crate::sample::{NodeSample, Point};

/// The shortest time since the start of a container over which its usage is computed.
const YOUNGEST: Duration = Duration::from_secs(10);

/// The usage of a node or container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Usage {
    /// Time at which the window ended.
    pub(crate) time: Timestamp,
    /// The length of the window.
    pub(crate) window: Duration,
    /// Used cores, in billionths.
    pub(crate) cpu: u64,
    /// The working set, in bytes.
    pub(crate) memory: u64,
}

/// The last measurement, and the one before.
#[derive(Debug, Clone, Copy)]
struct Pair {
    last: Point,
    previous: Option<Point>,
}

impl Pair {
    /// Returns the pair after another measurement. `resolution` is the usual time between two.
    fn new(point: Point, known: Option<Self>, resolution: Duration) -> Self {
        let restarted = |last: &Point| point.started.is_some_and(|started| started >= last.time);
        let previous = known.and_then(|known| match known.last {
            last if restarted(&last) => None,
            last if last.time < point.time => Some(last),
            // The same measurement again.
            _ => known.previous.filter(|previous| previous.time < point.time),
        });
        let fresh = || {
            let started = point.started?;
            let age = since(started, point.time)?;
            (YOUNGEST..resolution).contains(&age).then_some(Point { time: started, cpu: 0, ..point })
        };
        Self { last: point, previous: previous.or_else(fresh) }
    }

    fn usage(&self) -> Option<Usage> {
        let (last, previous) = (self.last, self.previous?);
        let window = since(previous.time, last.time).filter(|window| !window.is_zero())?;
        // A counter that decreases was reset.
        let used = last.cpu.checked_sub(previous.cpu)?;
        let rate = u128::from(used) * 1_000_000_000 / window.as_nanos();
        Some(Usage { time: last.time, window, cpu: u64::try_from(rate).unwrap_or(u64::MAX), memory: last.memory })
    }
}

fn since(start: Timestamp, end: Timestamp) -> Option<Duration> {
    Duration::try_from(end.duration_since(start)).ok()
}

/// The last two measurements of all nodes and containers.
#[derive(Debug, Default)]
pub(crate) struct Windows {
    nodes: HashMap<String, Pair>,
    /// By namespace and name.
    pods: HashMap<(String, String), BTreeMap<String, Pair>>,
}

impl Windows {
    /// Adds the measurements of all nodes. What was not measured is dropped.
    pub(crate) fn add(&mut self, samples: Vec<NodeSample>, resolution: Duration) {
        let known = std::mem::take(self);
        for sample in samples {
            if let Some(point) = sample.node {
                let pair = Pair::new(point, known.nodes.get(&sample.name).copied(), resolution);
                self.nodes.insert(sample.name, pair);
            }
            for pod in sample.pods {
                let key = (pod.namespace, pod.name);
                let before = known.pods.get(&key);
                let pairs = pod.containers.into_iter().map(|(name, point)| {
                    let known = before.and_then(|before| before.get(&name).copied());
                    (name, Pair::new(point, known, resolution))
                });
                let pairs = pairs.gather();
                self.pods.insert(key, pairs);
            }
        }
    }

    /// Returns the usage of a node.
    pub(crate) fn node(&self, name: &str) -> Option<Usage> {
        self.nodes.get(name)?.usage()
    }

    /// Returns the usage of the containers of a pod; `None` if one of them has no earlier measurement.
    pub(crate) fn pod(&self, namespace: &str, name: &str) -> Option<Vec<(&str, Usage)>> {
        let pairs = self.pods.get(&(namespace.to_owned(), name.to_owned()))?;
        if pairs.is_empty() || pairs.values().any(|pair| pair.previous.is_none()) {
            return None;
        }
        let usages = pairs.iter().filter_map(|(container, pair)| Some((container.as_str(), pair.usage()?)));
        Some(usages.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::PodSample;

    const RESOLUTION: Duration = Duration::from_secs(15);

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + seconds).unwrap()
    }

    /// A container that has used this many milliseconds of CPU time.
    fn point(started: i64, time: i64, milliseconds: u64) -> Point {
        Point { started: Some(at(started)), time: at(time), cpu: milliseconds * 1_000_000, memory: 4096 }
    }

    fn sample(containers: &[(&str, Point)]) -> Vec<NodeSample> {
        let containers = containers.iter().map(|(name, point)| ((*name).to_owned(), *point)).collect();
        let pod = PodSample { namespace: "n".to_owned(), name: "p".to_owned(), containers };
        vec![NodeSample { name: "node-1".to_owned(), node: Some(point(0, 100, 1)), pods: vec![pod] }]
    }

    fn cores(windows: &Windows) -> Option<Vec<(&str, u64, u64)>> {
        let usages = windows.pod("n", "p")?;
        Some(usages.iter().map(|(name, usage)| (*name, usage.cpu / 1_000_000, usage.window.as_secs())).collect())
    }

    #[test]
    fn usage_is_the_rate_between_two_measurements() {
        let mut windows = Windows::default();
        windows.add(sample(&[("a", point(0, 100, 1000))]), RESOLUTION);
        assert_eq!(cores(&windows), None, "one measurement says nothing");
        windows.add(sample(&[("a", point(0, 115, 4000))]), RESOLUTION);
        assert_eq!(cores(&windows), Some(vec![("a", 200, 15)]));
        // The same measurement again changes nothing.
        windows.add(sample(&[("a", point(0, 115, 4000))]), RESOLUTION);
        assert_eq!(cores(&windows), Some(vec![("a", 200, 15)]));
        assert_eq!(windows.node("node-1"), None, "the node was measured at one time only");
        assert_eq!(windows.node("node-2"), None);
        windows.add(Vec::new(), RESOLUTION);
        assert_eq!(cores(&windows), None, "the pod is gone");
    }

    #[test]
    fn a_restarted_container_has_no_usage_until_it_is_measured_twice() {
        let mut windows = Windows::default();
        windows.add(sample(&[("a", point(0, 100, 1000)), ("b", point(0, 100, 1000))]), RESOLUTION);
        windows.add(sample(&[("a", point(0, 115, 2500)), ("b", point(112, 115, 10))]), RESOLUTION);
        assert_eq!(cores(&windows), None, "the pod is incomplete");
        windows.add(sample(&[("a", point(0, 130, 4000)), ("b", point(112, 130, 160))]), RESOLUTION);
        assert_eq!(cores(&windows), Some(vec![("a", 100, 15), ("b", 10, 15)]));
    }

    #[test]
    fn the_start_of_a_new_container_is_its_first_measurement() {
        for (age, expected) in
            [(9, None), (10, Some(vec![("a", 100, 10)])), (14, Some(vec![("a", 71, 14)])), (15, None)]
        {
            let mut windows = Windows::default();
            windows.add(sample(&[("a", point(100, 100 + age, 1000))]), RESOLUTION);
            assert_eq!(cores(&windows), expected, "{age}");
        }
    }

    #[test]
    fn a_counter_that_decreases_without_a_restart_is_skipped() {
        let mut windows = Windows::default();
        windows.add(sample(&[("a", point(0, 100, 1000))]), RESOLUTION);
        windows.add(sample(&[("a", point(0, 115, 999))]), RESOLUTION);
        assert_eq!(cores(&windows), Some(vec![]));
    }
}
