//! The lifecycle of containers.

use std::time::Duration;

use crate::api::pod2::{ContainerStatus, Phase, RestartPolicy, State};

/// Backoff before the second restart in a row. The first restart is immediate, and the backoff doubles with each later
/// one.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// Returns whether a container that has exited is restarted.
pub fn restarts(policy: RestartPolicy, exit_code: i32) -> bool {
    match policy {
        RestartPolicy::Always => true,
        RestartPolicy::OnFailure => exit_code != 0,
        RestartPolicy::Never => false,
    }
}

/// Returns the backoff after this many exits in a row, each soon after the start.
pub fn pause(times: u32) -> Duration {
    match times {
        0 | 1 => Duration::ZERO,
        _ => (FIRST_PAUSE * 2u32.pow((times - 2).min(16))).min(LONGEST_PAUSE),
    }
}

/// Returns the phase of a Pod2 with these containers.
pub fn phase(containers: &[ContainerStatus]) -> Phase {
    let is_over = |container: &ContainerStatus| container.state == State::Terminated;
    if !containers.is_empty() && containers.iter().all(is_over) {
        let well = containers.iter().all(|container| container.exit_code == Some(0));
        return if well { Phase::Succeeded } else { Phase::Failed };
    }
    let has_begun = |container: &ContainerStatus| container.state != State::Waiting || container.exit_code.is_some();
    if containers.iter().all(has_begun) { Phase::Running } else { Phase::Pending }
}

/// Returns the state of a container after the operator was restarted, which ended its process: it is restarted if the
/// policy allows it, and has failed otherwise.
pub fn resumed(mut container: ContainerStatus, policy: RestartPolicy) -> ContainerStatus {
    if container.state == State::Running {
        container.exit_code = Some(137);
        container.reason = "Lost".to_owned();
        container.state = State::Terminated;
        container.pid = None;
        if restarts(policy, 137) {
            container.state = State::Waiting;
            container.restart_count += 1;
        }
    }
    container
}

#[cfg(test)]
mod tests {
    use super::*;

    fn container(state: State, exit_code: Option<i32>) -> ContainerStatus {
        ContainerStatus { state, exit_code, ..ContainerStatus::default() }
    }

    #[test]
    fn the_phase_follows_the_containers() {
        use State::{Running, Terminated, Waiting};
        for (containers, expected) in [
            (&[(Waiting, None), (Running, None)][..], Phase::Pending),
            (&[(Running, None)], Phase::Running),
            (&[(Waiting, Some(1))], Phase::Running),
            (&[(Terminated, Some(0)), (Running, None)], Phase::Running),
            (&[(Terminated, Some(0)), (Terminated, Some(0))], Phase::Succeeded),
            (&[(Terminated, Some(0)), (Terminated, Some(2))], Phase::Failed),
        ] {
            let containers: Vec<_> = containers.iter().map(|(state, code)| container(*state, *code)).collect();
            assert_eq!(phase(&containers), expected, "{containers:?}");
        }
    }

    #[test]
    fn restarts_follow_the_policy_with_increasing_backoff() {
        assert!(restarts(RestartPolicy::Always, 0) && !restarts(RestartPolicy::OnFailure, 0));
        assert!(restarts(RestartPolicy::OnFailure, 3) && !restarts(RestartPolicy::Never, 3));
        let pauses: Vec<u64> = [0, 1, 2, 3, 4, 40].iter().map(|times| pause(*times).as_secs()).collect();
        assert_eq!(pauses, [0, 0, 1, 2, 4, 300]);
    }

    #[test]
    fn a_process_lost_with_its_operator_is_restarted_if_the_policy_allows() {
        let ran = container(State::Running, None);
        let again = resumed(ran.clone(), RestartPolicy::OnFailure);
        assert_eq!((again.state, again.restart_count, again.exit_code), (State::Waiting, 1, Some(137)));
        let lost = resumed(ran, RestartPolicy::Never);
        assert_eq!((lost.state, lost.reason.as_str()), (State::Terminated, "Lost"));
        let over = container(State::Terminated, Some(0));
        assert_eq!(resumed(over.clone(), RestartPolicy::Always), over);
    }
}
