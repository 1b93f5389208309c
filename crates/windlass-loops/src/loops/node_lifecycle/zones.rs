//! The rate of tainting unready nodes. Pure.
//!
//! If few nodes of a zone are unready, the problem is likely theirs, and they are tainted one after the other. If many
//! are, the problem is likely ours, and tainting slows down or stops. If no node at all is ready, nothing is tainted,
//! because pods could not run elsewhere.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use k8s_openapi::api::core::v1::Node;
use tokio::time::Instant;
use windlass_schema::sorting::Gather as _;

/// Nodes tainted per second: in a healthy zone, and in a large unhealthy one.
const RATE: f64 = 0.1;
const SLOW_RATE: f64 = 0.01;
/// A zone with more nodes than this is large.
const LARGE: usize = 50;
/// The share of unready nodes that makes a zone unhealthy.
const MANY: f64 = 0.55;

/// The state of a zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Initial,
    Normal,
    Partial,
    Full,
}

/// The consequence of a check of all nodes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Turn {
    None,
    /// No node is ready anymore: stop evictions and remove the taints.
    AllLost,
    /// Some nodes are ready again after none was: treat all as if they had just reported.
    SomeBack,
}

/// All zones.
#[derive(Debug, Default)]
pub(super) struct Zones(BTreeMap<String, Zone>);

#[derive(Debug)]
struct Zone {
    state: State,
    waiting: VecDeque<String>,
    /// Waiting and tainted nodes.
    listed: BTreeSet<String>,
    rate: f64,
    /// Time at which the next node may be tainted.
    next: Option<Instant>,
}

/// The zone of a node.
pub(super) fn zone_of(node: &Node) -> String {
    let label = |keys: [&str; 2]| {
        let labels = node.metadata.labels.as_ref();
        keys.into_iter().find_map(|key| labels?.get(key).filter(|value| !value.is_empty())).cloned().unwrap_or_default()
    };
    let region = label(["topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region"]);
    let zone = label(["topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"]);
    format!("{region}/{zone}")
}

impl Zones {
    fn zone(&mut self, name: &str) -> &mut Zone {
        self.0.entry(name.to_owned()).or_insert_with(|| Zone {
            state: State::Initial,
            waiting: VecDeque::new(),
            listed: BTreeSet::new(),
            rate: RATE,
            next: None,
        })
    }

    /// Records an unready node, and whether it already has the taint.
    pub(super) fn mark(&mut self, zone: &str, node: &str, tainted: bool) {
        let zone = self.zone(zone);
        if !tainted {
            zone.remove(node);
        }
        if zone.listed.insert(node.to_owned()) {
            zone.waiting.push_back(node.to_owned());
        }
    }

    /// Removes a node that is ready, deleted, or could not be tainted.
    pub(super) fn remove(&mut self, zone: &str, node: &str) {
        if let Some(zone) = self.0.get_mut(zone) {
            zone.remove(node);
        }
    }

    /// Updates the states of the zones from the readiness of their nodes.
    pub(super) fn look(&mut self, ready: &BTreeMap<String, Vec<bool>>) -> Turn {
        let states: BTreeMap<&String, State> = ready.iter().map(|(zone, nodes)| (zone, state(nodes))).gather();
        for zone in ready.keys() {
            self.zone(zone);
        }
        self.0.retain(|zone, _| ready.contains_key(zone));
        let all_lost = states.values().all(|state| *state == State::Full);
        let all_were_lost = self.0.values().all(|zone| zone.state == State::Full);
        if all_lost && all_were_lost {
            return Turn::None;
        }
        for (name, zone) in &mut self.0 {
            let (state, size) = (states[name], ready[name].len());
            zone.rate = match state {
                _ if all_lost => 0.0,
                State::Partial if size > LARGE => SLOW_RATE,
                State::Partial => 0.0,
                _ => RATE,
            };
            zone.state = state;
        }
        match (all_lost, all_were_lost) {
            (true, _) => Turn::AllLost,
            (_, true) => Turn::SomeBack,
            _ => Turn::None,
        }
    }

