//! The file by which further API servers get the keys of a control plane.
//!
//! API servers over one store must have the same certificate authorities and the same key for service account tokens: a
//! client that trusts one of them, or has a credential from it, can then use any. Serving and client certificates are not
//! part of it, because each server issues its own.

use std::{
    collections::BTreeMap,
    fs, io,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::files::{self, Contents};

/// The shared files of the directory `pki`, keys before their certificates, with their modes.
const SHARED: [(&str, u32); 5] = [
    ("ca.key", files::SECRET),
    ("ca.crt", files::PUBLIC),
    ("front-proxy-ca.key", files::SECRET),
    ("front-proxy-ca.crt", files::PUBLIC),
    ("sa.key", files::SECRET),
];
/// The format of the file.
const FORMAT: &str = "windlass-join-1";

/// Contents of the file.
#[derive(Serialize, Deserialize)]
struct JoinFile {
    format: String,
    files: BTreeMap<String, String>,
}

/// An error while keys are shared.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// The file could not be read.
    #[error("failed to read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A key or certificate could not be written.
    #[error("failed to write {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The data directory has no key or certificate to share.
    #[error("{} does not exist or is empty", path.display())]
    Missing {
        /// The file.
        path: PathBuf,
    },
    /// Users other than the owner can read the file.
    #[error("{} is accessible to other users", path.display())]
    Accessible {
        /// The file.
        path: PathBuf,
    },
    /// The file is not one that `windlass join-file` has written, or not complete.
    #[error("{} is not a join file of this version", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
    },
    /// The data directory belongs to another control plane.
    #[error("{} differs from the one in {}", path.display(), join.display())]
    Differs {
        /// The file in the data directory.
        path: PathBuf,
        /// The file with the shared keys.
        join: PathBuf,
    },
}

impl JoinError {
    /// Returns advice on how to resolve the error.
    pub fn hint(&self) -> String {
        match self {
            Self::Read { .. } => "write the file with `windlass join-file` where the control plane runs".to_owned(),
            Self::Write { .. } => "choose a data directory that you can write to".to_owned(),
            Self::Missing { .. } => {
                "start the control plane once with this data directory: it creates its keys".to_owned()
            }
            Self::Accessible { path } => {
                format!("the file contains private keys: run chmod 600 {}", path.display())
            }
            Self::Invalid { .. } => "write the file again with `windlass join-file`".to_owned(),
            Self::Differs { path, .. } => format!(
                "the data directory belongs to another control plane: choose an empty one, or remove {} if nothing uses it",
                path.parent().unwrap_or(path).display()
            ),
        }
    }
}

/// Returns the contents of a join file with the keys of a data directory.
pub fn join_file(data_dir: &Path) -> Result<String, JoinError> {
    let directory = data_dir.join("pki");
    let mut shared = BTreeMap::new();
    for (name, _) in SHARED {
        let path = directory.join(name);
        match files::read(&path) {
            Ok(Contents::Text(text)) => drop(shared.insert(name.to_owned(), text)),
            Ok(Contents::Missing | Contents::Empty) => return Err(JoinError::Missing { path }),
            Err(source) => return Err(JoinError::Read { path, source }),
        }
    }
    let file = JoinFile { format: FORMAT.to_owned(), files: shared };
    let mut text = serde_json::to_string_pretty(&file).expect("strings must be serializable");
    text.push('\n');
    Ok(text)
}

/// Stores the keys of a join file in the directory `pki`. Keys that are there already must be the same.
pub(crate) fn import(directory: &Path, join: &Path) -> Result<(), JoinError> {
    let unreadable = |source| JoinError::Read { path: join.to_owned(), source };
    if fs::metadata(join).map_err(unreadable)?.permissions().mode() & 0o077 != 0 {
        return Err(JoinError::Accessible { path: join.to_owned() });
    }
    store(directory, join, &fs::read_to_string(join).map_err(unreadable)?)
}

