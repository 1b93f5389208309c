//! Selection of the cluster: in the same way as kubectl, or else the one of `windlass up`.

use std::{
    env,
    ffi::OsString,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context as _;
use clap::Args;
use kube::{
    Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use windlass::client::{self, ClientOptions};

use super::{Cluster, MANAGER};
use crate::{data_dir, failure::ErrorWithHint};

/// Timeout for connecting.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);

/// Cluster that a command works with
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ClusterArgs {
    /// Kubeconfig of the cluster [default: same as kubectl, or else that of `windlass up`]
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig [default: the current context]
    #[arg(long, value_name = "NAME")]
    pub(crate) context: Option<String>,
}

impl ClusterArgs {
    /// Returns the client configuration and a description of where it comes from.
    pub(crate) async fn configuration(&self) -> anyhow::Result<(Config, String)> {
        let files = files(self.kubeconfig.as_deref(), &|name| env::var_os(name))?;
        if files.is_empty() {
            // In a pod.
            return match Config::incluster() {
                Ok(config) => Ok((config, "the service account of this pod".to_owned())),
                Err(_) => Err(nowhere().into()),
            };
        }
        let mut kubeconfig = Kubeconfig::default();
        for file in &files {
            let advised = |error: kube::config::KubeconfigError| ErrorWithHint {
                message: format!("cannot read kubeconfig {}: {error}", file.display()),
                hint: "check --kubeconfig and KUBECONFIG".into(),
            };
            let read = Kubeconfig::read_from(file).map_err(advised)?;
            kubeconfig = kubeconfig.merge(read).map_err(advised)?;
        }
        let names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
        let names = names.join(", ");
        let context = self.context.clone().or_else(|| kubeconfig.current_context.clone()).unwrap_or_default();
        let known: Vec<&str> = kubeconfig.contexts.iter().map(|context| context.name.as_str()).collect();
        if !known.contains(&context.as_str()) {
            let message = match context.is_empty() {
                true => format!("{names} does not set a current context"),
                false => format!("{names} has no context {context:?}"),
            };
            let hint = match known.is_empty() {
                true => "choose another file with --kubeconfig".to_owned(),
                false => format!("choose one with --context: {}", known.join(", ")),
            };
            return Err(ErrorWithHint { message, hint: hint.into() }.into());
        }
        let options = KubeConfigOptions { context: Some(context.clone()), ..KubeConfigOptions::default() };
        let config = Config::from_custom_kubeconfig(kubeconfig, &options).await.map_err(|error| ErrorWithHint {
            message: format!("cannot use context {context} of {names}: {error}"),
            hint: "check its cluster and user in the kubeconfig".into(),
        })?;
        Ok((config, format!("context {context} of {names}")))
    }

    /// Returns the kubeconfig for a program that selects a cluster like kubectl: the given file, or that of `windlass
    /// up` if kubectl would find none.
    pub(crate) fn kubeconfig_file(&self) -> anyhow::Result<Option<PathBuf>> {
        let files = files(self.kubeconfig.as_deref(), &|name| env::var_os(name))?;
        Ok(files.into_iter().next().filter(|_| env::var_os("KUBECONFIG").is_none() || self.kubeconfig.is_some()))
    }

    /// Uses a kubeconfig file regardless of the environment.
    pub(crate) fn of(kubeconfig: &Path) -> Self {
        Self { kubeconfig: Some(kubeconfig.to_owned()), context: None }
    }

    /// Returns the cluster without connecting to it.
    pub(crate) async fn prepare(&self) -> anyhow::Result<Cluster> {
        let (mut config, origin) = self.configuration().await?;
        config.connect_timeout = Some(CONNECT_WITHIN);
        let version = env!("CARGO_PKG_VERSION");
        let client = client::connect(&config, ClientOptions::new(format!("{MANAGER}/{version}")))
            .with_context(|| format!("cannot use the {origin}"))?;
        let url = config.cluster_url.to_string().trim_end_matches('/').to_owned();
        Ok(Cluster { client, url, namespace: config.default_namespace, origin })
    }

    /// Connects, and verifies that the server responds.
    pub(crate) async fn connect(&self) -> anyhow::Result<Cluster> {
        let cluster = self.prepare().await?;
        let Cluster { client, url, origin, .. } = &cluster;
        let asked = tokio::time::timeout(2 * CONNECT_WITHIN, client.apiserver_version()).await;
        let failed = match asked {
            Ok(Ok(_)) => None,
            // A user who may not read the version may still apply objects.
            Ok(Err(kube::Error::Api(status))) if status.code == 403 => None,
            Ok(Err(kube::Error::Api(status))) => Some(status.message.clone()),
            Ok(Err(error)) => Some(causes(&error)),
            Err(_) => Some("no response".to_owned()),
        };
        if let Some(why) = failed {
            let message = format!("cannot connect to {url} ({origin}): {why}");
            let hint = match origin.contains("windlass") {
                true => "start it with `windlass up`, or choose another cluster with --kubeconfig and --context",
                false => "check that the cluster is running, or choose another with --kubeconfig and --context",
            };
            return Err(ErrorWithHint { message, hint: hint.into() }.into());
        }
        Ok(cluster)
    }
}

/// Returns the kubeconfigs to use; empty if there are none.
fn files(given: Option<&Path>, variable: &dyn Fn(&str) -> Option<OsString>) -> anyhow::Result<Vec<PathBuf>> {
    if let Some(file) = given {
        return Ok(vec![file.to_owned()]);
    }
    if let Some(list) = variable("KUBECONFIG").filter(|list| !list.is_empty()) {
        let named: Vec<PathBuf> = env::split_paths(&list).filter(|file| !file.as_os_str().is_empty()).collect();
        let there: Vec<PathBuf> = named.iter().filter(|file| file.is_file()).cloned().collect();
        // As with kubectl, some of them may be missing.
        return match there.is_empty() && !named.is_empty() {
            true => Err(ErrorWithHint {
                message: format!("KUBECONFIG is set to {}, which does not exist", list.display()),
                hint: "set KUBECONFIG to an existing file, or use --kubeconfig".into(),
            }
            .into()),
            false => Ok(there),
        };
    }
    let home = variable("HOME").map(|home| PathBuf::from(home).join(".kube/config"));
    let path = |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let plane = path("WINDLASS_DATA_DIR").or_else(|| data_dir::usual(&path)).map(|folder| folder.join("kubeconfig"));
    Ok([home, plane].into_iter().flatten().find(|file| file.is_file()).into_iter().collect())
}

fn nowhere() -> ErrorWithHint {
    ErrorWithHint {
        message: "no cluster found: there is neither KUBECONFIG nor ~/.kube/config, and no running `windlass up`"
            .into(),
        hint: "start one with `windlass up`, or choose one with --kubeconfig".into(),
    }
}

/// Formats an error with its causes on one line. Connection errors say little without them.
pub(super) fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let more = cause.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        next = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_cluster_is_that_of_kubectl_or_else_of_windlass_up() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let check = |given: Option<&str>, kubeconfig: Option<&str>, expected: &[PathBuf]| {
            let variable = |name: &str| match name {
                "HOME" => Some(root.as_os_str().to_owned()),
                "KUBECONFIG" => kubeconfig.map(OsString::from),
                _ => None,
            };
            assert_eq!(files(given.map(Path::new), &variable).unwrap(), expected);
        };
        check(None, None, &[]);
        let plane = root.join(".local/share/windlass/kubeconfig");
        fs::create_dir_all(plane.parent().unwrap()).unwrap();
        fs::write(&plane, "").unwrap();
        check(None, None, std::slice::from_ref(&plane));
        let home = root.join(".kube/config");
        fs::create_dir_all(home.parent().unwrap()).unwrap();
        fs::write(&home, "").unwrap();
        check(None, Some(""), std::slice::from_ref(&home));
        let list = env::join_paths([&home, &root.join("missing"), &plane]).unwrap();
        check(None, list.to_str(), &[home, plane]);
        check(Some("/given"), list.to_str(), &["/given".into()]);
    }

    #[test]
    fn a_kubeconfig_variable_with_a_missing_file_is_reported() {
        let error = files(None, &|name| (name == "KUBECONFIG").then(|| "/nowhere/at/all".into())).unwrap_err();
        assert_eq!(error.to_string(), "KUBECONFIG is set to /nowhere/at/all, which does not exist");
    }
}
