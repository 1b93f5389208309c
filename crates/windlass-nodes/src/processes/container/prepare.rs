//! Preparing a container before it is started.

use std::{io, path::PathBuf, sync::Arc};

use k8s_openapi::api::core::v1::Container;

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

/// A container that is ready to start.
pub(super) struct Prepared {
    pub(super) plan: ProcessSpec,
    pub(super) mounts: Arc<Mounts>,
    /// The termination message file.
    pub(super) last_message: PathBuf,
}

/// Why a container cannot be started yet.
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
        let root = image.root.filter(|_| root::is_possible()).map(|directory| Root {
            directory,
            mounts: mounts.take().map(|(path, real)| (real, path)).collect(),
            start: start.clone().unwrap_or_else(|| "/".to_owned()),
        });
        // Existing paths in the runtime's directory must not be rewritten as container paths.
        mounts.add(&self.shared.directory.display().to_string(), self.shared.directory.clone());
        let words = words.iter().map(|word| mounts.rewrite(&expand(word, &plain))).collect();
        let mut environment: Environment =
            plain.iter().map(|(name, value)| (name.clone(), mounts.rewrite(value))).collect();
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

    /// Variables of every container.
    fn base_environment(&self) -> Environment {
        let mut base = Environment::new();
        let path = std::env::var("PATH").unwrap_or_else(|_| "/usr/local/bin:/usr/bin:/bin".to_owned());
        base.insert("PATH".to_owned(), path);
        base.insert("HOME".to_owned(), self.directory.display().to_string());
        let spec = self.pod.spec.as_ref();
        let hostname = spec.and_then(|spec| spec.hostname.clone()).unwrap_or_else(|| self.key.name().to_owned());
        base.insert("HOSTNAME".to_owned(), hostname);
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

    /// Creates an empty termination message file.
    fn last_message(&self, container: &Container) -> io::Result<PathBuf> {
        let directory = self.directory.join("termination");
        create_directory(&directory)?;
        let file = directory.join(&container.name);
        create_file(&file)?;
        Ok(file)
    }
}
