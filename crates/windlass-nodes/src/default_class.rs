//! The default storage class of a plane with nodes.

use k8s_openapi::api::storage::v1::StorageClass;
use kube::{
    Api, Client, ResourceExt as _,
    api::{ListParams, PostParams},
};
use serde_json::json;
use tracing::warn;
use windlass_loops::json_text;

use crate::provisioner::PROVISIONER;

const NAME: &str = "standard";
const IS_DEFAULT: &str = "storageclass.kubernetes.io/is-default-class";

/// Creates the default storage class, `standard`, unless another one is the default.
///
/// Volumes are provisioned only for claims with a class. Without a default one, claims that name none would wait for
/// ever.
pub async fn create_default_class(client: Client) {
    if let Err(error) = create(&Api::all(client)).await {
        warn!(%error, "failed to create the storage class {NAME}");
    }
}

async fn create(classes: &Api<StorageClass>) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let present = classes.list(&ListParams::default()).await?.items;
    if present.iter().any(|class| class.annotations().get(IS_DEFAULT).is_some_and(|value| value == "true")) {
        return Ok(());
    }
    let class = json!({
        "metadata": {"name": NAME, "annotations": {IS_DEFAULT: "true"}},
        "provisioner": PROVISIONER,
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "Immediate",
    });
    match classes.create(&PostParams::default(), &json_text::from_value(&class)?).await {
        Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
        created => Ok(created.map(drop)?),
    }
}
