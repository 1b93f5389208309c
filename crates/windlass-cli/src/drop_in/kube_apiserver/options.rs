//! From flags to the options of a control plane.

use std::{
    collections::BTreeSet,
    fs,
    net::{IpAddr, Ipv4Addr},
    path::{Path, PathBuf},
    time::Duration,
};

use clap::{ArgAction, CommandFactory as _, FromArgMatches as _, Parser};
use windlass_plane::{
    AuthorizationOptions, AuthorizerOptions, CertificateAndKey, GivenCredentials, NodeOptions, PlaneOptions,
    RuntimeConfig, Selection, ServiceNetwork, StoreKind, TokenKey, UnknownLoop,
};
use windlass_schema::{sorting::Gather as _, time::parse_duration};

use super::{
    flags::{Flags, Kind, find},
    gates, serving, values,
};
use crate::{
    drop_in::{handover::Storage, io_errors},
    up::{
        admission::{self, AdmissionArgs},
        audit::AuditArgs,
        authentication::AuthenticationArgs,
        authorization::AuthorizationArgs,
        limits::LimitArgs,
        oidc::OidcArgs,
        service_network::ServiceNetworks,
    },
};

/// A plugin that kube-apiserver does not enable by default.
const NODE_RESTRICTION: &str = "NodeRestriction";

/// Default directory of kube-apiserver's certificates.
const CERT_DIR: &str = "/var/run/kubernetes";

/// Flags that `windlass up` has as well.
#[derive(Debug, Parser)]
#[command(name = "kube-apiserver", disable_help_flag = true)]
struct SharedArgs {
    #[command(flatten)]
    audit: AuditArgs,
    #[command(flatten)]
    authentication: AuthenticationArgs,
    #[command(flatten)]
    oidc: OidcArgs,
    #[command(flatten)]
    authorization: AuthorizationArgs,
    #[command(flatten)]
    admission: AdmissionArgs,
    #[command(flatten)]
    limits: LimitArgs,
}

/// A checked command line.
#[derive(Debug)]
pub(super) struct ServerOptions {
    /// Without a directory, which etcd knows.
    plane: PlaneOptions,
    pub(super) given: GivenCredentials,
    /// URLs of etcd.
    pub(super) etcd: Vec<String>,
    /// Flags, or values of flags, that have no effect.
    pub(super) ignored: Vec<String>,
}

impl ServerOptions {
    /// Checks flags and variables, and reads files. Errors are those of kube-apiserver.
    pub(super) fn of(flags: &Flags, variable: &dyn Fn(&str) -> Option<String>) -> Result<Self, String> {
        let mut ignored: Vec<String> = flags.ignored().iter().map(|name| format!("--{name}")).collect();
        gates::check_feature_gates(flags)?;
        values::check_logging(flags)?;
        let networks = ServiceNetworks::parse(flags.last("service-cluster-ip-range").unwrap_or_default())?;
        if flags.last("feature-gates").is_some_and(|gates| !gates.is_empty()) {
            ignored.push("--feature-gates".to_owned());
        }
        ignored.extend(networks.unused.map(|range| format!("--service-cluster-ip-range={range}")));
        let (cert_dir, address) = (Path::new(flags.last("cert-dir").unwrap_or(CERT_DIR)), address(flags));
        let files = flags.last("tls-cert-file").zip(flags.last("tls-private-key-file"));
        let serving = serving::certificate(files.map(|(cert, key)| (cert.into(), key.into())), cert_dir, address)?;
        let (token_key, front_proxy) = (token_key(flags)?, front_proxy(flags)?);

        let mut problems = values::problems(flags);
        let etcd: Vec<String> = flags.list("etcd-servers").map(str::to_owned).collect();
        if etcd.is_empty() {
            problems.push("--etcd-servers must be specified".to_owned());
        }
        let port = flags.last("secure-port").unwrap_or("6443");
        let port = port.parse().ok().filter(|port| *port != 0).unwrap_or_else(|| {
            problems.push(format!(
                "--secure-port {port} must be between 1 and 65535, inclusive. It cannot be turned off with 0"
            ));
            0
        });
        let issuers: Vec<&str> = flags.values("service-account-issuer").collect();
        if issuers.is_empty() {
            problems.push("service-account-issuer is a required flag".to_owned());
        }
        if flags.last("service-account-key-file").is_none() {
            problems.push(
                "either `--service-account-key-file` or `--service-account-signing-endpoint` must be set".to_owned(),
            );
        }
        let advertise_address = advertise_address(flags, networks.used, &mut problems);
        let runtime_config = runtime_config(flags, &mut ignored, &mut problems);
        let shared = shared(flags, &mut ignored, &mut problems);
        let controllers = controllers(variable, &mut problems);
        let nodes = nodes(variable, &mut problems);
        if token_key.is_none() || issuers.is_empty() {
            problems
                .push("--service-account-signing-key-file and --service-account-issuer are required flags".to_owned());
        }
        let mut options = shared.and_then(|shared| shared.options(&mut ignored, &mut problems));
        if let Some(options) = &mut options {
            tune(options, flags);
        }
        if problems.is_empty() {
            values::check_start(flags)?;
        }
        if let Some(options) = options.as_mut().filter(|_| nodes.count > 0) {
            authorize_nodes(&mut options.authorization);
        }
        match (options, token_key, &problems[..]) {
            (Some(options), Some(token_key), []) => Ok(Self {
                plane: PlaneOptions {
                    address,
                    port,
                    controllers,
                    nodes,
                    runtime_config,
                    service_network: networks.used,
                    flags: flags.shown(),
                    advertise_address,
                    ..options
                },
                given: GivenCredentials { serving, token_key, front_proxy },
                etcd,
                ignored,
            }),
            (_, _, [one]) => Err(one.clone()),
            (_, _, several) => Err(format!("[{}]", several.join(", "))),
        }
    }

