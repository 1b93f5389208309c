//! `windlass-bench scale`: how far one server goes.

mod crowd;
mod definitions;
mod objects;

use anyhow::ensure;
use clap::{Args, ValueEnum};
use serde_json::{Map, Value};

use self::{crowd::CrowdArgs, objects::ObjectsArgs};
use crate::{servers::Which, setup::SetupArgs};

/// Measure how far one server goes: a million objects, large CRDs, thousands of connections and watches
#[derive(Debug, Args)]
pub(crate) struct ScaleArgs {
    #[command(flatten)]
    setup: SetupArgs,
    /// Measure only this; may be repeated
    #[arg(long, value_enum)]
    part: Vec<Part>,
    #[command(flatten)]
    objects: ObjectsArgs,
    /// Number of CRDs, with schemas of 1,000 to 10,000 lines
    #[arg(long, default_value_t = 200)]
    definitions: usize,
    #[command(flatten)]
    crowd: CrowdArgs,
}

/// A part of the measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Stores of several sizes
    Objects,
    /// CRDs with large schemas
    Definitions,
    /// Connections, watches, and namespaces that are deleted at once
    Crowd,
}

pub(crate) async fn run(args: ScaleArgs) -> anyhow::Result<()> {
    args.objects.check()?;
    ensure!(args.definitions > 0, "--definitions must be at least 1");
    let places = args.setup.places(&[Which::Windlass])?;
    let all = [Part::Objects, Part::Definitions, Part::Crowd];
    let parts = if args.part.is_empty() { all.to_vec() } else { args.part.clone() };
    let mut json = Map::new();
    for part in parts {
        let (name, numbers): (_, Value) = match part {
            Part::Objects => ("sizes", objects::measure(&args.objects, &places).await?),
            Part::Definitions => ("definitions", definitions::measure(args.definitions, &places).await?),
            Part::Crowd => ("crowd", crowd::measure(&args.crowd, &places).await?),
        };
        json.insert(name.to_owned(), numbers);
    }
    args.setup.write_json(&json.into())
}
