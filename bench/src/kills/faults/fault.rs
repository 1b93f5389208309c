//! The faults.

use clap::ValueEnum;

/// A fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(super) enum Fault {
    /// A member of etcd that does not lead is killed, and started again later
    MemberKilled,
    /// The leader of etcd is killed, and started again later
    LeaderKilled,
    /// A member of etcd that does not lead is paused
    MemberPaused,
    /// The leader of etcd is paused
    LeaderPaused,
    /// The disk of a member of etcd is full (needs root, for a small file system)
    DiskFull,
    /// One API server cannot reach etcd: connections stay open and are silent
    Cut,
    /// One API server cannot reach etcd, which is compacted meanwhile
    CutAndCompacted,
    /// The whole history of etcd is compacted by another program
    Compacted,
    /// An API server is killed, and started again later
    ServerKilled,
    /// All members lose the writes of a moment: a bug that the checker must find
    #[value(skip)]
    SetBack,
}

impl Fault {
    pub(super) const ALL: [Self; 9] = [
        Self::MemberKilled,
        Self::LeaderKilled,
        Self::MemberPaused,
        Self::LeaderPaused,
        Self::DiskFull,
        Self::Cut,
        Self::CutAndCompacted,
        Self::Compacted,
        Self::ServerKilled,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::MemberKilled => "member killed",
            Self::LeaderKilled => "leader killed",
            Self::MemberPaused => "member paused",
            Self::LeaderPaused => "leader paused",
            Self::DiskFull => "disk of a member full",
            Self::Cut => "API server cut off from etcd",
            Self::CutAndCompacted => "cut off, and compacted meanwhile",
            Self::Compacted => "compacted by another program",
            Self::ServerKilled => "API server killed",
            Self::SetBack => "all members set back",
        }
    }

    /// Returns the duration of the fault, as a multiple of the usual one: an API server that is cut off notices only after
    /// ten seconds.
    pub(super) fn length(self) -> f64 {
        match self {
            Self::Cut | Self::CutAndCompacted => 2.0,
            Self::Compacted => 0.2,
            _ => 1.0,
        }
    }
}
