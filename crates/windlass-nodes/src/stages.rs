//! Stages: how the statuses of simulated pods and nodes change, declared in the style of kwok.
//!
//! A stage defines which objects it applies to ([`selector`]), how long they stay in it ([`delay`](selection)), and how
//! they change at its end ([`transition`]). Everything is pure: the inputs are an object, its environment and a random
//! number, the output is a transition. The default stages are in `default.yaml`; `docs/src/nodes.md` describes the
//! format.

mod facts;
mod selection;
mod selector;
mod spec;
mod template;
mod transition;

use std::{fmt, sync::Arc};

use serde::Deserialize as _;
use serde_json::Value;
use windlass_schema::yaml;

use self::spec::Stage;
pub(super) use self::{
    facts::with_facts,
    selection::{Chosen, choose},
    spec::Subject,
    transition::{Environment, EventText, Transition, transition},
};

const DEFAULT: &str = include_str!("stages/default.yaml");

/// A set of stages for simulated pods and nodes. Cheap to clone.
#[derive(Clone)]
pub struct Stages {
    stages: Arc<[Stage]>,
}

/// An invalid stage.
#[derive(Debug, thiserror::Error)]
#[error("stage {stage}: {why}")]
pub struct StageError {
    /// The name of the stage, or its index if it has none.
    pub stage: String,
    /// The problem.
    pub why: String,
}

impl Stages {
    /// Parses stages: YAML documents of kind `Stage`, or `List`s of them.
    ///
    /// # Errors
    /// Returns an error if one of them is invalid.
    pub fn parse(text: &str) -> Result<Self, StageError> {
        let mut stages = Vec::new();
        let documents = yaml::documents(text).into_iter().map(|(_, document)| document);
        for (number, document) in documents.filter(|document| !yaml::is_blank(document)).enumerate() {
            let wrong = |why: String| StageError { stage: (number + 1).to_string(), why };
            let value = yaml::to_json_value(document).map_err(|error| wrong(error.to_string()))?;
            match value {
                Value::Null => {}
                Value::Object(mut list) if list.get("kind").is_some_and(|kind| kind == "List") => {
                    let items = list.remove("items").and_then(|items| serde_json::from_value(items).ok());
                    let items: Vec<Value> = items.ok_or_else(|| wrong("a List needs items".to_owned()))?;
                    for item in items {
                        stages.push(stage(item, number)?);
                    }
                }
                value => stages.push(stage(value, number)?),
            }
        }
        Ok(Self { stages: stages.into() })
    }

    /// Merges two sets of stages: one of `others` replaces one with the same name.
    #[must_use]
    pub fn with(&self, others: &Self) -> Self {
        let kept = self.stages.iter().filter(|one| !others.stages.iter().any(|other| other.name == one.name));
        Self { stages: kept.chain(others.stages.iter()).cloned().collect() }
    }

    fn of(&self, subject: Subject) -> impl Iterator<Item = (usize, &Stage)> {
        self.stages.iter().enumerate().filter(move |(_, stage)| stage.subject == subject)
    }
}

impl Default for Stages {
    /// The behaviour of kubelets when nothing fails.
    fn default() -> Self {
        Self::parse(DEFAULT).expect("the default stages must be stages")
    }
}

impl fmt::Debug for Stages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.stages.iter().map(|stage| &stage.name)).finish()
    }
}

fn stage(value: Value, number: usize) -> Result<Stage, StageError> {
    let name = value["metadata"]["name"].as_str().map_or_else(|| (number + 1).to_string(), str::to_owned);
    let wrong = |why: String| StageError { stage: name.clone(), why };
    let document = spec::Document::deserialize(value).map_err(|error| wrong(error.to_string()))?;
    Stage::compile(document).map_err(wrong)
}

#[cfg(test)]
mod tests;
