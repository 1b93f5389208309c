//! The seats of each priority level: from its share of all seats, and from the demand of all levels.

use super::demand::PastDemand;

/// Minimum target; lower ones are raised to it, because bounds are relative to the target.
const LEAST_TARGET: f64 = 0.001;
const EPSILON: f64 = 1e-7;

/// The configured seats of a priority level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Bounds {
    /// Its share.
    pub(super) nominal: usize,
    /// Its share without the part that it lends.
    pub(super) lower: usize,
    /// Its share with the part that it may borrow.
    pub(super) upper: usize,
}

/// The shares of a priority level, as configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shares {
    pub(super) shares: u32,
    pub(super) lendable_percent: u32,
    /// `None` if the level may borrow as many seats as there are.
    pub(super) borrowing_limit_percent: Option<u32>,
}

impl Bounds {
    /// Returns the seats of a level whose server has `total` seats for all shares together.
    pub(super) fn of(shares: Shares, all_shares: u32, total: usize) -> Self {
        let nominal = (total as f64 * f64::from(shares.shares) / f64::from(all_shares.max(1))).ceil() as usize;
        let percent = |percent: u32| (nominal as f64 * f64::from(percent) / 100.0).round() as usize;
        let borrowed = shares.borrowing_limit_percent.map_or(total, percent);
        Self {
            nominal,
            lower: nominal.saturating_sub(percent(shares.lendable_percent)),
            upper: nominal.saturating_add(borrowed),
        }
    }

    /// The seats of a level that has not been in use: half of the lendable ones are lent.
    pub(super) fn initial(&self) -> usize {
        self.nominal - (self.nominal - self.lower) / 2
    }

    /// Maximum number of seats of one request, for a level with hands of this size.
    pub(super) fn max_seats(&self, hand_size: usize) -> usize {
        let share = (self.nominal as f64 * 0.15).ceil() as usize;
        share.min(self.nominal / hand_size.max(1)).max(1)
    }
}

/// A priority level, for the distribution of seats.
#[derive(Debug, Clone, Copy)]
pub(super) struct LevelDemand {
    pub(super) bounds: Bounds,
    pub(super) exempt: bool,
    pub(super) demand: PastDemand,
}

impl LevelDemand {
    /// The seats that the level cannot lend: it has used them, and they are its own.
    fn least(&self) -> usize {
        self.bounds.lower.max(self.bounds.nominal.min(self.demand.highest))
    }
}

/// Returns the seats of each level for the next period, and the fair fraction: seats per seat of demand.
pub(super) fn distribute(levels: &[LevelDemand]) -> (Vec<usize>, f64) {
    let total: usize = levels.iter().map(|level| level.bounds.nominal).sum();
    let exempt = |level: &&LevelDemand| level.exempt;
    let limited: Vec<&LevelDemand> = levels.iter().filter(|level| !level.exempt).collect();
    let for_exempt = |level: &LevelDemand| level.bounds.lower.max(level.demand.highest);
    let remaining = total.saturating_sub(levels.iter().filter(exempt).map(for_exempt).sum());
    let lower: usize = limited.iter().map(|level| level.bounds.lower).sum();
    let least: usize = limited.iter().map(|level| level.least()).sum();
    let (seats, fraction): (Vec<usize>, f64) = if remaining <= lower {
        (limited.iter().map(|level| level.bounds.lower).collect(), 0.0)
    } else if remaining <= least {
        let share = (remaining - lower) as f64 / (least - lower) as f64;
        let part = |level: &&LevelDemand| (level.least() - level.bounds.lower) as f64 * share;
        (limited.iter().map(|level| level.bounds.lower + part(level).round() as usize).collect(), 0.0)
    } else {
        let items: Vec<Item> = limited
            .iter()
            .map(|level| Item {
                target: (level.least() as f64).max(level.demand.smoothed).max(LEAST_TARGET),
                lower: level.least() as f64,
                upper: level.bounds.upper.max(level.least()) as f64,
            })
            .collect();
        let fraction = fair_fraction(total as f64, &items);
        (items.iter().map(|item| item.at(fraction).round() as usize).collect(), fraction)
    };
    let mut seats = seats.into_iter();
    let next = |level: &LevelDemand| if level.exempt { for_exempt(level) } else { seats.next().unwrap_or(0) };
    (levels.iter().map(next).collect(), fraction)
}

/// A level that gets a fraction of its target, within bounds.
#[derive(Debug, Clone, Copy)]
struct Item {
    target: f64,
    lower: f64,
    upper: f64,
}

