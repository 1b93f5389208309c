//! Stores of several sizes.
//!
//! For each size a server is started on an empty store, filled with widgets of 1.8 KB, measured, restarted and measured
//! again. Whatever grows worse than n log n from one size to the next is a finding.

mod figure;
mod following;
mod growth;
mod pages;
mod plot;
mod reads;
mod stages;

use std::{fs, path::PathBuf};

use anyhow::{Context as _, ensure};
use clap::Args;
use serde_json::{Map, Value, json};
use windlass_bench::table::{render, thousands};

use self::figure::{Figure, Figures};
use crate::{report::show, servers::Places};

/// Options for stores of several sizes.
#[derive(Debug, Args)]
pub(super) struct ObjectsArgs {
    /// Numbers of objects, in ascending order
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_values_t = [1_000, 10_000, 100_000])]
    sizes: Vec<usize>,
    /// Write a plot of the numbers to this file, as SVG
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
}

/// The figures of a store with a number of objects.
#[derive(Debug, Clone)]
struct Size {
    objects: usize,
    figures: Figures,
}

impl ObjectsArgs {
    pub(super) fn check(&self) -> anyhow::Result<()> {
        ensure!(self.sizes.is_sorted(), "--sizes must be in ascending order");
        ensure!(self.sizes.iter().all(|size| *size >= stages::FEWEST), "a size must be at least {}", stages::FEWEST);
        Ok(())
    }
}

/// Measures all sizes, prints the table and returns the numbers.
pub(super) async fn measure(args: &ObjectsArgs, places: &Places) -> anyhow::Result<Value> {
    let mut sizes = Vec::new();
    for objects in &args.sizes {
        let objects = *objects;
        eprintln!("\n{} objects", thousands(objects as u64));
        let figures = stages::run(objects, places).await.with_context(|| format!("with {objects} objects"))?;
        sizes.push(Size { objects, figures });
    }
    println!("\n{}\n{}", table(&sizes), growth::findings(&sizes));
    if let Some(path) = &args.plot {
        fs::write(path, plot::svg(&sizes)).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(sizes.iter().map(Size::to_json).collect())
}

impl Size {
    fn to_json(&self) -> Value {
        let figures: Map<String, Value> =
            self.figures.iter().map(|(figure, value)| (figure.title().to_owned(), json!(value))).collect();
        json!({"objects": self.objects, "figures": figures})
    }
}

/// Renders a column per size, and the targets.
fn table(sizes: &[Size]) -> String {
    let numbers = sizes.iter().map(|size| thousands(size.objects as u64));
    let header = std::iter::once("objects".to_owned()).chain(numbers).chain(["target".to_owned()]);
    let mut rows: Vec<Vec<String>> = vec![header.collect()];
    for figure in Figure::ALL {
        let cell = |size: &Size| size.figures.get(&figure).map(|value| figure.show(*value)).unwrap_or_default();
        let target = figure.target().map(|target| format!("<= {}", figure.show(target))).unwrap_or_default();
        let cells = std::iter::once(figure.title().to_owned()).chain(sizes.iter().map(cell)).chain([target]);
        rows.push(cells.collect());
    }
    render(&rows)
}

impl Figure {
    fn show(self, value: f64) -> String {
        match self {
            Self::FirstList => format!("{value:.1}x"),
            _ => show(self.unit(), value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_a_column_for_each_size() {
        let size =
            |objects, get| Size { objects, figures: Figures::from([(Figure::Get, get), (Figure::FirstList, 2.0)]) };
        let table = table(&[size(1_000, 0.000_1), size(10_000, 0.002)]);
        assert!(table.starts_with("| objects "), "{table}");
        let row = |title: &str| {
            let line = table.lines().find(|line| line.split('|').nth(1).is_some_and(|cell| cell.trim() == title));
            line.unwrap().split('|').map(str::trim).filter(|cell| !cell.is_empty()).skip(1).collect::<Vec<_>>()
        };
        assert_eq!(row("get, p50"), ["100 us", "2.0 ms"]);
        assert_eq!(row("first list : next list"), ["2.0x", "2.0x", "<= 20.0x"]);
    }
}
