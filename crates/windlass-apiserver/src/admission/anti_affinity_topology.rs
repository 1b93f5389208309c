//! LimitPodHardAntiAffinityTopology: pods keep others away from their node at most, not from a zone.

use async_trait::async_trait;
use serde_json::Value;

use super::{Admission, Attributes, Operation};
use crate::status::Result;

const HOST: &str = "kubernetes.io/hostname";
const TERMS: &str = "/spec/affinity/podAntiAffinity/requiredDuringSchedulingIgnoredDuringExecution";

pub(crate) struct AntiAffinityTopology;

#[async_trait]
impl Admission for AntiAffinityTopology {
    async fn validate(&self, write: &Attributes<'_>, object: &Value) -> Result<()> {
        if !write.is_pod() || !matches!(write.operation, Operation::Create | Operation::Update) {
            return Ok(());
        }
        let terms = object.pointer(TERMS).and_then(Value::as_array).into_iter().flatten();
        let mut keys = terms.map(|term| term["topologyKey"].as_str().unwrap_or_default());
        match keys.find(|key| *key != HOST) {
            None => Ok(()),
            Some(key) => {
                let why = format!(
                    "affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey {key} but only key {HOST} is \
                     allowed"
                );
                Err(write.forbidden(object, &why))
            }
        }
    }
}
