//! Defaulting and validation of a custom resource, with `windlass` as the only dependency besides tokio.
//!
//! ```text
//! cargo run -p windlass --example webhook -- manifests --image example.com/backup:1 > install.yaml
//! ```
//!
//! The manifests contain the CRD, both webhook configurations, and a Deployment. The certificate is self-signed and
//! rotated by the operator itself.

use std::process::ExitCode;

use windlass::{
    kube::CustomResource,
    prelude::*,
    schemars::JsonSchema,
    serde::{Deserialize, Serialize},
    webhook::{Denied, Request, Warnings, Webhook},
};

/// Desired state of a Backup.
#[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[kube(group = "example.com", version = "v1", kind = "Backup", namespaced)]
// Derive macros must be told where to find the crates that windlass re-exports. A project that depends on kube, serde
// and schemars itself needs none of the following lines.
#[kube(crates(
    kube_core = "windlass::kube::core",
    k8s_openapi = "windlass::k8s_openapi",
    schemars = "windlass::schemars",
    serde = "windlass::serde",
    serde_json = "windlass::serde_json"
))]
#[serde(crate = "windlass::serde", rename_all = "camelCase")]
#[schemars(crate = "windlass::schemars")]
struct BackupSpec {
    /// PersistentVolumeClaim to back up.
    volume: String,
    /// Number of backups to keep.
    #[serde(default)]
    keep: Option<u32>,
}

/// Sets fields that the client left out. Only the changes are sent back, as a JSON patch.
fn default(backup: &mut Backup, _request: &Request<Backup>) {
    backup.spec.keep.get_or_insert(7);
}

/// Rejects objects that the schema cannot rule out. On a delete, there is no new object.
fn validate(request: &Request<Backup>) -> Result<Warnings, Denied> {
    let Some(backup) = &request.object else { return Ok(Warnings::none()) };
    if let Some(old) = &request.old_object
        && old.spec.volume != backup.spec.volume
    {
        return Err(Denied::field("spec.volume", "field is immutable"));
    }
    match backup.spec.keep {
        Some(0) => Err(Denied::field("spec.keep", "must be greater than zero")),
        Some(keep) if keep > 100 => Ok(Warnings::new("more than 100 backups take a lot of space")),
        _ => Ok(Warnings::none()),
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    Operator::new("backup-operator")
        .define::<Backup>()
        .webhook(Webhook::<Backup>::new().default_with(default).validate(validate))
        .main()
        .await
}
