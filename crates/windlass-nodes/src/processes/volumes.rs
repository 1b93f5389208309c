//! Volumes as directories.
//!
//! A process without its own root sees the machine's file system, so a volume cannot be at the container's mount path.
//! It is a directory of the pod instead:
//!
//! - `WINDLASS_VOLUME_<NAME>` in the environment is its path; the name is in capitals, with `_` for `-`;
//! - the mount path is replaced in the command, the arguments, the values of variables, the working directory and the
//!   commands of probes, hooks and `kubectl exec`, wherever it is a path of its own: preceded by the start of the text or
//!   a character that is not part of a path, and followed by the end or a slash ([`Mounts::rewrite`]);
//! - files that a program reads are not changed: a path in a config map stays.
//!
//! An `emptyDir` in memory is a directory of `/dev/shm` ([`memory`]), or like any other where that is no file system in
//! memory. The directory of a pod has mode 0700. Within it, volumes and their files have the modes that they have on a cluster.
//! Files of config maps, secrets, projected volumes and the downward API are symlinks through a directory link that is
//! replaced atomically, as the kubelet does: a program sees all of the old or all of the new.

use std::{
    collections::BTreeMap,
    fs, io,
    io::Write as _,
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _, symlink},
    path::{Component, Path, PathBuf},
};

use k8s_openapi::api::core::v1::{
    ConfigMapVolumeSource, Container, DownwardAPIVolumeFile, KeyToPath, Pod, SecretVolumeSource, Volume,
};
use windlass_schema::sorting::{self, Gather as _};

use super::{
    create_directory, downward,
    environment::{Environment, expand},
    memory,
    sources::{Sources, token_spec},
};

/// The link that all files of a projected volume go through.
const DATA: &str = "..data";
/// Default mode of files.
const MODE: i32 = 0o644;
/// Mode of the directories of volumes. Other users are kept out by the directory of the pod.
const OPEN: u32 = 0o777;

/// Files with contents from the server: path, bytes and mode.
pub(super) type Files = BTreeMap<PathBuf, (Vec<u8>, i32)>;

/// Container paths and their locations on this machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Mounts(Vec<(String, PathBuf)>);

impl Mounts {
    /// The mounts of a container, for the given volume directories.
    pub(super) fn of(
        container: &Container,
        directories: &BTreeMap<String, PathBuf>,
        environment: &Environment,
    ) -> Self {
        let mut mounts = Self::default();
        for mount in container.volume_mounts.iter().flatten() {
            let Some(directory) = directories.get(&mount.name) else { continue };
            let inner = match (&mount.sub_path_expr, &mount.sub_path) {
                (Some(expression), _) if !expression.is_empty() => expand(expression, environment),
                (_, Some(path)) => path.clone(),
                _ => String::new(),
            };
            mounts.add(&mount.mount_path, inside(directory, &inner).unwrap_or_else(|| directory.clone()));
        }
        mounts
    }

    /// Adds a path.
    pub(super) fn add(&mut self, path: &str, real: PathBuf) {
        let path = path.trim_end_matches('/');
        if path.starts_with('/') {
            self.0.push((path.to_owned(), real));
            // The longest matching path wins.
            sorting::sort_by_key(&mut self.0, |(path, _)| std::cmp::Reverse(path.len()));
        }
    }

    /// Replaces every container path in the text by its location.
    pub(super) fn rewrite(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        let mut before = None;
        while let Some(next) = rest.chars().next() {
            let begins = next == '/' && !before.is_some_and(goes_on);
            let found = self.0.iter().find_map(|(path, real)| {
                let after = rest.strip_prefix(path.as_str()).filter(|_| begins)?;
                (!after.chars().next().is_some_and(|next| goes_on(next) && next != '/')).then_some((after, real))
            });
            match found {
                Some((after, real)) => {
                    out.push_str(&real.to_string_lossy());
                    (rest, before) = (after, Some('x'));
                }
                None => {
                    out.push(next);
                    (rest, before) = (&rest[next.len_utf8()..], Some(next));
                }
            }
        }
        out
    }

