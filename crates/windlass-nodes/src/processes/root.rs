//! Processes in the root folder of an unpacked image.
//!
//! Where the system lets users have namespaces, the process sees the image's files as its root, with the volumes mounted
//! where the container says and the machine's `/proc`, `/dev` and `/sys`. Where it does not, the image's programs are
//! used with the machine's files, and mount paths are rewritten as for all others.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::OnceLock,
};

/// Mounts what it is told and goes there: `ROOT FOLDER FROM TO FROM TO ... -- WORDS`.
const SCRIPT: &str = r#"set -e
root=$1; folder=$2; shift 2
while [ "$1" != -- ]; do
  if [ -d "$1" ]; then mkdir -p "$root$2"; else mkdir -p "$(dirname "$root$2")"; [ -e "$root$2" ] || : > "$root$2"; fi
  mount --rbind "$1" "$root$2"
  shift 2
done
shift
exec chroot "$root" /bin/sh -c 'cd "$1" 2>/dev/null || cd /; shift; exec "$@"' sh "$folder" "$@""#;

/// What a root is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Root {
    pub(super) folder: PathBuf,
    /// What is mounted where.
    pub(super) mounts: Vec<(PathBuf, String)>,
    /// Where to start.
    pub(super) start: String,
}

/// Whether this machine lets its users have roots of their own.
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

/// The words that run others in a root.
pub(super) fn enter(root: &Root, words: &[String]) -> Vec<String> {
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let mut all: Vec<String> =
        ["unshare", "--map-root-user", "--mount", "sh", "-c", SCRIPT, "sh"].map(str::to_owned).into();
    all.extend([text(&root.folder), root.start.clone()]);
    for system in ["/proc", "/dev", "/sys"] {
        all.extend([system.to_owned(), system.to_owned()]);
    }
    for (from, to) in &root.mounts {
        all.extend([text(from), to.clone()]);
    }
    all.push("--".to_owned());
    all.extend_from_slice(words);
    all
}
