//! The measures, the targets for Windlass, and the numbers of one server.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// One row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Measure {
    Start,
    MemoryAfterStart,
    MemoryAfterLoad,
    Create,
    Get,
    List,
    LabelList,
    MergePatch,
    StatusPatch,
    Apply,
    Watch,
    Delete,
}

/// Unit of a measure, which also decides whether more is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    Seconds,
    Bytes,
    Count,
    PerSecond,
}

/// Required ratio to kube-apiserver with etcd, and required share of the floor.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Target {
    pub(crate) ratio: f64,
    pub(crate) floor_share: Option<f64>,
}

impl Measure {
    pub(crate) const ALL: [Self; 12] = [
        Self::Start,
        Self::MemoryAfterStart,
        Self::MemoryAfterLoad,
        Self::Create,
        Self::Get,
        Self::List,
        Self::LabelList,
        Self::MergePatch,
        Self::StatusPatch,
        Self::Apply,
        Self::Watch,
        Self::Delete,
    ];

    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Start => "start to ready",
            Self::MemoryAfterStart => "memory after start",
            Self::MemoryAfterLoad => "memory after the load",
            Self::Create => "create (durable)",
            Self::Get => "get",
            Self::List => "list all",
            Self::LabelList => "list by label (1/16)",
            Self::MergePatch => "merge patch",
            Self::StatusPatch => "status merge patch",
            Self::Apply => "server-side apply",
            Self::Watch => "watch fan-out, events",
            Self::Delete => "delete",
        }
    }

    pub(crate) fn unit(self) -> Unit {
        match self {
            Self::Start => Unit::Seconds,
            Self::MemoryAfterStart | Self::MemoryAfterLoad => Unit::Bytes,
            _ => Unit::PerSecond,
        }
    }

    pub(crate) fn target(self) -> Target {
        let (ratio, floor_share) = match self {
            Self::Start => (100.0, None),
            Self::MemoryAfterStart | Self::MemoryAfterLoad => (15.0, None),
            Self::Create => (8.0, None),
            Self::Get => (12.0, Some(0.70)),
            Self::List => (10.0, Some(0.80)),
            Self::LabelList => (9.0, Some(0.75)),
            Self::MergePatch | Self::StatusPatch => (10.0, None),
            Self::Apply => (8.0, None),
            Self::Watch => (10.0, None),
            Self::Delete => (10.0, None),
        };
        Target { ratio, floor_share }
    }
}

impl Unit {
    /// Returns how many times better one value is than another: above one is better, regardless of the unit.
    pub(crate) fn ratio(self, ours: f64, theirs: f64) -> f64 {
        if self == Self::PerSecond { ours / theirs } else { theirs / ours }
    }
}

/// One number, with request statistics if it comes from requests.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Figure {
    /// Value in the measure's unit.
    pub(crate) value: f64,
    pub(crate) requests: Option<Requests>,
}

/// Request statistics of a phase.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Requests {
    pub(crate) median_micros: u32,
    pub(crate) p99_micros: u32,
    /// Size of a response.
    pub(crate) bytes: f64,
    /// Processor time of the server per response or per event.
    pub(crate) server_micros: f64,
}

/// All numbers of one server in one run.
pub(crate) type Figures = BTreeMap<Measure, Figure>;

impl Figure {
    pub(crate) fn plain(value: f64) -> Self {
        Self { value, requests: None }
    }

    pub(crate) fn to_json(self) -> Value {
        let mut json = json!({"value": self.value});
        if let Some(requests) = self.requests {
            json["p50Micros"] = json!(requests.median_micros);
            json["p99Micros"] = json!(requests.p99_micros);
            json["answerBytes"] = json!(requests.bytes);
            json["serverCpuMicros"] = json!(requests.server_micros);
        }
        json
    }
}

/// Returns the median run for every measure; the lower one of two.
pub(crate) fn medians(runs: &[Figures]) -> Figures {
    let middle = |measure| {
        let mut figures: Vec<Figure> = runs.iter().filter_map(|run| run.get(&measure)).copied().collect();
        figures.sort_by(|a, b| a.value.total_cmp(&b.value));
        let middle = figures.len().checked_sub(1)? / 2;
        Some((measure, figures[middle]))
    };
    Measure::ALL.into_iter().filter_map(middle).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_is_better_for_rates_and_less_for_time_and_memory() {
        assert_eq!(Measure::Get.unit().ratio(30.0, 10.0), 3.0);
        assert_eq!(Measure::Start.unit().ratio(1.0, 5.0), 5.0);
        assert_eq!(Measure::MemoryAfterLoad.unit().ratio(10.0, 40.0), 4.0);
    }

    #[test]
    fn the_median_is_taken_of_each_measure_by_itself() {
        let run =
            |get, delete| Figures::from([(Measure::Get, Figure::plain(get)), (Measure::Delete, Figure::plain(delete))]);
        let runs = [run(1.0, 30.0), run(3.0, 10.0), run(2.0, 20.0)];
        assert_eq!(medians(&runs), run(2.0, 20.0));
        assert_eq!(medians(&runs[..2]), run(1.0, 10.0));
        assert_eq!(medians(&[]), Figures::new());
    }
}
