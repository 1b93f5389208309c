//! Which cluster is meant: as kubectl finds it, else that of `windlass up`.

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
use crate::{data_dir, failure::Advised};

/// A server that cannot be reached is told after this long.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);

/// Which cluster a command works with
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ClusterArgs {
    /// Kubeconfig of the cluster [default: as kubectl has it, else that of `windlass up`]
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig, in place of the current one
    #[arg(long, value_name = "NAME")]
    pub(crate) context: Option<String>,
}

impl ClusterArgs {
    /// The configuration of a client, and where it is from in words.
    pub(crate) async fn configuration(&self) -> anyhow::Result<(Config, String)> {
        let files = files(self.kubeconfig.as_deref(), &|name| env::var_os(name))?;
        if files.is_empty() {
            // Within a pod.
            return match Config::incluster() {
                Ok(config) => Ok((config, "the service account of this pod".to_owned())),
                Err(_) => Err(nowhere().into()),
            };
        }
        let mut kubeconfig = Kubeconfig::default();
        for file in &files {
            let advised = |error: kube::config::KubeconfigError| Advised {
                message: format!("cannot use the kubeconfig {}: {error}", file.display()),
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
                true => format!("{names} has no current context"),
                false => format!("{names} has no context {context:?}"),
            };
            let hint = match known.is_empty() {
                true => "give another file with --kubeconfig".to_owned(),
                false => format!("choose one with --context: {}", known.join(", ")),
            };
            return Err(Advised { message, hint: hint.into() }.into());
        }
        let options = KubeConfigOptions { context: Some(context.clone()), ..KubeConfigOptions::default() };
        let config = Config::from_custom_kubeconfig(kubeconfig, &options).await.map_err(|error| Advised {
            message: format!("cannot use the context {context} of {names}: {error}"),
            hint: "check its cluster and user in the kubeconfig".into(),
        })?;
        Ok((config, format!("context {context} of {names}")))
    }

    /// That of a file, whatever the environment says.
    pub(crate) fn of(kubeconfig: &Path) -> Self {
        Self { kubeconfig: Some(kubeconfig.to_owned()), context: None }
    }

    /// The cluster, whether or not it is there.
    pub(crate) async fn prepare(&self) -> anyhow::Result<Cluster> {
        let (mut config, origin) = self.configuration().await?;
        config.connect_timeout = Some(CONNECT_WITHIN);
        let version = env!("CARGO_PKG_VERSION");
        let client = client::connect(&config, ClientOptions::new(format!("{MANAGER}/{version}")))
            .with_context(|| format!("cannot use the {origin}"))?;
        let url = config.cluster_url.to_string().trim_end_matches('/').to_owned();
        Ok(Cluster { client, url, namespace: config.default_namespace, origin })
    }

    /// Connects, and makes sure that the server is there.
    pub(crate) async fn connect(&self) -> anyhow::Result<Cluster> {
        let cluster = self.prepare().await?;
        let Cluster { client, url, origin, .. } = &cluster;
        let asked = tokio::time::timeout(2 * CONNECT_WITHIN, client.apiserver_version()).await;
        let failed = match asked {
            Ok(Ok(_)) => None,
            // Whoever may not ask for the version may still apply objects.
            Ok(Err(kube::Error::Api(status))) if status.code == 403 => None,
            Ok(Err(kube::Error::Api(status))) => Some(status.message.clone()),
            Ok(Err(error)) => Some(causes(&error)),
            Err(_) => Some("it does not answer".to_owned()),
        };
        if let Some(why) = failed {
            let message = format!("cannot talk to {url} ({origin}): {why}");
            let hint = match origin.contains("windlass") {
                true => "start it with `windlass up`, or name another cluster with --kubeconfig and --context",
                false => "check that the cluster runs, or name another with --kubeconfig and --context",
            };
            return Err(Advised { message, hint: hint.into() }.into());
        }
        Ok(cluster)
    }
}

/// The kubeconfigs that count; none if there are none.
fn files(given: Option<&Path>, variable: &dyn Fn(&str) -> Option<OsString>) -> anyhow::Result<Vec<PathBuf>> {
    if let Some(file) = given {
        return Ok(vec![file.to_owned()]);
    }
    if let Some(list) = variable("KUBECONFIG").filter(|list| !list.is_empty()) {
        let named: Vec<PathBuf> = env::split_paths(&list).filter(|file| !file.as_os_str().is_empty()).collect();
        let there: Vec<PathBuf> = named.iter().filter(|file| file.is_file()).cloned().collect();
        // Like kubectl, some of them may be missing.
        return match there.is_empty() && !named.is_empty() {
            true => Err(Advised {
                message: format!("KUBECONFIG names {}, which is not there", list.display()),
                hint: "set KUBECONFIG to a file, or give one with --kubeconfig".into(),
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

fn nowhere() -> Advised {
    Advised {
        message: "there is no cluster to work with: neither KUBECONFIG nor ~/.kube/config, and no `windlass up`".into(),
        hint: "start one with `windlass up`, or name one with --kubeconfig".into(),
    }
}

/// An error with its causes in a line. Those of connections say little without them.
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
    fn the_cluster_is_that_of_kubectl_and_else_that_of_windlass() {
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
    fn a_variable_that_leads_nowhere_is_told() {
        let error = files(None, &|name| (name == "KUBECONFIG").then(|| "/nowhere/at/all".into())).unwrap_err();
        assert_eq!(error.to_string(), "KUBECONFIG names /nowhere/at/all, which is not there");
    }
}
