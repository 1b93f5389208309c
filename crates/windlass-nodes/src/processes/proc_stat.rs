//! The processes of this machine, from `/proc`.

use std::fs;

/// Clock ticks per second in `/proc`, on every architecture that Linux supports.
const TICKS: u64 = 100;

/// Fields of `/proc/PID/stat`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stat {
    /// The process group.
    pub(super) group: i32,
    /// The session.
    pub(super) session: i32,
    /// Start time in clock ticks since boot.
    pub(super) started: u64,
    /// CPU time of the process, and of its children that have ended, in clock ticks.
    ticks: u64,
}

impl Stat {
    /// Returns the CPU time in nanoseconds.
    pub(super) fn cpu(&self) -> u64 {
        self.ticks.saturating_mul(1_000_000_000 / TICKS)
    }
}

/// Reads the fields of a process.
pub(super) fn of(process: i32) -> Option<Stat> {
    parse(&fs::read_to_string(format!("/proc/{process}/stat")).ok()?)
}

/// Reads the resident memory of a process, in bytes.
pub(super) fn resident(process: i32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    resident_in(&text).unwrap_or_default()
}

fn resident_in(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kibibytes.saturating_mul(1024))
}

/// Reads the fields of all processes, by process id.
pub(super) fn all() -> impl Iterator<Item = (i32, Stat)> {
    let processes = fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok);
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    numbers.filter_map(|number| Some((number, of(number)?)))
}

/// Parses the fields after the process name, which may contain any character.
fn parse(text: &str) -> Option<Stat> {
    let (_, after) = text.rsplit_once(')')?;
    let fields: Vec<&str> = after.split_ascii_whitespace().collect();
    let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
    let ticks = (11..15).map(number).try_fold(0_u64, |sum, field| Some(sum.saturating_add(field?)))?;
    Some(Stat {
        group: fields.get(2)?.parse().ok()?,
        session: fields.get(3)?.parse().ok()?,
        started: number(19)?,
        ticks,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_name_of_a_process_may_contain_anything() {
        let text =
            "42 (a) b) (c) S 1 40 39 0 -1 4194560 10 20 0 0 7 5 2 1 20 0 3 0 900 1000000 25 18446744073709551615";
        let stat = parse(text).unwrap();
        assert_eq!((stat.group, stat.session, stat.started), (40, 39, 900));
        assert_eq!(stat.cpu(), 150_000_000);
        assert_eq!(resident_in("Name:\tx\nVmRSS:\t    1234 kB\nThreads:\t1\n"), Some(1234 * 1024));
        assert_eq!(resident_in("Name:\tkernel thread\n"), None);
    }

    #[test]
    fn the_own_process_is_among_all() {
        let own = i32::try_from(std::process::id()).unwrap();
        assert!(all().any(|(number, _)| number == own));
        assert!(resident(own) > 0);
    }

    proptest! {
        #[test]
        fn no_stat_panics(text in ".{0,80}") {
            parse(&text);
        }
    }
}
