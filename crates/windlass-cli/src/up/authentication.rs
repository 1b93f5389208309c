//! How clients of the API server are authenticated.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use clap::{ArgAction, Args};
use windlass_plane::{AnonymousOptions, AuthenticationOptions, RequestHeaderOptions, TokenFile};

/// Options for authentication.
#[derive(Debug, Args)]
#[command(next_help_heading = "Authentication")]
pub(super) struct AuthenticationArgs {
    /// Whether requests without credentials are those of system:anonymous, instead of being rejected
    #[arg(long, value_name = "BOOL", default_value_t = true, action = ArgAction::Set)]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    anonymous_auth: bool,
    /// File of further certificate authorities that issue client certificates, in PEM
    #[arg(long, value_name = "FILE")]
    client_ca_file: Option<PathBuf>,
    /// File of static tokens, as comma-separated values: token, user name, user UID, groups
    #[arg(long, value_name = "FILE")]
    token_auth_file: Option<PathBuf>,
    /// Whether Secrets of the type bootstrap.kubernetes.io/token in kube-system are accepted as tokens
    #[arg(long, value_name = "BOOL", default_value_t = true, action = ArgAction::Set)]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    enable_bootstrap_token_auth: bool,
    /// File of the certificate authorities of front proxies, in PEM [default: one in the data directory]
    #[arg(long, value_name = "FILE")]
    requestheader_client_ca_file: Option<PathBuf>,
    /// Common names of front proxies; any if empty
    #[arg(long, value_name = "LIST", value_delimiter = ',', requires = "requestheader_client_ca_file")]
    requestheader_allowed_names: Vec<String>,
    /// Headers in which front proxies name the user
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "X-Remote-User")]
    requestheader_username_headers: Vec<String>,
    /// Headers in which front proxies send the UID of the user
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "X-Remote-Uid")]
    requestheader_uid_headers: Vec<String>,
    /// Headers in which front proxies send the groups of the user
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "X-Remote-Group")]
    requestheader_group_headers: Vec<String>,
    /// Prefixes of headers in which front proxies send extra attributes of the user
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "X-Remote-Extra-")]
    requestheader_extra_headers_prefix: Vec<String>,
}

impl AuthenticationArgs {
    /// Reads the files.
    pub(super) fn options(self) -> anyhow::Result<AuthenticationOptions> {
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
            anonymous: AnonymousOptions { enabled: self.anonymous_auth, paths: Vec::new() },
            client_ca: self.client_ca_file.as_deref().map(read).transpose()?,
            request_header,
            token_file,
            bootstrap_tokens: self.enable_bootstrap_token_auth,
        })
    }
}

fn read(path: &Path) -> anyhow::Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}
