//! Clusters of a directory.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use futures_util::future::BoxFuture;

use super::{ClusterAccess, ClusterProvider, KUBECONFIG, ProvidedClusters};

/// Interval at which a directory is read.
const POLL: Duration = Duration::from_secs(10);
/// Longest kubeconfig, in bytes.
const LONGEST: u64 = 1 << 20;

/// A cluster for each kubeconfig in a directory.
pub(super) struct Directory {
    path: PathBuf,
    known: BTreeMap<String, Known>,
}

/// A file of the directory.
#[derive(Default)]
struct Known {
    /// The text, when it could be read last.
    text: Option<String>,
    /// Reason why it cannot be read now.
    problem: Option<String>,
}

impl Directory {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, known: BTreeMap::new() }
    }

    /// Reads the directory. Reports files that cannot be read, once, and keeps what they contained before.
    fn read(&mut self) -> io::Result<BTreeMap<String, ClusterAccess>> {
        let mut known = BTreeMap::new();
        for (name, path) in files(&self.path)? {
            let mut file = self.known.remove(&name).unwrap_or_default();
            match text_of(&path) {
                Ok(text) => file = Known { text: Some(text), problem: None },
                Err(error) => {
                    let problem = Some(error.to_string());
                    if file.problem != problem {
                        tracing::warn!(%error, path = %path.display(), "failed to read a kubeconfig");
                        file.problem = problem;
                    }
                }
            }
            known.insert(name, file);
        }
        self.known = known;
        let texts = self.known.iter().filter_map(|(name, file)| Some((name.clone(), file.text.as_ref()?)));
        Ok(texts.map(|(name, text)| (name, ClusterAccess::kubeconfig(text))).collect())
    }
}

impl ClusterProvider for Directory {
    fn run(self: Box<Self>, clusters: ProvidedClusters) -> BoxFuture<'static, ()> {
        let mut directory = *self;
        Box::pin(async move {
            loop {
                // Files may be on a slow disk.
                let reading = tokio::task::spawn_blocking(move || {
                    let members = directory.read();
                    (directory, members)
                });
                // It does not panic.
                let Ok((same, members)) = reading.await else { return };
                directory = same;
                match members {
                    Ok(members) => clusters.replace(members),
                    // A directory that is being replaced must not stop all clusters.
                    Err(error) => {
                        let path = directory.path.display();
                        tracing::warn!(%error, %path, "failed to read the directory of kubeconfigs");
                    }
                }
                tokio::time::sleep(POLL).await;
            }
        })
    }
}

/// Returns the kubeconfigs in a directory, by name.
fn files(directory: &Path) -> io::Result<Vec<(String, PathBuf)>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        let is_kubeconfig = path.extension().is_some_and(|extension| extension == KUBECONFIG);
        let name = path.file_stem().and_then(|name| name.to_str()).filter(|_| is_kubeconfig);
        if let Some(name) = name {
            files.push((name.to_owned(), path));
        }
    }
    Ok(files)
}

fn text_of(path: &Path) -> io::Result<String> {
    let metadata = std::fs::metadata(path)?;
    // A pipe would never end.
    if !metadata.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a file"));
    }
    if metadata.len() > LONGEST {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("it is longer than {LONGEST} bytes")));
    }
    std::fs::read_to_string(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clusters::provider::Access;

    fn members(directory: &mut Directory) -> Vec<String> {
        let text = |access: ClusterAccess| match access.0 {
            Access::Kubeconfig { text, is_local: true } => text.to_string(),
            _ => panic!("not a kubeconfig of this machine"),
        };
        directory.read().unwrap().into_iter().map(|(name, access)| format!("{name}={}", text(access))).collect()
    }

    #[test]
    fn a_directory_has_a_cluster_per_kubeconfig() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a.kubeconfig", "b.kubeconfig", "notes.txt"] {
            std::fs::write(folder.path().join(name), name).unwrap();
        }
        assert_eq!(members(&mut Directory::new(folder.path().into())), ["a=a.kubeconfig", "b=b.kubeconfig"]);
        assert!(Directory::new(folder.path().join("none")).read().is_err());
    }

    #[test]
    fn a_file_that_cannot_be_read_keeps_what_it_contained() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, content: &[u8]| std::fs::write(folder.path().join(name), content).unwrap();
        let mut directory = Directory::new(folder.path().into());
        write("a.kubeconfig", b"1");
        write("b.kubeconfig", b"2");
        write("c.kubeconfig", &[0xff]);
        std::fs::create_dir(folder.path().join("d.kubeconfig")).unwrap();
        assert_eq!(members(&mut directory), ["a=1", "b=2"]);
        write("a.kubeconfig", &[0xff]);
        write("c.kubeconfig", b"3");
        for _ in 0..2 {
            assert_eq!(members(&mut directory), ["a=1", "b=2", "c=3"]);
        }
        let long = vec![b'x'; usize::try_from(LONGEST).unwrap() + 1];
        write("a.kubeconfig", &long[1..]);
        write("b.kubeconfig", &long);
        let lengths: Vec<usize> = members(&mut directory).iter().map(String::len).collect();
        assert_eq!(lengths, [2 + long.len() - 1, 3, 3]);
        std::fs::remove_file(folder.path().join("b.kubeconfig")).unwrap();
        assert_eq!(members(&mut directory).len(), 2);
    }
}
