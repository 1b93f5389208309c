//! Where objects are stored, on the command line.

use std::{
    fmt,
    path::{Path, PathBuf},
    str::FromStr,
};

use anyhow::Context as _;
use windlass_plane::{EtcdOptions, migration::Location};

use crate::{data_dir::DataDirArgs, etcd::EtcdArgs, shell};

/// `embedded`, `embedded:DIR`, `snapshot:FILE` or `etcd`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum LocationArg {
    /// The default data directory, or another one.
    Embedded(Option<PathBuf>),
    Snapshot(PathBuf),
    Etcd,
}

impl FromStr for LocationArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (kind, path) = match text.split_once(':') {
            Some((kind, path)) => (kind, Some(path)),
            None => (text, None),
        };
        match (kind, path.map(PathBuf::from)) {
            (_, Some(path)) if path.as_os_str().is_empty() => Err(format!("{text:?} has no path")),
            ("embedded", path) => Ok(Self::Embedded(path)),
            ("snapshot", Some(path)) => Ok(Self::Snapshot(path)),
            ("etcd", None) => Ok(Self::Etcd),
            _ => Err("write embedded, embedded:DIR, snapshot:FILE or etcd".to_owned()),
        }
    }
}

impl LocationArg {
    /// The location, with an absolute path.
    pub(super) fn resolve(&self, etcd: &EtcdArgs) -> anyhow::Result<Location> {
        Ok(match self {
            Self::Embedded(None) => Location::Embedded(DataDirArgs::without_flag().resolve()?),
            Self::Embedded(Some(path)) => Location::Embedded(absolute(path)?),
            Self::Snapshot(path) => Location::Snapshot(absolute(path)?),
            Self::Etcd => Location::Etcd(etcd.options()?),
        })
    }
}

fn absolute(path: &Path) -> anyhow::Result<PathBuf> {
    std::path::absolute(path).with_context(|| format!("cannot use {}", path.display()))
}

/// A location in messages.
pub(super) struct Named<'a>(pub(super) &'a Location);

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Location::Embedded(path) | Location::Snapshot(path) => path.display().fmt(f),
            Location::Etcd(EtcdOptions { prefix, .. }) => write!(f, "etcd under {prefix}"),
        }
    }
}

/// Returns what to do after a migration. `keys` is whether the keys of the source were copied.
pub(super) fn next_step(from: &Location, to: &Location, keys: bool) -> String {
    let up = |directory: &Path| format!("windlass up --data-dir {}", shell::word(directory));
    match (from, to) {
        (_, Location::Snapshot(_)) => {
            "the snapshot has no certificates and keys: keep the directory pki of the data directory, too".to_owned()
        }
        (Location::Embedded(directory), Location::Etcd(_)) => format!(
            "start it with `{} --store etcd`, with the same --etcd flags: that directory still has the certificates and keys, \
             so tokens and kubeconfigs stay valid",
            up(directory)
        ),
        (_, Location::Etcd(_)) => {
            "start it with `windlass up --store etcd`, with the same --etcd flags. So that tokens and kubeconfigs stay valid, copy \
             the directory pki of the old data directory to the new one first"
                .to_owned()
        }
        (_, Location::Embedded(directory)) if keys || directory.join("pki/sa.key").exists() => {
            format!("start it with `{}`: the directory has the certificate authorities and keys already", up(directory))
        }
        (_, Location::Embedded(directory)) => format!(
            "start it with `{}`. So that tokens and kubeconfigs stay valid, copy the directory pki of the old data directory to \
             {} first",
            up(directory),
            directory.display()
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations_are_a_kind_and_a_path() {
        for (text, expected) in [
            ("embedded", Some(LocationArg::Embedded(None))),
            ("embedded:/data", Some(LocationArg::Embedded(Some("/data".into())))),
            ("snapshot:a:b", Some(LocationArg::Snapshot("a:b".into()))),
            ("etcd", Some(LocationArg::Etcd)),
            ("embedded:", None),
            ("snapshot", None),
            ("etcd:http://localhost:2379", None),
            ("/data", None),
            ("", None),
        ] {
            assert_eq!(text.parse::<LocationArg>().ok(), expected, "{text}");
        }
    }

    #[test]
    fn the_next_step_says_where_the_keys_are() {
        let folder = tempfile::tempdir().unwrap();
        let (embedded, etcd) =
            (Location::Embedded(folder.path().into()), Location::Etcd(EtcdOptions::new(["http://a"])));
        let other = Location::Embedded("/other".into());
        let says = |from, to, keys, expected: &str| {
            let step = next_step(from, to, keys);
            assert!(step.contains(expected), "{step}");
        };
        says(&other, &etcd, false, "windlass up --data-dir /other --store etcd");
        says(&etcd, &embedded, false, "copy the directory pki");
        says(&other, &embedded, true, "has the certificate authorities and keys already");
        std::fs::create_dir(folder.path().join("pki")).unwrap();
        std::fs::write(folder.path().join("pki/sa.key"), "key").unwrap();
        says(&etcd, &embedded, false, "has the certificate authorities and keys already");
        says(&embedded, &Location::Snapshot("/backup".into()), false, "no certificates and keys");
    }
}
