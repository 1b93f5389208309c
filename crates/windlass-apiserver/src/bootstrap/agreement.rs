//! Options that several API servers over one store must have in common.
//!
//! Each server publishes its options with its endpoint. One that starts compares them with those of the servers that run,
//! and does not start if a difference would break clients: addresses from two networks, or credentials that only some
//! servers accept. Other differences are logged, because they are normal while options are changed on one server after
//! the other.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    pin::pin,
};

use ring::digest;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::time::{Instant, sleep_until};
use tracing::warn;
use windlass_store::Revision;

use super::endpoint_lease::{EXPIRY, EndpointLease, PREFIX};
use crate::{
    replicas,
    server::{BuildError, Inner, Server},
};

/// The options of a server, by the names that users know them by.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Agreement {
    /// Those that must be equal.
    required: BTreeMap<String, String>,
    /// What new credentials have, followed by what others may have.
    accepted: BTreeMap<String, Vec<String>>,
    /// Those that should be equal.
    expected: BTreeMap<String, String>,
}

/// An option that two servers do not have in common.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Difference {
    name: String,
    here: String,
    there: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |value: &str| if value.is_empty() { "not set".to_owned() } else { value.to_owned() };
        write!(f, "{} is {} here and {} there", self.name, shown(&self.here), shown(&self.there))
    }
}

impl Agreement {
    /// Adds an option that must be equal.
    pub(crate) fn require(&mut self, name: &str, value: impl fmt::Display) {
        self.required.insert(name.to_owned(), value.to_string());
    }

    /// Adds what new credentials have, and after that what others may have: all servers must accept the first one.
    pub(crate) fn accept<'a>(&mut self, name: &str, values: impl IntoIterator<Item = &'a str>) {
        self.accepted.insert(name.to_owned(), values.into_iter().map(str::to_owned).collect());
    }

    /// Adds an option that should be equal.
    pub(crate) fn expect(&mut self, name: &str, value: impl fmt::Display) {
        self.expected.insert(name.to_owned(), value.to_string());
    }

    /// Returns the differences that must not be. Options that only one of two versions publishes are not compared.
    fn conflicts(&self, other: &Self) -> Vec<Difference> {
        let mut conflicts = differences(&self.required, &other.required);
        for (name, here) in &self.accepted {
            let Some(there) = other.accepted.get(name) else { continue };
            let accepts = |all: &[String], first: Option<&String>| first.is_none_or(|first| all.contains(first));
            if !(accepts(there, here.first()) && accepts(here, there.first())) {
                let [here, there] = [here, there].map(|values| values.join(","));
                conflicts.push(Difference { name: name.clone(), here, there });
            }
        }
        conflicts
    }
}

fn differences(here: &BTreeMap<String, String>, there: &BTreeMap<String, String>) -> Vec<Difference> {
    let both = here.iter().filter_map(|(name, here)| Some((name, here, there.get(name)?)));
    let different = both.filter(|(_, here, there)| here != there);
    different
        .map(|(name, here, there)| Difference { name: name.clone(), here: here.clone(), there: there.clone() })
        .collect()
}

/// Returns a short hash of the first certificate in a PEM text, which tells authorities apart.
pub(crate) fn authority(pem: &str) -> String {
    const END: &str = "-----END CERTIFICATE-----";
    let first = pem.split_once(END).map_or(pem, |(first, _)| first).trim();
    let hash = digest::digest(&digest::SHA256, first.as_bytes());
    let hex: String = hash.as_ref()[..8].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}...")
}

/// Records of servers that no longer run, by their names.
type Dead = HashMap<String, Revision>;

/// Publishes the endpoint and the options of a server, unless one that runs has conflicting ones.
pub(super) async fn join(server: &Server, lease: &EndpointLease) -> Result<(), BuildError> {
    let inner = &server.inner;
    let dead = wait_for_agreement(inner, lease).await?;
    if !dead.is_empty() {
        // Proofs are not yet repeated, and the last one may be too old.
        replicas::prove(inner)
            .await
            .map_err(|error| super::failed("the endpoint of this API server", &error.into()))?;
    }
    lease.renew(inner).await.map_err(|error| super::failed("the endpoint of this API server", &error))?;
    // One that has started at the same time may not have seen this one.
    let conflicting = conflicting(inner, lease).into_iter().find(|it| dead.get(&it.address) != Some(&it.revision));
    match conflicting {
        None => Ok(()),
        Some(other) => {
            lease.leave(server).await;
            Err(other.into_error())
        }
    }
}

/// Another server with conflicting options.
struct Conflicting {
    address: String,
    revision: Revision,
    conflicts: Vec<Difference>,
}

