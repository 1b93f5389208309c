//! Client certificates, issued by the cluster for a CertificateSigningRequest.

use std::time::Duration;

use anyhow::Context as _;
use k8s_openapi::{
    ByteString,
    api::certificates::v1::{CertificateSigningRequest, CertificateSigningRequestSpec},
};
use kube::{
    Api, Client,
    api::{DeleteParams, ObjectMeta, Patch, PatchParams, PostParams},
};
use serde_json::json;
use windlass_plane::ClientCertificateRequest;

use crate::{
    cluster::MANAGER,
    failure::{ErrorWithHint, Interrupted},
    kubeconfig::Credentials,
    signals::Signals,
};

/// The signer of client certificates.
const SIGNER: &str = "kubernetes.io/kube-apiserver-client";
/// Maximum time for the cluster to sign.
const SIGNED_WITHIN: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(50);
/// Timeout for deleting the request.
const CLEANUP: Duration = Duration::from_secs(5);

/// A certificate to request.
pub(super) struct CertificateOptions<'a> {
    pub(super) user: &'a str,
    pub(super) groups: &'a [String],
    pub(super) lifetime: Duration,
}

/// Asks the server whether it would accept the request.
pub(super) async fn check(client: &Client, options: &CertificateOptions<'_>) -> anyhow::Result<()> {
    let (object, _) = object(options)?;
    let parameters = PostParams { dry_run: true, ..PostParams::default() };
    let requests: Api<CertificateSigningRequest> = Api::all(client.clone());
    requests.create(&parameters, &object).await.map_err(|error| rejected(&error, options)).map(drop)
}

/// Creates a key, and has the cluster sign a certificate for it. The key never leaves this process. The request is
/// deleted in any case.
pub(super) async fn issue(
    client: &Client,
    options: &CertificateOptions<'_>,
    signals: &mut Signals,
) -> anyhow::Result<Credentials> {
    let requests: Api<CertificateSigningRequest> = Api::all(client.clone());
    let (object, key) = object(options)?;
    let name = object.metadata.name.clone().unwrap_or_default();
    let signed = tokio::select! {
        signed = sign(&requests, &name, &object, options) => signed,
        () = signals.first() => Err(Interrupted.into()),
    };
    let deleted = tokio::time::timeout(CLEANUP, requests.delete(&name, &DeleteParams::default())).await;
    // The cluster deletes such requests after an hour.
    if !matches!(deleted, Ok(Ok(_))) && signed.is_ok() {
        tracing::warn!("failed to delete CertificateSigningRequest {name}");
    }
    Ok(Credentials::Certificate { certificate: signed?, key })
}

fn object(options: &CertificateOptions<'_>) -> anyhow::Result<(CertificateSigningRequest, String)> {
    let made = ClientCertificateRequest::new(options.user, options.groups).context("failed to create a key")?;
    let unique = jiff::Timestamp::now().as_nanosecond();
    let name = format!("windlass-user-{}-{unique:x}", std::process::id());
    let spec = CertificateSigningRequestSpec {
        request: ByteString(made.request.into_bytes()),
        signer_name: SIGNER.to_owned(),
        usages: Some(vec!["digital signature".to_owned(), "client auth".to_owned()]),
        expiration_seconds: Some(i32::try_from(options.lifetime.as_secs()).unwrap_or(i32::MAX)),
        ..CertificateSigningRequestSpec::default()
    };
    let metadata = ObjectMeta { name: Some(name), ..ObjectMeta::default() };
    Ok((CertificateSigningRequest { metadata, spec, status: None }, made.key))
}

async fn sign(
    requests: &Api<CertificateSigningRequest>,
    name: &str,
    object: &CertificateSigningRequest,
    options: &CertificateOptions<'_>,
) -> anyhow::Result<Vec<u8>> {
    let created = requests.create(&PostParams::default(), object).await;
    created.map_err(|error| rejected(&error, options))?;
    let approval = json!({"status": {"conditions": [{
        "type": "Approved", "status": "True", "reason": "WindlassUserAdd", "message": "approved by `windlass user add`",
    }]}});
    let parameters = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
    let approved = requests.patch_approval(name, &parameters, &Patch::Merge(approval)).await;
    approved.map_err(|error| rejected(&error, options))?;
    let signed = async {
        loop {
            let request = requests.get(name).await.with_context(|| format!("failed to read {name}"))?;
            let status = request.status.unwrap_or_default();
            if let Some(certificate) = status.certificate.filter(|certificate| !certificate.0.is_empty()) {
                return Ok(certificate.0);
            }
            let mut conditions = status.conditions.into_iter().flatten();
            if let Some(failed) = conditions.find(|condition| ["Failed", "Denied"].contains(&condition.type_.as_str()))
            {
                let why = failed.message.unwrap_or_default();
                anyhow::bail!("the cluster refused to sign a certificate for user {}: {why}", options.user);
            }
            tokio::time::sleep(POLL).await;
        }
    };
    tokio::time::timeout(SIGNED_WITHIN, signed).await.unwrap_or_else(|_| {
        let message = format!("the cluster did not sign the certificate within {} s", SIGNED_WITHIN.as_secs());
        let hint = format!(
            "a signer for {SIGNER} must be running: start `windlass up` with certificatesigningrequest-signing-controller, which \
             is the default, or use --service-account"
        );
        Err(ErrorWithHint { message, hint: hint.into() }.into())
    })
}

fn rejected(error: &kube::Error, options: &CertificateOptions<'_>) -> anyhow::Error {
    let what = format!("cannot request a certificate for user {}", options.user);
    let kube::Error::Api(status) = error else { return anyhow::anyhow!("{what}: {error}") };
    let hint = match status.code {
        403 => "use the kubeconfig of an administrator, who may approve requests for this signer",
        _ => "check the name, the groups and --expires",
    };
    ErrorWithHint { message: format!("{what}: {}", status.message.trim()), hint: hint.into() }.into()
}
