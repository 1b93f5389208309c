//! Processes in the root file system of an unpacked image.
//!
//! If the system allows unprivileged user namespaces, the process sees the image as its root, with volumes mounted at
//! the container's paths and the machine's `/proc`, `/dev` and `/sys`. Otherwise the image's programs run on the
//! machine's file system, and mount paths are rewritten as for all other containers.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::OnceLock,
};

use super::environment::Environment;

/// Mounts the given paths and changes into the root: `ROOT DIRECTORY FROM TO FROM TO ... -- WORDS`.
const SCRIPT: &str = r#"set -e
root=$1; directory=$2; shift 2
while [ "$1" != -- ]; do
  [ -e "$1" ] || mkdir -p "$1"
  if [ -d "$1" ]; then mkdir -p "$root$2"; else mkdir -p "$(dirname "$root$2")"; [ -e "$root$2" ] || : > "$root$2"; fi
  mount --rbind "$1" "$root$2"
  shift 2
done
shift
exec chroot "$root" /bin/sh -c 'cd "$1" 2>/dev/null || cd /; shift; exec "$@"' sh "$directory" "$@""#;

/// A root file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Root {
    pub(super) directory: PathBuf,
    /// Mounts: source, target.
    pub(super) mounts: Vec<(PathBuf, String)>,
    /// The working directory.
    pub(super) start: String,
}

/// Returns whether this machine allows unprivileged user namespaces.
pub(super) fn is_possible() -> bool {
    static POSSIBLE: OnceLock<bool> = OnceLock::new();
    *POSSIBLE.get_or_init(|| {
        let mut command = Command::new("unshare");
        command
            .args(["--map-root-user", "--mount", "true"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    })
}

/// Returns the command line that runs another one in a root.
pub(super) fn enter(root: &Root, words: &[String], environment: &Environment) -> Vec<String> {
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let mut all: Vec<String> =
        ["unshare", "--map-root-user", "--mount", "sh", "-c", SCRIPT, "sh"].map(str::to_owned).into();
    all.extend([text(&root.directory), root.start.clone()]);
    for system in ["/proc", "/dev", "/sys"] {
        all.extend([system.to_owned(), system.to_owned()]);
    }
    for (from, to) in &root.mounts {
        all.extend([text(from), to.clone()]);
    }
    all.push("--".to_owned());
    // Shells drop variables whose names are not identifiers, such as `data.key`.
    let dropped: Vec<_> = environment.iter().filter(|(name, _)| !is_identifier(name)).collect();
    if !dropped.is_empty() {
        all.push("env".to_owned());
        all.extend(dropped.into_iter().map(|(name, value)| format!("{name}={value}")));
    }
    all.extend_from_slice(words);
    all
}

fn is_identifier(name: &str) -> bool {
    !name.starts_with(|first: char| first.is_ascii_digit())
        && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_that_shells_drop_are_set_behind_them() {
        let root = Root { directory: "/r".into(), mounts: Vec::new(), start: "/".to_owned() };
        let words = ["run".to_owned()];
        let variables = |names: &[&str]| names.iter().map(|name| ((*name).to_owned(), "v".to_owned())).collect();
        let plain = enter(&root, &words, &variables(&["A_1", "b"]));
        assert_eq!(plain[plain.len() - 2..], ["--", "run"]);
        let dropped = enter(&root, &words, &variables(&["A", "1a", "data.key", "data-1"]));
        assert_eq!(dropped[dropped.len() - 6..], ["--", "env", "1a=v", "data-1=v", "data.key=v", "run"]);
    }
}
