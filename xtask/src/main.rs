//! Repository tasks: `cargo xtask TASK`.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command-line tool")]

mod builtins;
mod cargo;
mod conformance;
mod decisions;
mod e2e;
mod etcd;
mod fuzz;
mod peers;
mod policy;
mod scaffold;
mod startup;
mod tidy;

use anyhow::bail;

const USAGE: &str = "usage: cargo xtask builtins [--check | --openapi | --vectors [DIR...]] | conformance [FLAGS] | decisions [FLAGS] | e2e [FLAGS] | etcd [FLAGS] | fuzz [FLAGS] | peers | policy [FLAGS] | scaffold [FLAGS] | startup [--program FILE] | tidy";

fn main() -> anyhow::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args.split_first() {
        Some((&"builtins", rest)) => builtins::run(rest),
        Some((&"conformance", rest)) => conformance::run(rest),
        // For the images of conformance tests.
        Some((&"web", rest)) => conformance::serve_files(rest),
        Some((&"decisions", rest)) => decisions::run(rest),
        Some((&"e2e", rest)) => e2e::run(rest),
        Some((&"etcd", rest)) => etcd::run(rest),
        Some((&"fuzz", rest)) => fuzz::run(rest),
        Some((&"peers", rest)) => peers::run(rest),
        Some((&"policy", rest)) => policy::run(rest),
        Some((&"scaffold", rest)) => scaffold::run(rest),
        Some((&"startup", rest)) => startup::run(rest),
        Some((&"tidy", rest)) => tidy::run(rest),
        _ => bail!("{USAGE}"),
    }
}
