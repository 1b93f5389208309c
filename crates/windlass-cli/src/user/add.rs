//! `windlass user add`: credentials of a new user.

use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context as _;
use clap::Args;
use jiff::Timestamp;
use serde_json::Value;
use windlass_plane::certificate_expires;

use super::{
    bindings::{RolesToBind, check_namespace},
    certificate::{self, CertificateOptions},
    identity::Identity,
};
use crate::{
    cluster::{self, ApplyOptions, Cluster, ClusterArgs},
    data_dir::DataDirArgs,
    duration,
    failure::ErrorWithHint,
    kubeconfig::{Credentials, NewKubeconfig},
    output, project,
    running::Presence,
    secret_file,
    service_account::AccountName,
    signals::Signals,
    threads,
};

/// Minimum lifetime of credentials in Kubernetes.
const SHORTEST: Duration = Duration::from_secs(600);

/// Create credentials for a user and print a kubeconfig
///
/// Uses the control plane of `windlass up`, or the cluster of --kubeconfig and --context. By default the cluster signs
/// a client certificate, whose key is only in the printed kubeconfig. A certificate cannot be revoked: it is valid
/// until it expires, and access is revoked by deleting role bindings. Only service accounts can have tokens.
#[derive(Debug, Args)]
pub(crate) struct AddArgs {
    /// Name of the user, or [NAMESPACE/]NAME of a service account
    name: String,
    /// Group of the user; may be repeated
    #[arg(long = "group", value_name = "NAME")]
    groups: Vec<String>,
    /// Use a token of a service account, which is created if it does not exist, instead of a certificate
    #[arg(long, visible_alias = "token", conflicts_with = "groups")]
    service_account: bool,
    /// Validity of the credentials, at least 10m
    #[arg(long, value_name = "DURATION", default_value = "30d", value_parser = lifetime)]
    expires: Duration,
    /// ClusterRole to bind; may be repeated
    #[arg(long = "cluster-role", value_name = "NAME")]
    cluster_roles: Vec<String>,
    /// Role in the namespace to bind; may be repeated
    #[arg(long = "role", value_name = "NAME", requires = "namespace")]
    roles: Vec<String>,
    /// Namespace in which roles are bound, and default namespace of the kubeconfig [default: bind
    /// cluster-wide]
    #[arg(short, long, value_name = "NAME", value_parser = project::namespace)]
    namespace: Option<String>,
    /// File to write the kubeconfig to, with mode 0600 [default: standard output]
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Overwrite the file
    #[arg(long, requires = "output")]
    force: bool,
    /// Print what would be created, without creating it
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    data_dir: DataDirArgs,
    /// Kubeconfig of another cluster [default: that of the control plane in the data directory]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig; without --kubeconfig, that of kubectl
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
}

/// Creates the credentials and prints them.
pub(crate) fn run(args: AddArgs) -> anyhow::Result<()> {
    let identity = match args.service_account {
        true => Identity::service_account(&args.name)?,
        false => Identity::user(&args.name, &args.groups)?,
    };
    if let Some(path) = args.output.as_deref().filter(|path| !args.force && path.symlink_metadata().is_ok()) {
        return Err(exists(path).into());
    }
    threads::block_on(add(&args, &identity))
}

async fn add(args: &AddArgs, identity: &Identity) -> anyhow::Result<()> {
    let mut signals = Signals::catch().context("failed to install signal handlers")?;
    let target = target(args)?;
    let roles =
        RolesToBind { cluster_roles: &args.cluster_roles, roles: &args.roles, namespace: args.namespace.as_deref() };
    let connecting = async {
        let (config, _) = target.configuration().await?;
        let cluster = target.connect().await?;
        cluster.announce();
        roles.check(&cluster.client).await?;
        Ok((config, cluster))
    };
    let (config, cluster) = signals.interrupt(connecting).await?;
    let issued = match identity {
        Identity::User { name, groups } => {
            let options = CertificateOptions { user: name, groups, lifetime: args.expires };
            if args.dry_run {
                signals.interrupt(certificate::check(&cluster.client, &options)).await?;
                cluster::report(&format!("certificate of {}: would be issued", identity.describe()), true);
                None
            } else {
                Some(certificate::issue(&cluster.client, &options, &mut signals).await?)
            }
        }
        Identity::ServiceAccount(account) => signals.interrupt(token(args, &cluster, account)).await?,
    };
    signals.interrupt(apply(args, &cluster, &roles.manifests(identity))).await?;
    let Some(credentials) = issued else { return Ok(()) };
    let new = NewKubeconfig {
        config: &config,
        cluster: if is_own(args) { "windlass" } else { "kubernetes" },
        user: identity.name(),
        namespace: args.namespace.as_deref(),
        credentials: &credentials,
    };
    deliver(args, &new.to_yaml()?)?;
    report(args, identity, &credentials, roles.is_empty());
    Ok(())
}