    /// Returns all mounts, outermost first: the path in the container, and the one on this machine.
    pub(super) fn take(&mut self) -> impl Iterator<Item = (String, PathBuf)> {
        std::mem::take(&mut self.0).into_iter().rev()
    }
}

/// Returns whether a path may continue with this character.
fn goes_on(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '/' | '.' | '_' | '-' | '~' | '+' | '@' | '%')
}

/// Joins a relative path to a directory. Returns `None` if it leads outside.
fn inside(directory: &Path, path: &str) -> Option<PathBuf> {
    if path.is_empty() {
        // Joining an empty path would add a slash, with which a file is not found.
        return Some(directory.to_owned());
    }
    let path = Path::new(path);
    path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir)).then(|| directory.join(path))
}

/// The variable for a volume's directory.
pub(super) fn variable(volume: &str) -> String {
    format!("WINDLASS_VOLUME_{}", volume.to_ascii_uppercase().replace('-', "_"))
}

/// Creates or updates the volumes of a pod and returns their paths. `claims` is the directory of volumes that outlive
/// pods.
pub(super) fn prepare(
    pod: &Pod,
    sources: &Sources,
    directory: &Path,
    claims: &Path,
) -> Result<BTreeMap<String, PathBuf>, String> {
    let mut directories = BTreeMap::new();
    for volume in pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten()) {
        let name = &volume.name;
        let place = one(pod, volume, sources, &directory.join(name), claims)
            .map_err(|why| format!("MountVolume.SetUp failed for volume {name:?} : {why}"))?;
        directories.insert(name.clone(), place);
    }
    Ok(directories)
}

/// Returns whether files of a pod show its labels or annotations, which may change.
pub(super) fn show_metadata(pod: &Pod) -> bool {
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    let mut files = volumes.flat_map(|volume| {
        let own = volume.downward_api.iter().flat_map(|source| source.items.iter().flatten());
        let projected = volume.projected.iter().flat_map(|projected| projected.sources.iter().flatten());
        let projected = projected.flat_map(|source| source.downward_api.iter());
        own.chain(projected.flat_map(|source| source.items.iter().flatten()))
    });
    files.any(|file| {
        let path = file.field_ref.as_ref().map_or("", |field| field.field_path.as_str());
        path.starts_with("metadata.labels") || path.starts_with("metadata.annotations")
    })
}

fn one(pod: &Pod, volume: &Volume, sources: &Sources, directory: &Path, claims: &Path) -> Result<PathBuf, String> {
    let failed = |error: io::Error| format!("{}: {error}", directory.display());
    if let Some(host) = &volume.host_path {
        let path = PathBuf::from(&host.path);
        match host.type_.as_deref() {
            Some("DirectoryOrCreate") => fs::create_dir_all(&path).map_err(failed)?,
            Some("FileOrCreate") => drop(fs::OpenOptions::new().append(true).create(true).open(&path).map_err(failed)?),
            Some("Directory") if !path.is_dir() => {
                return Err(format!("hostPath type check failed: {} is not a directory", host.path));
            }
            Some("File") if !path.is_file() => {
                return Err(format!("hostPath type check failed: {} is not a file", host.path));
            }
            _ => {}
        }
        return Ok(path);
    }
    if let Some(source) = &volume.persistent_volume_claim {
        let name = &source.claim_name;
        let claim = sources.claims.get(name).ok_or_else(|| format!("persistentvolumeclaim {name:?} not found"))?;
        let directory = claims.join(claim.metadata.uid.as_deref().unwrap_or(name));
        create_directory(&directory).map_err(failed)?;
        return Ok(directory);
    }
    // The directory of a pod has one for volumes.
    let pod_directory = directory.parent().and_then(Path::parent).unwrap_or(directory);
    let in_memory = match &volume.empty_dir {
        Some(source) if source.medium.as_deref() == Some("Memory") => {
            memory::volume(pod_directory, &volume.name).map_err(failed)?
        }
        _ => None,
    };
    let directory = in_memory.as_deref().unwrap_or(directory);
    create_directory(directory).map_err(failed)?;
    fs::set_permissions(directory, fs::Permissions::from_mode(OPEN)).map_err(failed)?;
    if let Some(files) = files(pod, volume, sources)? {
        project(directory, &files).map_err(failed)?;
    } else if volume.empty_dir.is_none() && volume.ephemeral.is_none() {
        return Err("this type of volume is not supported for pods that run as processes".to_owned());
    }
    Ok(directory.to_owned())
}

