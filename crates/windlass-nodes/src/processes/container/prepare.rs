//! Everything that a container needs before it can be started.

use std::{fs, io, path::PathBuf, sync::Arc};

use k8s_openapi::api::core::v1::Container;

use super::{Mounts, Plan, Run};
use crate::processes::{
    environment::{Environment, Surroundings, environment, expand},
    images::{self, ImageError},
    root::{self, Root},
    volumes,
};

/// Where containers leave a last message, if nobody says.
const TERMINATION_PATH: &str = "/dev/termination-log";

/// A container that can be started.
pub(super) struct Prepared {
    pub(super) plan: Plan,
    pub(super) mounts: Arc<Mounts>,
    /// The file of its last message.
    pub(super) last_message: PathBuf,
}

/// Why it cannot be started yet.
pub(super) enum Trouble {
    Image(ImageError),
    Config(String),
    Volumes(String),
}

impl Run {
    pub(super) async fn prepare(&self, container: &Container) -> Result<Prepared, Trouble> {
        let sources = self.sources().await.map_err(Trouble::Config)?;
        let folders = volumes::prepare(&self.pod, &sources, &self.folder.join("volumes"), &self.claims());
        let folders = folders.map_err(Trouble::Volumes)?;
        let image = container.image.as_deref().unwrap_or_default();
        let image = images::resolve(image, self.shared.images.as_deref()).map_err(Trouble::Image)?;

        let mut base = self.base_environment();
        base.extend(folders.iter().map(|(name, folder)| (volumes::variable(name), folder.display().to_string())));
        let last_message = self.last_message(container).map_err(|error| Trouble::Config(error.to_string()))?;
        base.insert("WINDLASS_TERMINATION_LOG".to_owned(), last_message.display().to_string());

        let around = Surroundings { pod: &self.pod, sources: &sources, image: &image.env, base: &base };
        let plain = environment(container, &around).map_err(Trouble::Config)?;
        let mut mounts = Mounts::of(container, &folders, &plain);
        let message_path = container.termination_message_path.as_deref().filter(|path| !path.is_empty());
        mounts.add(message_path.unwrap_or(TERMINATION_PATH), last_message.clone());
        let given = container.command.as_deref().filter(|command| !command.is_empty());
        let args = container.args.as_deref().filter(|args| !args.is_empty());
        let words = match (given, args) {
            (Some(command), args) => [command, args.unwrap_or_default()].concat(),
            (None, Some(args)) => [&image.command, args].concat(),
            (None, None) => [&*image.command, &*image.args].concat(),
        };
        let start = container.working_dir.as_deref().filter(|folder| !folder.is_empty()).map(str::to_owned);
        let start = start.or(image.working_dir.clone());
        let root = image.root.filter(|_| root::is_possible()).map(|folder| Root {
            folder,
            mounts: mounts.take().map(|(path, real)| (real, path)).collect(),
            start: start.clone().unwrap_or_else(|| "/".to_owned()),
        });
        // What is there already must not be taken for a path of the container.
        mounts.add(&self.shared.folder.display().to_string(), self.shared.folder.clone());
        let words = words.iter().map(|word| mounts.rewrite(&expand(word, &plain))).collect();
        let mut environment: Environment =
            plain.iter().map(|(name, value)| (name.clone(), mounts.rewrite(value))).collect();
        if let Some(root) = &root {
            environment.insert("HOME".to_owned(), "/".to_owned());
            for mount in container.volume_mounts.iter().flatten() {
                environment.insert(volumes::variable(&mount.name), mount.mount_path.clone());
            }
            tracing::debug!(root = %root.folder.display(), container = container.name, "a container has a root of its own");
        }
        // A folder that only the image has cannot be entered.
        let folder = start.map(|folder| PathBuf::from(mounts.rewrite(&folder))).filter(|folder| folder.is_dir());
        let folder = folder.unwrap_or_else(|| self.folder.clone());
        let plan = Plan {
            words,
            environment,
            folder,
            root,
            launcher: self.shared.launcher.clone(),
            records: self.folder.join("processes"),
        };
        Ok(Prepared { plan, mounts: Arc::new(mounts), last_message })
    }

    /// What every container gets.
    fn base_environment(&self) -> Environment {
        let mut base = Environment::new();
        let path = std::env::var("PATH").unwrap_or_else(|_| "/usr/local/bin:/usr/bin:/bin".to_owned());
        base.insert("PATH".to_owned(), path);
        base.insert("HOME".to_owned(), self.folder.display().to_string());
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

    /// An empty file for the container's last message.
    fn last_message(&self, container: &Container) -> io::Result<PathBuf> {
        let folder = self.folder.join("termination");
        fs::create_dir_all(&folder)?;
        let file = folder.join(&container.name);
        fs::write(&file, b"")?;
        Ok(file)
    }
}
