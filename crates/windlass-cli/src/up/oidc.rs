//! Tokens of other issuers: JSON web tokens of OpenID Connect, and tokens that a webhook authenticates.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use windlass_plane::{
    JwtOptions, TokenReviewVersion, WebhookTokenOptions,
    jwt::{
        ALGORITHMS,
        configuration::{
            AuthenticationConfiguration, ClaimMappings, ClaimValidationRule, Issuer, JwtAuthenticator,
            PrefixedClaimOrExpression,
        },
    },
};
use windlass_schema::{sorting::Gather as _, time::parse_duration};

use crate::failure::ErrorWithHint;

/// Options for tokens of other issuers.
#[derive(Debug, Args)]
#[command(next_help_heading = "Tokens of other issuers")]
pub(crate) struct OidcArgs {
    /// File with an AuthenticationConfiguration: issuers of JSON web tokens; reloaded when it changes
    #[arg(long, value_name = "FILE")]
    authentication_config: Option<PathBuf>,
    /// URL of an OpenID Connect issuer whose tokens are accepted
    #[arg(long, value_name = "URL")]
    oidc_issuer_url: Option<String>,
    /// Audience of the issuer's tokens
    #[arg(long, value_name = "ID")]
    oidc_client_id: Option<String>,
    /// Certificate authorities of the issuer, in PEM [default: those of the system]
    #[arg(long, value_name = "FILE")]
    oidc_ca_file: Option<PathBuf>,
    /// Claim with the user name [default: sub]
    #[arg(long, value_name = "CLAIM")]
    oidc_username_claim: Option<String>,
    /// Prefix of user names; "-" for none [default: the issuer's URL and "#", unless the claim is email]
    #[arg(long, value_name = "PREFIX", allow_hyphen_values = true)]
    oidc_username_prefix: Option<String>,
    /// Claim with the groups
    #[arg(long, value_name = "CLAIM")]
    oidc_groups_claim: Option<String>,
    /// Prefix of groups
    #[arg(long, value_name = "PREFIX")]
    oidc_groups_prefix: Option<String>,
    /// Accepted signing algorithms, separated by commas [default: RS256]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    oidc_signing_algs: Vec<String>,
    /// Claim that tokens must have, with its value; may be repeated
    #[arg(long, value_name = "CLAIM=VALUE", value_parser = pair)]
    oidc_required_claim: Vec<(String, String)>,
    /// Kubeconfig of a webhook that authenticates tokens
    #[arg(long, value_name = "FILE")]
    authentication_token_webhook_config_file: Option<PathBuf>,
    /// Version of the TokenReviews that are exchanged with the webhook
    #[arg(long, value_enum, default_value_t = VersionArg::V1beta1)]
    authentication_token_webhook_version: VersionArg,
    /// Time for which responses of the webhook are cached, such as 30s; 0s to disable caching
    #[arg(long, value_name = "DURATION", default_value = "2m0s", value_parser = duration)]
    authentication_token_webhook_cache_ttl: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum VersionArg {
    /// authentication.k8s.io/v1
    V1,
    /// authentication.k8s.io/v1beta1
    V1beta1,
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (claim, value) = text.split_once('=').ok_or("expected CLAIM=VALUE")?;
    Ok((claim.trim().to_owned(), value.trim().to_owned()))
}

fn duration(text: &str) -> Result<Duration, String> {
    let nanoseconds = parse_duration(text).map_err(|_| "expected a duration such as 2m30s")?;
    u64::try_from(nanoseconds).map(Duration::from_nanos).map_err(|_| "must not be negative".to_owned())
}

fn advised(message: impl Into<String>, hint: &'static str) -> anyhow::Error {
    ErrorWithHint { message: message.into(), hint: hint.into() }.into()
}

impl OidcArgs {
    /// Returns the issuers of JSON web tokens, if there are any.
    pub(crate) fn jwt(&self) -> anyhow::Result<Option<JwtOptions>> {
        let options = match (&self.authentication_config, self.has_oidc_flags()) {
            (None, false) => return Ok(None),
            (Some(_), true) => {
                return Err(advised(
                    "authentication-config file and oidc-* flags are mutually exclusive",
                    "configure the issuer of the flags in the file",
                ));
            }
            (Some(file), false) => from_file(file)?,
            (None, true) => self.flag_options()?,
        };
        let checked = options.configuration.validate(&[]);
        checked
            .map_err(|error| advised(error.to_string(), "see the chapter \"Tokens of other issuers\" of the book"))?;
        Ok(Some(options))
    }