/// The files of a volume, or `None` if its contents do not come from the server.
fn files(pod: &Pod, volume: &Volume, sources: &Sources) -> Result<Option<Files>, String> {
    let mut files = Files::new();
    if let Some(source) = &volume.config_map {
        config_map(&mut files, sources, source, source.default_mode)?;
    } else if let Some(source) = &volume.secret {
        secret(&mut files, sources, source, source.default_mode)?;
    } else if let Some(source) = &volume.downward_api {
        downward_api(&mut files, pod, sources, source.items.as_deref(), source.default_mode)?;
    } else if let Some(projected) = &volume.projected {
        let mode = projected.default_mode;
        for source in projected.sources.iter().flatten() {
            if let Some(source) = &source.config_map {
                let (name, items, optional) = (source.name.clone(), source.items.clone(), source.optional);
                config_map(
                    &mut files,
                    sources,
                    &ConfigMapVolumeSource { name, items, optional, default_mode: None },
                    mode,
                )?;
            }
            if let Some(source) = &source.secret {
                let (secret_name, items, optional) = (Some(source.name.clone()), source.items.clone(), source.optional);
                secret(
                    &mut files,
                    sources,
                    &SecretVolumeSource { secret_name, items, optional, default_mode: None },
                    mode,
                )?;
            }
            if let Some(source) = &source.downward_api {
                downward_api(&mut files, pod, sources, source.items.as_deref(), mode)?;
            }
            if let Some(source) = &source.service_account_token
                && let Some(token) = sources.tokens.get(&token_spec(source))
            {
                put(&mut files, &source.path, token.clone().into_bytes(), mode)?;
            }
        }
    } else {
        return Ok(None);
    }
    Ok(Some(files))
}

fn config_map(
    files: &mut Files,
    sources: &Sources,
    source: &ConfigMapVolumeSource,
    mode: Option<i32>,
) -> Result<(), String> {
    let Some(map) = sources.config_map(&source.name, source.optional)? else { return Ok(()) };
    let texts = map.data.iter().flatten().map(|(key, text)| (key.clone(), text.clone().into_bytes()));
    let bytes = map.binary_data.iter().flatten().map(|(key, bytes)| (key.clone(), bytes.0.clone()));
    keys(files, texts.chain(bytes).gather(), source.items.as_deref(), source.optional, mode)
}

fn secret(files: &mut Files, sources: &Sources, source: &SecretVolumeSource, mode: Option<i32>) -> Result<(), String> {
    let name = source.secret_name.as_deref().unwrap_or_default();
    let Some(secret) = sources.secret(name, source.optional)? else { return Ok(()) };
    let bytes = secret.data.iter().flatten().map(|(key, bytes)| (key.clone(), bytes.0.clone()));
    keys(files, bytes.gather(), source.items.as_deref(), source.optional, mode)
}

/// All keys as files, or the selected ones at their paths.
fn keys(
    files: &mut Files,
    data: BTreeMap<String, Vec<u8>>,
    items: Option<&[KeyToPath]>,
    optional: Option<bool>,
    mode: Option<i32>,
) -> Result<(), String> {
    let Some(items) = items.filter(|items| !items.is_empty()) else {
        return data.into_iter().try_for_each(|(key, bytes)| put(files, &key, bytes, mode));
    };
    for item in items {
        match data.get(&item.key) {
            Some(bytes) => put(files, &item.path, bytes.clone(), item.mode.or(mode))?,
            None if optional == Some(true) => {}
            None => return Err("references non-existent config key: ".to_owned() + &item.key),
        }
    }
    Ok(())
}

