//! Many clients at once: connections, watches, and namespaces that are deleted together. Another client reads one object
//! all the time; its latencies show whether the server serves everybody.

mod connections;
mod namespaces;
mod probe;

use anyhow::ensure;
use clap::Args;
use serde_json::{Map, Value, json};
use windlass_bench::table::render;

use crate::{figures::Unit, phase::Samples, report::show, servers::Places};

/// Options for many clients.
#[derive(Debug, Args)]
pub(super) struct CrowdArgs {
    /// Number of connections
    #[arg(long, default_value_t = 1_000)]
    connections: usize,
    /// Number of watches on them
    #[arg(long, default_value_t = 10_000)]
    watches: usize,
    /// Number of namespaces that are deleted at once
    #[arg(long, default_value_t = 500)]
    namespaces: usize,
}

/// A row of the table.
struct Row {
    title: &'static str,
    unit: Unit,
    values: Values,
}

enum Values {
    One(f64),
    /// Median, 99th percentile and maximum.
    Spread([f64; 3]),
}

impl Row {
    fn one(title: &'static str, unit: Unit, value: f64) -> Self {
        Self { title, unit, values: Values::One(value) }
    }

    fn latencies(title: &'static str, samples: &Samples) -> Self {
        let seconds = [0.5, 0.99, 1.0].map(|part| f64::from(samples.quantile(part)) / 1e6);
        Self { title, unit: Unit::Seconds, values: Values::Spread(seconds) }
    }
}

/// Measures everything, prints the table and returns the numbers.
pub(super) async fn measure(args: &CrowdArgs, places: &Places) -> anyhow::Result<Value> {
    ensure!(args.connections > 0 && args.watches >= args.connections, "--watches must be at least --connections");
    ensure!(args.namespaces > 0, "--namespaces must be at least 1");
    let mut rows = connections::measure(args, places).await?;
    rows.extend(namespaces::measure(args.namespaces, places).await?);
    println!("\n{}", table(&rows));
    Ok(numbers(&rows).into())
}

fn table(rows: &[Row]) -> String {
    let header = ["", "", "p50", "p99", "slowest"].map(str::to_owned).to_vec();
    let rows = rows.iter().map(|row| {
        let cells = match &row.values {
            Values::One(value) => [show(row.unit, *value), String::new(), String::new(), String::new()],
            Values::Spread([median, slow, slowest]) => {
                [String::new(), show(row.unit, *median), show(row.unit, *slow), show(row.unit, *slowest)]
            }
        };
        std::iter::once(row.title.to_owned()).chain(cells).collect()
    });
    render(&std::iter::once(header).chain(rows).collect::<Vec<_>>())
}

fn numbers(rows: &[Row]) -> Map<String, Value> {
    let number = |row: &Row| match row.values {
        Values::One(value) => json!(value),
        Values::Spread([median, slow, slowest]) => json!({"p50": median, "p99": slow, "slowest": slowest}),
    };
    rows.iter().map(|row| (row.title.to_owned(), number(row))).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn latencies_have_three_columns_and_other_numbers_one() {
        let samples = Samples { elapsed: Duration::ZERO, micros: (1..=100).map(|n| n * 1_000).collect(), bytes: 0 };
        let rows = [Row::one("memory", Unit::Bytes, 2_000.0), Row::latencies("get", &samples)];
        let table = table(&rows);
        let cells = |title: &str| {
            let line = table.lines().find(|line| line.contains(title)).unwrap();
            line.split('|').map(str::trim).filter(|cell| !cell.is_empty()).skip(1).collect::<Vec<_>>()
        };
        assert_eq!(cells("memory"), ["2.0 KB"]);
        assert_eq!(cells("get"), ["50.0 ms", "99.0 ms", "100.0 ms"]);
    }
}
