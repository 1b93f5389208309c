//! The table: servers side by side, ratios, and whether the targets are met.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use windlass_bench::table::{render, thousands};

use crate::{
    figures::{Figure, Figures, Measure, Unit},
    servers::Which,
};

/// Numbers of all measured servers.
pub(crate) type Results = BTreeMap<Which, Figures>;

/// Comparison of Windlass with the others in one measure.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Comparison {
    ratio: Option<f64>,
    floor_share: Option<f64>,
    /// `None` if something that the target refers to was not measured.
    met: Option<bool>,
}

/// Renders the table in Markdown.
pub(crate) fn table(results: &Results) -> String {
    let header =
        ["", Which::Kubernetes.title(), Which::Floor.title(), Which::Windlass.title(), "ratio", "of the floor"];
    let mut rows: Vec<Vec<String>> = vec![header.into_iter().chain(["target", "met"]).map(str::to_owned).collect()];
    for measure in Measure::ALL {
        let figure = |which| figure(results, which, measure);
        if Which::ALL.into_iter().all(|which| figure(which).is_none()) {
            continue;
        }
        let shown = |which| figure(which).map(|figure| show(measure.unit(), figure.value)).unwrap_or_default();
        let comparison = compare(results, measure);
        rows.push(vec![
            measure.title().to_owned(),
            shown(Which::Kubernetes),
            // Start time and memory of a program that does nothing are meaningless.
            if measure.unit() == Unit::PerSecond { shown(Which::Floor) } else { String::new() },
            shown(Which::Windlass),
            comparison.ratio.map(|ratio| format!("{ratio:.1}x")).unwrap_or_default(),
            comparison.floor_share.map(percent).unwrap_or_default(),
            show_target(measure),
            comparison.met.map(|met| if met { "yes" } else { "NO" }.to_owned()).unwrap_or_default(),
        ]);
    }
    render(&rows)
}

/// Returns all numbers as JSON.
pub(crate) fn to_json(results: &Results) -> Value {
    let servers: serde_json::Map<String, Value> = results
        .iter()
        .map(|(which, figures)| {
            let figures: serde_json::Map<String, Value> =
                figures.iter().map(|(measure, figure)| (measure.title().to_owned(), figure.to_json())).collect();
            (which.title().to_owned(), figures.into())
        })
        .collect();
    let comparisons: Vec<Value> = Measure::ALL
        .into_iter()
        .map(|measure| {
            let comparison = compare(results, measure);
            json!({"measure": measure.title(), "ratio": comparison.ratio, "floorShare": comparison.floor_share,
                "targetRatio": measure.target().ratio, "targetFloorShare": measure.target().floor_share,
                "met": comparison.met})
        })
        .collect();
    json!({"servers": servers, "comparisons": comparisons})
}

fn figure(results: &Results, which: Which, measure: Measure) -> Option<Figure> {
    results.get(&which)?.get(&measure).copied()
}

fn compare(results: &Results, measure: Measure) -> Comparison {
    let value = |which| figure(results, which, measure).map(|figure| figure.value);
    let ours = value(Which::Windlass);
    let ratio = ours.zip(value(Which::Kubernetes)).map(|(ours, theirs)| measure.unit().ratio(ours, theirs));
    let floor = value(Which::Floor).filter(|_| measure.unit() == Unit::PerSecond);
    let floor_share = ours.zip(floor).map(|(ours, floor)| ours / floor);
    let target = measure.target();
    let reached = ratio.map(|ratio| ratio >= target.ratio);
    let met = match target.floor_share {
        None => reached,
        Some(share) => reached.zip(floor_share).map(|(reached, ours)| reached && ours >= share),
    };
    Comparison { ratio, floor_share, met }
}

/// Formats a value in its unit.
pub(crate) fn show(unit: Unit, value: f64) -> String {
    match unit {
        Unit::Seconds if value < 1e-3 => format!("{:.0} us", value * 1e6),
        Unit::Seconds if value < 1.0 => format!("{:.1} ms", value * 1e3),
        Unit::Seconds => format!("{value:.2} s"),
        Unit::Bytes if value < 1e6 => format!("{:.1} KB", value / 1e3),
        Unit::Bytes => format!("{:.1} MB", value / 1e6),
        Unit::Count => thousands(value.round() as u64),
        Unit::PerSecond => format!("{} /s", thousands(value.round() as u64)),
    }
}

fn show_target(measure: Measure) -> String {
    let target = measure.target();
    let ratio = match measure.unit() {
        Unit::Bytes => format!("<= 1/{:.0}", target.ratio),
        _ => format!(">= {:.0}x", target.ratio),
    };
    target.floor_share.map_or(ratio.clone(), |share| format!("{ratio}, {}", percent(share)))
}

fn percent(part: f64) -> String {
    format!("{:.0} %", part * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results(ours: f64, theirs: f64, floor: Option<f64>) -> Results {
        let figures = |value| Figures::from([(Measure::Get, Figure::plain(value))]);
        let mut results = Results::from([(Which::Windlass, figures(ours)), (Which::Kubernetes, figures(theirs))]);
        results.extend(floor.map(|floor| (Which::Floor, figures(floor))));
        results
    }

    #[test]
    fn a_target_with_a_share_of_the_floor_needs_both() {
        let met = |ours, floor| compare(&results(ours, 1000.0, floor), Measure::Get).met;
        assert_eq!(met(12_000.0, Some(15_000.0)), Some(true));
        assert_eq!(met(12_000.0, Some(30_000.0)), Some(false));
        assert_eq!(met(11_000.0, Some(12_000.0)), Some(false));
        assert_eq!(met(12_000.0, None), None);
    }

    #[test]
    fn the_table_shows_what_was_measured() {
        let table = table(&results(20_000.0, 1500.0, Some(25_000.0)));
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines.len(), 3, "{table}");
        let cells: Vec<&str> = lines[2].split('|').map(str::trim).filter(|cell| !cell.is_empty()).collect();
        assert_eq!(cells, ["get", "1,500 /s", "25,000 /s", "20,000 /s", "13.3x", "80 %", ">= 12x, 70 %", "yes"]);
    }

    #[test]
    fn values_are_shown_in_their_unit() {
        assert_eq!(show(Unit::Seconds, 0.0251), "25.1 ms");
        assert_eq!(show(Unit::Seconds, 3.118), "3.12 s");
        assert_eq!(show(Unit::Seconds, 0.000_087_3), "87 us");
        assert_eq!(show(Unit::Bytes, 8_340.0), "8.3 KB");
        assert_eq!(show(Unit::Count, 10_000.0), "10,000");
        assert_eq!(show(Unit::Bytes, 318_400_000.0), "318.4 MB");
        assert_eq!(show(Unit::PerSecond, 1_234_567.4), "1,234,567 /s");
    }
}