impl Item {
    fn at(&self, fraction: f64) -> f64 {
        (self.target * fraction).clamp(self.lower, self.upper)
    }
}

/// Returns the fraction of their targets at which the items sum up to `total`, or come as close as their bounds allow.
fn fair_fraction(total: f64, items: &[Item]) -> f64 {
    let sum = |fraction: f64| items.iter().map(|item| item.at(fraction)).sum::<f64>();
    // The sum grows with the fraction and is linear between the points where an item reaches a bound.
    let mut points: Vec<f64> =
        items.iter().flat_map(|item| [item.lower / item.target, item.upper / item.target]).collect();
    points.sort_unstable_by(f64::total_cmp);
    let Some(last) = points.last().copied() else { return 0.0 };
    if sum(last) <= total + EPSILON {
        return last;
    }
    let above = points.partition_point(|point| sum(*point) < total - EPSILON);
    let (high, low) = (points[above], if above == 0 { 0.0 } else { points[above - 1] });
    let (high_sum, low_sum) = (sum(high), sum(low));
    if high_sum - low_sum < EPSILON { high } else { low + (high - low) * (total - low_sum) / (high_sum - low_sum) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shares(shares: u32, lendable_percent: u32) -> Shares {
        Shares { shares, lendable_percent, borrowing_limit_percent: None }
    }

    #[test]
    fn the_default_levels_have_the_seats_of_kube_apiserver() {
        // catch-all, system, node-high, leader-election, workload-high, workload-low, global-default
        let levels = [(5, 0, 1), (30, 33, 6), (40, 25, 6), (10, 0, 4), (40, 50, 6), (100, 90, 6), (20, 50, 6)];
        let bounds = levels.map(|(count, lendable, hand)| {
            let bounds = Bounds::of(shares(count, lendable), 245, 600);
            (bounds.nominal, bounds.lower, bounds.upper, bounds.max_seats(hand))
        });
        let expected = [
            (13, 13, 613, 2),
            (74, 50, 674, 12),
            (98, 73, 698, 15),
            (25, 25, 625, 4),
            (98, 49, 698, 15),
            (245, 24, 845, 37),
            (49, 24, 649, 8),
        ];
        assert_eq!(bounds, expected);
    }

    fn level(nominal: usize, lower: usize, highest: usize, smoothed: f64) -> LevelDemand {
        let demand = PastDemand { highest, smoothed, ..PastDemand::default() };
        LevelDemand { bounds: Bounds { nominal, lower, upper: nominal + 600 }, exempt: false, demand }
    }

    #[test]
    fn a_busy_level_borrows_from_idle_ones() {
        let (seats, _) = distribute(&[level(100, 20, 0, 0.0), level(100, 100, 300, 300.0)]);
        assert_eq!(seats, [20, 180]);
        let (seats, _) = distribute(&[level(100, 20, 50, 50.0), level(100, 100, 300, 300.0)]);
        assert_eq!(seats, [50, 150], "used seats are not lent");
    }

    #[test]
    fn exempt_requests_take_seats_from_others_but_not_the_last_ones() {
        let exempt = |highest| LevelDemand { exempt: true, ..level(0, 0, highest, 0.0) };
        let (seats, _) = distribute(&[exempt(1000), level(100, 20, 90, 90.0)]);
        assert_eq!(seats, [1000, 20]);
        let (seats, _) = distribute(&[exempt(40), level(100, 20, 100, 90.0)]);
        assert_eq!(seats, [40, 60]);
    }

    proptest! {
        #[test]
        fn all_seats_are_distributed_within_bounds(
            levels in prop::collection::vec((0..200_usize, 0..=100_u32, 0..400_usize, 0.0..400.0_f64), 1..9)
        ) {
            let levels: Vec<LevelDemand> = levels
                .into_iter()
                .map(|(nominal, lendable, highest, smoothed)| {
                    let lower = nominal - nominal * lendable as usize / 100;
                    level(nominal, lower, highest, smoothed)
                })
                .collect();
            let total: usize = levels.iter().map(|level| level.bounds.nominal).sum();
            let (seats, _) = distribute(&levels);
            for (level, seats) in levels.iter().zip(&seats) {
                prop_assert!(*seats >= level.bounds.lower && *seats <= level.bounds.upper);
            }
            let sum: usize = seats.iter().sum();
            prop_assert!(sum.abs_diff(total) <= levels.len(), "{sum} seats instead of {total}");
        }
    }
}
