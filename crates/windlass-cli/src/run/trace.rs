//! Redirections from a cluster to this machine, and their removal.
//!
//! Webhooks without a server break a cluster, and a run may be killed. Therefore everything needed to repair it is
//! stored in the cluster: a label marks objects that a run created or changed, and an annotation records the previous
//! conversion of a CRD. They are used at the end of a run, by the next run, and by `windlass uninstall` and `windlass
//! undeploy`.

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

/// Label of objects that a run created or changed; its value is the name of the operator.
pub(crate) const LABEL: &str = "windlass.dev/run";
/// Annotation of a CRD: its conversion before the run, as JSON.
const BEFORE: &str = "windlass.dev/conversion-before-run";
/// Field manager of changed conversions. It gives up ownership at once: otherwise the next apply of the CRD would
/// conflict.
const MANAGER: &str = "windlass-run";
/// Number of attempts to update a CRD that is changed concurrently.
const TRIES: usize = 5;

/// Objects that runs of an operator have left in a cluster.
#[derive(Clone)]
pub(crate) struct Trace {
    client: Client,
    operator: String,
}

impl Trace {
    pub(crate) fn new(client: Client, operator: impl Into<String>) -> Self {
        Self { client, operator: operator.into() }
    }

    /// Removes redirections to this machine, and reports them.
    pub(crate) async fn withdraw(&self, dry_run: bool, report: &mut (dyn FnMut(String) + Send)) -> anyhow::Result<()> {
        self.prune::<MutatingWebhookConfiguration>(&|_| false, dry_run, report).await?;
        self.prune::<ValidatingWebhookConfiguration>(&|_| false, dry_run, report).await?;
        let found =
            self.definitions().list(&self.ours()).await.context("failed to list CustomResourceDefinitions of a run")?;
        for name in found.items.iter().map(|definition| definition.name_any()) {
            match dry_run {
                true => {
                    report(format!("CustomResourceDefinition {name}: the conversion before the run would be restored"))
                }
                false => {
                    self.rewrite(&name, &restore).await.with_context(|| format!("failed to restore {name}"))?;
                    report(format!("CustomResourceDefinition {name}: restored the conversion before the run"));
                }
            }
        }
        Ok(())
    }

    /// Deletes configurations created by a run, except for those in `wanted`.
    pub(crate) async fn prune<K>(
        &self,
        wanted: &(dyn Fn(&str) -> bool + Sync),
        dry_run: bool,
        report: &mut (dyn FnMut(String) + Send),
    ) -> anyhow::Result<()>
    where
        K: Resource<DynamicType = ()>,
    {
        let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &ApiResource::erase::<K>(&()));
        let kind = K::kind(&());
        let found = api.list(&self.ours()).await.with_context(|| format!("failed to list {kind} of a run"))?;
        for name in found.items.iter().map(|object| object.name_any()).filter(|name| !wanted(name)) {
            match api.delete(&name, &DeleteParams { dry_run, ..DeleteParams::default() }).await {
                Ok(_) if dry_run => report(format!("{kind} {name}: would be deleted")),
                Ok(_) => report(format!("{kind} {name}: deleted")),
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                Err(error) => return Err(error).with_context(|| format!("cannot delete {kind} {name}")),
            }
        }
        Ok(())
    }

    /// Prepares a CRD that points to this machine for applying: records the previous conversion in it, and changes the
    /// conversion in the cluster at once. An apply alone cannot do that, as it keeps fields of other managers: the
    /// conversion would have both a Service and a URL.
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

    /// Updates a CRD if it exists and the change returns true. Afterwards, no manager owns the changed fields.
    async fn rewrite(&self, name: &str, change: &dyn Fn(&mut DynamicObject) -> bool) -> Result<(), kube::Error> {
        let api = self.definitions();
        let parameters = PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() };
        let mut tries = 0..TRIES;
        let mut is_changed = false;
        loop {
            let Some(mut definition) = api.get_opt(name).await? else { return Ok(()) };
            // Ownership can only be given up for fields that exist.
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

/// Conversion of a CRD before a run.
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

/// Restores the conversion; returns whether there was one to restore.
fn restore(definition: &mut DynamicObject) -> bool {
    let before = before(definition);
    if definition.labels_mut().remove(LABEL).is_none() {
        return false;
    }
    definition.annotations_mut().remove(BEFORE);
    definition.data["spec"]["conversion"] = before;
    true
}

/// Gives up field ownership; returns whether there was any.
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
    fn the_previous_conversion_is_that_before_the_first_run() {
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
    fn only_changes_of_a_run_are_restored_and_other_managers_keep_their_fields() {
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
