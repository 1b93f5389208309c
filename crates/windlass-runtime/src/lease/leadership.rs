//! The handle that reports whether this process leads.

use tokio::{sync::watch, time::Instant};

use super::clock;

/// Whether this process leads, as far as it can prove. A cheap handle.
///
/// A process leads only until a deadline by its own monotonic clock that is earlier than any time at which another
/// could take over, so that a paused process finds out before it writes. A process leads at most once: after it has
/// lost the lease, it never leads again, and should exit.
///
/// ```
/// use windlass_runtime::lease::Leadership;
/// assert!(Leadership::always().check().is_ok());
/// ```
#[derive(Clone, Debug)]
pub struct Leadership {
    /// `None` without an election.
    state: Option<watch::Receiver<LeadershipState>>,
}

/// This process does not, or no longer, lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this process does not lead")]
pub struct NotLeading;

/// State of a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LeadershipState {
    /// Has not led yet.
    Candidate,
    /// Leads until this time, by [`clock::now`].
    Leads { until: Instant },
    /// Has led, or has ended without having led.
    Over { led: bool },
}

impl Leadership {
    /// Returns a handle for a process without election, which always leads.
    pub fn always() -> Self {
        Self { state: None }
    }

    /// Returns a handle that follows an election, and its sender.
    pub(crate) fn followed() -> (watch::Sender<LeadershipState>, Self) {
        let (sender, state) = watch::channel(LeadershipState::Candidate);
        (sender, Self { state: Some(state) })
    }

    /// Checks whether a write may be sent now. Computed from the clock at the time of the call. Once it fails after a
    /// success, it always fails.
    pub fn check(&self) -> Result<(), NotLeading> {
        let Some(state) = &self.state else { return Ok(()) };
        let standing = *state.borrow();
        match standing {
            LeadershipState::Leads { until } if clock::now() < until => Ok(()),
            _ => Err(NotLeading),
        }
    }

    /// Returns whether this process leads now: [`check`](Self::check) as a boolean.
    pub fn leads(&self) -> bool {
        self.check().is_ok()
    }

    /// Resolves when this process leads. Never resolves if it ends without having led.
    pub async fn acquired(&self) {
        let Some(state) = &self.state else { return };
        let leads = |standing: &LeadershipState| matches!(standing, LeadershipState::Leads { .. });
        if state.clone().wait_for(leads).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Resolves when this process has led and no longer does, because the lease was lost or released. Resolves at once
    /// if that happened before the call.
    pub async fn lost(&self) {
        let Some(state) = &self.state else { return std::future::pending().await };
        let mut state = state.clone();
        loop {
            let standing = *state.borrow_and_update();
            let told = match standing {
                LeadershipState::Over { led: true } => return,
                LeadershipState::Over { led: false } => return std::future::pending().await,
                LeadershipState::Candidate => state.changed().await,
                LeadershipState::Leads { until } => {
                    let left = until.saturating_duration_since(clock::now());
                    if left.is_zero() {
                        return;
                    }
                    // The deadline applies whether or not the election still runs.
                    tokio::select! {
                        told = state.changed() => told,
                        () = tokio::time::sleep(left) => continue,
                    }
                }
            };
            if told.is_err() {
                match standing {
                    LeadershipState::Leads { until } => {
                        tokio::time::sleep(until.saturating_duration_since(clock::now())).await;
                        return;
                    }
                    _ => return std::future::pending().await,
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn without_an_election_a_process_always_leads() {
        let leadership = Leadership::always();
        leadership.acquired().await;
        assert!(leadership.leads());
    }

    #[tokio::test(start_paused = true)]
    async fn a_deadline_applies_without_an_update() {
        let (sender, leadership) = Leadership::followed();
        assert_eq!(leadership.check(), Err(NotLeading));
        let until = clock::now() + Duration::from_secs(10);
        sender.send_replace(LeadershipState::Leads { until });
        leadership.acquired().await;
        assert!(leadership.leads());
        tokio::time::advance(Duration::from_secs(11)).await;
        assert_eq!(leadership.check(), Err(NotLeading));
        leadership.lost().await;
    }

    #[tokio::test(start_paused = true)]
    async fn an_election_that_is_dropped_is_lost_at_the_deadline() {
        let (sender, leadership) = Leadership::followed();
        let start = clock::now();
        sender.send_replace(LeadershipState::Leads { until: start + Duration::from_secs(10) });
        drop(sender);
        assert!(leadership.leads());
        leadership.lost().await;
        assert!(clock::now() - start >= Duration::from_secs(10));
    }
}
