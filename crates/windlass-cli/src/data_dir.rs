//! The data directory, where a plane keeps its objects, certificates and kubeconfig.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use clap::Args;

use crate::failure::ErrorWithHint;

/// Selects the data directory.
#[derive(Clone, Debug, Args)]
pub(crate) struct DataDirArgs {
    /// Directory for objects, certificates and the kubeconfig [default: windlass in the user's data directory]
    #[arg(long, value_name = "DIR", env = VARIABLE)]
    data_dir: Option<PathBuf>,
}

/// The variable that replaces the flag.
const VARIABLE: &str = "WINDLASS_DATA_DIR";

impl DataDirArgs {
    /// The data directory of commands without the flag.
    pub(crate) fn without_flag() -> Self {
        Self { data_dir: env::var_os(VARIABLE).map(PathBuf::from) }
    }

    /// Returns the given or the default data directory as an absolute path: shells in other directories use the printed
    /// commands.
    pub(crate) fn resolve(&self) -> anyhow::Result<PathBuf> {
        let folder = match &self.data_dir {
            Some(folder) => folder.clone(),
            None => usual(&|name| env::var_os(name).map(PathBuf::from)).ok_or_else(|| ErrorWithHint {
                message: "cannot determine the data directory: neither XDG_DATA_HOME nor HOME is set".into(),
                hint: "choose one with --data-dir".into(),
            })?,
        };
        std::path::absolute(&folder).with_context(|| format!("cannot use {}", folder.display()))
    }

    /// The option that other commands need for the same directory; empty for the default.
    pub(crate) fn option(&self) -> String {
        match &self.data_dir {
            Some(folder) => {
                let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.clone());
                format!(" --data-dir {}", crate::shell::word(&folder))
            }
            None => String::new(),
        }
    }
}

/// Returns `$XDG_DATA_HOME/windlass` or its conventional default. Relative paths are ignored, as the specification
/// says.
pub(crate) fn usual(variable: &dyn Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    let absolute = |name| variable(name).filter(|path| path.is_absolute());
    let data = absolute("XDG_DATA_HOME").or_else(|| Some(absolute("HOME")?.join(".local/share")))?;
    Some(data.join("windlass"))
}

/// Returns the total size of all files in a directory tree. Symbolic links are not followed.
pub(crate) fn size(folder: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    let mut pending = vec![folder.to_owned()];
    while let Some(folder) = pending.pop() {
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            match entry.metadata() {
                Ok(metadata) if metadata.is_dir() => pending.push(entry.path()),
                Ok(metadata) => bytes += metadata.len(),
                // A running plane creates and deletes files.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_is_kept_in_the_users_data_directory() {
        let folder = |variables: &[(&str, &str)]| {
            usual(&|name| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| PathBuf::from(value)))
        };
        assert_eq!(folder(&[("XDG_DATA_HOME", "/x"), ("HOME", "/h")]), Some("/x/windlass".into()));
        assert_eq!(folder(&[("XDG_DATA_HOME", "x"), ("HOME", "/h")]), Some("/h/.local/share/windlass".into()));
        assert_eq!(folder(&[("HOME", "/h")]), Some("/h/.local/share/windlass".into()));
        assert_eq!(folder(&[]), None);
    }

    #[test]
    fn the_size_includes_subdirectories() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("a/b")).unwrap();
        fs::write(folder.path().join("one"), "123").unwrap();
        fs::write(folder.path().join("a/b/two"), "4567").unwrap();
        assert_eq!(size(folder.path()).unwrap(), 7);
        assert!(size(&folder.path().join("missing")).is_err());
    }
}
