//! Stages: what becomes of simulated pods and nodes, declared in the way of kwok.
//!
//! A stage says of which objects it is ([`selector`]), how long they stay as they are ([`delay`](choose)), and what
//! becomes of them ([`transition`]). All of it is pure: an object, what is known beside it and a number for chance in, a
//! transition out. The default stages are in `default.yaml`; `docs/src/nodes.md` describes the format.

mod choose;
mod facts;
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
    choose::{Chosen, choose},
    facts::with_facts,
    spec::Subject,
    transition::{Environment, Transition, transition},
};

const DEFAULT: &str = include_str!("stages/default.yaml");

/// What becomes of simulated pods and nodes: a set of stages. Cheap to clone.
#[derive(Clone)]
pub struct Stages {
    stages: Arc<[Stage]>,
}

/// Why a text is no set of stages.
#[derive(Debug, thiserror::Error)]
#[error("stage {stage}: {why}")]
pub struct StageError {
    /// The name of the stage, or its number if it has none.
    pub stage: String,
    /// What is wrong with it.
    pub why: String,
}

impl Stages {
    /// The stages of a text: YAML documents of the kind `Stage`, or `List`s of them.
    ///
    /// # Errors
    /// When one of them is none.
    pub fn parse(text: &str) -> Result<Self, StageError> {
        let mut stages = Vec::new();
        for (number, document) in documents(text).enumerate() {
            let wrong = |why: String| StageError { stage: (number + 1).to_string(), why };
            let value = yaml::to_json_value(&document).map_err(|error| wrong(error.to_string()))?;
            match value {
                Value::Null => {}
                Value::Object(mut list) if list.get("kind").is_some_and(|kind| kind == "List") => {
                    let items = list.remove("items").and_then(|items| serde_json::from_value(items).ok());
                    let items: Vec<Value> = items.ok_or_else(|| wrong("a list has items".to_owned()))?;
                    for item in items {
                        stages.push(stage(item, number)?);
                    }
                }
                value => stages.push(stage(value, number)?),
            }
        }
        Ok(Self { stages: stages.into() })
    }

    /// These stages and others: one of the others takes the place of one with the same name.
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
    /// What kubelets do, if nothing fails.
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

/// The documents of a text, which lines of `---` divide.
fn documents(text: &str) -> impl Iterator<Item = String> {
    let mut documents = vec![String::new()];
    for line in text.lines() {
        if line.trim_end() == "---" {
            documents.push(String::new());
        } else if let Some(document) = documents.last_mut() {
            document.push_str(line);
            document.push('\n');
        }
    }
    let said = |document: &String| document.lines().any(|line| !line.trim().is_empty() && !line.starts_with('#'));
    documents.into_iter().filter(said)
}

#[cfg(test)]
mod tests;