    fn has_oidc_flags(&self) -> bool {
        self.oidc_issuer_url.is_some()
            || self.oidc_client_id.is_some()
            || self.oidc_ca_file.is_some()
            || self.oidc_username_claim.is_some()
            || self.oidc_username_prefix.is_some()
            || self.oidc_groups_claim.is_some()
            || self.oidc_groups_prefix.is_some()
            || !self.oidc_signing_algs.is_empty()
            || !self.oidc_required_claim.is_empty()
    }

    /// Returns the issuer of the flags, with kube-apiserver's defaults.
    fn flag_options(&self) -> anyhow::Result<JwtOptions> {
        let text = |flag: &Option<String>| flag.clone().unwrap_or_default();
        let (url, client) = (text(&self.oidc_issuer_url), text(&self.oidc_client_id));
        if url.is_empty() || client.is_empty() {
            return Err(advised(
                "oidc-issuer-url and oidc-client-id must be specified together when any oidc-* flags are set",
                "add the missing flag",
            ));
        }
        if let Some(unknown) = self.oidc_signing_algs.iter().find(|name| !ALGORITHMS.contains(&name.as_str())) {
            let message = format!("oidc: unsupported signing alg: {unknown:?}");
            return Err(ErrorWithHint { message, hint: format!("use some of {}", ALGORITHMS.join(", ")).into() }.into());
        }
        let claim = self.oidc_username_claim.clone().unwrap_or_else(|| "sub".to_owned());
        let prefix = match text(&self.oidc_username_prefix).as_str() {
            "" if claim != "email" => format!("{url}#"),
            "-" => String::new(),
            prefix => prefix.to_owned(),
        };
        let groups = self.oidc_groups_claim.clone().filter(|claim| !claim.is_empty());
        let certificate_authority = match &self.oidc_ca_file {
            Some(file) => fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?,
            None => String::new(),
        };
        // The last value of a claim counts.
        let required: BTreeMap<_, _> = self.oidc_required_claim.iter().cloned().gather();
        let rule = |(claim, required_value)| ClaimValidationRule { claim, required_value, ..Default::default() };
        let authenticator = JwtAuthenticator {
            issuer: Issuer { url, certificate_authority, audiences: vec![client], ..Issuer::default() },
            claim_mappings: ClaimMappings {
                username: PrefixedClaimOrExpression { claim, prefix: Some(prefix), ..Default::default() },
                groups: groups.map_or_else(Default::default, |claim| PrefixedClaimOrExpression {
                    claim,
                    prefix: Some(text(&self.oidc_groups_prefix)),
                    ..Default::default()
                }),
                ..ClaimMappings::default()
            },
            claim_validation_rules: required.into_iter().map(rule).collect(),
            ..JwtAuthenticator::default()
        };
        let configuration = AuthenticationConfiguration { jwt: vec![authenticator], anonymous: None };
        let algorithms = match self.oidc_signing_algs.is_empty() {
            true => vec!["RS256".to_owned()],
            false => self.oidc_signing_algs.clone(),
        };
        Ok(JwtOptions { algorithms, ..JwtOptions::new(configuration) })
    }

