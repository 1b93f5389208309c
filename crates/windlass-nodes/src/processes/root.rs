//! Processes in the root file system of an unpacked image.
//!
//! If the plane is root or the system allows unprivileged user namespaces, the process sees the image as its root, with volumes mounted at
//! the container's paths, the machine's `/proc` and `/sys`, and the usual devices, and its pod's host name. What a container changes in its root is
//! its own, in memory, and lost when it ends: the image is the lower layer of an overlay. Commands that run alongside a
//! container join its namespaces. Where overlays cannot be mounted, containers share the directory of the image and see
//! each other's changes. Without namespaces, the image's programs run on the machine's file system, and mount paths are
//! rewritten as for all other containers.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::OnceLock,
};

use super::{create_directory, environment::Environment};

/// Mounts the given paths and changes into the root: `ROOT VIEW READ_ONLY HOSTNAME DIRECTORY FROM TO FROM TO ... -- WORDS`.
const SCRIPT: &str = r#"set -e
root=$1; view=$2; read_only=$3; name=$4; directory=$5; shift 5
if [ -n "$name" ]; then hostname "$name" 2>/dev/null || echo "$name" 2>/dev/null > /proc/sys/kernel/hostname || :; fi
mount -t tmpfs -o mode=0755 tmpfs "$view"
mkdir "$view/upper" "$view/work" "$view/root"
top=$view/root
mount -t overlay -o "lowerdir=$root,upperdir=$view/upper,workdir=$view/work" overlay "$top" 2>/dev/null ||
  mount --rbind "$root" "$top"
mkdir -p "$top/dev"
mount -t tmpfs -o mode=0755 tmpfs "$top/dev"
for device in null zero full random urandom tty ptmx; do
  if [ -e "/dev/$device" ]; then : > "$top/dev/$device"; mount --bind "/dev/$device" "$top/dev/$device"; fi
done
mkdir -m 1777 "$top/dev/shm"
if [ -d /dev/pts ]; then mkdir "$top/dev/pts"; mount --rbind /dev/pts "$top/dev/pts"; fi
ln -s /proc/self/fd "$top/dev/fd"
ln -s /proc/self/fd/0 "$top/dev/stdin"
ln -s /proc/self/fd/1 "$top/dev/stdout"
ln -s /proc/self/fd/2 "$top/dev/stderr"
while [ "$1" != -- ]; do
  [ -e "$1" ] || mkdir -p "$1"
  if [ -d "$1" ]; then mkdir -p "$top$2"; else mkdir -p "$(dirname "$top$2")"; [ -e "$top$2" ] || : > "$top$2"; fi
  mount --rbind "$1" "$top$2"
  shift 2
done
shift
if [ "$read_only" = true ]; then mount -o remount,ro,bind "$top"; fi
: > "$view.ready"
exec chroot "$top" /bin/sh -c 'cd "$1" 2>/dev/null || cd /; shift; exec "$@"' sh "$directory" "$@""#;

/// Joins the namespaces of a process when its root is complete: `VIEW PROCESS KINDS DIRECTORY WORDS`.
const JOIN: &str = r#"view=$1; process=$2; kinds=$3; directory=$4; shift 4
until [ -e "$view.ready" ]; do
  kill -0 "$process" 2>/dev/null || { echo "the container has ended" >&2; exit 126; }
  sleep 0.02
done
exec nsenter --target "$process" $kinds chroot "$view/root" /bin/sh -c \
  'cd "$1" 2>/dev/null || cd /; shift; exec "$@"' sh "$directory" "$@""#;

/// A root file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Root {
    /// The unpacked image.
    pub(super) directory: PathBuf,
    /// Mount point of the container's view of the image.
    pub(super) view: PathBuf,
    /// Mounts: source, target.
    pub(super) mounts: Vec<(PathBuf, String)>,
    /// The working directory.
    pub(super) start: String,
    /// Whether only mounts can be written to.
    pub(super) is_read_only: bool,
    /// The host name; empty for that of the machine.
    pub(super) hostname: String,
    /// The process whose root this is; `None` to create it.
    pub(super) of: Option<i32>,
}

