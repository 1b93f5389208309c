//! A file that is rotated when it is large: renamed with the time in its name, and replaced by an empty one.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    thread::{self, JoinHandle},
};

use flate2::{Compression, write::GzEncoder};
use jiff::{SignedDuration, Timestamp, fmt::strtime, tz::TimeZone};
use tracing::warn;
use windlass_schema::sorting;

/// The time in the name of a rotated file.
const TIME: &str = "%Y-%m-%dT%H-%M-%S.%3f";
const SECRET: u32 = 0o600;

/// The limits of a rotating file.
#[derive(Debug, Clone)]
pub(super) struct Limits {
    pub(super) path: PathBuf,
    /// 0 for no limit.
    pub(super) max_size: u64,
    /// 0 for no limit.
    pub(super) max_age_days: u32,
    /// 0 for no limit.
    pub(super) max_backups: usize,
    pub(super) compress: bool,
}

/// A file that is rotated.
pub(super) struct RotatingFile {
    limits: Limits,
    file: File,
    size: u64,
    /// The time of the last rotation.
    rotated: Timestamp,
    /// The thread that compresses and removes rotated files.
    cleaning: Option<JoinHandle<()>>,
}

impl RotatingFile {
    /// Opens the file and creates its directory, both only accessible to this user.
    pub(super) fn open(limits: Limits) -> io::Result<Self> {
        if let Some(directory) = limits.path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        }
        let file = open(&limits.path)?;
        let size = file.metadata()?.len();
        Ok(Self { limits, file, size, rotated: Timestamp::MIN, cleaning: None })
    }

    /// Appends complete lines; rotates the file first if it would be too large.
    pub(super) fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        let after = self.size + lines.len() as u64;
        if self.limits.max_size > 0 && self.size > 0 && after > self.limits.max_size {
            self.rotate()?;
        }
        let written = self.file.write_all(lines);
        match &written {
            Ok(()) => self.size += lines.len() as u64,
            // Part of a line may have been written. If it cannot be removed, the next event begins in that line.
            Err(_) => {
                let _ = self.file.set_len(self.size);
            }
        }
        written
    }

    fn rotate(&mut self) -> io::Result<()> {
        let now = windlass_clock::now();
        // Names must be in order, even for rotations in the same millisecond.
        let after_last = self.rotated.checked_add(SignedDuration::from_millis(1)).unwrap_or(now);
        let (backup, time) = backup_path(&self.limits.path, now.max(after_last));
        fs::rename(&self.limits.path, &backup)?;
        self.rotated = time;
        self.file = open(&self.limits.path)?;
        self.size = self.file.metadata()?.len();
        if let Some(cleaning) = self.cleaning.take() {
            // It has reported its errors.
            let _ = cleaning.join();
        }
        let limits = self.limits.clone();
        let clean = move || {
            if let Err(error) = clean(&limits, now) {
                warn!(%error, path = %limits.path.display(), "failed to clean up rotated audit logs");
            }
        };
        // Without a thread, the next rotation cleans up.
        self.cleaning = thread::Builder::new().name("audit-log-cleanup".to_owned()).spawn(clean).ok();
        Ok(())
    }
}

impl Drop for RotatingFile {
    fn drop(&mut self) {
        if let Some(cleaning) = self.cleaning.take() {
            let _ = cleaning.join();
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).mode(SECRET).open(path)
}

/// Returns the parts of the name of rotated files, before and after the time.
fn name_parts(path: &Path) -> (String, String) {
    let text = |part: Option<&std::ffi::OsStr>| part.map(|part| part.to_string_lossy().into_owned());
    let extension = text(path.extension()).map(|extension| format!(".{extension}")).unwrap_or_default();
    (format!("{}-", text(path.file_stem()).unwrap_or_default()), extension)
}

/// Returns a free name for the rotated file, and the time in it.
fn backup_path(path: &Path, now: Timestamp) -> (PathBuf, Timestamp) {
    let (before, after) = name_parts(path);
    let mut now = now;
    loop {
        let time = strtime::format(TIME, &now.to_zoned(TimeZone::UTC)).unwrap_or_default();
        let backup = path.with_file_name(format!("{before}{time}{after}"));
        let compressed = path.with_file_name(format!("{before}{time}{after}.gz"));
        match now.checked_add(SignedDuration::from_millis(1)) {
            Ok(next) if backup.exists() || compressed.exists() => now = next,
            _ => return (backup, now),
        }
    }
}

/// A rotated file.
struct Backup {
    path: PathBuf,
    time: Timestamp,
}

/// Removes rotated files that are too many or too old, and compresses the others.
fn clean(limits: &Limits, now: Timestamp) -> io::Result<()> {
    let mut backups = backups(&limits.path)?;
    sorting::sort_by_key(&mut backups, |backup| std::cmp::Reverse(backup.time));
    let oldest = (limits.max_age_days > 0)
        .then(|| now.checked_sub(SignedDuration::from_hours(24 * i64::from(limits.max_age_days))).ok())
        .flatten();
    let most = if limits.max_backups == 0 { usize::MAX } else { limits.max_backups };
    for (index, Backup { path, time }) in backups.iter().enumerate() {
        if index >= most || oldest.is_some_and(|oldest| *time < oldest) {
            fs::remove_file(path)?;
        } else if limits.compress && path.extension().is_none_or(|extension| extension != "gz") {
            compress(path)?;
        }
    }
    Ok(())
}

fn backups(path: &Path) -> io::Result<Vec<Backup>> {
    let (before, after) = name_parts(path);
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        let plain = name.strip_suffix(".gz").unwrap_or(name);
        let time = plain.strip_prefix(&*before).and_then(|rest| rest.strip_suffix(&*after));
        let time = time.and_then(|time| strtime::parse(TIME, time).ok()?.to_datetime().ok());
        if let Some(time) = time.and_then(|time| time.to_zoned(TimeZone::UTC).ok()) {
            found.push(Backup { path: entry.path(), time: time.timestamp() });
        }
    }
    Ok(found)
}

/// Replaces a file by a compressed one.
fn compress(path: &Path) -> io::Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(".gz");
    let target = PathBuf::from(name);
    let compressed = (|| {
        let out = OpenOptions::new().create(true).truncate(true).write(true).mode(SECRET).open(&target)?;
        let mut encoder = GzEncoder::new(out, Compression::default());
        io::copy(&mut File::open(path)?, &mut encoder)?;
        encoder.finish()?.sync_all()
    })();
    match compressed {
        Ok(()) => fs::remove_file(path),
        Err(error) => {
            let _ = fs::remove_file(&target);
            Err(error)
        }
    }
}
