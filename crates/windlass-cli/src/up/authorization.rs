//! The authorizers of the API server.

use std::{path::PathBuf, time::Duration};

use clap::Args;
use windlass_plane::{AuthorizationOptions, AuthorizerOptions, WebhookOptions};

use crate::failure::ErrorWithHint;

const KNOWN: [&str; 6] = ["AlwaysAllow", "AlwaysDeny", "ABAC", "Webhook", "RBAC", "Node"];
const HINT: &str = "the modes are Node, RBAC, Webhook, AlwaysAllow and AlwaysDeny, consulted in the given order; \
                    see https://kubernetes.io/docs/reference/access-authn-authz/authorization/";

/// Options for authorization.
#[derive(Debug, Args)]
#[command(next_help_heading = "Authorization")]
pub(crate) struct AuthorizationArgs {
    /// Authorizers in the order in which they are consulted: Node, RBAC, Webhook, AlwaysAllow, AlwaysDeny [default:
    /// Node,RBAC]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    authorization_mode: Option<Vec<String>>,
    /// AuthorizationConfiguration file, to use instead of the other options; reloaded when it changes
    #[arg(long, value_name = "FILE")]
    authorization_config: Option<PathBuf>,
    /// File in kubeconfig format with the address of the webhook, for the mode Webhook
    #[arg(long, value_name = "FILE")]
    authorization_webhook_config_file: Option<PathBuf>,
    /// Version of the SubjectAccessReviews that are sent to the webhook: v1 or v1beta1 [default: v1beta1]
    #[arg(long, value_name = "VERSION")]
    authorization_webhook_version: Option<String>,
    /// Time for which the webhook's permissions are cached; 0 to disable caching [default: 5m]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    authorization_webhook_cache_authorized_ttl: Option<Duration>,
    /// Time for which the webhook's denials are cached; 0 to disable caching [default: 30s]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    authorization_webhook_cache_unauthorized_ttl: Option<Duration>,
}

/// Parses a duration of Go (`5m`), or a number of seconds.
fn duration(text: &str) -> Result<Duration, String> {
    if let Ok(seconds) = text.parse() {
        return Ok(Duration::from_secs(seconds));
    }
    let nanoseconds = windlass_schema::time::parse_duration(text)?;
    u64::try_from(nanoseconds).map(Duration::from_nanos).map_err(|_| "must not be negative".to_owned())
}

impl AuthorizationArgs {
    /// Returns the options of the API server.
    ///
    /// # Errors
    /// Returns kube-apiserver's errors, with a hint.
    pub(crate) fn options(&self) -> anyhow::Result<AuthorizationOptions> {
        let options = match &self.authorization_config {
            Some(_) if self.has_other_options() => Err(
                "--authorization-config can not be specified when --authorization-mode or --authorization-webhook-* \
                 flags are defined"
                    .to_owned(),
            ),
            Some(file) => std::path::absolute(file)
                .map_err(|error| error.to_string())
                .and_then(|file| AuthorizationOptions::from_file(&file)),
            None => self.modes(),
        };
        options.map_err(|message| ErrorWithHint { message, hint: HINT.into() }.into())
    }

    fn has_other_options(&self) -> bool {
        self.authorization_mode.is_some()
            || self.authorization_webhook_config_file.is_some()
            || self.authorization_webhook_version.is_some()
            || self.authorization_webhook_cache_authorized_ttl.is_some()
            || self.authorization_webhook_cache_unauthorized_ttl.is_some()
    }

    fn modes(&self) -> Result<AuthorizationOptions, String> {
        let default = || vec!["Node".to_owned(), "RBAC".to_owned()];
        let modes = self.authorization_mode.clone().unwrap_or_else(default);
        let mut errors = Vec::new();
        for mode in &modes {
            if !KNOWN.contains(&mode.as_str()) {
                errors.push(format!("authorization-mode {mode:?} is not a valid mode"));
            }
            if mode == "ABAC" {
                errors.push("authorization-mode ABAC is not supported by windlass".to_owned());
            }
            if mode == "Webhook" && self.authorization_webhook_config_file.is_none() {
                errors.push("authorization-mode Webhook's authorization config file not passed".to_owned());
            }
        }
        if self.authorization_webhook_config_file.is_some() && !modes.iter().any(|mode| mode == "Webhook") {
            errors.push("cannot specify --authorization-webhook-config-file without mode Webhook".to_owned());
        }
        let repeated = modes.iter().enumerate().any(|(index, mode)| modes[..index].contains(mode));
        if repeated {
            let list: Vec<String> = modes.iter().map(|mode| format!("{mode:?}")).collect();
            errors.push(format!("authorization-mode [{}] has mode specified more than once", list.join(" ")));
        }
        if !errors.is_empty() {
            return Err(if errors.len() == 1 { errors.remove(0) } else { format!("[{}]", errors.join(", ")) });
        }
        let authorizers = modes.iter().map(|mode| self.mode(mode)).collect::<Result<_, String>>()?;
        Ok(AuthorizationOptions { authorizers, file: None })
    }

