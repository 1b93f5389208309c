//! Flags for the authentication of clients.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, bail};
use clap::{ArgAction, Args};
use windlass_plane::{AnonymousOptions, AuthenticationOptions, JwtOptions, RequestHeaderOptions, TokenFile};
use windlass_schema::time::parse_duration;

use crate::failure::ErrorWithHint;

/// The message of kube-apiserver for a flag that conflicts with a configuration file.
const TWICE: &str = "anonymous: Forbidden: --anonymous-auth flag cannot be set when anonymous field is configured in \
                     authentication configuration file";

/// Options for authentication.
#[derive(Debug, Args)]
#[command(next_help_heading = "Authentication")]
pub(crate) struct AuthenticationArgs {
    /// Handle requests without credentials as system:anonymous instead of rejecting them [default: true]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    anonymous_auth: Option<bool>,
    /// Issuer of service account tokens; may be repeated: the first one is used for new tokens, and tokens of all are
    /// accepted [default: https://kubernetes.default.svc.cluster.local]
    #[arg(long, value_name = "URL")]
    service_account_issuer: Vec<String>,
    /// API server audiences; also the default audiences of requested tokens [default: the issuers of service account
    /// tokens]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    api_audiences: Vec<String>,
    /// Maximum lifetime of service account tokens, from 1h to 2^32 seconds; longer requests are shortened to it
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, allow_hyphen_values = true)]
    service_account_max_token_expiration: Option<i64>,
    /// Accept pod tokens for up to one year, and record their use after the first hour
    #[arg(long, value_name = "BOOL", default_value_t = true, action = ArgAction::Set)]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    service_account_extend_token_expiration: bool,
    /// URL of the public keys of service account tokens in the discovery document [default: a URL of this server]
    #[arg(long, value_name = "URL")]
    service_account_jwks_uri: Option<String>,
    /// PEM file with additional certificate authorities for client certificates
    #[arg(long, value_name = "FILE")]
    client_ca_file: Option<PathBuf>,
    /// File of static tokens, as comma-separated values: token, user name, user UID, groups
    #[arg(long, value_name = "FILE")]
    token_auth_file: Option<PathBuf>,
    /// Accept Secrets of type bootstrap.kubernetes.io/token in kube-system as tokens
    #[arg(long, value_name = "BOOL", default_value_t = true, action = ArgAction::Set)]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    enable_bootstrap_token_auth: bool,
    /// PEM file with the certificate authorities of front proxies [default: one in the data directory]
    #[arg(long, value_name = "FILE")]
    requestheader_client_ca_file: Option<PathBuf>,
    /// Common names that client certificates of front proxies may have; any if empty
    #[arg(long, value_name = "LIST", value_delimiter = ',', requires = "requestheader_client_ca_file")]
    requestheader_allowed_names: Vec<String>,
    /// Headers with the user name, set by front proxies
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "X-Remote-User")]
    requestheader_username_headers: Vec<String>,
    /// Headers with the UID of the user, set by front proxies
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "X-Remote-Uid")]
    requestheader_uid_headers: Vec<String>,
    /// Headers with the groups of the user, set by front proxies
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "X-Remote-Group")]
    requestheader_group_headers: Vec<String>,
    /// Prefixes of headers with extra attributes of the user, set by front proxies
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "X-Remote-Extra-")]
    requestheader_extra_headers_prefix: Vec<String>,
}

impl AuthenticationArgs {
    /// Reads the files, and checks that nothing is configured both here and with the issuers of tokens.
    pub(crate) fn options(self, jwt: Option<&JwtOptions>) -> anyhow::Result<AuthenticationOptions> {
        if self.anonymous_auth.is_some() && jwt.is_some_and(|options| options.configuration.anonymous.is_some()) {
            bail!(ErrorWithHint {
                message: TWICE.to_owned(),
                hint: "remove --anonymous-auth, or the field `anonymous` of the file".into(),
            });
        }
        check_issuers(&self.service_account_issuer)?;
        check_keys_url(self.service_account_jwks_uri.as_deref().unwrap_or_default())?;
        let max_token_expiration = max_expiration(self.service_account_max_token_expiration.unwrap_or_default())?;
        let token_file = match &self.token_auth_file {
            Some(path) => {
                Some(TokenFile::parse(&read(path)?).with_context(|| format!("cannot use {}", path.display()))?)
            }
            None => None,
        };
        let request_header = match &self.requestheader_client_ca_file {
            Some(path) => Some(RequestHeaderOptions {
                client_ca: read(path)?,
                allowed_names: self.requestheader_allowed_names,
                username_headers: self.requestheader_username_headers,
                uid_headers: self.requestheader_uid_headers,
                group_headers: self.requestheader_group_headers,
                extra_header_prefixes: self.requestheader_extra_headers_prefix,
            }),
            None => None,
        };
        Ok(AuthenticationOptions {
            anonymous: AnonymousOptions { enabled: self.anonymous_auth.unwrap_or(true), paths: Vec::new() },
            client_ca: self.client_ca_file.as_deref().map(read).transpose()?,
            request_header,
            token_file,
            bootstrap_tokens: self.enable_bootstrap_token_auth,
            service_account_issuers: self.service_account_issuer,
            api_audiences: self.api_audiences,
            max_token_expiration,
            exact_token_expiration: !self.service_account_extend_token_expiration,
            jwks_uri: self.service_account_jwks_uri,
        })
    }
}

