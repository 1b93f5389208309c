//! Certificates that an operator makes for itself.

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
    inject::{self, OwnClientConfigs, Target, TargetKind},
    secret::SecretRef,
};
use crate::manifests::Permission;

/// How often a write that met another one is tried again at once.
const TRIES: usize = 10;

/// The field of the Secret with authorities that were trusted before it was lost.
const FORMER: &str = "ca-former.crt";

const DAY: Duration = Duration::from_hours(24);

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SelfSignedError {
    /// The Secret cannot be read.
    #[error("cannot read the Secret {0} with the certificates")]
    Read(String, #[source] kube::Error),
    /// The Secret cannot be written.
    #[error("cannot write the Secret {0} with the certificates")]
    Write(String, #[source] kube::Error),
    /// Others kept writing the Secret.
    #[error("others kept writing the Secret {0} with the certificates")]
    Contended(String),
    /// A certificate cannot be made, for example because a name is not one.
    #[error("cannot make a certificate")]
    Make(#[source] rcgen::Error),
    /// The certificate in the Secret cannot be used.
    #[error("cannot use the certificate that was made")]
    Use(#[source] CertificateError),
}

/// An authority and a serving certificate of the operator's own, in a Secret that all its replicas share.
///
/// Whichever replica comes first makes them; each makes them anew when a third of their life is left. A new authority
/// is in the bundle that the API server trusts long before it signs anything, so connections never fail for lack of
/// trust.
///
/// If the Secret is lost, the authorities that were trusted until then stay in the bundle for one
/// [`overlap`](Self::overlap): replicas show what they had until the bundle with the new authority is in its places.
///
/// The bundle is written into the named webhook configurations and definitions, only where they lead to this Service,
/// and again whenever somebody overwrites it (looked at every [`check_every`](Self::check_every)).
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
    targets: Vec<Target>,
    policy: Lifetimes,
    check_every: Duration,
    clock: Arc<dyn Fn() -> SystemTime + Send + Sync>,
}

/// Keeps the certificate of a running server fresh.
#[derive(Debug)]
pub(in crate::webhook) struct CertificateRotator {
    options: SelfSigned,
    ours: OwnClientConfigs,
    resolver: CertResolver,
    /// What new connections see.
    shown: Option<CertificateAndKey>,
}

impl SelfSigned {
    /// For a Service, by whose names the API server calls. The Secret is named after it: `<service>-certificates`.
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

    /// Another name of the Secret.
    #[must_use]
    pub fn secret(mut self, name: impl Into<String>) -> Self {
        self.secret = name.into();
        self
    }

    /// One more name or address by which the server is called.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        let name = name.into();
        // As it is written in certificates, or every look would find it missing.
        self.names.push(name.parse::<IpAddr>().map_or(name, |address| address.to_string()));
        self
    }

    /// Writes the bundle into this `MutatingWebhookConfiguration`.
    #[must_use]
    pub fn mutating(self, name: impl Into<String>) -> Self {
        self.target(TargetKind::Mutating, name.into())
    }

    /// Writes the bundle into this `ValidatingWebhookConfiguration`.
    #[must_use]
    pub fn validating(self, name: impl Into<String>) -> Self {
        self.target(TargetKind::Validating, name.into())
    }

    /// Writes the bundle into this `CustomResourceDefinition`, if it converts by webhook.
    #[must_use]
    pub fn definition(self, name: impl Into<String>) -> Self {
        self.target(TargetKind::Definition, name.into())
    }

    /// Writes the bundle into all of these.
    pub(crate) fn targets(mut self, targets: Vec<Target>) -> Self {
        self.targets.extend(targets);
        self
    }

    fn target(mut self, kind: TargetKind, name: String) -> Self {
        self.targets.push(Target { kind, name });
        self
    }

    /// How long the authority and the serving certificates last: 5 years and 90 days unless said.
    #[must_use]
    pub fn lifetimes(mut self, authority: Duration, serving: Duration) -> Self {
        self.policy.authority_lifetime = authority;
        self.policy.serving_lifetime = serving;
        self
    }

    /// How long an authority is known before it signs: an hour unless said.
    #[must_use]
    pub fn overlap(mut self, overlap: Duration) -> Self {
        self.policy.overlap = overlap;
        self
    }

    /// How often the Secret and the bundles are looked at: every 10 seconds unless said.
    #[must_use]
    pub fn check_every(mut self, interval: Duration) -> Self {
        self.check_every = interval.max(Duration::from_millis(1));
        self
    }

    /// Another clock than the system's, for tests.
    #[must_use]
    pub fn clock(mut self, clock: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// What this needs to be allowed.
    pub fn permissions(&self) -> Vec<Permission> {
        permissions(&self.namespace, &self.secret, &self.targets)
    }

    fn now(&self) -> Duration {
        (self.clock)().duration_since(UNIX_EPOCH).unwrap_or_default()
    }

    /// What is in the Secret, made anew if it is due.
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
                    // The revision stays in it: a write in between makes this one fail.
                    found.data = Some(encode(&renewed, found.data.take().unwrap_or_default()));
                    secret.replace(&found).await
                }
                None => secret.create(&self.new_secret(&renewed)).await,
            };
            match written {
                Ok(()) => {
                    info!(secret = place(), "webhook certificates renewed");
                    return Ok(renewed);
                }
                // Another replica was faster, or somebody removed it.
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

/// The Secret of a Service.
pub(crate) fn secret_of(service: &str) -> String {
    format!("{service}-certificates")
}

/// What certificates of an operator's own need to be allowed: their Secret, and the objects that tell whom to trust.
pub(crate) fn permissions(namespace: &str, secret: &str, targets: &[Target]) -> Vec<Permission> {
    let secrets = |verbs: &[&'static str]| Permission::new("", "secrets", verbs.iter().copied()).within(namespace);
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
    /// Gets the first certificate and tells the API server of its authority.
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
                warn!(%error, "the old webhook certificate stays");
            }
        }
    }

    async fn check(&mut self) -> Result<(), SelfSignedError> {
        let kept = self.options.keep(&self.ours).await?;
        let told = inject::inject(&self.options.client, &self.options.targets, &self.ours, &kept.trusted()).await;
        // A new authority's certificate is shown once the look before has told everybody of it, unless there is nothing
        // better to show.
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