    fn mode(&self, mode: &str) -> Result<AuthorizerOptions, String> {
        Ok(match mode {
            "Node" => AuthorizerOptions::Node,
            "RBAC" => AuthorizerOptions::Rbac,
            "AlwaysAllow" => AuthorizerOptions::AlwaysAllow,
            "AlwaysDeny" => AuthorizerOptions::AlwaysDeny,
            _ => {
                let version = self.authorization_webhook_version.as_deref().unwrap_or("v1beta1");
                if !matches!(version, "v1" | "v1beta1") {
                    return Err(format!(
                        "unsupported webhook authorizer version {version:?}, supported versions are \"v1\", \"v1beta1\""
                    ));
                }
                let seconds = |given: Option<Duration>, default| given.unwrap_or(Duration::from_secs(default));
                AuthorizerOptions::Webhook(WebhookOptions {
                    name: "default".to_owned(),
                    kubeconfig: self.authorization_webhook_config_file.clone().unwrap_or_default(),
                    version: version.to_owned(),
                    timeout: Duration::from_secs(30),
                    authorized_ttl: seconds(self.authorization_webhook_cache_authorized_ttl, 300),
                    unauthorized_ttl: seconds(self.authorization_webhook_cache_unauthorized_ttl, 30),
                    denies_on_failure: false,
                    conditions: Vec::new(),
                })
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        authorization: AuthorizationArgs,
    }

    fn options(arguments: &str) -> Result<Vec<&'static str>, String> {
        let command = Command::parse_from(std::iter::once("up").chain(arguments.split_whitespace()));
        let options = command.authorization.options().map_err(|error| error.to_string())?;
        Ok(options.authorizers.iter().map(AuthorizerOptions::type_name).collect())
    }

    #[test]
    fn modes_keep_their_order() {
        assert_eq!(options(""), Ok(vec!["Node", "RBAC"]));
        assert_eq!(options("--authorization-mode=RBAC,AlwaysAllow"), Ok(vec!["RBAC", "AlwaysAllow"]));
        let webhook = "--authorization-mode Webhook,RBAC --authorization-webhook-config-file f";
        assert_eq!(options(webhook), Ok(vec!["Webhook", "RBAC"]));
    }

    #[test]
    fn errors_match_kube_apiserver() {
        for (arguments, expected) in [
            ("--authorization-mode=Magic", "authorization-mode \"Magic\" is not a valid mode"),
            ("--authorization-mode=Webhook", "authorization-mode Webhook's authorization config file not passed"),
            (
                "--authorization-webhook-config-file f",
                "cannot specify --authorization-webhook-config-file without mode Webhook",
            ),
            (
                "--authorization-mode=RBAC,RBAC",
                "authorization-mode [\"RBAC\" \"RBAC\"] has mode specified more than once",
            ),
            (
                "--authorization-config f --authorization-mode RBAC",
                "--authorization-config can not be specified when --authorization-mode or --authorization-webhook-* \
                 flags are defined",
            ),
        ] {
            assert_eq!(options(arguments), Err(expected.to_owned()), "{arguments}");
        }
    }

    #[test]
    fn durations_are_those_of_go_or_seconds() {
        assert_eq!(duration("5m0s"), Ok(Duration::from_secs(300)));
        assert_eq!(duration("30"), Ok(Duration::from_secs(30)));
        assert_eq!(duration("0"), Ok(Duration::ZERO));
        assert!(duration("-1s").is_err());
        assert!(duration("soon").is_err());
    }
}
