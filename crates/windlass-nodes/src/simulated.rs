//! A pod runtime that runs nothing: stages define how pod statuses change.

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::Arc,
    time::Duration,
};

use futures_util::future::BoxFuture;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use parking_lot::Mutex;
use serde_json::Value;
use windlass::{Result, events::EventType, key::ObjectKey};
use windlass_clock::{now, now_in_seconds};
use windlass_loops::json_text;

use super::{
    Kubelet, Next, PodRuntime, resize,
    stages::{Chosen, Environment, Stages, Subject, Transition, choose, transition, with_facts},
};

/// The interval at which a deferred resize is retried.
const DEFERRED: Duration = Duration::from_secs(3);

/// The current stages of all objects of one kind.
#[derive(Debug)]
pub(super) struct Simulation {
    pub(super) stages: Stages,
    subject: Subject,
    /// The stages that objects are in, with the objects' UIDs.
    places: Mutex<HashMap<ObjectKey, (String, Vec<Chosen>)>>,
}

/// The next step for an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StageStep {
    /// Nothing until the object changes.
    Wait,
    /// Check again after this time.
    After(Duration),
    /// End this stage and apply its transition.
    End(usize),
}

impl Simulation {
    pub(super) fn new(stages: Stages, subject: Subject) -> Self {
        Self { stages, subject, places: Mutex::default() }
    }

    /// Returns the next step for an object, which is passed with its facts.
    pub(super) fn next_step(&self, key: &ObjectKey, object: &Value, now: Timestamp) -> StageStep {
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
        let mut hasher = DefaultHasher::new();
        (text("uid"), text("resourceVersion")).hash(&mut hasher);
        let mut places = self.places.lock();
        let before = places.get(key).filter(|(uid, _)| uid == text("uid")).map_or(&[][..], |(_, chosen)| chosen);
        let chosen = choose(&self.stages, self.subject, object, before, hasher.finish(), now);
        let Some(next) = chosen.iter().min_by_key(|chosen| chosen.due).copied() else {
            places.remove(key);
            return StageStep::Wait;
        };
        if next.due <= now {
            let others = chosen.into_iter().filter(|chosen| chosen.stage != next.stage).collect();
            places.insert(key.clone(), (text("uid").to_owned(), others));
            return StageStep::End(next.stage);
        }
        places.insert(key.clone(), (text("uid").to_owned(), chosen));
        if next.due == Timestamp::MAX { StageStep::Wait } else { StageStep::After(until(next.due, now)) }
    }

    /// Records that the end of a stage changed nothing: it is not ended again while the object stays in it.
    pub(super) fn exhausted(&self, key: &ObjectKey, stage: usize) {
        if let Some((_, chosen)) = self.places.lock().get_mut(key) {
            chosen.push(Chosen { stage, due: Timestamp::MAX });
        }
    }

    pub(super) fn remove(&self, key: &ObjectKey) {
        self.places.lock().remove(key);
    }
}

fn until(due: Timestamp, now: Timestamp) -> Duration {
    due.duration_since(now).try_into().unwrap_or_default()
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Simulated {
    simulation: Simulation,
}

impl Simulated {
    pub(super) fn new(stages: Stages) -> Self {
        Self { simulation: Simulation::new(stages, Subject::Pod) }
    }

    async fn advance(&self, pod: Arc<Pod>, kubelet: &Kubelet) -> Result<Next> {
        let key = ObjectKey::of(pod.as_ref());
        let now = now();
        let object = with_facts(json_text::to_value(&*pod)?, now);
        if let Some(step) = resize::next_step(&object, || kubelet.shortage(&pod), now_in_seconds()) {
            let transition =
                Transition { status: Some(step.status), finalizers: None, delete: false, event: step.event };
            self.perform(&pod, &object, transition, kubelet).await?;
            return Ok(Next::Wait);
        }
        let retry = resize::is_deferred(&object).then_some(DEFERRED);
        let stage = match self.simulation.next_step(&key, &object, now) {
            StageStep::Wait => return Ok(retry.map_or(Next::Wait, Next::After)),
            StageStep::After(delay) => return Ok(Next::After(retry.map_or(delay, |retry| retry.min(delay)))),
            StageStep::End(stage) => stage,
        };
        let environment = Environment {
            now: now_in_seconds(),
            pod_address: &|| kubelet.pod_address(&pod),
            host_address: &|| kubelet.host_address(&pod),
        };
        let transition = transition(&self.simulation.stages, stage, &object, &environment);
        if !self.perform(&pod, &object, transition, kubelet).await? {
            self.simulation.exhausted(&key, stage);
            return Ok(Next::After(Duration::ZERO));
        }
        Ok(Next::Wait)
    }

    /// Performs a transition. Returns whether anything changed.
    async fn perform(&self, pod: &Pod, object: &Value, transition: Transition, kubelet: &Kubelet) -> Result<bool> {
        let Transition { status, finalizers, delete, event } = transition;
        let mut changed = delete;
        if let Some(event) = event {
            let kind = if event.warning { EventType::Warning } else { EventType::Normal };
            kubelet.event(pod, kind, &event.reason, &event.message);
        }
        if let Some(status) = status {
            changed |= kubelet.write_status(pod, &object["status"], &status).await?;
        }
        if let Some(finalizers) = finalizers
            && pod.metadata.finalizers.as_deref().unwrap_or_default() != finalizers
        {
            kubelet.write_finalizers(pod, &finalizers).await?;
            changed = true;
        }
        if delete {
            kubelet.remove(pod).await?;
        }
        Ok(changed)
    }
}

impl PodRuntime for Simulated {
    fn sync<'a>(&'a self, pod: Arc<Pod>, kubelet: &'a Kubelet) -> BoxFuture<'a, Result<Next>> {
        Box::pin(self.advance(pod, kubelet))
    }

    fn deleted(&self, pod: &ObjectKey) {
        self.simulation.remove(pod);
    }
}
