//! Whether etcd works, checked once a second, and how large it is.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use windlass_store::{Error, Usage};

use crate::{
    client::Client,
    messages::{RANGE, RangeRequest, STATUS, StatusRequest, StatusResponse},
    status::CallError,
};

/// Interval of the checks of etcd, and their time limit.
const EVERY: Duration = Duration::from_secs(1);
const WITHIN: Duration = Duration::from_secs(2);
/// Alarms and sizes are checked once in this many checks.
const STATUS_EVERY: u32 = 5;

/// The results of the last checks.
#[derive(Debug, Default)]
pub(crate) struct Health {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    failure: Option<String>,
    alarms: Vec<&'static str>,
    usage: Usage,
}

impl Health {
    pub(crate) fn verdict(&self) -> Result<(), Error> {
        let state = self.state.lock();
        let causes: Vec<&str> = state.failure.as_deref().into_iter().chain(state.alarms.iter().copied()).collect();
        if causes.is_empty() { Ok(()) } else { Err(Error::Unavailable { cause: causes.join("; ") }) }
    }

    pub(crate) fn usage(&self) -> Usage {
        self.state.lock().usage
    }

    fn note(&self, result: Result<(), CallError>) {
        let failure = result.err().map(|error| format!("etcd does not work: {error}"));
        let mut state = self.state.lock();
        match (&state.failure, &failure) {
            (None, Some(failure)) => tracing::warn!(failure, "etcd is unhealthy"),
            (Some(_), None) => tracing::info!("etcd is healthy again"),
            _ => {}
        }
        state.failure = failure;
    }

    fn note_status(&self, status: &StatusResponse) {
        let bytes = |size: i64| u64::try_from(size).unwrap_or(0);
        let quota = Some(bytes(status.db_size_quota)).filter(|quota| *quota > 0);
        let usage = Usage { file: bytes(status.db_size), in_use: bytes(status.db_size_in_use), quota, available: None };
        let alarms = alarms(&status.errors);
        let mut state = self.state.lock();
        if state.alarms != alarms {
            match alarms.first() {
                Some(alarm) => tracing::error!("{alarm}"),
                None => tracing::info!("the alarms of etcd are disarmed"),
            }
        }
        (state.usage, state.alarms) = (usage, alarms);
    }
}

/// Returns what to do about the alarms in a status.
fn alarms(errors: &[String]) -> Vec<&'static str> {
    let raised = |name: &str| errors.iter().any(|error| error.contains(name));
    let mut alarms = Vec::new();
    if raised("alarm:NOSPACE") {
        alarms.push(
            "etcd has the alarm NOSPACE: its database has reached its quota, and all writes but deletions fail; compact and \
             defragment it (etcdctl compact, etcdctl defrag), or raise --quota-backend-bytes, and then run etcdctl alarm disarm",
        );
    }
    if raised("alarm:CORRUPT") {
        alarms.push(
            "etcd has the alarm CORRUPT: the data of its members differ, and all writes fail; replace the corrupt member, \
             and then run etcdctl alarm disarm",
        );
    }
    alarms
}

/// Checks etcd forever.
pub(crate) async fn watch_over(client: Arc<Client>, health: Arc<Health>) {
    let mut ticks = tokio::time::interval(EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    for tick in (0..STATUS_EVERY).cycle() {
        ticks.tick().await;
        let probe = RangeRequest { key: client.prefix.probe(), limit: 1, ..RangeRequest::default() };
        let answer = client.try_read(RANGE, &probe, WITHIN).await;
        health.note(answer.and_then(|answer| client.check_base(&answer)));
        if tick == 0 {
            // The check tells if etcd does not respond.
            if let Ok(status) = client.channel.call(STATUS, &StatusRequest {}, WITHIN).await {
                health.note_status(&status);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_and_alarms_make_the_store_unhealthy_until_they_are_gone() {
        let health = Health::default();
        assert!(health.verdict().is_ok());
        health.note(Err(CallError::Lost("no leader".to_owned())));
        assert_eq!(health.verdict().unwrap_err().to_string(), "etcd does not work: no leader");
        health.note(Ok(()));
        assert!(health.verdict().is_ok());
        let mut status = StatusResponse { db_size: 9, db_size_in_use: 4, ..StatusResponse::default() };
        status.errors = vec!["memberID:123 alarm:NOSPACE ".to_owned()];
        health.note_status(&status);
        let error = health.verdict().unwrap_err().to_string();
        assert!(error.contains("NOSPACE") && error.contains("etcdctl alarm disarm"), "{error}");
        health.note(Err(CallError::Lost("no leader".to_owned())));
        let error = health.verdict().unwrap_err().to_string();
        assert!(error.starts_with("etcd does not work: no leader; etcd has the alarm NOSPACE"), "{error}");
        health.note(Ok(()));
        assert_eq!(health.usage(), Usage { file: 9, in_use: 4, quota: None, available: None });
        status.errors.clear();
        status.db_size_quota = 8;
        health.note_status(&status);
        assert!(health.verdict().is_ok());
        assert_eq!(health.usage().quota, Some(8));
    }
}