    /// The options with the storage of an etcd.
    pub(super) fn stored_in(self, storage: Storage) -> (PlaneOptions, GivenCredentials) {
        let store = if storage.fsync { StoreKind::Embedded } else { StoreKind::EmbeddedWithoutFsync };
        let plane = PlaneOptions { data_dir: storage.directory, store, quota_bytes: storage.quota_bytes, ..self.plane };
        (plane, self.given)
    }
}

impl SharedArgs {
    fn options(self, ignored: &mut Vec<String>, problems: &mut Vec<String>) -> Option<PlaneOptions> {
        let mut checked = Vec::new();
        let mut check =
            |result: Result<(), anyhow::Error>| checked.extend(result.err().map(|error| format!("{error:#}")));
        let jwt = self.oidc.jwt().map_err(|error| check(Err(error))).ok()?;
        let authentication = self.authentication.options(jwt.as_ref()).map_err(|error| check(Err(error))).ok();
        let token_webhook = self.oidc.token_webhook().map_err(|error| check(Err(error))).ok();
        let authorization = self.authorization.options().map_err(|error| check(Err(error))).ok();
        let configured = self.admission.configuration().map_err(|error| check(Err(error))).ok();
        let without_effect = configured.iter().flat_map(|configured| &configured.ignored);
        ignored.extend(without_effect.map(|plugin| format!("--admission-control-config-file ({plugin})")));
        let plugins = configured
            .as_ref()
            .and_then(|configured| self.admission.plugins(configured).map_err(|error| check(Err(error))).ok());
        let audit = self.audit.options().map_err(|error| check(Err(error))).ok();
        problems.append(&mut checked);
        let mut plugins = plugins?;
        // Unlike in `windlass up`, it is disabled by default.
        if ![&plugins.enabled, &plugins.disabled].iter().any(|names| names.iter().any(|name| name == NODE_RESTRICTION))
        {
            plugins.disabled.push(NODE_RESTRICTION.to_owned());
        }
        Some(PlaneOptions {
            authentication: authentication?,
            jwt,
            token_webhook: token_webhook?,
            authorization: authorization?,
            enabled_admission_plugins: plugins.enabled,
            disabled_admission_plugins: plugins.disabled,
            admission_configuration: configured?,
            limits: self.limits.limits(),
            audit: audit?,
            // As kube-apiserver: what is not in v1.36 is not served.
            old_definitions: false,
            ..PlaneOptions::new("")
        })
    }
}

