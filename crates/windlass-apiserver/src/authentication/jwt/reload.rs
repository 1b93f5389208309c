//! Reloads the configuration file when it changes.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use tokio::io::AsyncReadExt as _;
use windlass_schema::field::{ErrorList, FieldError, Path as FieldPath};

use super::{
    Shared, activate,
    configuration::{AuthenticationConfiguration, ConfigurationError, MAX_FILE},
};

/// Interval at which the file is read.
const EVERY: Duration = Duration::from_secs(5);
/// Maximum time for the issuers of a new configuration to respond.
const READY_WITHIN: Duration = Duration::from_secs(60);

/// Reasons why a file was not loaded.
enum Failure {
    /// It will not succeed until the file changes.
    Permanent(ConfigurationError),
    /// It may succeed later.
    Transient(String),
}

/// Reads the file periodically, and replaces the issuers if it has changed. An unusable file changes nothing.
pub(super) async fn run(
    shared: Arc<Shared>,
    file: PathBuf,
    initial: AuthenticationConfiguration,
    reserved: Vec<String>,
) {
    let reserved: Vec<&str> = reserved.iter().map(String::as_str).collect();
    let anonymous = initial.anonymous.clone();
    // The contents that were handled last; unknown at first, because the file may have changed since it was loaded.
    let mut handled: Option<Vec<u8>> = None;
    loop {
        tokio::time::sleep(EVERY).await;
        let contents = match read(&file).await {
            Ok(contents) if handled.as_ref() == Some(&contents) => continue,
            Ok(contents) => contents,
            Err(error) => {
                tracing::error!(file = %file.display(), %error, "failed to read the authentication configuration");
                shared.reloads.failed();
                continue;
            }
        };
        let parsed = AuthenticationConfiguration::parse(&contents);
        if handled.is_none() && parsed.as_ref() == Ok(&initial) {
            handled = Some(contents);
            continue;
        }
        let loaded = match parsed.map_err(Failure::Permanent) {
            Ok(configuration) if configuration.anonymous == anonymous => load(&shared, &configuration, &reserved).await,
            Ok(_) => {
                let why =
                    FieldError::forbidden(&FieldPath::new("anonymous"), "changed from initial configuration file");
                Err(Failure::Permanent(ConfigurationError::Invalid(ErrorList::from([why]))))
            }
            Err(failure) => Err(failure),
        };
        match loaded {
            Ok(()) => {
                tracing::info!(file = %file.display(), "reloaded the authentication configuration");
                shared.reloads.succeeded();
                handled = Some(contents);
            }
            Err(Failure::Permanent(error)) => {
                tracing::error!(file = %file.display(), %error, "kept the previous authentication configuration");
                shared.reloads.failed();
                handled = Some(contents);
            }
            Err(Failure::Transient(error)) => {
                tracing::error!(file = %file.display(), error, "kept the previous authentication configuration");
                shared.reloads.failed();
            }
        }
    }
}

/// Reads the file, within the size limit.
async fn read(file: &Path) -> std::io::Result<Vec<u8>> {
    let mut contents = Vec::new();
    let limit = MAX_FILE as u64 + 1;
    tokio::fs::File::open(file).await?.take(limit).read_to_end(&mut contents).await?;
    Ok(contents)
}

/// Replaces the issuers when all of the new ones have responded.
async fn load(shared: &Shared, configuration: &AuthenticationConfiguration, reserved: &[&str]) -> Result<(), Failure> {
    let before = shared.issuers.load_full();
    let issuers = activate(configuration, reserved, &before).map_err(Failure::Permanent)?;
    let all_ready = async {
        for issuer in &issuers {
            // Unchanged issuers are in use, whether they respond or not.
            if !before.iter().any(|known| Arc::ptr_eq(known, issuer)) {
                issuer.keys.ready().await;
            }
        }
    };
    if tokio::time::timeout(READY_WITHIN, all_ready).await.is_err() {
        let problem = |issuer: &super::ActiveIssuer| {
            let url = &issuer.compiled.configuration.issuer.url;
            issuer.keys.problem().map(|why| format!("oidc: authenticator for issuer {url:?} is not healthy: {why}"))
        };
        let problems: Vec<String> = issuers.iter().filter_map(|issuer| problem(issuer)).collect();
        return Err(Failure::Transient(problems.join(", ")));
    }
    shared.issuers.store(Arc::new(issuers));
    Ok(())
}