/// Copies the shared keys from one data directory to another, if there are any. Keys that are there already must be the
/// same.
pub(crate) fn copy(from: &Path, to: &Path) -> Result<bool, JoinError> {
    match join_file(from) {
        Ok(text) => store(&to.join("pki"), &from.join("pki"), &text).map(|()| true),
        Err(JoinError::Missing { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Stores the keys in a text, which comes from `join`.
fn store(directory: &Path, join: &Path, text: &str) -> Result<(), JoinError> {
    let invalid = || JoinError::Invalid { path: join.to_owned() };
    let file: JoinFile = serde_json::from_str(text).map_err(|_| invalid())?;
    let is_complete = SHARED.iter().all(|(name, _)| file.files.get(*name).is_some_and(|text| !text.is_empty()));
    if file.format != FORMAT || !is_complete || file.files.len() != SHARED.len() {
        return Err(invalid());
    }
    files::create_directory(directory).map_err(|source| JoinError::Write { path: directory.to_owned(), source })?;
    // Before anything is written: a mixture of two control planes would be of no use.
    let mut missing = Vec::new();
    for (name, mode) in SHARED {
        let path = directory.join(name);
        match files::read(&path) {
            Ok(Contents::Text(text)) if text == file.files[name] => {}
            Ok(Contents::Missing | Contents::Empty) => missing.push((name, path, mode)),
            Ok(Contents::Text(_)) => return Err(JoinError::Differs { path, join: join.to_owned() }),
            Err(source) => return Err(JoinError::Read { path, source }),
        }
    }
    for (name, path, mode) in missing {
        files::replace(&path, &file.files[name], mode).map_err(|source| JoinError::Write { path, source })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Pki, token_key};

    fn plane() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let pki = folder.path().join("pki");
        Pki::load_or_create(&pki, &[]).unwrap();
        token_key::load_or_create(&pki.join("sa.key"), true).unwrap();
        folder
    }

    fn stored(folder: &Path, text: &str, mode: u32) -> PathBuf {
        let path = folder.join("join");
        files::replace(&path, text, mode).unwrap();
        path
    }

    #[test]
    fn a_server_that_joins_has_the_same_authorities_and_its_own_certificates() {
        let (first, second) = (plane(), tempfile::tempdir().unwrap());
        let join = stored(second.path(), &join_file(first.path()).unwrap(), 0o600);
        let pki = second.path().join("pki");
        import(&pki, &join).unwrap();
        import(&pki, &join).unwrap();
        let (a, b) =
            (Pki::load_or_create(&first.path().join("pki"), &[]).unwrap(), Pki::load_or_create(&pki, &[]).unwrap());
        assert_eq!(a.ca().certificate, b.ca().certificate);
        assert_eq!(a.front_proxy().ca.certificate, b.front_proxy().ca.certificate);
        assert_ne!(a.server().certificate, b.server().certificate);
        for (name, mode) in SHARED {
            assert_eq!(fs::metadata(pki.join(name)).unwrap().permissions().mode() & 0o777, mode, "{name}");
        }
        let keys = [first.path(), second.path()].map(|folder| fs::read_to_string(folder.join("pki/sa.key")).unwrap());
        assert_eq!(keys[0], keys[1]);
    }

    #[test]
    fn keys_of_another_control_plane_are_never_replaced() {
        let (first, other) = (plane(), plane());
        let join = stored(first.path(), &join_file(first.path()).unwrap(), 0o600);
        let pki = other.path().join("pki");
        let before = fs::read_to_string(pki.join("ca.key")).unwrap();
        fs::remove_file(pki.join("sa.key")).unwrap();
        let error = import(&pki, &join).unwrap_err();
        assert!(matches!(&error, JoinError::Differs { path, .. } if path.ends_with("ca.key")), "{error}");
        assert_eq!(fs::read_to_string(pki.join("ca.key")).unwrap(), before);
        assert!(!pki.join("sa.key").exists());
    }

    #[test]
    fn files_that_cannot_be_used_are_errors_with_hints_and_without_keys() {
        let (first, second) = (plane(), tempfile::tempdir().unwrap());
        let (text, pki) = (join_file(first.path()).unwrap(), second.path().join("pki"));
        let half = &text[..text.len() / 2];
        let incomplete = text.replace("sa.key", "other.key");
        for (text, mode, expected) in [
            (&*text, 0o640, "is accessible to other users"),
            (half, 0o600, "is not a join file of this version"),
            ("{}", 0o600, "is not a join file of this version"),
            (&*incomplete, 0o600, "is not a join file of this version"),
        ] {
            let error = import(&pki, &stored(second.path(), text, mode)).unwrap_err();
            assert!(error.to_string().ends_with(expected), "{error}");
            assert!(!format!("{error:?} {}", error.hint()).contains("PRIVATE"), "{error:?}");
            assert!(!pki.exists());
        }
        assert!(matches!(import(&pki, Path::new("/nowhere")).unwrap_err(), JoinError::Read { .. }));
        assert!(matches!(join_file(second.path()).unwrap_err(), JoinError::Missing { .. }));
    }
}
