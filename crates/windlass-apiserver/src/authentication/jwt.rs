//! JSON web tokens of OpenID Connect issuers, configured by flags or by an AuthenticationConfiguration file.
//!
//! Tokens are assigned to issuers by their unverified claim `iss`. The issuers are a snapshot, which is replaced as a whole
//! when the file changes; unchanged issuers keep their keys.

mod claims;
pub mod configuration;
mod keys;
mod reload;
mod token;

use std::{fmt, path::PathBuf, sync::Arc};

use arc_swap::ArcSwap;
use futures_util::{FutureExt as _, future::BoxFuture};
use parking_lot::Mutex;
use tokio::task::AbortHandle;

use self::{
    configuration::{AuthenticationConfiguration, Compiled, ConfigurationError},
    keys::IssuerKeys,
};
use super::{Authenticated, TokenAuthenticator};
use crate::{
    reloads::Reloads,
    {public_key::jws::Jws, user::User},
};

/// The algorithms of signatures, in the order of kube-apiserver's messages. Keys for `ES512` cannot be used.
pub const ALGORITHMS: [&str; 9] = ["ES256", "ES384", "ES512", "PS256", "PS384", "PS512", "RS256", "RS384", "RS512"];

/// Authentication of tokens from OpenID Connect issuers.
#[derive(Debug, Clone)]
pub struct JwtOptions {
    /// The issuers.
    pub configuration: AuthenticationConfiguration,
    /// The file to load the issuers from whenever it changes.
    pub file: Option<PathBuf>,
    /// The accepted algorithms.
    pub algorithms: Vec<String>,
}

impl JwtOptions {
    /// Issuers whose tokens have any of the [`ALGORITHMS`].
    pub fn new(configuration: AuthenticationConfiguration) -> Self {
        let algorithms = ALGORITHMS.map(str::to_owned).to_vec();
        Self { configuration, file: None, algorithms }
    }
}

/// Authenticates tokens of OpenID Connect issuers.
pub(crate) struct JwtTokenAuthenticator {
    shared: Arc<Shared>,
    /// The task that reloads the file.
    task: Mutex<Option<AbortHandle>>,
}

struct Shared {
    issuers: ArcSwap<Vec<Arc<ActiveIssuer>>>,
    algorithms: Vec<String>,
    reloads: Reloads,
}

/// An issuer in use.
struct ActiveIssuer {
    compiled: Compiled,
    keys: IssuerKeys,
}

impl Drop for JwtTokenAuthenticator {
    fn drop(&mut self) {
        if let Some(task) = self.task.lock().take() {
            task.abort();
        }
    }
}

impl fmt::Debug for JwtTokenAuthenticator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JwtTokenAuthenticator").finish_non_exhaustive()
    }
}

impl JwtTokenAuthenticator {
    /// Starts to load the keys of the issuers, and to follow the file. Waits for neither. Tokens whose issuer is one of
    /// `reserved` belong to another authenticator. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// Returns an error if the configuration is invalid.
    pub(crate) fn start(options: JwtOptions, reserved: &[&str]) -> Result<Self, ConfigurationError> {
        let issuers = activate(&options.configuration, reserved, &[])?;
        let shared = Arc::new(Shared {
            issuers: ArcSwap::from_pointee(issuers),
            algorithms: options.algorithms,
            reloads: Reloads::default(),
        });
        let task = options.file.map(|file| {
            let reserved = reserved.iter().map(|issuer| (*issuer).to_owned()).collect();
            tokio::spawn(reload::run(shared.clone(), file, options.configuration, reserved).boxed()).abort_handle()
        });
        Ok(Self { shared, task: Mutex::new(task) })
    }

    /// Writes the metrics.
    pub(crate) fn render(&self, out: &mut String) {
        self.shared.reloads.render("authentication", out);
    }
}

/// Compiles a configuration and starts its issuers, except for unchanged ones, which are reused.
fn activate(
    configuration: &AuthenticationConfiguration,
    reserved: &[&str],
    before: &[Arc<ActiveIssuer>],
) -> Result<Vec<Arc<ActiveIssuer>>, ConfigurationError> {
    let mut issuers = Vec::new();
    for compiled in configuration.compile(reserved)? {
        let same = before.iter().find(|known| known.compiled.configuration == compiled.configuration);
        issuers.push(match same {
            Some(known) => known.clone(),
            None => {
                let keys = IssuerKeys::start(&compiled.configuration.issuer).map_err(ConfigurationError::Issuer)?;
                Arc::new(ActiveIssuer { compiled, keys })
            }
        });
    }
    Ok(issuers)
}

impl Shared {
    async fn authenticate(&self, token: &str) -> Result<Option<User>, String> {
        let issuers = self.issuers.load_full();
        if issuers.is_empty() {
            return Ok(None);
        }
        let Some(named) = token::untrusted_issuer(token) else { return Ok(None) };
        let issuer = issuers.iter().find(|issuer| issuer.compiled.configuration.issuer.url == named);
        let Some(issuer) = issuer else { return Ok(None) };
        let failed = |why: &str| format!("oidc: verify token: {why}");
        let jws = Jws::parse(token).ok_or_else(|| failed("oidc: malformed jwt"))?;
        if !self.algorithms.contains(&jws.header.alg) {
            let expected: Vec<String> = self.algorithms.iter().map(|name| format!("{name:?}")).collect();
            return Err(failed(&format!(
                "oidc: id token signed with unsupported algorithm, expected [{}] got {:?}",
                expected.join(" "),
                jws.header.alg
            )));
        }
        let claims = issuer.keys.verify(&jws).await?;
        let audiences = &issuer.compiled.configuration.issuer.audiences;
        token::check(&claims, audiences, windlass_clock::now()).map_err(|why| failed(&why))?;
        claims::user(&issuer.compiled, &claims).map(Some)
    }
}

impl TokenAuthenticator for JwtTokenAuthenticator {
    fn authenticate<'a>(
        &'a self,
        token: &'a str,
        _: &'a [&'a str],
    ) -> BoxFuture<'a, Result<Option<Authenticated>, String>> {
        Box::pin(async move {
            let user = self.shared.authenticate(token).await?;
            Ok(user.map(|user| Authenticated { user, audiences: None }))
        })
    }
}