/// Rejects issuers worded as in kube-apiserver.
fn check_issuers(issuers: &[String]) -> anyhow::Result<()> {
    for (index, issuer) in issuers.iter().enumerate() {
        if issuer.is_empty() {
            bail!("service-account-issuer should not be an empty string");
        }
        if issuers[..index].contains(issuer) {
            bail!("service-account-issuer {issuer:?} is already specified");
        }
    }
    Ok(())
}

/// Rejects an invalid URL of keys with kube-apiserver's message.
fn check_keys_url(url: &str) -> anyhow::Result<()> {
    let is_https = url.split_once(':').is_some_and(|(scheme, _)| scheme.eq_ignore_ascii_case("https"));
    if !url.is_empty() && !is_https {
        bail!("service-account-jwks-uri requires https scheme, parsed as: {url}");
    }
    Ok(())
}

/// Returns the longest validity of tokens, in nanoseconds on the command line; rejects it with kube-apiserver's
/// message.
fn max_expiration(nanoseconds: i64) -> anyhow::Result<Option<Duration>> {
    if nanoseconds == 0 {
        return Ok(None);
    }
    let expiration = u64::try_from(nanoseconds).map(Duration::from_nanos).unwrap_or_default();
    if !(Duration::from_secs(3600)..=Duration::from_secs(1 << 32)).contains(&expiration) {
        bail!("the service-account-max-token-expiration must be between 1 hour and 2^32 seconds");
    }
    Ok(Some(expiration))
}

fn read(path: &Path) -> anyhow::Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use windlass_plane::jwt::configuration::{AnonymousAuthentication, AuthenticationConfiguration};

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        authentication: AuthenticationArgs,
    }

    fn options(flags: &[&str], jwt: Option<&JwtOptions>) -> Result<AuthenticationOptions, String> {
        let parsed = Command::try_parse_from(["up"].iter().chain(flags)).map_err(|error| error.to_string())?;
        parsed.authentication.options(jwt).map_err(|error| error.to_string())
    }

    #[test]
    fn anonymous_requests_are_configured_by_a_flag_or_in_the_file() {
        assert!(options(&[], None).unwrap().anonymous.enabled);
        assert!(options(&["--anonymous-auth"], None).unwrap().anonymous.enabled);
        assert!(!options(&["--anonymous-auth=false"], None).unwrap().anonymous.enabled);
        let jwt = |anonymous| {
            JwtOptions::new(AuthenticationConfiguration { anonymous, ..AuthenticationConfiguration::default() })
        };
        let configured = jwt(Some(AnonymousAuthentication::default()));
        assert!(options(&[], Some(&configured)).is_ok());
        assert!(options(&["--anonymous-auth=true"], Some(&jwt(None))).is_ok());
        for flag in ["--anonymous-auth=true", "--anonymous-auth=false"] {
            assert_eq!(options(&[flag], Some(&configured)).unwrap_err(), TWICE);
        }
    }

    #[test]
    fn issuers_of_service_account_tokens_are_given_once_each() {
        let found = options(&["--service-account-issuer=a", "--service-account-issuer=b", "--api-audiences=c,d"], None);
        let found = found.unwrap();
        assert_eq!((found.service_account_issuers, found.api_audiences), (strings(["a", "b"]), strings(["c", "d"])));
        let twice = options(&["--service-account-issuer=a", "--service-account-issuer=a"], None).unwrap_err();
        assert_eq!(twice, "service-account-issuer \"a\" is already specified");
        let empty = options(&["--service-account-issuer="], None).unwrap_err();
        assert_eq!(empty, "service-account-issuer should not be an empty string");
    }

    #[test]
    fn the_validity_and_the_keys_of_service_account_tokens_are_checked() {
        let none = options(&[], None).unwrap();
        assert_eq!((none.max_token_expiration, none.exact_token_expiration, none.jwks_uri), (None, false, None));
        let expiration = |text: &str| {
            let flag = format!("--service-account-max-token-expiration={text}");
            options(&[&flag], None).map(|options| options.max_token_expiration)
        };
        let between = "the service-account-max-token-expiration must be between 1 hour and 2^32 seconds";
        for (text, expected) in [
            ("0s", Ok(None)),
            ("1h", Ok(Some(Duration::from_secs(3600)))),
            ("59m59s", Err(between.to_owned())),
            ("-1h", Err(between.to_owned())),
            ("4294967296s", Ok(Some(Duration::from_secs(1 << 32)))),
            ("4294967297s", Err(between.to_owned())),
        ] {
            assert_eq!(expiration(text), expected, "{text}");
        }
        assert!(options(&["--service-account-extend-token-expiration=false"], None).unwrap().exact_token_expiration);
        assert!(options(&["--service-account-jwks-uri=https://keys.example.com"], None).is_ok());
        assert_eq!(
            options(&["--service-account-jwks-uri=http://keys.example.com"], None).unwrap_err(),
            "service-account-jwks-uri requires https scheme, parsed as: http://keys.example.com"
        );
    }

    fn strings(texts: [&str; 2]) -> Vec<String> {
        texts.map(str::to_owned).to_vec()
    }
}
