//! What leads from a cluster to this machine, and taking it away again.
//!
//! A cluster whose webhooks nobody answers is broken, and a run may be killed. So all that is needed to mend it is in the
//! cluster: a label says what a run has made or changed, an annotation how a definition was converted before. The end of
//! a run reads them, and so do the next run, `windlass uninstall` and `windlass undeploy`.

use anyhow::Context as _;
use k8s_openapi::{
    api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, Resource, ResourceExt as _,
    api::{DeleteParams, ListParams, PostParams},
    core::{ApiResource, DynamicObject},
};
use serde_json::{Value, json};

/// Label of what a run has made or changed; its value is the name of the operator.
pub(crate) const LABEL: &str = "windlass.dev/run";
/// Annotation of a definition: how it was converted before a run, as JSON.
const BEFORE: &str = "windlass.dev/conversion-before-run";
/// Who changes conversions. Owns none of them for long: whoever applies the definition next would be in conflict.
const MANAGER: &str = "windlass-run";
/// How often a definition is written anew that somebody else has just written.
const TRIES: usize = 5;

/// What runs of an operator have left in a cluster.
#[derive(Clone)]
pub(crate) struct Trace {
    client: Client,
    operator: String,
}

impl Trace {
    pub(crate) fn new(client: Client, operator: impl Into<String>) -> Self {
        Self { client, operator: operator.into() }
    }

    /// Takes away what leads to this machine, and tells of it.
    pub(crate) async fn withdraw(&self, dry_run: bool, tell: &mut (dyn FnMut(String) + Send)) -> anyhow::Result<()> {
        self.prune::<MutatingWebhookConfiguration>(&|_| false, dry_run, tell).await?;
        self.prune::<ValidatingWebhookConfiguration>(&|_| false, dry_run, tell).await?;
        let found = self.definitions().list(&self.ours()).await.context("cannot look for definitions of a run")?;
        for name in found.items.iter().map(|definition| definition.name_any()) {
            match dry_run {
                true => tell(format!("CustomResourceDefinition {name}: would be converted as before the run")),
                false => {
                    self.rewrite(&name, &restore).await.with_context(|| format!("cannot restore {name}"))?;
                    tell(format!("CustomResourceDefinition {name}: converted as before the run"));
                }
            }
        }
        Ok(())
    }

    /// Removes configurations that a run has made, except for those that are wanted.
    pub(crate) async fn prune<K>(
        &self,
        wanted: &(dyn Fn(&str) -> bool + Sync),
        dry_run: bool,
        tell: &mut (dyn FnMut(String) + Send),
    ) -> anyhow::Result<()>
    where
        K: Resource<DynamicType = ()>,
    {
        let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &ApiResource::erase::<K>(&()));
        let kind = K::kind(&());
        let found = api.list(&self.ours()).await.with_context(|| format!("cannot look for each {kind} of a run"))?;
        for name in found.items.iter().map(|object| object.name_any()).filter(|name| !wanted(name)) {
            match api.delete(&name, &DeleteParams { dry_run, ..DeleteParams::default() }).await {
                Ok(_) if dry_run => tell(format!("{kind} {name}: would be deleted")),
                Ok(_) => tell(format!("{kind} {name}: deleted")),
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                Err(error) => return Err(error).with_context(|| format!("cannot delete {kind} {name}")),
            }
        }
        Ok(())
    }

    /// Prepares for a definition that leads here, so that it can be applied: lets it remember how objects were converted,
    /// and changes that in the cluster at once. An apply cannot, as it leaves what others have set: they would lead to a
    /// Service, and here as well.
    pub(crate) async fn lead_here(&self, definition: &mut Value) -> Result<(), kube::Error> {
        let name = definition["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let before = match self.definitions().get_opt(&name).await? {
            Some(found) => before(&found),
            None => unconverted(),
        };
        definition["metadata"]["annotations"][BEFORE] = json!(before.to_string());
        let wanted = &definition["spec"]["conversion"];
        self.rewrite(&name, &|found| {
            let client = found.data.pointer("/spec/conversion/webhook/clientConfig");
            if client == wanted.pointer("/webhook/clientConfig") && found.labels().contains_key(LABEL) {
                return false;
            }
            found.annotations_mut().insert(BEFORE.to_owned(), before.to_string());
            found.labels_mut().insert(LABEL.to_owned(), self.operator.clone());
            found.data["spec"]["conversion"] = wanted.clone();
            true
        })
        .await
    }

    /// Changes a definition, if it is there and the change says that there is one. Nobody owns what is changed.
    async fn rewrite(&self, name: &str, change: &dyn Fn(&mut DynamicObject) -> bool) -> Result<(), kube::Error> {
        let api = self.definitions();
        let parameters = PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() };
        let mut tries = 0..TRIES;
        let mut is_changed = false;
        loop {
            let Some(mut definition) = api.get_opt(name).await? else { return Ok(()) };
            // Who owns what can only be said of what is there.
            let changes = !is_changed && change(&mut definition);
            if !changes && !disown(&mut definition) {
                return Ok(());
            }
            match api.replace(name, &parameters, &definition).await {
                Err(kube::Error::Api(status)) if status.code == 409 && tries.next().is_some() => {}
                Err(error) => return Err(error),
                Ok(_) if changes => is_changed = true,
                Ok(_) => return Ok(()),
            }
        }
    }

    fn definitions(&self) -> Api<DynamicObject> {
        Api::all_with(self.client.clone(), &ApiResource::erase::<CustomResourceDefinition>(&()))
    }

    fn ours(&self) -> ListParams {
        ListParams::default().labels(&format!("{LABEL}={}", self.operator))
    }
}