fn downward_api(
    files: &mut Files,
    pod: &Pod,
    sources: &Sources,
    items: Option<&[DownwardAPIVolumeFile]>,
    mode: Option<i32>,
) -> Result<(), String> {
    for item in items.unwrap_or_default() {
        let text = if let Some(field) = &item.field_ref {
            downward::field(pod, &sources.addresses, &field.field_path)?
        } else if let Some(reference) = &item.resource_field_ref {
            let named = reference.container_name.as_deref().unwrap_or_default();
            let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
            let container = containers.into_iter().find(|container| container.name == named);
            let container = container.ok_or_else(|| format!("container {named} not found"))?;
            let divisor = reference.divisor.as_ref().map_or("", |divisor| &divisor.0);
            downward::resource(container, &reference.resource, divisor, &sources.allocatable)?
        } else {
            continue;
        };
        put(files, &item.path, text.into_bytes(), item.mode.or(mode))?;
    }
    Ok(())
}

fn put(files: &mut Files, path: &str, bytes: Vec<u8>, mode: Option<i32>) -> Result<(), String> {
    let path = inside(Path::new(""), path).ok_or_else(|| format!("path {path:?} leads outside the volume"))?;
    files.insert(path, (bytes, mode.unwrap_or(MODE)));
    Ok(())
}

/// Makes a directory contain exactly these files. Does nothing if it already does.
pub(super) fn project(directory: &Path, files: &Files) -> io::Result<()> {
    let data = directory.join(DATA);
    let old = fs::read_link(&data).ok();
    if old.is_some() && shows(&data, files) {
        return Ok(());
    }
    let stamp = format!("..{}", windlass_clock::now().as_nanosecond());
    let fresh = directory.join(&stamp);
    for (path, (bytes, mode)) in files {
        let file = fresh.join(path);
        if let Some(parent) = file.parent() {
            create_directory(parent)?;
        }
        fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&file)?.write_all(bytes)?;
        fs::set_permissions(&file, fs::Permissions::from_mode(*mode as u32 & 0o777))?;
    }
    create_directory(&fresh)?;
    let link = directory.join("..data_tmp");
    let _ = fs::remove_file(&link);
    symlink(&stamp, &link)?;
    fs::rename(&link, &data)?;
    let firsts: std::collections::BTreeSet<_> = files.keys().filter_map(|path| path.components().next()).gather();
    for first in &firsts {
        let visible = directory.join(first);
        if fs::symlink_metadata(&visible).is_err() {
            symlink(Path::new(DATA).join(first), &visible)?;
        }
    }
    for entry in fs::read_dir(directory)?.filter_map(Result::ok) {
        let name = entry.file_name();
        let ours = name.to_string_lossy().starts_with("..");
        if !ours && !firsts.iter().any(|first| first.as_os_str() == name) {
            fs::remove_file(entry.path())?;
        }
    }
    if let Some(old) = old {
        let _ = fs::remove_dir_all(directory.join(old));
    }
    Ok(())
}

/// Returns whether a directory contains exactly these files with their modes.
fn shows(directory: &Path, files: &Files) -> bool {
    fn count(directory: &Path) -> usize {
        let entries = fs::read_dir(directory).into_iter().flatten().filter_map(Result::ok);
        entries.map(|entry| if entry.path().is_dir() { count(&entry.path()) } else { 1 }).sum()
    }
    let is_shown = |(path, (bytes, mode)): (&PathBuf, &(Vec<u8>, i32))| {
        let path = directory.join(path);
        let has_mode = |file: fs::Metadata| file.permissions().mode() & 0o777 == *mode as u32 & 0o777;
        fs::metadata(&path).is_ok_and(has_mode) && fs::read(path).is_ok_and(|have| have == *bytes)
    };
    count(directory) == files.len() && files.iter().all(is_shown)
}

#[cfg(test)]
mod tests;