fn is_own(args: &AddArgs) -> bool {
    args.kubeconfig.is_none() && args.context.is_none()
}

/// The chosen cluster, or else the running plane.
fn target(args: &AddArgs) -> anyhow::Result<ClusterArgs> {
    if !is_own(args) {
        return Ok(ClusterArgs { kubeconfig: args.kubeconfig.clone(), context: args.context.clone() });
    }
    let folder = args.data_dir.resolve()?;
    let Presence::Serving(_) = Presence::of(&folder)? else {
        let option = args.data_dir.option();
        let hint =
            format!("start it with `windlass up --background{option}`, or choose another cluster with --kubeconfig");
        let message = format!("no control plane is running in {}", folder.display());
        return Err(ErrorWithHint { message, hint: hint.into() }.into());
    };
    Ok(ClusterArgs::of(&folder.join("kubeconfig")))
}

/// Creates the service account if needed and requests a token of it.
async fn token(args: &AddArgs, cluster: &Cluster, account: &AccountName) -> anyhow::Result<Option<Credentials>> {
    check_namespace(&cluster.client, &account.namespace).await?;
    apply(args, cluster, &[account.manifest()]).await?;
    if args.dry_run {
        cluster::report(&format!("token of service account {account}: would be issued"), true);
        return Ok(None);
    }
    let issued = account.token(&cluster.client, args.expires).await?;
    eprintln!("the token expires at {}", shown(issued.expires));
    Ok(Some(Credentials::Token(issued.token)))
}

async fn apply(args: &AddArgs, cluster: &Cluster, objects: &[Value]) -> anyhow::Result<()> {
    let options = ApplyOptions { dry_run: args.dry_run, ..ApplyOptions::default() };
    cluster.apply(objects, options, &mut |applied| cluster::report(applied, args.dry_run)).await.map(drop)
}

/// Writes the kubeconfig, at once and only if nothing is lost.
fn deliver(args: &AddArgs, text: &str) -> anyhow::Result<()> {
    let Some(path) = &args.output else { return output::print(text) };
    let written = match args.force {
        true => secret_file::replace(path, text),
        false => secret_file::create(path, text),
    };
    match written {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(exists(path).into()),
        written => written.with_context(|| format!("cannot write {}", path.display())),
    }
}

fn report(args: &AddArgs, identity: &Identity, credentials: &Credentials, has_no_roles: bool) {
    if let Credentials::Certificate { certificate, .. } = credentials {
        let expires = certificate_expires(certificate).map(|at| format!(" at {}", shown(at))).unwrap_or_default();
        eprintln!(
            "the certificate of {} expires{expires} and cannot be revoked: delete role bindings to take away access",
            identity.describe()
        );
    }
    if has_no_roles {
        eprintln!("it has no roles of its own yet: bind one with --cluster-role or `kubectl create rolebinding`");
    }
    if let Some(path) = &args.output {
        eprintln!("kubectl --kubeconfig {} auth whoami", crate::shell::word(path));
    }
}

fn exists(path: &Path) -> ErrorWithHint {
    let message = format!("{} already exists", path.display());
    ErrorWithHint { message, hint: "choose another file, or overwrite it with --force".into() }
}

fn shown(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

fn lifetime(text: &str) -> Result<Duration, String> {
    let lifetime = duration::parse(text)?;
    if lifetime < SHORTEST { Err("the shortest validity is 10m".to_owned()) } else { Ok(lifetime) }
}
