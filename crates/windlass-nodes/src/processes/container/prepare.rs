//! Preparing a container before it is started.

use std::{fs, io, net::Ipv4Addr, path::PathBuf, sync::Arc};

use k8s_openapi::api::core::v1::{Container, Pod};
use windlass_schema::sorting::Gather as _;

use super::{Mounts, ProcessSpec, Run};
use crate::processes::{
    create_directory, create_file,
    environment::{Environment, EnvironmentSources, environment, expand},
    images::{self, ImageError},
    root::{self, Root},
    volumes,
};

/// Default termination message path.
const TERMINATION_PATH: &str = "/dev/termination-log";
/// The file of host names.
const HOSTS: &str = "/etc/hosts";
/// The maximum length of a host name.
const HOST_NAME_MAX: usize = 63;

/// A container that is ready to start.
pub(super) struct Prepared {
    pub(super) plan: ProcessSpec,
    pub(super) mounts: Arc<Mounts>,
    /// The termination message file.
    pub(super) last_message: PathBuf,
}

/// Reasons why a container cannot be started yet.
pub(super) enum StartError {
    Image(ImageError),
    Config(String),
    Volumes(String),
}

impl Run {
    pub(super) async fn prepare(&self, container: &Container) -> Result<Prepared, StartError> {
        let sources = self.sources().await.map_err(StartError::Config)?;
        let directories = volumes::prepare(&self.pod, &sources, &self.directory.join("volumes"), &self.claims());
        let directories = directories.map_err(StartError::Volumes)?;
        let image = container.image.as_deref().unwrap_or_default();
        let image = images::resolve(image, self.shared.images.as_deref()).map_err(StartError::Image)?;

        let mut base = self.base_environment();
        base.extend(
            directories.iter().map(|(name, directory)| (volumes::variable(name), directory.display().to_string())),
        );
        let last_message = self.last_message(container).map_err(|error| StartError::Config(error.to_string()))?;
        base.insert("WINDLASS_TERMINATION_LOG".to_owned(), last_message.display().to_string());

        let around = EnvironmentSources { pod: &self.pod, sources: &sources, image: &image.env, base: &base };
        let plain = environment(container, &around).map_err(StartError::Config)?;
        let mut mounts = Mounts::of(container, &directories, &plain);
        let message_path = container.termination_message_path.as_deref().filter(|path| !path.is_empty());
        mounts.add(message_path.unwrap_or(TERMINATION_PATH), last_message.clone());
        let given = container.command.as_deref().filter(|command| !command.is_empty());
        let args = container.args.as_deref().filter(|args| !args.is_empty());
        let words = match (given, args) {
            (Some(command), args) => [command, args.unwrap_or_default()].concat(),
            (None, Some(args)) => [&image.command, args].concat(),
            (None, None) => [&*image.command, &*image.args].concat(),
        };
        let start = container.working_dir.as_deref().filter(|directory| !directory.is_empty()).map(str::to_owned);
        let start = start.or(image.working_dir.clone());
        self.add_hosts(container, &mut mounts).map_err(|error| StartError::Config(error.to_string()))?;
        let is_read_only = container.security_context.as_ref().and_then(|context| context.read_only_root_filesystem);
        let view = self.directory.join("roots").join(&container.name);
        let root = match image.root.filter(|_| root::is_possible()) {
            Some(directory) => {
                let view = root::new_view(&view).map_err(|error| StartError::Config(error.to_string()))?;
                let mounts = mounts.take().map(|(path, real)| (real, path)).collect();
                let start = start.clone().unwrap_or_else(|| "/".to_owned());
                let hostname = self.hostname().unwrap_or_default();
                let is_read_only = is_read_only == Some(true);
                Some(Root { directory, view, mounts, start, is_read_only, hostname, of: None })
            }
            None => None,
        };
        // Existing paths in the runtime's directory must not be rewritten as container paths.
        mounts.add(&self.shared.directory.display().to_string(), self.shared.directory.clone());
        let words = words.iter().map(|word| mounts.rewrite(&expand(word, &plain))).collect();
        let mut environment: Environment =
            plain.iter().map(|(name, value)| (name.clone(), mounts.rewrite(value))).gather();
        if let Some(root) = &root {
            environment.insert("HOME".to_owned(), "/".to_owned());
            for mount in container.volume_mounts.iter().flatten() {
                environment.insert(volumes::variable(&mount.name), mount.mount_path.clone());
            }
            tracing::debug!(root = %root.directory.display(), container = container.name, "running a container in its own root file system");
        }
        // A working directory that exists only in the image cannot be entered.
        let directory =
            start.map(|directory| PathBuf::from(mounts.rewrite(&directory))).filter(|directory| directory.is_dir());
        let directory = directory.unwrap_or_else(|| self.directory.clone());
        let plan = ProcessSpec {
            words,
            environment,
            directory,
            root,
            launcher: self.shared.launcher.clone(),
            records: self.directory.join("processes"),
        };
        Ok(Prepared { plan, mounts: Arc::new(mounts), last_message })
    }

