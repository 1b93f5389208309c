//! PriorityLevelConfigurations, compiled.

use serde_json::Value;

use super::{allocation::Shares, queue_set::Queuing, shuffle::MAX_HAND};

/// The spec of a PriorityLevelConfiguration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LevelSpec {
    pub(super) shares: Shares,
    pub(super) response: Response,
}

/// The treatment of requests that find no free seat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Response {
    /// There is no limit.
    Exempt,
    Reject,
    Queue(Queuing),
}

impl LevelSpec {
    /// Compiles a spec; `None` if it is broken.
    pub(super) fn compile(name: &str, spec: &Value) -> Option<Self> {
        let exempt = spec["type"] == "Exempt";
        if exempt != (name == "exempt") {
            return None;
        }
        let section = &spec[if exempt { "exempt" } else { "limited" }];
        let number = |value: &Value| value.as_u64().and_then(|number| u32::try_from(number).ok());
        let shares = Shares {
            shares: number(&section["nominalConcurrencyShares"]).unwrap_or(if exempt { 0 } else { 30 }),
            lendable_percent: number(&section["lendablePercent"]).unwrap_or(0).min(100),
            borrowing_limit_percent: number(&section["borrowingLimitPercent"]).filter(|_| !exempt),
        };
        let response = &section["limitResponse"];
        let response = match response["type"].as_str() {
            _ if exempt => Response::Exempt,
            Some("Queue") => {
                let count = |field: &str| number(&response["queuing"][field]).map(|count| count as usize);
                let queues = count("queues").filter(|queues| *queues > 0)?;
                let hand_size = count("handSize").filter(|hand| *hand > 0 && *hand <= queues.min(MAX_HAND))?;
                Response::Queue(Queuing { queues, hand_size, queue_length_limit: count("queueLengthLimit")? })
            }
            Some("Reject") => Response::Reject,
            _ => return None,
        };
        Some(Self { shares, response })
    }

    pub(super) fn queuing(&self) -> Option<Queuing> {
        match self.response {
            Response::Queue(queuing) => Some(queuing),
            Response::Exempt | Response::Reject => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn broken_specs_are_ignored() {
        let queuing = |queues: u32, hand: u32| {
            json!({"type": "Limited", "limited": {"limitResponse": {"type": "Queue",
                "queuing": {"queues": queues, "handSize": hand, "queueLengthLimit": 5}}}})
        };
        assert!(LevelSpec::compile("a", &queuing(8, 8)).is_some());
        for (name, spec) in [
            ("a", queuing(0, 1)),
            ("a", queuing(8, 9)),
            ("a", queuing(100, 16)),
            ("a", json!({"type": "Limited", "limited": {}})),
            ("a", json!({"type": "Exempt"})),
            ("exempt", queuing(8, 8)),
        ] {
            assert_eq!(LevelSpec::compile(name, &spec), None, "{name} {spec}");
        }
    }
}