impl Conflicting {
    fn into_error(self) -> BuildError {
        let differences = self.conflicts.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        BuildError::Disagreement { address: self.address, differences }
    }
}

/// Returns the servers with conflicting options.
fn conflicting(server: &Inner, own: &EndpointLease) -> Vec<Conflicting> {
    let records = server.storage.cache(PREFIX).snapshot();
    let others = records.objects().filter(|record| *record.header.name != own.name());
    let compared = others.filter_map(|record| {
        let conflicts = own.agreement().conflicts(&options_of(&record.to_value()));
        let (address, revision) = (record.header.name.to_string(), record.revision);
        (!conflicts.is_empty()).then_some(Conflicting { address, revision, conflicts })
    });
    compared.collect()
}

fn options_of(record: &Value) -> Agreement {
    // Another version may publish something else, which is not compared.
    Agreement::deserialize(&record["spec"]["options"]).unwrap_or_default()
}

/// Waits until no server with conflicting options runs; fails if one renews its record.
async fn wait_for_agreement(server: &Inner, own: &EndpointLease) -> Result<Dead, BuildError> {
    let cache = server.storage.cache(PREFIX);
    for record in cache.snapshot().objects().filter(|record| *record.header.name != own.name()) {
        let different = differences(&own.agreement().expected, &options_of(&record.to_value()).expected);
        for difference in different {
            warn!(server = &*record.header.name, %difference, "another API server over the same store has other options");
        }
    }
    let deadline = Instant::now() + EXPIRY;
    let mut first: Option<Dead> = None;
    loop {
        let mut changed = pin!(cache.changed());
        changed.as_mut().enable();
        let conflicting = conflicting(server, own);
        let seen = first.get_or_insert_with(|| {
            for other in &conflicting {
                warn!(
                    server = other.address,
                    "waiting to see whether an API server with conflicting options still runs"
                );
            }
            conflicting.iter().map(|other| (other.address.clone(), other.revision)).collect()
        });
        if conflicting.is_empty() || Instant::now() >= deadline {
            return Ok(first.unwrap_or_default());
        }
        if let Some(alive) = conflicting.into_iter().find(|other| seen.get(&other.address) != Some(&other.revision)) {
            return Err(alive.into_error());
        }
        tokio::select! {
            () = changed => {}
            () = sleep_until(deadline) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn options(network: &str, issuers: &[&str], groups: &str) -> Agreement {
        let mut agreement = Agreement::default();
        agreement.accept("--service-account-issuer", issuers.iter().copied());
        agreement.require("--service-cluster-ip-range", network);
        agreement.expect("--runtime-config", groups);
        agreement
    }

    #[test]
    fn options_that_break_clients_conflict_and_others_differ() {
        let here = options("10.0.0.0/24", &["https://a"], "");
        assert_eq!(options_of(&json!({"spec": {"options": here}})), here);
        assert!(here.conflicts(&here).is_empty());
        let there = options("10.8.0.0/22", &["https://b"], "api/beta=true");
        let conflicts: Vec<String> = here.conflicts(&there).iter().map(ToString::to_string).collect();
        assert_eq!(
            conflicts,
            [
                "--service-cluster-ip-range is 10.0.0.0/24 here and 10.8.0.0/22 there",
                "--service-account-issuer is https://a here and https://b there",
            ]
        );
        let different = differences(&here.expected, &there.expected);
        assert_eq!(different[0].to_string(), "--runtime-config is not set here and api/beta=true there");
        // A version that publishes nothing is not compared.
        assert!(here.conflicts(&Agreement::default()).is_empty());
    }

    #[test]
    fn issuers_may_be_changed_on_one_server_after_the_other() {
        let of = |issuers: &[&str]| options("10.0.0.0/24", issuers, "");
        for (one, other, agree) in [
            (&["a"][..], &["a", "b"][..], true),
            (&["a", "b"], &["b", "a"], true),
            (&["b", "a"], &["b"], true),
            (&["a"], &["b", "a"], false),
            (&["a"], &["b"], false),
        ] {
            assert_eq!(of(one).conflicts(&of(other)).is_empty(), agree, "{one:?} {other:?}");
            assert_eq!(of(other).conflicts(&of(one)).is_empty(), agree, "{other:?} {one:?}");
        }
    }

    #[test]
    fn an_authority_is_told_by_its_first_certificate() {
        let block = |name: &str| format!("-----BEGIN CERTIFICATE-----\n{name}\n-----END CERTIFICATE-----\n");
        assert_eq!(authority(&block("a")), authority(&(block("a") + &block("b"))));
        assert_ne!(authority(&block("a")), authority(&block("b")));
    }
}
