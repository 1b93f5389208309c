//! A pool of numbers to allocate: the addresses of a network, the ports of a range.

use std::collections::BTreeMap;
use std::ops::Range;

/// Reasons why a number is not available.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unavailable {
    /// The number is not in the range.
    OutOfRange,
    /// The number is already allocated.
    Taken,
}

/// Ranges of numbers, and which of them are allocated. Memory grows with the allocated numbers, not with the ranges.
#[derive(Debug, Clone, Default)]
pub(super) struct Pool {
    sections: Vec<Section>,
    /// The numbers with a holder, including those of stored objects that are in no section.
    taken: BTreeMap<u32, Holders>,
}

/// A range of a pool.
#[derive(Debug, Clone)]
pub(super) struct Section {
    /// The part that is allocated from first; the lower part is preferred for numbers requested explicitly.
    upper: Range<u32>,
    lower: Range<u32>,
    /// Whether its numbers are allocated. The numbers of a closed section are only freed.
    is_open: bool,
}

impl Section {
    /// Creates a section; the first `reserved` numbers are allocated last.
    pub(super) fn new(range: Range<u32>, reserved: u32, is_open: bool) -> Self {
        let split = range.start.saturating_add(reserved).min(range.end);
        Self { upper: split..range.end, lower: range.start..split, is_open }
    }

    fn contains(&self, number: u32) -> bool {
        self.lower.contains(&number) || self.upper.contains(&number)
    }
}

/// The holders of a number.
#[derive(Debug, Clone, Copy, Default)]
struct Holders {
    /// The number of stored objects that use it: more than one only if another program has stored them.
    stored: u32,
    /// Whether a request in progress has reserved it.
    reserved: bool,
}

impl Pool {
    /// Creates a pool of free numbers; the first `reserved` ones are allocated last.
    pub(super) fn new(range: Range<u32>, reserved: u32) -> Self {
        Self { sections: vec![Section::new(range, reserved, true)], taken: BTreeMap::new() }
    }

    /// Replaces the sections. Holders of numbers keep them.
    pub(super) fn set_sections(&mut self, sections: Vec<Section>) {
        self.sections = sections;
    }

    /// Reserves a given number.
    pub(super) fn reserve(&mut self, number: u32) -> Result<(), Unavailable> {
        if !self.is_open(number) {
            return Err(Unavailable::OutOfRange);
        }
        if self.is_taken(number) {
            return Err(Unavailable::Taken);
        }
        self.taken.insert(number, Holders { stored: 0, reserved: true });
        Ok(())
    }

    /// Reserves the next free number after a random one; `None` if all are allocated.
    pub(super) fn reserve_any(&mut self, random: u64) -> Option<u32> {
        let free_in =
            |section: &Section| self.free_in(&section.upper, random).or_else(|| self.free_in(&section.lower, random));
        let number = self.sections.iter().filter(|section| section.is_open).find_map(free_in)?;
        self.taken.insert(number, Holders { stored: 0, reserved: true });
        Some(number)
    }

    /// Ends a reservation. The number stays allocated while stored objects use it.
    pub(super) fn end_reservation(&mut self, number: u32) {
        self.change(number, |holders| holders.reserved = false);
    }

    /// Counts a stored object that uses a number. A section that has the number may be added later.
    pub(super) fn add_stored(&mut self, number: u32) {
        self.taken.entry(number).or_default().stored += 1;
    }

    /// Discounts a stored object that has used a number.
    pub(super) fn remove_stored(&mut self, number: u32) {
        self.change(number, |holders| holders.stored = holders.stored.saturating_sub(1));
    }

    /// Changes the holders of a number, and frees it when there are none left.
    fn change(&mut self, number: u32, change: impl FnOnce(&mut Holders)) {
        let Some(holders) = self.taken.get_mut(&number) else { return };
        change(holders);
        if holders.stored == 0 && !holders.reserved {
            self.taken.remove(&number);
        }
    }

    /// Returns whether several stored objects use a number.
    pub(super) fn is_shared(&self, number: u32) -> bool {
        self.taken.get(&number).is_some_and(|holders| holders.stored > 1)
    }

    /// Returns how many numbers of all sections are allocated, and how many are free. Sections must not overlap.
    pub(super) fn allocated_and_free(&self) -> (usize, usize) {
        let counts = self.sections.iter().map(|section| self.allocated_and_free_in(section));
        counts.fold((0, 0), |(allocated, free), (more_allocated, more_free)| {
            (allocated + more_allocated, free + more_free)
        })
    }

    /// Returns how many numbers of a section are allocated, and how many are free.
    pub(super) fn allocated_and_free_in(&self, section: &Section) -> (usize, usize) {
        let range = section.lower.start..section.upper.end;
        let allocated = self.taken.range(range.clone()).count();
        (allocated, range.len() - allocated)
    }