/// The namespaces that a container gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Namespaces {
    /// Of mounts and the host name. In a user namespace, root could not listen on the first 1024 ports of the machine.
    Mount,
    /// Likewise, and of users for the rights to mount and to set the name.
    User,
}

impl Namespaces {
    /// Returns those that this machine allows.
    fn allowed() -> Option<Self> {
        static ALLOWED: OnceLock<Option<Namespaces>> = OnceLock::new();
        *ALLOWED.get_or_init(|| {
            let succeeds = |program: &str, args: &[&str]| {
                let mut command = Command::new(program);
                command.args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
                command.status().is_ok_and(|status| status.success())
            };
            let allows = |kind: &Self| succeeds("unshare", &[kind.unshare(), &["true"]].concat());
            let kind = [Self::Mount, Self::User].into_iter().find(allows);
            kind.filter(|_| succeeds("nsenter", &["--version"]))
        })
    }

    fn unshare(self) -> &'static [&'static str] {
        match self {
            Self::Mount => &["--mount", "--uts"],
            Self::User => &["--map-root-user", "--mount", "--uts"],
        }
    }

    fn join(self) -> &'static str {
        match self {
            Self::Mount => "--mount --uts",
            Self::User => "--user --preserve-credentials --mount --uts",
        }
    }
}

/// Returns whether a container can have its own root.
pub(super) fn is_possible() -> bool {
    Namespaces::allowed().is_some()
}

/// Returns the place for the view of a container that is about to start.
pub(super) fn new_view(view: &Path) -> io::Result<PathBuf> {
    create_directory(view)?;
    match fs::remove_file(view.with_extension("ready")) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(view.to_owned()),
    }
}

/// Returns the command line that runs another one in a root.
pub(super) fn enter(root: &Root, words: &[String], environment: &Environment) -> Vec<String> {
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let view = text(&root.view);
    let namespaces = Namespaces::allowed().unwrap_or(Namespaces::User);
    let mut all: Vec<String> = match root.of {
        Some(process) => {
            let join = ["sh", "-c", JOIN, "sh"].map(str::to_owned);
            join.into_iter()
                .chain([view, process.to_string(), namespaces.join().to_owned(), root.start.clone()])
                .collect()
        }
        None => {
            let create = [&["unshare"], namespaces.unshare(), &["sh", "-c", SCRIPT, "sh"]].concat();
            let create: Vec<String> = create.into_iter().map(str::to_owned).collect();
            let mounts = root.mounts.iter().flat_map(|(from, to)| [text(from), to.clone()]);
            let system = ["/proc", "/proc", "/sys", "/sys"].map(str::to_owned);
            let read_only = root.is_read_only.to_string();
            let view = [text(&root.directory), view, read_only, root.hostname.clone(), root.start.clone()];
            create.into_iter().chain(view).chain(system).chain(mounts).chain(["--".to_owned()]).collect()
        }
    };
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
        let root = Root {
            directory: "/r".into(),
            view: "/v".into(),
            mounts: Vec::new(),
            start: "/".to_owned(),
            is_read_only: false,
            hostname: String::new(),
            of: None,
        };
        let words = ["run".to_owned()];
        let variables = |names: &[&str]| names.iter().map(|name| ((*name).to_owned(), "v".to_owned())).collect();
        let plain = enter(&root, &words, &variables(&["A_1", "b"]));
        assert_eq!(plain[plain.len() - 2..], ["--", "run"]);
        let dropped = enter(&root, &words, &variables(&["A", "1a", "data.key", "data-1"]));
        assert_eq!(dropped[dropped.len() - 6..], ["--", "env", "1a=v", "data-1=v", "data.key=v", "run"]);
    }
}
