//! The status of a pod, derived from its containers. Pure.

use std::net::Ipv4Addr;

use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{
        ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting, ContainerStatus,
        HostIP, Pod, PodCondition, PodIP, PodStatus,
    },
    apimachinery::pkg::apis::meta::v1::Time,
};

/// The role of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// It ends before the next one starts.
    Init,
    /// It runs alongside the main containers, and ends after them.
    Sidecar,
    /// A regular container.
    Main,
    /// It is added to a running pod, and affects nothing else of it.
    Ephemeral,
}

/// The record of a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ContainerRecord {
    pub(super) name: String,
    pub(super) role: Role,
    pub(super) image: String,
    pub(super) state: RunState,
    /// Its previous termination.
    pub(super) last: Option<Termination>,
    pub(super) restarts: i32,
    pub(super) ready: bool,
    pub(super) started: bool,
    pub(super) id: Option<String>,
}

/// The state of a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RunState {
    Waiting { reason: String, message: Option<String> },
    Running { since: Timestamp },
    Terminated(Termination),
}

/// The termination of a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Termination {
    pub(super) code: i32,
    pub(super) reason: String,
    pub(super) message: Option<String>,
    pub(super) started: Option<Timestamp>,
    pub(super) finished: Option<Timestamp>,
    pub(super) id: Option<String>,
}

/// The state of a pod at one time.
#[derive(Debug, Clone)]
pub(super) struct Snapshot {
    pub(super) containers: Vec<ContainerRecord>,
    pub(super) address: Ipv4Addr,
    pub(super) host: Ipv4Addr,
    pub(super) since: Timestamp,
    /// Whether it has been stopped and no container runs.
    pub(super) over: bool,
    /// Reason and message if it failed as a whole.
    pub(super) failure: Option<(String, String)>,
}

/// Returns whether a terminated container is restarted.
pub(super) fn starts_again(policy: &str, role: Role, code: i32) -> bool {
    match (role, policy) {
        (Role::Sidecar, _) => true,
        (Role::Ephemeral, _) => false,
        (Role::Init, "Never") | (Role::Main, "Never") => false,
        (Role::Main, "Always") => true,
        _ => code != 0,
    }
}

/// The restart policy of a pod.
pub(super) fn policy(pod: &Pod) -> &str {
    pod.spec.as_ref().and_then(|spec| spec.restart_policy.as_deref()).unwrap_or("Always")
}

/// The phase of a pod.
pub(super) fn phase(policy: &str, pod: &Snapshot) -> &'static str {
    let mains = || pod.containers.iter().filter(|container| container.role == Role::Main);
    let code = |container: &ContainerRecord| match (&container.state, &container.last) {
        (RunState::Terminated(ended), _) => Some(ended.code),
        (RunState::Waiting { .. }, Some(last)) => Some(last.code),
        _ => None,
    };
    let all_well = mains().all(|container| code(container) == Some(0));
    if pod.over {
        return if all_well && pod.failure.is_none() { "Succeeded" } else { "Failed" };
    }
    for init in pod.containers.iter().filter(|container| container.role == Role::Init) {
        match &init.state {
            RunState::Terminated(ended) if ended.code == 0 => {}
            RunState::Terminated(_) if policy == "Never" => return "Failed",
            _ => return "Pending",
        }
    }
    if mains().any(|container| matches!(container.state, RunState::Waiting { .. }) && container.last.is_none()) {
        return "Pending";
    }
    let running = mains().any(|container| matches!(container.state, RunState::Running { .. }));
    match policy {
        _ if running => "Running",
        "Always" => "Running",
        _ if all_well => "Succeeded",
        "Never" => "Failed",
        _ => "Running",
    }
}

/// Returns the new status of a pod. Fields of other writers are kept.
pub(super) fn status(pod: &Pod, now: &Snapshot, at: Timestamp) -> PodStatus {
    let mut status = pod.status.clone().unwrap_or_default();
    let phase = phase(policy(pod), now);
    status.phase = Some(phase.to_owned());
    status.observed_generation = pod.metadata.generation;
    status.host_ip = Some(now.host.to_string());
    status.host_ips = Some(vec![HostIP { ip: now.host.to_string() }]);
    status.pod_ip = Some(now.address.to_string());
    status.pod_ips = Some(vec![PodIP { ip: now.address.to_string() }]);
    status.start_time.get_or_insert(Time(now.since));
    if let Some((reason, message)) = &now.failure {
        status.reason = Some(reason.clone());
        status.message = Some(message.clone());
    }
    let listed = |roles: &[Role]| -> Option<Vec<ContainerStatus>> {
        let chosen = now.containers.iter().filter(|container| roles.contains(&container.role));
        let all: Vec<ContainerStatus> = chosen.map(container_status).collect();
        (!all.is_empty()).then_some(all)
    };
    status.container_statuses = listed(&[Role::Main]);
    status.init_container_statuses = listed(&[Role::Init, Role::Sidecar]);
    status.ephemeral_container_statuses = listed(&[Role::Ephemeral]);
    let mut conditions = status.conditions.take().unwrap_or_default();
    for wanted in conditions_of(pod, now, phase, &conditions) {
        set(&mut conditions, wanted, pod.metadata.generation, at);
    }
    status.conditions = Some(conditions);
    status
}

