//! Counters of used CPU time that only grow. Pure.

use std::collections::HashMap;

use jiff::Timestamp;
use windlass_resource_metrics::Point;

/// Resource usage of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reading {
    /// Cores in billionths, and bytes of memory.
    Rate { cpu: u64, memory: u64 },
    /// CPU time since the start in nanoseconds, and bytes of memory.
    Total { cpu: u64, memory: u64 },
}

/// A running container.
#[derive(Debug)]
pub(super) struct ContainerReading {
    pub(super) name: String,
    pub(super) started: Timestamp,
    pub(super) reading: Reading,
}

/// The counters of a node.
#[derive(Debug, Default)]
pub(super) struct NodeMeter {
    /// CPU time of all containers that the node has run, in nanoseconds.
    cpu: u64,
    /// By UID of the pod and name.
    containers: HashMap<(String, String), Counter>,
}

#[derive(Debug, Clone, Copy)]
struct Counter {
    started: Timestamp,
    read: Timestamp,
    cpu: u64,
}

/// One measurement of a node.
pub(super) struct Round<'a> {
    meter: &'a mut NodeMeter,
    known: HashMap<(String, String), Counter>,
    memory: u64,
}

impl NodeMeter {
    /// Starts a measurement. Containers that it does not read are dropped.
    pub(super) fn begin(&mut self) -> Round<'_> {
        let known = std::mem::take(&mut self.containers);
        Round { meter: self, known, memory: 0 }
    }
}

impl Round<'_> {
    /// Returns the measurement of a container.
    pub(super) fn read(&mut self, uid: &str, container: &ContainerReading, now: Timestamp) -> Point {
        let started = container.started;
        let key = (uid.to_owned(), container.name.clone());
        let new = Counter { started, read: started, cpu: 0 };
        let before = self.known.remove(&key).filter(|known| known.started == started).unwrap_or(new);
        let (cpu, memory) = match container.reading {
            Reading::Total { cpu, memory } => (cpu.max(before.cpu), memory),
            Reading::Rate { cpu, memory } => {
                let passed = u128::try_from(now.duration_since(before.read).as_nanos()).unwrap_or_default();
                let used = u64::try_from(u128::from(cpu) * passed / 1_000_000_000).unwrap_or(u64::MAX);
                (before.cpu.saturating_add(used), memory)
            }
        };
        self.meter.cpu = self.meter.cpu.saturating_add(cpu - before.cpu);
        self.memory = self.memory.saturating_add(memory);
        self.meter.containers.insert(key, Counter { started, read: now, cpu });
        Point { started: Some(started), time: now, cpu, memory }
    }

    /// Returns the measurement of the node.
    pub(super) fn end(self, started: Timestamp, now: Timestamp) -> Point {
        Point { started: Some(started), time: now, cpu: self.meter.cpu, memory: self.memory }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + seconds).unwrap()
    }

    fn container(name: &str, started: i64, reading: Reading) -> ContainerReading {
        ContainerReading { name: name.to_owned(), started: at(started), reading }
    }

    const MILLI: u64 = 1_000_000;

    fn rate(milli: u64) -> Reading {
        Reading::Rate { cpu: milli * MILLI, memory: 10 }
    }

    fn total(milli: u64) -> Reading {
        Reading::Total { cpu: milli * MILLI, memory: 10 }
    }

    #[test]
    fn a_rate_that_changes_changes_only_the_future() {
        let mut meter = NodeMeter::default();
        let mut read = |now: i64, milli: u64| {
            let mut round = meter.begin();
            round.read("uid", &container("a", 0, rate(milli)), at(now)).cpu / MILLI
        };
        assert_eq!([read(10, 100), read(20, 900), read(30, 0), read(40, 0)], [1000, 10_000, 10_000, 10_000]);
    }

    #[test]
    fn the_counter_of_a_node_outlives_its_containers() {
        let mut meter = NodeMeter::default();
        let mut measure = |now: i64, readings: &[(&str, i64, Reading)]| {
            let mut round = meter.begin();
            for (name, started, reading) in readings {
                round.read("uid", &container(name, *started, *reading), at(now));
            }
            let point = round.end(at(0), at(now));
            (point.cpu / MILLI, point.memory)
        };
        assert_eq!(measure(10, &[("a", 0, rate(100)), ("b", 5, total(30))]), (1030, 20));
        assert_eq!(measure(20, &[("b", 5, total(50))]), (1050, 10));
        // The time of a process is lost when it ends.
        assert_eq!(measure(30, &[("b", 5, total(40))]), (1050, 10));
        assert_eq!(measure(40, &[("b", 35, total(40))]), (1090, 10), "it was restarted");
        assert_eq!(measure(50, &[]), (1090, 0));
    }
}