    /// Returns whether a number is in a section.
    pub(super) fn contains(&self, number: u32) -> bool {
        self.sections.iter().any(|section| section.contains(number))
    }

    /// Returns whether a number is in a section whose numbers are allocated.
    pub(super) fn is_open(&self, number: u32) -> bool {
        self.sections.iter().any(|section| section.is_open && section.contains(number))
    }

    /// Returns whether a number is allocated.
    pub(super) fn is_taken(&self, number: u32) -> bool {
        self.taken.contains_key(&number)
    }

    fn free_in(&self, range: &Range<u32>, random: u64) -> Option<u32> {
        let size = u64::from(range.end - range.start);
        if size == 0 {
            return None;
        }
        let offset = u32::try_from(random % size).expect("an offset must fit the range it lies in");
        let start = range.start + offset;
        self.first_free(start..range.end).or_else(|| self.first_free(range.start..start))
    }

    fn first_free(&self, range: Range<u32>) -> Option<u32> {
        let mut candidate = range.start;
        for (taken, _) in self.taken.range(range.clone()) {
            if *taken != candidate {
                break;
            }
            candidate += 1;
        }
        (candidate < range.end).then_some(candidate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    #[test]
    fn the_reserved_part_is_allocated_last() {
        let mut pool = Pool::new(10..14, 2);
        let mut all: Vec<_> = (0..4).filter_map(|seed| pool.reserve_any(seed * 7)).collect();
        assert!(all[..2].iter().all(|number| (12..14).contains(number)), "{all:?}");
        all.sort_unstable();
        assert_eq!(all, [10, 11, 12, 13]);
        assert_eq!(pool.reserve_any(3), None);
        assert_eq!(pool.reserve(14), Err(Unavailable::OutOfRange));
        assert_eq!(pool.reserve(13), Err(Unavailable::Taken));
        pool.end_reservation(11);
        assert_eq!(pool.reserve_any(99), Some(11));
    }

    #[test]
    fn a_number_is_free_when_its_last_holder_is_gone() {
        let mut pool = Pool::new(10..14, 0);
        pool.reserve(11).expect("it must be free");
        pool.add_stored(11);
        pool.end_reservation(11);
        assert_eq!(pool.reserve(11), Err(Unavailable::Taken));
        pool.add_stored(11);
        assert!(pool.is_shared(11));
        pool.remove_stored(11);
        assert!(pool.is_taken(11) && !pool.is_shared(11));
        pool.remove_stored(11);
        pool.remove_stored(11);
        pool.add_stored(99);
        assert_eq!(pool.allocated_and_free(), (0, 4));
        pool.set_sections(vec![Section::new(10..14, 0, true), Section::new(98..100, 0, true)]);
        assert_eq!(pool.allocated_and_free(), (1, 5));
        assert_eq!(pool.reserve(99), Err(Unavailable::Taken));
        assert_eq!(pool.reserve(11), Ok(()));
    }

    #[test]
    fn numbers_of_closed_sections_are_only_freed() {
        let mut pool = Pool::new(10..12, 0);
        pool.reserve(11).expect("it must be free");
        pool.set_sections(vec![Section::new(10..12, 0, false), Section::new(20..22, 0, true)]);
        assert_eq!(pool.reserve(10), Err(Unavailable::OutOfRange));
        assert!(pool.contains(10));
        assert_eq!([pool.reserve_any(0), pool.reserve_any(0), pool.reserve_any(0)], [Some(20), Some(21), None]);
        pool.end_reservation(11);
        assert!(!pool.is_taken(11));
    }

    proptest! {
        #[test]
        fn a_number_is_never_handed_out_twice(
            size in 1u32..40,
            reserved in 0u32..50,
            steps in prop::collection::vec((0u8..3, any::<u64>()), 0..120),
        ) {
            let mut pool = Pool::new(100..100 + size, reserved);
            let mut model = HashSet::new();
            for (step, random) in steps {
                let number = 99 + u32::try_from(random % u64::from(size + 2)).expect("small");
                match step {
                    0 => match pool.reserve_any(random) {
                        Some(number) => {
                            prop_assert!((100..100 + size).contains(&number));
                            prop_assert!(model.insert(number), "{} was taken", number);
                        }
                        None => prop_assert_eq!(model.len(), size as usize),
                    },
                    1 => {
                        let free = (100..100 + size).contains(&number) && !model.contains(&number);
                        prop_assert_eq!(pool.reserve(number).is_ok(), free);
                        if free {
                            model.insert(number);
                        }
                    }
                    _ => {
                        pool.end_reservation(number);
                        model.remove(&number);
                        prop_assert!(!pool.is_taken(number));
                    }
                }
            }
        }
    }
}