/// How a definition was converted before a run.
fn before(definition: &DynamicObject) -> Value {
    let found = match definition.labels().contains_key(LABEL) {
        true => definition.annotations().get(BEFORE).and_then(|text| serde_json::from_str(text).ok()),
        false => definition.data.pointer("/spec/conversion").cloned(),
    };
    found.filter(Value::is_object).unwrap_or_else(unconverted)
}

fn unconverted() -> Value {
    json!({ "strategy": "None" })
}

/// Whether there was something to restore.
fn restore(definition: &mut DynamicObject) -> bool {
    let before = before(definition);
    if definition.labels_mut().remove(LABEL).is_none() {
        return false;
    }
    definition.annotations_mut().remove(BEFORE);
    definition.data["spec"]["conversion"] = before;
    true
}

/// Whether there was something that a run owned.
fn disown(definition: &mut DynamicObject) -> bool {
    let owners = definition.managed_fields_mut();
    let count = owners.len();
    owners.retain(|owner| owner.manager.as_deref() != Some(MANAGER));
    owners.len() < count
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(metadata: Value, conversion: Value) -> DynamicObject {
        serde_json::from_value(json!({ "metadata": metadata, "spec": { "conversion": conversion } })).unwrap()
    }

    #[test]
    fn what_was_before_is_what_there_is_or_what_an_earlier_run_found() {
        let [here, service] = [json!({ "strategy": "here" }), json!({ "strategy": "service" })];
        let none = unconverted();
        let left = |annotations: Value| json!({ "labels": { LABEL: "shop" }, "annotations": annotations });
        for (metadata, conversion, expected) in [
            (json!({}), service.clone(), &service),
            (json!({}), Value::Null, &none),
            (left(json!({ BEFORE: service.to_string() })), here.clone(), &service),
            (left(json!({ BEFORE: "no JSON" })), here.clone(), &none),
            (left(json!({})), here.clone(), &none),
        ] {
            assert_eq!(before(&definition(metadata.clone(), conversion)), *expected, "{metadata}");
        }
    }

    #[test]
    fn only_what_a_run_has_changed_is_restored_and_others_keep_what_they_own() {
        let owners = json!([{ "manager": "kubectl" }, { "manager": MANAGER }]);
        let metadata = json!({
            "labels": { LABEL: "shop", "a": "b" }, "annotations": { BEFORE: "{}" }, "managedFields": owners,
        });
        let mut changed = definition(metadata, json!({ "strategy": "Webhook" }));
        assert!(restore(&mut changed) && !restore(&mut changed));
        assert!(disown(&mut changed) && !disown(&mut changed));
        let expected = definition(
            json!({ "labels": { "a": "b" }, "annotations": {}, "managedFields": [{ "manager": "kubectl" }] }),
            json!({}),
        );
        assert_eq!(changed, expected);
    }
}