/// Parses the flags that `windlass up` has as well, with the defaults of kube-apiserver.
fn shared(flags: &Flags, ignored: &mut Vec<String>, problems: &mut Vec<String>) -> Option<SharedArgs> {
    let command = SharedArgs::command();
    let mut line = vec!["kube-apiserver".to_owned()];
    for argument in command.get_arguments() {
        let Some(name) = argument.get_long() else { continue };
        if ["enable-admission-plugins", "disable-admission-plugins"].contains(&name) {
            continue;
        }
        let is_list = find(name).is_some_and(|flag| matches!(flag.kind, Kind::Strings | Kind::TextArray | Kind::Pairs));
        let values: Vec<&str> = match is_list {
            true => flags.values(name).collect(),
            false => flags.last(name).into_iter().collect(),
        };
        for value in values {
            match argument.get_action() {
                ArgAction::SetTrue if value == "true" => line.push(format!("--{name}")),
                ArgAction::SetTrue => {}
                _ => line.push(format!("--{name}={value}")),
            }
        }
    }
    if flags.last("enable-bootstrap-token-auth").is_none() {
        line.push("--enable-bootstrap-token-auth=false".to_owned());
    }
    if flags.last("authorization-mode").is_none() && flags.last("authorization-config").is_none() {
        line.push("--authorization-mode=AlwaysAllow".to_owned());
    }
    plugins(flags, &mut line, ignored, problems);
    let parsed = command.try_get_matches_from(line).and_then(|matches| SharedArgs::from_arg_matches(&matches));
    parsed
        .map_err(|error| {
            let text = error.to_string();
            let first = text.lines().next().unwrap_or_default();
            problems.push(first.strip_prefix("error: ").unwrap_or(first).to_owned());
        })
        .ok()
}

/// Sets the options of flags that only kube-apiserver has. Their values have been checked.
fn tune(options: &mut PlaneOptions, flags: &Flags) {
    let number = |name: &str| flags.last(name).and_then(|number| number.parse::<i64>().ok());
    let tolerations = &mut options.admission_configuration.tolerations;
    tolerations.not_ready = number("default-not-ready-toleration-seconds").unwrap_or(tolerations.not_ready);
    tolerations.unreachable = number("default-unreachable-toleration-seconds").unwrap_or(tolerations.unreachable);
    let range = flags.last("service-node-port-range").and_then(|range| range.parse().ok());
    options.node_ports = range.unwrap_or(options.node_ports);
    let timeout = flags.last("request-timeout").and_then(|timeout| parse_duration(timeout).ok());
    let timeout = timeout.and_then(|nanoseconds| u64::try_from(nanoseconds).ok()).map(Duration::from_nanos);
    options.limits.request_timeout = timeout.unwrap_or(options.limits.request_timeout);
}

/// Adds the plugins to enable and to disable to a command line.
fn plugins(flags: &Flags, line: &mut Vec<String>, ignored: &mut Vec<String>, problems: &mut Vec<String>) {
    let (enable, disable) = ("enable-admission-plugins", "disable-admission-plugins");
    if flags.last("admission-control").is_some() {
        if flags.last(enable).or(flags.last(disable)).is_some() {
            let problem = format!("admission-control and {enable}/{disable} flags are mutually exclusive");
            problems.push(problem);
        }
        let wanted: Vec<&str> = flags.list("admission-control").collect();
        for plugin in &wanted {
            if !admission::is_known(plugin) {
                problems.push(format!("admission-control plugin {plugin:?} is unknown"));
            } else if admission::exists(plugin) {
                line.push(format!("--{enable}={plugin}"));
            } else {
                ignored.push(format!("--admission-control={plugin}"));
            }
        }
        let others = admission::known().filter(|plugin| !wanted.contains(plugin));
        return line.extend(others.map(|plugin| format!("--{disable}={plugin}")));
    }
    for plugin in flags.list(enable) {
        // Unknown plugins are errors of the parser.
        match admission::exists(plugin) || !admission::is_known(plugin) {
            true => line.push(format!("--{enable}={plugin}")),
            false => ignored.push(format!("--{enable}={plugin}")),
        }
    }
    line.extend(flags.list(disable).map(|plugin| format!("--{disable}={plugin}")));
}

