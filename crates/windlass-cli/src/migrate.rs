//! `windlass migrate`: rewrites stored objects in the storage version of their CRD.

use std::{io::IsTerminal as _, time::Duration};

use anyhow::Context as _;
use clap::Args;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use windlass::migration::{MigrationOutcome, MigrationProgress, SETTLE, migrate_settled};

use crate::{cluster::ClusterArgs, failure::ErrorWithHint, install, threads};

/// Rewrite stored objects in the storage version of their CRD, and remove other versions from its stored versions
///
/// After that, an old version can be removed from the CRD. Objects are written in pages, with their resource version, so
/// that concurrent changes are never overwritten. A migration that was interrupted continues where it stopped. It begins when
/// the CRD has been unchanged for a minute, so that every API server knows the new storage version.
#[derive(Debug, Args)]
pub(crate) struct MigrateArgs {
    /// CRDs to migrate, such as sites.example.com [default: the project's CRDs]
    #[arg(value_name = "CRD")]
    names: Vec<String>,
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Print which versions are stored, without rewriting anything
    #[arg(long)]
    dry_run: bool,
    /// Do not wait until the CRD has been unchanged for a minute, if there is only one API server
    #[arg(long)]
    no_wait: bool,
}

/// Migrates the objects of each CRD.
pub(crate) fn run(args: MigrateArgs) -> anyhow::Result<()> {
    let names = if args.names.is_empty() { of_project()? } else { args.names };
    threads::block_on(async {
        let cluster = args.cluster.connect().await?;
        cluster.announce();
        for name in &names {
            if args.dry_run {
                println!("{}", stored(&Api::all(cluster.client.clone()), name).await?);
                continue;
            }
            let mut progress = Progress { shown: false };
            let settle = if args.no_wait { Duration::ZERO } else { SETTLE };
            let waits = |wait: Duration| {
                let seconds = wait.as_secs().max(1);
                eprintln!("{name}: waiting {seconds} s, until every API server knows its storage version");
            };
            let report = |page: &MigrationProgress| progress.show(&page.to_string());
            let outcome = migrate_settled(&cluster.client, name, settle, waits, report).await;
            progress.end();
            match outcome.map_err(advised)? {
                MigrationOutcome::NotNeeded { version } => {
                    println!("{name}: all objects are stored as {version}");
                }
                MigrationOutcome::Migrated { version, removed, progress } => {
                    let (count, removed) = (progress.rewritten + progress.skipped, removed.join(", "));
                    println!(
                        "{name}: {count} objects are stored as {version}; removed {removed} from the stored versions"
                    );
                }
                outcome => println!("{name}: {outcome:?}"),
            }
        }
        Ok(())
    })
}

/// Returns the names of the project's CRDs.
fn of_project() -> anyhow::Result<Vec<String>> {
    let name = |definition: &serde_json::Value| definition["metadata"]["name"].as_str().map(str::to_owned);
    Ok(install::definitions(None)?.iter().filter_map(name).collect())
}

/// Returns a line with the versions in which objects of a CRD may be stored.
async fn stored(api: &Api<CustomResourceDefinition>, name: &str) -> anyhow::Result<String> {
    let definition = api.get(name).await.with_context(|| format!("failed to get CustomResourceDefinition {name}"))?;
    let storage = definition.spec.versions.iter().find(|version| version.storage).map(|version| version.name.clone());
    let storage = storage.unwrap_or_default();
    let stored = definition.status.and_then(|status| status.stored_versions).unwrap_or_default();
    let others: Vec<_> = stored.into_iter().filter(|version| *version != storage).collect();
    Ok(match others.is_empty() {
        true => format!("{name}: all objects are stored as {storage}"),
        false => format!("{name}: objects may be stored as {}; the storage version is {storage}", others.join(", ")),
    })
}

fn advised(error: windlass::migration::MigrationError) -> anyhow::Error {
    match error {
        windlass::migration::MigrationError::Objects { .. } => ErrorWithHint {
            message: error.to_string(),
            hint: "correct or delete these objects, then run the command again to continue".into(),
        }
        .into(),
        error => error.into(),
    }
}

/// One line on a terminal, or a line per page.
struct Progress {
    shown: bool,
}

impl Progress {
    fn show(&mut self, line: &str) {
        if std::io::stderr().is_terminal() {
            eprint!("\r\x1b[2K{line}");
            self.shown = true;
        } else {
            eprintln!("{line}");
        }
    }

    fn end(&mut self) {
        if std::mem::take(&mut self.shown) {
            eprintln!();
        }
    }
}
