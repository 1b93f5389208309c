//! Processes left behind by a plane that was killed.
//!
//! Every process group has a record while it runs: a file named after its leader that contains the leader's start time,
//! so that a reused process id is not mistaken for it.

use std::{
    collections::HashMap,
    fs, io,
    path::{Path, PathBuf},
};

use rustix::process::{Pid, Signal};

use super::{create_directory, proc_stat};

/// Writes the record of a group.
pub(super) fn record(directory: &Path, leader: Pid) -> io::Result<PathBuf> {
    create_directory(directory)?;
    let path = directory.join(leader.as_raw_nonzero().to_string());
    let started = proc_stat::of(leader.as_raw_nonzero().get()).map_or(0, |stat| stat.started);
    fs::write(&path, started.to_string())?;
    Ok(path)
}

/// Kills the remaining processes of the recorded groups in a directory, and deletes the records.
pub(super) fn end(directory: &Path) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    let mut groups = HashMap::new();
    for entry in entries.filter_map(Result::ok) {
        let leader = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok());
        let started = fs::read_to_string(entry.path()).ok().and_then(|text| text.trim().parse::<u64>().ok());
        groups.extend(leader.zip(started));
        let _ = fs::remove_file(entry.path());
    }
    if groups.is_empty() {
        return;
    }
    // A group can outlive its leader, so search for its members.
    for (number, stat) in proc_stat::all() {
        if groups.get(&stat.group).is_some_and(|started| stat.started >= *started)
            && let Some(process) = Pid::from_raw(number)
        {
            tracing::info!(number, "killing a process left behind by an earlier plane");
            let _ = rustix::process::kill_process(process, Signal::KILL);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt as _;

    use super::*;

    #[test]
    fn only_leftover_processes_are_killed() {
        let directory = tempfile::tempdir().unwrap();
        let start = || std::process::Command::new("sleep").arg("100").process_group(0).spawn().unwrap();
        let (mut left, mut other) = (start(), start());
        let leader = |child: &std::process::Child| Pid::from_raw(child.id() as i32).unwrap();
        record(directory.path(), leader(&left)).unwrap();
        // A process with a recorded id that started at another time.
        let path = record(directory.path(), leader(&other)).unwrap();
        fs::write(&path, u64::MAX.to_string()).unwrap();
        end(directory.path());
        assert!(!left.wait().unwrap().success());
        assert!(other.try_wait().unwrap().is_none());
        other.kill().unwrap();
        other.wait().unwrap();
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}