fn conditions_of(pod: &Pod, now: &Snapshot, phase: &str, present: &[PodCondition]) -> Vec<PodCondition> {
    let condition = |kind: &str, holds: bool, why: Option<(&str, String)>| PodCondition {
        type_: kind.to_owned(),
        status: if holds { "True" } else { "False" }.to_owned(),
        reason: why.as_ref().map(|(reason, _)| (*reason).to_owned()),
        message: why.map(|(_, message)| message).filter(|message| !message.is_empty()),
        ..PodCondition::default()
    };
    let names = |wanted: &dyn Fn(&ContainerRecord) -> bool| -> Vec<&str> {
        now.containers.iter().filter(|container| wanted(container)).map(|container| &*container.name).collect()
    };
    let finished = matches!(phase, "Succeeded" | "Failed");
    let incomplete = names(&|container| match container.role {
        Role::Init => !matches!(&container.state, RunState::Terminated(ended) if ended.code == 0),
        Role::Sidecar => !container.started && !finished,
        Role::Main | Role::Ephemeral => false,
    });
    let initialized = match &*incomplete {
        [] => condition("Initialized", true, (phase == "Succeeded").then(|| ("PodCompleted", String::new()))),
        names => {
            let message = format!("containers with incomplete status: [{}]", names.join(" "));
            condition("Initialized", false, Some(("ContainersNotInitialized", message)))
        }
    };
    let unready = names(&|container| matches!(container.role, Role::Main | Role::Sidecar) && !container.ready);
    let why = match phase {
        "Succeeded" => Some(("PodCompleted", String::new())),
        "Failed" => Some(("PodFailed", String::new())),
        _ if !unready.is_empty() => {
            Some(("ContainersNotReady", format!("containers with unready status: [{}]", unready.join(" "))))
        }
        _ => None,
    };
    let gates = pod.spec.iter().flat_map(|spec| spec.readiness_gates.iter().flatten());
    let shut: Vec<String> = gates
        .filter(|gate| !present.iter().any(|have| have.type_ == gate.condition_type && have.status == "True"))
        .map(|gate| {
            format!(
                "corresponding condition of pod readiness gate \"{}\" does not exist or is not true.",
                gate.condition_type
            )
        })
        .collect();
    let ready_why = why.clone().or_else(|| (!shut.is_empty()).then(|| ("ReadinessGatesNotReady", shut.join(", "))));
    vec![
        condition("PodReadyToStartContainers", !finished, None),
        initialized,
        condition("Ready", ready_why.is_none(), ready_why),
        condition("ContainersReady", why.is_none(), why),
    ]
}

/// Sets a condition; its transition time changes only with its status.
fn set(conditions: &mut Vec<PodCondition>, mut wanted: PodCondition, generation: Option<i64>, at: Timestamp) {
    wanted.observed_generation = generation;
    match conditions.iter_mut().find(|have| have.type_ == wanted.type_) {
        Some(have) => {
            let same = have.status == wanted.status;
            wanted.last_transition_time = if same { have.last_transition_time.clone() } else { Some(Time(at)) };
            *have = wanted;
        }
        None => conditions.push(PodCondition { last_transition_time: Some(Time(at)), ..wanted }),
    }
}

fn container_status(container: &ContainerRecord) -> ContainerStatus {
    let state = match &container.state {
        RunState::Waiting { reason, message } => ContainerState {
            waiting: Some(ContainerStateWaiting { reason: Some(reason.clone()), message: message.clone() }),
            ..ContainerState::default()
        },
        RunState::Running { since } => ContainerState {
            running: Some(ContainerStateRunning { started_at: Some(Time(*since)) }),
            ..ContainerState::default()
        },
        RunState::Terminated(ended) => ended_state(ended),
    };
    ContainerStatus {
        name: container.name.clone(),
        image: container.image.clone(),
        image_id: String::new(),
        container_id: container.id.clone(),
        state: Some(state),
        last_state: Some(container.last.as_ref().map(ended_state).unwrap_or_default()),
        ready: container.ready,
        started: (container.role != Role::Ephemeral).then_some(container.started),
        restart_count: container.restarts,
        ..ContainerStatus::default()
    }
}

fn ended_state(ended: &Termination) -> ContainerState {
    let terminated = ContainerStateTerminated {
        exit_code: ended.code,
        reason: Some(ended.reason.clone()),
        message: ended.message.clone(),
        started_at: ended.started.map(Time),
        finished_at: ended.finished.map(Time),
        container_id: ended.id.clone(),
        ..ContainerStateTerminated::default()
    };
    ContainerState { terminated: Some(terminated), ..ContainerState::default() }
}