    /// The host name of the pod; `None` if it has that of the machine.
    fn hostname(&self) -> Option<String> {
        let spec = self.pod.spec.as_ref();
        if spec.and_then(|spec| spec.host_network).unwrap_or_default() {
            return None;
        }
        let own = spec.and_then(|spec| spec.hostname.clone()).filter(|name| !name.is_empty());
        let name = own.unwrap_or_else(|| self.key.name().chars().take(HOST_NAME_MAX).collect());
        Some(name.trim_end_matches(['-', '.']).to_owned())
    }

    /// Variables of every container.
    fn base_environment(&self) -> Environment {
        let mut base = Environment::new();
        let path = std::env::var("PATH").unwrap_or_else(|_| "/usr/local/bin:/usr/bin:/bin".to_owned());
        base.insert("PATH".to_owned(), path);
        base.insert("HOME".to_owned(), self.directory.display().to_string());
        base.insert("HOSTNAME".to_owned(), self.hostname().unwrap_or_else(|| self.key.name().to_owned()));
        if let Some(address) = self.addresses.pod {
            base.insert("WINDLASS_POD_IP".to_owned(), address.to_string());
        }
        if let Some(api) = self.shared.api.get() {
            base.insert("KUBERNETES_SERVICE_HOST".to_owned(), api.ip().to_string());
            base.insert("KUBERNETES_SERVICE_PORT".to_owned(), api.port().to_string());
            base.insert("KUBERNETES_SERVICE_PORT_HTTPS".to_owned(), api.port().to_string());
        }
        base
    }

    /// Writes the file of host names, and mounts it unless the container has its own. In the network of the machine, it
    /// begins with that of the machine.
    fn add_hosts(&self, container: &Container, mounts: &mut Mounts) -> io::Result<()> {
        let spec = self.pod.spec.as_ref();
        let on_host = spec.and_then(|spec| spec.host_network).unwrap_or_default();
        if container.volume_mounts.iter().flatten().any(|mount| mount.mount_path == HOSTS) {
            return Ok(());
        }
        let names =
            if on_host { fs::read_to_string(HOSTS).unwrap_or_default() } else { hosts(&self.pod, self.addresses.pod) };
        let file = self.directory.join("etc-hosts");
        fs::write(&file, names + &aliases(&self.pod))?;
        mounts.add(HOSTS, file);
        Ok(())
    }

    /// Creates an empty termination message file.
    fn last_message(&self, container: &Container) -> io::Result<PathBuf> {
        let directory = self.directory.join("termination");
        create_directory(&directory)?;
        let file = directory.join(&container.name);
        create_file(&file)?;
        Ok(file)
    }
}

/// The host names of a pod.
fn hosts(pod: &Pod, address: Option<Ipv4Addr>) -> String {
    let mut text =
        "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n\
                    fe00::0\tip6-localnet\nfe00::0\tip6-mcastprefix\nfe00::1\tip6-allnodes\nfe00::2\tip6-allrouters\n"
            .to_owned();
    let spec = pod.spec.as_ref();
    let name = spec.and_then(|spec| spec.hostname.as_deref()).filter(|name| !name.is_empty());
    let name = name.or(pod.metadata.name.as_deref()).unwrap_or_default();
    let subdomain = spec.and_then(|spec| spec.subdomain.as_deref()).filter(|name| !name.is_empty());
    if let Some(address) = address {
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        text += &match subdomain {
            Some(subdomain) => format!("{address}\t{name}.{subdomain}.{namespace}.svc.cluster.local\t{name}\n"),
            None => format!("{address}\t{name}\n"),
        };
    }
    text
}

/// The host names that a pod lists.
fn aliases(pod: &Pod) -> String {
    let aliases = pod.spec.as_ref().and_then(|spec| spec.host_aliases.as_deref()).unwrap_or_default();
    let lines = aliases.iter().map(|alias| {
        let names = alias.hostnames.as_deref().unwrap_or_default().join("\t");
        format!("{}\t{names}\n", alias.ip)
    });
    let lines: String = lines.collect();
    if lines.is_empty() { lines } else { format!("\n# Entries added by HostAliases.\n{lines}") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_hosts_file_has_the_names_of_the_pod_and_its_aliases() {
        let pod =
            |spec| serde_json::from_value(json!({"metadata": {"name": "p", "namespace": "n"}, "spec": spec})).unwrap();
        let address = Some(Ipv4Addr::new(127, 20, 0, 2));
        let last = |text: String, count: usize| {
            let lines: Vec<&str> = text.lines().collect();
            lines[lines.len() - count..].join("|")
        };
        assert_eq!(last(hosts(&pod(json!({"containers": []})), address), 1), "127.20.0.2\tp");
        let named = json!({
            "containers": [], "hostname": "h", "subdomain": "s",
            "hostAliases": [{"ip": "10.0.0.1", "hostnames": ["a", "b"]}],
        });
        assert_eq!(last(hosts(&pod(named.clone()), address), 1), "127.20.0.2\th.s.n.svc.cluster.local\th");
        assert_eq!(aliases(&pod(named)), "\n# Entries added by HostAliases.\n10.0.0.1\ta\tb\n");
        assert_eq!(aliases(&pod(json!({"containers": []}))), "");
    }
}
