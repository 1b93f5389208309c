//! Options of every measurement: servers, paths of programs and data, and the output file.

use std::{fs, path::PathBuf};

use anyhow::Context as _;
use clap::Args;
use serde_json::Value;
use windlass_bench::program::{build_windlass, target};

use crate::servers::{Places, Which};

/// Options shared by all measurements.
#[derive(Debug, Args)]
pub(crate) struct SetupArgs {
    /// Directory with kube-apiserver and etcd, as built by `cargo xtask peers` [default: target/peers]
    #[arg(long, value_name = "DIR", env = "WINDLASS_PEERS")]
    peers: Option<PathBuf>,
    /// windlass program [default: built from this workspace]
    #[arg(long, value_name = "FILE")]
    windlass: Option<PathBuf>,
    /// Directory for the servers' data; it should be on a disk [default: target/bench]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Measure only this server; may be repeated
    #[arg(long, value_enum)]
    only: Vec<Which>,
    /// Write all numbers to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl SetupArgs {
    /// Returns the servers to measure.
    pub(crate) fn servers(&self, known: &[Which]) -> Vec<Which> {
        if self.only.is_empty() { known.to_vec() } else { self.only.clone() }
    }

    /// Resolves all paths. Builds windlass if it is measured and no program was given.
    pub(crate) fn places(&self, which: &[Which]) -> anyhow::Result<Places> {
        if cfg!(debug_assertions) {
            eprintln!("warning: built without --release: the client itself is slow");
        }
        Ok(Places {
            windlass: match &self.windlass {
                Some(program) => program.clone(),
                None if which.contains(&Which::Windlass) => build_windlass()?,
                None => PathBuf::new(),
            },
            data: self.data.clone().unwrap_or_else(|| target().join("bench")),
            ..peers(self.peers.clone())
        })
    }

    /// Writes the numbers if an output file was given.
    pub(crate) fn write_json(&self, json: &Value) -> anyhow::Result<()> {
        let Some(path) = &self.json else { return Ok(()) };
        fs::write(path, format!("{json:#}\n")).with_context(|| format!("cannot write {}", path.display()))
    }
}

/// Resolves the paths for kube-apiserver and etcd alone.
pub(crate) fn peers(folder: Option<PathBuf>) -> Places {
    Places {
        peers: folder.unwrap_or_else(|| target().join("peers")),
        windlass: PathBuf::new(),
        data: target().join("bench"),
    }
}
