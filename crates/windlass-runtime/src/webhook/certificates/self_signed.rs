//! Certificates that an operator issues for itself.

use std::{
    collections::BTreeMap,
    fmt,
    net::IpAddr,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::Client;
use tracing::{info, warn};

use super::{
    CertResolver, CertificateError,
    authority::{self, CertificateAndKey, Lifetimes, StoredCertificates},
    inject::{self, CaBundleTarget, CaBundleTargetKind, OwnClientConfigs},
    secret::SecretRef,
};
use crate::manifests::Permission;

/// Number of immediate attempts of a write that hits a conflict.
const TRIES: usize = 10;

/// Field of the Secret with CAs that were trusted before it was lost.
const FORMER: &str = "ca-former.crt";

const DAY: Duration = Duration::from_hours(24);

/// Error of self-signed certificates.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SelfSignedError {
    /// The Secret could not be read.
    #[error("failed to read Secret {0} with the certificates")]
    Read(String, #[source] kube::Error),
    /// The Secret could not be written.
    #[error("failed to write Secret {0} with the certificates")]
    Write(String, #[source] kube::Error),
    /// All attempts to write the Secret hit a conflict.
    #[error("failed to write Secret {0} with the certificates: too many conflicts")]
    Contended(String),
    /// A certificate could not be issued, for example because a name is invalid.
    #[error("failed to issue a certificate")]
    Make(#[source] rcgen::Error),
    /// The certificate in the Secret is invalid.
    #[error("invalid certificate in the Secret")]
    Use(#[source] CertificateError),
}

/// A CA and a serving certificate that the operator issues itself, in a Secret that all its replicas share.
///
/// The first replica creates them; any replica renews them when a third of their lifetime is left. A new CA is in the
/// bundle that the API server trusts long before it signs anything, so connections never fail for lack of trust.
///
/// If the Secret is lost, the CAs that were trusted until then stay in the bundle for one [`overlap`](Self::overlap):
/// replicas keep using their certificates until the bundle with the new CA is in place.
///
/// The bundle is written into the named webhook configurations and CRDs, only where they refer to this Service, and
/// again whenever it is overwritten (checked every [`check_every`](Self::check_every)).
///
/// ```no_run
/// # use windlass_runtime::webhook::{Certificates, SelfSigned};
/// # fn certificates(client: kube::Client) -> Certificates {
/// SelfSigned::new(client, "operators", "foo-webhook")
///     .mutating("foo")
///     .validating("foo")
///     .definition("foos.example.com")
///     .into()
/// # }
/// ```
#[derive(Clone)]
pub struct SelfSigned {
    client: Client,
    namespace: String,
    service: String,
    secret: String,
    names: Vec<String>,
    targets: Vec<CaBundleTarget>,
    policy: Lifetimes,
    check_every: Duration,
    clock: Arc<dyn Fn() -> SystemTime + Send + Sync>,
}

/// Keeps the certificate of a running server up to date.
#[derive(Debug)]
pub(in crate::webhook) struct CertificateRotator {
    options: SelfSigned,
    ours: OwnClientConfigs,
    resolver: CertResolver,
    /// The certificate for new connections.
    shown: Option<CertificateAndKey>,
}

impl SelfSigned {
    /// Issues certificates for the names of a Service. The Secret is called `<service>-certificates`.
    pub fn new(client: Client, namespace: impl Into<String>, service: impl Into<String>) -> Self {
        let (namespace, service) = (namespace.into(), service.into());
        let names = ["", ".svc", ".svc.cluster.local"].map(|suffix| format!("{service}.{namespace}{suffix}"));
        Self {
            client,
            secret: secret_of(&service),
            names: names.to_vec(),
            targets: Vec::new(),
            policy: Lifetimes {
                authority_lifetime: 5 * 365 * DAY,
                serving_lifetime: 90 * DAY,
                overlap: Duration::from_hours(1),
            },
            check_every: Duration::from_secs(10),
            clock: Arc::new(SystemTime::now),
            namespace,
            service,
        }
    }

    /// Sets another name for the Secret.
    #[must_use]
    pub fn secret(mut self, name: impl Into<String>) -> Self {
        self.secret = name.into();
        self
    }

    /// Adds a DNS name or IP address of the server.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        let name = name.into();
        // Normalized as in certificates, or every check would consider it missing.
        self.names.push(name.parse::<IpAddr>().map_or(name, |address| address.to_string()));
        self
    }

    /// Writes the CA bundle into this `MutatingWebhookConfiguration`.
    #[must_use]
    pub fn mutating(self, name: impl Into<String>) -> Self {
        self.target(CaBundleTargetKind::Mutating, name.into())
    }

    /// Writes the CA bundle into this `ValidatingWebhookConfiguration`.
    #[must_use]
    pub fn validating(self, name: impl Into<String>) -> Self {
        self.target(CaBundleTargetKind::Validating, name.into())
    }

    /// Writes the CA bundle into this `CustomResourceDefinition`, if it uses a conversion webhook.
    #[must_use]
    pub fn definition(self, name: impl Into<String>) -> Self {
        self.target(CaBundleTargetKind::Definition, name.into())
    }

    /// Writes the CA bundle into all of these.
    pub(crate) fn targets(mut self, targets: Vec<CaBundleTarget>) -> Self {
        self.targets.extend(targets);
        self
    }

    fn target(mut self, kind: CaBundleTargetKind, name: String) -> Self {
        self.targets.push(CaBundleTarget { kind, name });
        self
    }

    /// Sets the lifetimes of the CA and of serving certificates; 5 years and 90 days by default.
    #[must_use]
    pub fn lifetimes(mut self, authority: Duration, serving: Duration) -> Self {
        self.policy.authority_lifetime = authority;
        self.policy.serving_lifetime = serving;
        self
    }

    /// Sets the time that a CA is in the bundle before it signs; an hour by default.
    #[must_use]
    pub fn overlap(mut self, overlap: Duration) -> Self {
        self.policy.overlap = overlap;
        self
    }

    /// Sets the interval of checks of the Secret and the bundles; 10 seconds by default.
    #[must_use]
    pub fn check_every(mut self, interval: Duration) -> Self {
        self.check_every = interval.max(Duration::from_millis(1));
        self
    }

    /// Sets another clock than the system's, for tests.
    #[must_use]
    pub fn clock(mut self, clock: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Returns the permissions that this needs.
    pub fn permissions(&self) -> Vec<Permission> {
        permissions(&self.namespace, &self.secret, &self.targets)
    }

    fn now(&self) -> Duration {
        (self.clock)().duration_since(UNIX_EPOCH).unwrap_or_default()
    }

    /// Returns the certificates of the Secret, after renewing them if needed.
    async fn keep(&self, ours: &OwnClientConfigs) -> Result<StoredCertificates, SelfSignedError> {
        let secret = SecretRef { client: &self.client, namespace: &self.namespace, name: &self.secret };
        let place = || format!("{}/{}", self.namespace, self.secret);
        for _ in 0..TRIES {
            let found = secret.read().await.map_err(|error| SelfSignedError::Read(place(), error))?;
            let kept = found.as_ref().and_then(decode);
            let now = self.now();
            let mut renewed =
                authority::renew(kept.as_ref(), &self.names, &self.policy, now).map_err(SelfSignedError::Make)?;
            if !renewed.continues(kept.as_ref()) {
                let trusted = inject::bundles(&self.client, &self.targets, ours).await;
                renewed.former = authority::valid(&trusted.concat(), now);
            }
            if kept.as_ref() == Some(&renewed) {
                return Ok(renewed);
            }
            let written = match found {
                Some(mut found) => {
                    // It keeps its resource version, so that a concurrent write makes this one fail.
                    found.data = Some(encode(&renewed, found.data.take().unwrap_or_default()));
                    secret.replace(&found).await
                }
                None => secret.create(&self.new_secret(&renewed)).await,
            };
            match written {
                Ok(()) => {
                    info!(secret = place(), "renewed the webhook certificates");
                    return Ok(renewed);
                }
                // Another replica was faster, or the Secret was deleted.
                Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
                Err(error) => return Err(SelfSignedError::Write(place(), error)),
            }
        }
        Err(SelfSignedError::Contended(place()))
    }

    fn new_secret(&self, kept: &StoredCertificates) -> Secret {
        let mut secret = Secret {
            type_: Some("kubernetes.io/tls".to_owned()),
            data: Some(encode(kept, BTreeMap::new())),
            ..Secret::default()
        };
        secret.metadata.name = Some(self.secret.clone());
        secret
    }
}

impl From<SelfSigned> for super::Certificates {
    fn from(options: SelfSigned) -> Self {
        Self::SelfSigned(Box::new(options))
    }
}

impl fmt::Debug for SelfSigned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SelfSigned")
            .field("namespace", &self.namespace)
            .field("secret", &self.secret)
            .field("names", &self.names)
            .field("targets", &self.targets)
            .finish_non_exhaustive()
    }
}

/// Returns the name of a Service's Secret.
pub(crate) fn secret_of(service: &str) -> String {
    format!("{service}-certificates")
}

/// Returns the permissions for self-signed certificates: for their Secret, and for the objects with a CA bundle.
pub(crate) fn permissions(namespace: &str, secret: &str, targets: &[CaBundleTarget]) -> Vec<Permission> {
    let secrets =
        |verbs: &[&'static str]| Permission::new("", "secrets", verbs.iter().copied()).in_namespace(namespace);
    let mut permissions = vec![secrets(&["create"]), secrets(&["get", "update"]).named(secret)];
    permissions.extend(targets.iter().map(|target| {
        let (group, plural) = target.kind.group_and_plural();
        Permission::new(group, plural, ["get", "patch"]).named(&target.name)
    }));
    permissions
}

fn encode(kept: &StoredCertificates, mut data: BTreeMap<String, ByteString>) -> BTreeMap<String, ByteString> {
    let fields = [
        ("tls.crt", kept.serving.certificate.clone()),
        ("tls.key", kept.serving.key.clone()),
        ("ca.crt", kept.bundle()),
        ("ca.key", kept.authority_keys()),
    ];
    data.extend(fields.map(|(field, text)| (field.to_owned(), ByteString(text.into_bytes()))));
    match kept.former.is_empty() {
        true => data.remove(FORMER),
        false => data.insert(FORMER.to_owned(), ByteString(kept.former.clone().into_bytes())),
    };
    data
}

fn decode(secret: &Secret) -> Option<StoredCertificates> {
    let data = secret.data.as_ref()?;
    let text = |field: &str| std::str::from_utf8(&data.get(field)?.0).ok();
    let serving = CertificateAndKey { certificate: text("tls.crt")?.to_owned(), key: text("tls.key")?.to_owned() };
    let former = text(FORMER).unwrap_or_default().to_owned();
    Some(StoredCertificates { former, ..StoredCertificates::from_parts(text("ca.crt")?, text("ca.key")?, serving) })
}

impl CertificateRotator {
    /// Gets the first certificate and writes the CA bundle.
    pub(super) async fn start(
        options: SelfSigned,
        resolver: &CertResolver,
        paths: Vec<String>,
    ) -> Result<Self, SelfSignedError> {
        let ours = OwnClientConfigs { namespace: options.namespace.clone(), service: options.service.clone(), paths };
        let mut this = Self { options, ours, resolver: resolver.clone(), shown: None };
        this.check().await?;
        Ok(this)
    }

    pub(super) async fn run(mut self) {
        loop {
            tokio::time::sleep(self.options.check_every).await;
            if let Err(error) = self.check().await {
                let error = crate::Error::from(error);
                warn!(%error, "keeping the old webhook certificate");
            }
        }
    }

    async fn check(&mut self) -> Result<(), SelfSignedError> {
        let kept = self.options.keep(&self.ours).await?;
        let told = inject::inject(&self.options.client, &self.options.targets, &self.ours, &kept.trusted()).await;
        // A certificate of a new CA is used once the previous check found the bundle everywhere, unless there is no
        // better certificate.
        let shown = self.shown.as_ref();
        let better = |shown| !authority::may_replace(shown, &kept.serving, self.options.now());
        if shown != Some(&kept.serving) && (told || !shown.is_some_and(better)) {
            let CertificateAndKey { certificate, key } = &kept.serving;
            self.resolver.set_pem(certificate.as_bytes(), key.as_bytes()).map_err(SelfSignedError::Use)?;
            self.shown = Some(kept.serving.clone());
        }
        Ok(())
    }
}
