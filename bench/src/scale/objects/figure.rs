//! The figures of one size, and how they may grow.

use std::collections::BTreeMap;

use crate::figures::Unit;

/// A row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Figure {
    ObjectBytes,
    Create,
    Memory,
    MemoryAfterRestart,
    Disk,
    Get,
    GetSlow,
    List,
    ListSlow,
    PageAtStart,
    PageInMiddle,
    PageAtEnd,
    PageSlow,
    PageOfHistory,
    PageAsTable,
    Walk,
    WatchStart,
    WatchStartSlow,
    Event,
    EventSlow,
    Sync,
    Restart,
    ListAfterRestart,
    FirstList,
    Settled,
}

/// How a figure may grow with the number of objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Grows {
    /// Not at all, or as their logarithm: the cost of one object, or of one request for a few.
    AsOne,
    /// As n log n: the cost of all objects.
    AsAll,
    /// In any way: it is no cost, or one of the slowest requests, which other things make slow.
    Freely,
}

/// The values of all figures that were measured: seconds, bytes, or per second.
pub(super) type Figures = BTreeMap<Figure, f64>;

impl Figure {
    pub(super) const ALL: [Self; 25] = [
        Self::ObjectBytes,
        Self::Create,
        Self::Memory,
        Self::MemoryAfterRestart,
        Self::Disk,
        Self::Get,
        Self::GetSlow,
        Self::List,
        Self::ListSlow,
        Self::PageAtStart,
        Self::PageInMiddle,
        Self::PageAtEnd,
        Self::PageSlow,
        Self::PageOfHistory,
        Self::PageAsTable,
        Self::Walk,
        Self::WatchStart,
        Self::WatchStartSlow,
        Self::Event,
        Self::EventSlow,
        Self::Sync,
        Self::Restart,
        Self::ListAfterRestart,
        Self::FirstList,
        Self::Settled,
    ];

    pub(super) fn title(self) -> &'static str {
        match self {
            Self::ObjectBytes => "size of an object",
            Self::Create => "create (durable)",
            Self::Memory => "memory per object",
            Self::MemoryAfterRestart => "memory per object, after a restart",
            Self::Disk => "disk per object",
            Self::Get => "get, p50",
            Self::GetSlow => "get, p99",
            Self::List => "list all, p50",
            Self::ListSlow => "list all, p99",
            Self::PageAtStart => "first page of 500, p50",
            Self::PageInMiddle => "page in the middle, p50",
            Self::PageAtEnd => "last page, p50",
            Self::PageSlow => "any page, p99",
            Self::PageOfHistory => "page in the middle, older state",
            Self::PageAsTable => "page as a table, p50",
            Self::Walk => "all pages as tables",
            Self::WatchStart => "watch to response, p50",
            Self::WatchStartSlow => "watch to response, p99",
            Self::Event => "write to event, p50",
            Self::EventSlow => "write to event, p99",
            Self::Sync => "first sync of an informer",
            Self::Restart => "restart to ready",
            Self::ListAfterRestart => "first list after the restart",
            Self::FirstList => "first list : next list",
            Self::Settled => "idle after the restart",
        }
    }

    pub(super) fn unit(self) -> Unit {
        match self {
            Self::ObjectBytes | Self::Memory | Self::MemoryAfterRestart | Self::Disk => Unit::Bytes,
            Self::Create => Unit::PerSecond,
            Self::FirstList => Unit::Count,
            _ => Unit::Seconds,
        }
    }

    pub(super) fn grows(self) -> Grows {
        match self {
            Self::ObjectBytes
            | Self::FirstList
            | Self::GetSlow
            | Self::ListSlow
            | Self::PageSlow
            | Self::WatchStartSlow
            | Self::EventSlow => Grows::Freely,
            Self::List | Self::Walk | Self::Sync | Self::Restart | Self::ListAfterRestart | Self::Settled => {
                Grows::AsAll
            }
            _ => Grows::AsOne,
        }
    }

    /// Returns the most that a figure should be, however many objects there are.
    pub(super) fn target(self) -> Option<f64> {
        match self {
            // One and a half times the object, and 600 bytes.
            Self::Memory | Self::MemoryAfterRestart => Some(1.5 * 1_800.0 + 600.0),
            Self::PageAtStart | Self::PageInMiddle | Self::PageAtEnd => Some(0.004),
            Self::Restart => Some(5.0),
            Self::FirstList => Some(20.0),
            _ => None,
        }
    }
}
