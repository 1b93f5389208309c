//! How figures grow from one size to the next.

use super::{
    Size,
    figure::{Figure, Grows},
};
use crate::figures::Unit;

/// The factor by which a figure may grow more than allowed: two runs of the same size differ by as much.
const NOISE: f64 = 1.6;
/// Times below this are mostly constant costs, and are not compared.
const LEAST_SECONDS: f64 = 0.000_5;

/// Describes whatever grows worse than it may.
pub(super) fn findings(sizes: &[Size]) -> String {
    let mut lines: Vec<String> = Vec::new();
    for pair in sizes.windows(2) {
        let [small, large] = pair else { continue };
        for figure in Figure::ALL {
            let values = small.figures.get(&figure).zip(large.figures.get(&figure));
            let Some((before, after)) = values else { continue };
            if let Some(excess) = excess(figure, (small.objects, *before), (large.objects, *after)) {
                let (title, from, to) = (figure.title(), figure.show(*before), figure.show(*after));
                let (few, many) = (small.objects, large.objects);
                lines.push(format!(
                    "- {title}: {from} with {few} objects, {to} with {many}: {excess:.1} times too much\n"
                ));
            }
        }
    }
    if lines.is_empty() { "Nothing grows worse than n log n.\n".to_owned() } else { lines.concat() }
}

/// Returns how many times more a figure grows than it may; `None` if it does not.
fn excess(figure: Figure, (few, before): (usize, f64), (many, after): (usize, f64)) -> Option<f64> {
    let (few, many) = (few as f64, many as f64);
    let logarithm = many.ln() / few.ln();
    let allowed = match figure.grows() {
        Grows::AsOne => logarithm,
        Grows::AsAll => many / few * logarithm,
        Grows::Freely => return None,
    };
    let grown = match figure.unit() {
        Unit::PerSecond => before / after,
        Unit::Seconds if after < LEAST_SECONDS => return None,
        Unit::Seconds => after / before.max(LEAST_SECONDS),
        Unit::Bytes | Unit::Count => after / before,
    };
    let excess = grown / allowed;
    (excess > NOISE).then_some(excess)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_objects_may_cost_n_log_n_and_one_log_n() {
        let list = |after| excess(Figure::List, (1_000, 0.01), (10_000, after));
        assert_eq!((list(0.1), list(0.2)), (None, None));
        assert!(list(1.0).is_some_and(|excess| (7.0..8.0).contains(&excess)), "{:?}", list(1.0));
        let page = |after| excess(Figure::PageAtEnd, (1_000, 0.001), (10_000, after));
        assert_eq!(page(0.002), None);
        assert!(page(0.01).is_some());
        let create = |after| excess(Figure::Create, (1_000, 10_000.0), (10_000, after));
        assert_eq!((create(8_000.0), create(100_000.0)), (None, None));
        assert!(create(1_000.0).is_some());
    }

    #[test]
    fn noise_of_short_times_is_no_finding() {
        assert_eq!(excess(Figure::Get, (1_000, 0.000_01), (10_000, 0.000_4)), None);
        assert!(excess(Figure::Get, (1_000, 0.000_01), (10_000, 0.01)).is_some());
    }

    #[test]
    fn findings_name_the_figure_and_both_sizes() {
        let size = |objects, walk| Size { objects, figures: [(Figure::Walk, walk)].into() };
        let found = findings(&[size(1_000, 0.1), size(10_000, 10.0)]);
        assert!(found.contains("all pages as tables: 100.0 ms with 1000 objects, 10.00 s with 10000"), "{found}");
        assert_eq!(findings(&[size(1_000, 0.1), size(10_000, 1.0)]), "Nothing grows worse than n log n.\n");
    }
}
