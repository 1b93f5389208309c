//! `windlass generate`: manifests, overlays, installer, Helm chart, OLM bundle and dashboard, generated from the operator.

mod files;

use std::collections::BTreeSet;

use clap::{Args, ValueEnum};
use windlass_scaffold::{
    Change,
    package::{Image, Product},
};
use windlass_schema::sorting::Gather as _;

use crate::{
    failure::ErrorWithHint,
    project::{self, KustomizeTree, Program},
};

/// Generate manifests, installer, Helm chart, OLM bundle and dashboard from the operator
///
/// Builds and runs the operator to obtain its manifests. Fully generated files say so in their first line; files that
/// you may edit (Chart.yaml, values.yaml and NOTES.txt of the chart, deploy/bundle) are created once and never
/// overwritten.
#[derive(Debug, Args)]
pub(crate) struct GenerateArgs {
    /// Parts to generate, comma-separated [default: all]
    #[arg(long, value_name = "PARTS", value_enum, value_delimiter = ',')]
    only: Vec<Part>,
    /// Fail if a file is out of date, without writing files
    #[arg(long, conflicts_with = "dry_run")]
    check: bool,
    /// Print the changes as a diff, without writing files
    #[arg(long)]
    dry_run: bool,
    /// Image of the operator, saved in deploy/default
    #[arg(long, value_name = "IMAGE")]
    image: Option<Image>,
    /// Namespace of the operator, saved in deploy/default
    #[arg(long, value_name = "NAME", value_parser = project::namespace)]
    namespace: Option<String>,
}

/// Parts that can be generated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(super) enum Part {
    /// deploy/crd
    Crds,
    /// deploy/rbac
    Rbac,
    /// deploy/webhook
    Webhooks,
    /// deploy/extension, if the project has an API server
    Extension,
    /// deploy/manager, deploy/metrics and deploy/network-policy
    Manager,
    /// deploy/overlays
    Overlays,
    /// dist/install.yaml
    Installer,
    /// dist/chart
    Chart,
    /// bundle and bundle.Dockerfile
    Bundle,
    /// dist/grafana
    Dashboard,
}

/// Generates files, or reports outdated ones.
pub(crate) fn run(args: GenerateArgs) -> anyhow::Result<()> {
    let opened = project::open_current()?;
    let tree = KustomizeTree::read(&opened, args.image.as_ref(), args.namespace.as_deref())?;
    let program = Program::build(&opened.root, &opened.project.project_name)?;
    let parts: BTreeSet<Part> = match args.only.is_empty() {
        true => Part::value_variants().iter().copied().gather(),
        false => args.only.iter().copied().gather(),
    };
    let mut changes: Vec<Change> = tree.change()?.cloned().into_iter().collect();
    changes.extend(files::tree(&opened, &program, &parts)?);
    if parts.contains(&Part::Extension) && opened.project.has_extension() {
        changes.extend(files::extension(&opened, &tree)?);
    }
    // kustomize reads files, so its input is written before it runs.
    let early = !tree.kustomization.foreign.is_empty() && !args.check && !args.dry_run;
    if early {
        project::write_all(&opened.root, &changes)?;
        report(&changes);
        changes.clear();
    }
    let tree = if early { KustomizeTree::read(&opened, None, None)? } else { tree };
    changes.extend(files::products(&opened, &program, &tree, &parts)?);

    if args.check {
        return check(&changes);
    }
    if args.dry_run {
        return project::show_changes(&changes);
    }
    project::write_all(&opened.root, &changes)?;
    report(&changes);
    if changes.is_empty() && !early {
        eprintln!("everything is up to date");
    }
    Ok(())
}

fn report(changes: &[Change]) {
    for Change { path, old, new, .. } in changes {
        let done = match (old, new) {
            (None, _) => "created",
            (_, None) => "removed",
            _ => "changed",
        };
        eprintln!("{done} {path}");
    }
}

/// Fails if there are changes.
fn check(changes: &[Change]) -> anyhow::Result<()> {
    if changes.is_empty() {
        eprintln!("everything is up to date");
        return Ok(());
    }
    let stale: Vec<String> = changes.iter().map(|change| format!("{}: {}", change.path, summary(change))).collect();
    let message = format!(
        "{} out of date:\n  {}",
        if stale.len() == 1 { "a file is" } else { "some files are" },
        stale.join("\n  ")
    );
    Err(ErrorWithHint { message, hint: "run `windlass generate`, review the changes and commit them".into() }.into())
}

fn summary(change: &Change) -> String {
    let (Some(old), Some(new)) = (&change.old, &change.new) else {
        return if change.new.is_none() { "is no longer generated" } else { "is missing" }.to_owned();
    };
    let diff = windlass_scaffold::difference(&change.path, Some(old), Some(new));
    let count =
        |sign: char, head: &str| diff.lines().filter(|line| line.starts_with(sign) && !line.starts_with(head)).count();
    format!("+{} -{} lines", count('+', "+++ "), count('-', "--- "))
}

impl Part {
    fn product(self) -> Option<Product> {
        match self {
            Self::Overlays => Some(Product::Overlays),
            Self::Installer => Some(Product::Installer),
            Self::Chart => Some(Product::Chart),
            Self::Bundle => Some(Product::Bundle),
            Self::Dashboard => Some(Product::Dashboard),
            Self::Crds | Self::Extension | Self::Rbac | Self::Webhooks | Self::Manager => None,
        }
    }
}