    /// The nodes to taint now.
    pub(super) fn due(&mut self, now: Instant) -> Vec<String> {
        let mut due = Vec::new();
        for zone in self.0.values_mut() {
            if zone.rate > 0.0
                && zone.next.is_none_or(|next| next <= now)
                && let Some(node) = zone.waiting.pop_front()
            {
                due.push(node);
                zone.next = Some(now + std::time::Duration::from_secs_f64(1.0 / zone.rate));
            }
        }
        due
    }
}

impl Zone {
    fn remove(&mut self, node: &str) {
        if self.listed.remove(node) {
            self.waiting.retain(|waiting| waiting != node);
        }
    }
}

fn state(ready: &[bool]) -> State {
    let lost = ready.iter().filter(|ready| !**ready).count();
    let part = lost as f64 / ready.len().max(1) as f64;
    match lost {
        0 => State::Normal,
        _ if lost == ready.len() => State::Full,
        3.. if part >= MANY => State::Partial,
        _ => State::Normal,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// A zone with `all` nodes, `ready` of them ready.
    fn nodes(all: usize, ready: usize) -> Vec<bool> {
        (0..all).map(|index| index < ready).collect()
    }

    fn one(all: usize, ready: usize) -> BTreeMap<String, Vec<bool>> {
        [("z".to_owned(), nodes(all, ready))].into()
    }

    #[test]
    fn a_zone_is_partially_disrupted_if_many_of_its_nodes_are_unready() {
        for (all, ready, expected) in [
            (3, 3, State::Normal),
            (3, 1, State::Normal),
            (3, 0, State::Full),
            (5, 2, State::Partial),
            (10, 5, State::Normal),
            (10, 4, State::Partial),
        ] {
            assert_eq!(state(&nodes(all, ready)), expected, "{ready} of {all}");
        }
    }

    #[test]
    fn nodes_are_tainted_one_after_the_other() {
        let mut zones = Zones::default();
        let start = Instant::now();
        for node in ["a", "b"] {
            zones.mark("z", node, false);
        }
        assert_eq!(zones.look(&one(5, 3)), Turn::None);
        assert_eq!(zones.due(start), ["a"]);
        zones.mark("z", "a", true);
        assert!(zones.due(start + Duration::from_secs(5)).is_empty());
        assert_eq!(zones.due(start + Duration::from_secs(10)), ["b"]);
        assert!(zones.due(start + Duration::from_secs(20)).is_empty(), "those with a taint are dealt with");
        zones.mark("z", "b", false);
        assert_eq!(zones.due(start + Duration::from_secs(20)), ["b"], "its taint was removed");
    }

    #[test]
    fn nothing_is_tainted_if_no_node_is_ready() {
        let mut zones = Zones::default();
        let start = Instant::now();
        zones.mark("z", "a", false);
        assert_eq!(zones.look(&one(1, 0)), Turn::AllLost);
        assert!(zones.due(start).is_empty());
        assert_eq!(zones.look(&one(1, 0)), Turn::None);
        assert_eq!(zones.look(&one(2, 1)), Turn::SomeBack);
        assert_eq!(zones.due(start), ["a"]);
        let elsewhere = [("y".to_owned(), nodes(4, 4)), ("z".to_owned(), nodes(3, 0))].into();
        assert_eq!(zones.look(&elsewhere), Turn::None, "another zone is well");
        zones.mark("z", "b", false);
        assert_eq!(zones.due(start + Duration::from_secs(10)), ["b"]);
    }

    #[test]
    fn a_partially_disrupted_zone_is_tainted_slowly_if_large_and_not_at_all_if_small() {
        let start = Instant::now();
        let mut small = Zones::default();
        small.mark("z", "a", false);
        small.look(&one(10, 4));
        assert!(small.due(start).is_empty());
        let mut large = Zones::default();
        for node in ["a", "b"] {
            large.mark("z", node, false);
        }
        large.look(&one(100, 40));
        assert_eq!(large.due(start), ["a"]);
        assert!(large.due(start + Duration::from_secs(99)).is_empty());
        assert_eq!(large.due(start + Duration::from_secs(100)), ["b"]);
    }
}