/// The record of a container from its status, after a restart of the plane. Containers that ran then have ended.
pub(super) fn recall(status: &ContainerStatus, role: Role, image: &str) -> ContainerRecord {
    let ended = |state: Option<&ContainerState>| {
        let ended = state?.terminated.as_ref()?;
        Some(Termination {
            code: ended.exit_code,
            reason: ended.reason.clone().unwrap_or_default(),
            message: ended.message.clone(),
            started: ended.started_at.as_ref().map(|time| time.0),
            finished: ended.finished_at.as_ref().map(|time| time.0),
            id: ended.container_id.clone(),
        })
    };
    let running = status.state.as_ref().and_then(|state| state.running.as_ref());
    let lost = running.map(|running| Termination {
        code: 137,
        reason: "ContainerStatusUnknown".to_owned(),
        message: Some("The container could not be located when the pod was terminated".to_owned()),
        started: running.started_at.as_ref().map(|time| time.0),
        finished: None,
        id: status.container_id.clone(),
    });
    let state = ended(status.state.as_ref()).or(lost).map_or_else(
        || RunState::Waiting { reason: "ContainerCreating".to_owned(), message: None },
        RunState::Terminated,
    );
    ContainerRecord {
        name: status.name.clone(),
        role,
        image: image.to_owned(),
        state,
        last: ended(status.last_state.as_ref()),
        restarts: status.restart_count,
        ready: false,
        started: false,
        id: status.container_id.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn container(role: Role, state: RunState) -> ContainerRecord {
        ContainerRecord {
            name: "c".into(),
            role,
            image: "i".into(),
            state,
            last: None,
            restarts: 0,
            ready: false,
            started: false,
            id: None,
        }
    }

    fn ended(code: i32) -> RunState {
        let reason = "Error".to_owned();
        RunState::Terminated(Termination { code, reason, message: None, started: None, finished: None, id: None })
    }

    fn snapshot(containers: Vec<ContainerRecord>) -> Snapshot {
        let address = Ipv4Addr::LOCALHOST;
        Snapshot { containers, address, host: address, since: Timestamp::UNIX_EPOCH, over: false, failure: None }
    }

    #[test]
    fn the_phase_follows_from_the_containers_and_the_policy() {
        use Role::{Init, Main, Sidecar};
        let waiting = || RunState::Waiting { reason: "ContainerCreating".into(), message: None };
        let running = || RunState::Running { since: Timestamp::UNIX_EPOCH };
        let again = ContainerRecord {
            last: Some(Termination {
                code: 1,
                reason: String::new(),
                message: None,
                started: None,
                finished: None,
                id: None,
            }),
            ..container(Main, waiting())
        };
        for (policy, containers, expected) in [
            ("Always", vec![container(Main, waiting())], "Pending"),
            ("Always", vec![container(Main, running()), container(Main, waiting())], "Pending"),
            ("Always", vec![container(Main, running())], "Running"),
            ("Always", vec![container(Main, ended(0))], "Running"),
            ("Always", vec![again.clone()], "Running"),
            ("Never", vec![container(Main, ended(0))], "Succeeded"),
            ("Never", vec![container(Main, ended(0)), container(Main, ended(1))], "Failed"),
            ("Never", vec![container(Main, running()), container(Main, ended(1))], "Running"),
            ("OnFailure", vec![container(Main, ended(0))], "Succeeded"),
            ("OnFailure", vec![again], "Running"),
            ("Always", vec![container(Init, running()), container(Main, waiting())], "Pending"),
            ("Never", vec![container(Init, ended(1)), container(Main, waiting())], "Failed"),
            ("Never", vec![container(Sidecar, running()), container(Main, ended(0))], "Succeeded"),
        ] {
            assert_eq!(phase(policy, &snapshot(containers.clone())), expected, "{policy} {containers:?}");
        }
    }

    #[test]
    fn the_restart_policy_decides_which_containers_restart() {
        for (policy, role, code, expected) in [
            ("Always", Role::Main, 0, true),
            ("OnFailure", Role::Main, 0, false),
            ("OnFailure", Role::Main, 1, true),
            ("Never", Role::Main, 1, false),
            ("Always", Role::Init, 0, false),
            ("Always", Role::Init, 1, true),
            ("Never", Role::Init, 1, false),
            ("Never", Role::Sidecar, 0, true),
        ] {
            assert_eq!(starts_again(policy, role, code), expected, "{policy} {role:?} {code}");
        }
    }

    #[test]
    fn an_unchanged_status_is_equal() {
        let pod = Pod::default();
        let now = snapshot(vec![container(Role::Main, ended(1))]);
        let first = status(&pod, &now, Timestamp::UNIX_EPOCH);
        let later = Timestamp::from_second(100).unwrap();
        let second = status(&Pod { status: Some(first.clone()), ..pod }, &now, later);
        assert_eq!(first, second);
    }
}
