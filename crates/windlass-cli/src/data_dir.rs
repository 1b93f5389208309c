//! The folder that a plane keeps its objects, certificates and kubeconfig in.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use clap::Args;

use crate::failure::Advised;

/// Which folder.
#[derive(Clone, Debug, Args)]
pub(crate) struct DataDirArgs {
    /// Folder of the objects, certificates and kubeconfig [default: windlass in the user's data folder]
    #[arg(long, value_name = "DIR", env = "WINDLASS_DATA_DIR")]
    data_dir: Option<PathBuf>,
}

impl DataDirArgs {
    /// The folder that was given, or the usual one; as a path that means the same everywhere, since shells in other
    /// folders use what is printed.
    pub(crate) fn resolve(&self) -> anyhow::Result<PathBuf> {
        let folder = match &self.data_dir {
            Some(folder) => folder.clone(),
            None => usual(&|name| env::var_os(name).map(PathBuf::from)).ok_or_else(|| Advised {
                message: "there is no folder to keep data in: neither XDG_DATA_HOME nor HOME is set".into(),
                hint: "give one with --data-dir".into(),
            })?,
        };
        std::path::absolute(&folder).with_context(|| format!("cannot use {}", folder.display()))
    }

    /// The option that has to be given to other commands about the same folder: nothing for the usual one.
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

/// `$XDG_DATA_HOME/windlass`, or where that is by convention. Relative folders do not count, as the convention says.
pub(crate) fn usual(variable: &dyn Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    let absolute = |name| variable(name).filter(|path| path.is_absolute());
    let data = absolute("XDG_DATA_HOME").or_else(|| Some(absolute("HOME")?.join(".local/share")))?;
    Some(data.join("windlass"))
}

/// How many bytes the files of a folder have, with those of the folders in it. Links are not followed.
pub(crate) fn size(folder: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    let mut pending = vec![folder.to_owned()];
    while let Some(folder) = pending.pop() {
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            match entry.metadata() {
                Ok(metadata) if metadata.is_dir() => pending.push(entry.path()),
                Ok(metadata) => bytes += metadata.len(),
                // Files come and go while a plane runs.
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
    fn data_goes_to_the_users_data_folder() {
        let folder = |variables: &[(&str, &str)]| {
            usual(&|name| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| PathBuf::from(value)))
        };
        assert_eq!(folder(&[("XDG_DATA_HOME", "/x"), ("HOME", "/h")]), Some("/x/windlass".into()));
        assert_eq!(folder(&[("XDG_DATA_HOME", "x"), ("HOME", "/h")]), Some("/h/.local/share/windlass".into()));
        assert_eq!(folder(&[("HOME", "/h")]), Some("/h/.local/share/windlass".into()));
        assert_eq!(folder(&[]), None);
    }

    #[test]
    fn the_size_counts_files_of_folders_within() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("a/b")).unwrap();
        fs::write(folder.path().join("one"), "123").unwrap();
        fs::write(folder.path().join("a/b/two"), "4567").unwrap();
        assert_eq!(size(folder.path()).unwrap(), 7);
        assert!(size(&folder.path().join("missing")).is_err());
    }
}