/// Adds the authorizer of nodes, which envtest does not ask for: without it, nodes could not even register.
fn authorize_nodes(authorization: &mut AuthorizationOptions) {
    let has_nodes = authorization.authorizers.iter().any(|one| matches!(one, AuthorizerOptions::Node));
    if authorization.file.is_none() && !has_nodes && !authorization.always_allows() {
        authorization.authorizers.insert(0, AuthorizerOptions::Node);
    }
}

fn address(flags: &Flags) -> IpAddr {
    let address = flags.last("bind-address").and_then(|address| address.trim().parse().ok());
    address.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED))
}

/// Returns the address to advertise, which must be of the family of cluster IPs.
fn advertise_address(flags: &Flags, network: ServiceNetwork, problems: &mut Vec<String>) -> Option<IpAddr> {
    let address: IpAddr = flags.last("advertise-address")?.trim().parse().ok()?;
    if address.is_ipv6() && !address.is_unspecified() {
        problems.push(format!("service IP family \"{network}\" must match public address family \"{address}\""));
    }
    Some(address)
}

/// Parses the versions to serve. Versions that windlass does not have are ignored.
fn runtime_config(flags: &Flags, ignored: &mut Vec<String>, problems: &mut Vec<String>) -> RuntimeConfig {
    match RuntimeConfig::parse_available(flags.list("runtime-config")) {
        Ok((config, unavailable)) => {
            ignored.extend(unavailable.iter().map(|version| format!("--runtime-config={version}")));
            config
        }
        Err(error) => {
            problems.push(error.to_string());
            RuntimeConfig::default()
        }
    }
}

/// Reads the certificate with which requests are forwarded to other API servers.
fn front_proxy(flags: &Flags) -> Result<Option<CertificateAndKey>, String> {
    let path = |name: &str| flags.last(name).filter(|path| !path.is_empty()).map(PathBuf::from);
    // As kube-apiserver does, one without the other is ignored.
    let Some((certificate, key)) = path("proxy-client-cert-file").zip(path("proxy-client-key-file")) else {
        return Ok(None);
    };
    let read = |path: &Path| fs::read_to_string(path).map_err(|error| io_errors::open(path, &error));
    Ok(Some(CertificateAndKey { certificate: read(&certificate)?, key: read(&key)? }))
}

/// Reads the keys of service account tokens; `None` if no key signs.
fn token_key(flags: &Flags) -> Result<Option<TokenKey>, String> {
    let Some(signing) = flags.last("service-account-signing-key-file").filter(|path| !path.is_empty()) else {
        return Ok(None);
    };
    let read = |path: &str| {
        let path = PathBuf::from(path);
        fs::read_to_string(&path).map_err(|error| io_errors::open(&path, &error))
    };
    let mut text =
        read(signing).map_err(|error| format!("failed to parse service-account-issuer-key-file: {error}"))?;
    let others: BTreeSet<&str> = flags.values("service-account-key-file").filter(|path| *path != signing).gather();
    for path in others {
        text.push('\n');
        text.push_str(&read(path).map_err(|error| format!("failed to parse service-account-key-file: {error}"))?);
    }
    let key = TokenKey::from_pem(&text);
    key.map(Some).map_err(|error| format!("failed to parse service-account-issuer-key-file: {signing} {error}"))
}

/// The control loops of a variable; none without it, as in envtest.
fn controllers(variable: &dyn Fn(&str) -> Option<String>, problems: &mut Vec<String>) -> Selection {
    let chosen = variable("WINDLASS_CONTROLLERS").unwrap_or_default();
    chosen.parse().unwrap_or_else(|UnknownLoop(name)| {
        problems.push(format!("WINDLASS_CONTROLLERS names an unknown controller {name:?}"));
        Selection::none()
    })
}

/// The nodes of a variable; none without it, as in envtest.
fn nodes(variable: &dyn Fn(&str) -> Option<String>, problems: &mut Vec<String>) -> NodeOptions {
    let Some(text) = variable("WINDLASS_NODES").filter(|text| !text.is_empty()) else { return NodeOptions::default() };
    match text.parse::<u16>() {
        Ok(count) if count <= 5000 => return NodeOptions { count: count.into(), ..NodeOptions::default() },
        _ => problems.push(format!("WINDLASS_NODES must be a number from 0 to 5000, not {text:?}")),
    }
    NodeOptions::default()
}

#[cfg(test)]
mod tests;
