//! An in-memory disk that fails on demand and loses unsynced data when its power is cut.

use std::{
    io,
    sync::{Arc, Mutex, MutexGuard},
};

use redb::StorageBackend;

use crate::random::Random;

/// The unit that a disk writes atomically.
const SECTOR: usize = 512;

/// The disk operation that fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    Write,
    Sync,
    Resize,
    /// Any of the three; afterwards nothing works, not even a read.
    PowerCut,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Disk(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// Content of the platters.
    durable: Vec<u8>,
    /// Content that reads see: the platters and the cache.
    visible: Vec<u8>,
    cached: Vec<Cached>,
    /// The fault occurs after this many more operations of its kind, and persists.
    fault: Option<(Fault, u64)>,
    dead: bool,
    /// Number of failed operations so far.
    failed: u64,
}

#[derive(Debug)]
enum Cached {
    Write(usize, Vec<u8>),
    Resize(usize),
}

impl Cached {
    fn apply(&self, image: &mut Vec<u8>) {
        match self {
            Self::Write(offset, data) => {
                let end = offset + data.len();
                if image.len() < end {
                    image.resize(end, 0);
                }
                image[*offset..end].copy_from_slice(data);
            }
            Self::Resize(len) => image.resize(*len, 0),
        }
    }
}

impl State {
    fn meet(&mut self, kind: Fault) -> io::Result<()> {
        if let Some((fault, left)) = &mut self.fault
            && (*fault == kind || *fault == Fault::PowerCut)
        {
            if *left == 0 {
                self.failed += 1;
                self.dead |= *fault == Fault::PowerCut;
                let kind = if *fault == Fault::Write { io::ErrorKind::StorageFull } else { io::ErrorKind::Other };
                return Err(io::Error::new(kind, "injected"));
            }
            *left -= 1;
        }
        Ok(())
    }
}

impl Disk {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no test may panic while it holds the disk")
    }

    /// Injects a fault after a number of further operations of its kind.
    pub(crate) fn fail_after(&self, fault: Fault, operations: u64) {
        self.state().fault = Some((fault, operations));
    }

    /// Removes the fault.
    pub(crate) fn heal(&self) {
        self.state().fault = None;
    }

    /// Returns whether any operation has failed yet.
    pub(crate) fn has_failed(&self) -> bool {
        self.state().failed > 0
    }

    /// Returns whether the power has failed.
    pub(crate) fn is_dead(&self) -> bool {
        self.state().dead
    }

    /// Returns the number of failed operations so far.
    pub(crate) fn failures(&self) -> u64 {
        self.state().failed
    }

    /// Returns the disk after power is restored: everything that was synced, and a random subset of the unsynced
    /// sectors.
    pub(crate) fn after_power_cut(&self, random: &mut Random) -> Self {
        let state = self.state();
        let mut image = state.durable.clone();
        // Sometimes all or none of the cache was written.
        let luck = random.below(5);
        for cached in &state.cached {
            match cached {
                Cached::Resize(_) => cached.apply(&mut image),
                Cached::Write(offset, data) => {
                    let torn = random.below(4) == 0;
                    let mut kept = random.below(4) < luck;
                    for (index, sector) in data.chunks(SECTOR).enumerate() {
                        if torn {
                            kept = random.below(4) < luck;
                        }
                        if kept {
                            Cached::Write(offset + index * SECTOR, sector.to_vec()).apply(&mut image);
                        }
                    }
                }
            }
        }
        let state = State { durable: image.clone(), visible: image, ..State::default() };
        Self(Arc::new(Mutex::new(state)))
    }
}

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.state().visible.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let state = self.state();
        if state.dead {
            return Err(io::Error::other("power failure"));
        }
        let start = usize::try_from(offset).expect("an offset must fit");
        let found = state.visible.get(start..start + out.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        out.copy_from_slice(found);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut state = self.state();
        state.meet(Fault::Resize)?;
        let resize = Cached::Resize(usize::try_from(len).expect("a length must fit"));
        resize.apply(&mut state.visible);
        state.cached.push(resize);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut state = self.state();
        state.meet(Fault::Sync)?;
        let state = &mut *state;
        for cached in state.cached.drain(..) {
            cached.apply(&mut state.durable);
        }
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut state = self.state();
        state.meet(Fault::Write)?;
        let write = Cached::Write(usize::try_from(offset).expect("an offset must fit"), data.to_vec());
        write.apply(&mut state.visible);
        state.cached.push(write);
        Ok(())
    }
}