    /// Returns the webhook that authenticates tokens, if there is one.
    pub(crate) fn token_webhook(&self) -> anyhow::Result<Option<WebhookTokenOptions>> {
        let Some(file) = &self.authentication_token_webhook_config_file else { return Ok(None) };
        let version = match self.authentication_token_webhook_version {
            VersionArg::V1 => TokenReviewVersion::V1,
            VersionArg::V1beta1 => TokenReviewVersion::V1Beta1,
        };
        let kubeconfig = std::path::absolute(file).with_context(|| format!("cannot use {}", file.display()))?;
        let cache_ttl = self.authentication_token_webhook_cache_ttl;
        Ok(Some(WebhookTokenOptions { version, cache_ttl, ..WebhookTokenOptions::new(kubeconfig) }))
    }
}

fn from_file(file: &Path) -> anyhow::Result<JwtOptions> {
    let failed = || format!("failed to load authentication configuration from file {:?}", file.display().to_string());
    let absolute = std::path::absolute(file).with_context(failed)?;
    let contents = fs::read(&absolute).with_context(failed)?;
    let configuration = AuthenticationConfiguration::parse(&contents).map_err(|error| {
        let hint = "the file must be an AuthenticationConfiguration of apiserver.config.k8s.io/v1";
        advised(format!("{}: {error}", failed()), hint)
    })?;
    Ok(JwtOptions { file: Some(absolute), ..JwtOptions::new(configuration) })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Command {
        #[command(flatten)]
        oidc: OidcArgs,
    }

    fn jwt(flags: &[&str]) -> Result<Option<JwtOptions>, String> {
        let parsed = Command::try_parse_from(["up"].iter().chain(flags)).map_err(|error| error.to_string())?;
        parsed.oidc.jwt().map_err(|error| format!("{error:#}"))
    }

    const ISSUER: [&str; 4] = ["--oidc-issuer-url", "https://i", "--oidc-client-id", "c"];

    #[test]
    fn flags_have_the_defaults_of_kube_apiserver() {
        assert!(jwt(&[]).unwrap().is_none());
        let options = jwt(&ISSUER).unwrap().unwrap();
        assert_eq!(options.algorithms, ["RS256"]);
        let JwtAuthenticator { issuer, claim_mappings, .. } = &options.configuration.jwt[0];
        assert_eq!((issuer.url.as_str(), &issuer.audiences[..]), ("https://i", &["c".to_owned()][..]));
        assert_eq!(claim_mappings.username.claim, "sub");
        assert_eq!(claim_mappings.username.prefix.as_deref(), Some("https://i#"));
        assert_eq!(claim_mappings.groups, PrefixedClaimOrExpression::default());
        let prefix = |more: &[&str]| {
            let options = jwt(&[&ISSUER, more].concat()).unwrap().unwrap();
            options.configuration.jwt[0].claim_mappings.username.prefix.clone().unwrap()
        };
        assert_eq!(prefix(&["--oidc-username-claim", "email"]), "");
        assert_eq!(prefix(&["--oidc-username-prefix", "-"]), "");
        assert_eq!(prefix(&["--oidc-username-prefix", "x:"]), "x:");
        let more = ["--oidc-required-claim", "a=b=c", "--oidc-groups-claim", "g", "--oidc-signing-algs", "ES256,RS256"];
        let options = jwt(&[&ISSUER[..], &more].concat()).unwrap().unwrap();
        assert_eq!(options.algorithms, ["ES256", "RS256"]);
        let rule = &options.configuration.jwt[0].claim_validation_rules[0];
        assert_eq!((rule.claim.as_str(), rule.required_value.as_str()), ("a", "b=c"));
    }

    #[test]
    fn contradictory_flags_are_rejected() {
        for (flags, why) in [
            (
                &["--oidc-issuer-url", "https://i"][..],
                "oidc-issuer-url and oidc-client-id must be specified together when any oidc-* flags are set",
            ),
            (
                &["--oidc-client-id", "c", "--authentication-config", "f"],
                "authentication-config file and oidc-* flags are mutually exclusive",
            ),
            (
                &["--oidc-issuer-url", "http://i", "--oidc-client-id", "c"],
                "invalid authentication configuration: jwt[0].issuer.url: Invalid value: \"http://i\": URL scheme must be \
                 https",
            ),
            (&[&ISSUER[..], &["--oidc-signing-algs", "HS256"]].concat(), "oidc: unsupported signing alg: \"HS256\""),
        ] {
            assert_eq!(jwt(flags).unwrap_err(), why);
        }
        let missing = jwt(&["--authentication-config", "/nowhere/at/all"]).unwrap_err();
        assert!(missing.starts_with("failed to load authentication configuration from file \"/nowhere/at/all\": "));
    }

    #[test]
    fn a_webhook_has_a_version_and_a_time() {
        let webhook = |flags: &[&str]| {
            let parsed = Command::try_parse_from(["up"].iter().chain(flags)).map_err(|error| error.to_string())?;
            parsed.oidc.token_webhook().map_err(|error| error.to_string())
        };
        assert_eq!(webhook(&[]), Ok(None));
        let file = "--authentication-token-webhook-config-file=/f";
        let found = webhook(&[file]).unwrap().unwrap();
        assert_eq!((found.version, found.cache_ttl), (TokenReviewVersion::V1Beta1, Duration::from_secs(120)));
        let ttl = "--authentication-token-webhook-cache-ttl";
        let found = webhook(&[file, ttl, "0s", "--authentication-token-webhook-version", "v1"]).unwrap().unwrap();
        assert_eq!((found.version, found.cache_ttl), (TokenReviewVersion::V1, Duration::ZERO));
        assert!(webhook(&[file, ttl, "-1s"]).is_err());
        assert!(webhook(&[file, "--authentication-token-webhook-version", "v2"]).is_err());
    }
}
