//! Successful writes to a server by resource, from its metrics.

use std::{collections::BTreeMap, fmt};

use anyhow::ensure;
use http::Method;
use serde_json::{Value, json};

use crate::client::{Body, Client};

/// Successful writes by resource.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Writes(BTreeMap<String, u64>);

impl Writes {
    /// Reads all writes since the server started.
    pub(super) async fn of(client: &Client) -> anyhow::Result<Self> {
        let (status, text) = client.ask(Method::GET, "/metrics", Body::default()).await?;
        ensure!(status.is_success(), "cannot read /metrics: {status}");
        Ok(Self::parse(text.as_str().unwrap_or_default()))
    }

    pub(super) fn parse(metrics: &str) -> Self {
        let mut writes = BTreeMap::new();
        for line in metrics.lines().filter(|line| line.starts_with("apiserver_request_total{")) {
            let label = |name: &str| {
                let rest = line.split_once(&format!("{name}=\""))?.1;
                rest.split_once('"').map(|(value, _)| value)
            };
            let is_write = matches!(label("verb"), Some("POST" | "PUT" | "PATCH" | "DELETE" | "DELETECOLLECTION"));
            let succeeded = label("code").is_some_and(|code| code.starts_with('2'));
            let count = line.rsplit_once(' ').and_then(|(_, count)| count.parse::<u64>().ok());
            if let (true, true, Some(resource), Some(count)) = (is_write, succeeded, label("resource"), count) {
                *writes.entry(resource.to_owned()).or_default() += count;
            }
        }
        Self(writes)
    }

    /// Returns the writes since an earlier reading.
    pub(super) fn since(&self, before: &Self) -> Self {
        let news = self
            .0
            .iter()
            .map(|(resource, count)| (resource.clone(), count - before.0.get(resource).copied().unwrap_or_default()));
        Self(news.filter(|(_, count)| *count > 0).collect())
    }

    /// Returns all writes except for node heartbeats and events.
    pub(super) fn without_signs_of_life(&self) -> u64 {
        let counts = |resource: &str| !matches!(resource, "leases" | "nodes" | "events");
        self.0.iter().filter(|(resource, _)| counts(resource)).map(|(_, count)| count).sum()
    }

    pub(super) fn to_json(&self) -> Value {
        json!(self.0)
    }
}

impl fmt::Display for Writes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<String> = self.0.iter().map(|(resource, count)| format!("{resource} {count}")).collect();
        formatter.write_str(&all.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_that_succeeded_are_counted_by_kind() {
        let line = |verb: &str, resource: &str, code: u16, count: u64| {
            format!(
                "apiserver_request_total{{verb=\"{verb}\",group=\"\",resource=\"{resource}\",code=\"{code}\"}} {count}\n"
            )
        };
        let before = Writes::parse(&(line("PUT", "pods", 200, 2) + &line("GET", "pods", 200, 50)));
        let after = [line("PUT", "pods", 200, 5), line("POST", "pods", 201, 4), line("PUT", "pods", 409, 7)].concat()
            + &line("PUT", "leases", 200, 3);
        let news = Writes::parse(&after).since(&before);
        assert_eq!(news.to_string(), "leases 3, pods 7");
        assert_eq!(news.without_signs_of_life(), 7);
    }
}
