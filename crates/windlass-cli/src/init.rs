//! `windlass init`: a new project.

use std::{collections::BTreeMap, path::PathBuf};

use clap::{Args, ValueEnum};
use windlass_scaffold::{Conflicts, Files, License, Project, ProjectOptions};

use crate::{
    failure::ErrorWithHint,
    project::{self, Origin, ProjectUpdate, SourceArgs, Writing},
};

/// Create a project: an operator that builds, passes its tests and can be deployed
///
/// The directory has the name of the project unless --dir is given. Add resources with `windlass create api`. The
/// project depends on Windlass from the same source as this command, unless --path, --git or --version is given.
#[derive(Debug, Args)]
pub(crate) struct InitArgs {
    /// Name of the project, its crate, its Deployment and its Lease
    name: String,
    /// Domain of the API groups, such as example.com
    #[arg(long)]
    domain: String,
    /// Directory to create [default: NAME]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// One-sentence description of the project
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// License of the project
    #[arg(long, value_enum, default_value_t = LicenseArg::Apache2)]
    license: LicenseArg,
    /// Copyright holder for the LICENSE file
    #[arg(long, value_name = "NAME")]
    owner: Option<String>,
    #[command(flatten)]
    source: SourceArgs,
    /// Release of Windlass to depend on
    #[arg(long = "version", alias = "windlass-version", value_name = "VERSION")]
    windlass_version: Option<String>,
    #[command(flatten)]
    writing: Writing,
}

/// Licenses of projects.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum LicenseArg {
    /// Apache License 2.0
    Apache2,
    /// MIT License
    Mit,
    /// No license
    None,
}

impl From<LicenseArg> for License {
    fn from(license: LicenseArg) -> Self {
        match license {
            LicenseArg::Apache2 => Self::Apache2,
            LicenseArg::Mit => Self::Mit,
            LicenseArg::None => Self::None,
        }
    }
}

/// Creates the project.
pub(crate) fn run(args: InitArgs) -> anyhow::Result<()> {
    let root = args.dir.unwrap_or_else(|| PathBuf::from(&args.name));
    let mut options = ProjectOptions::new(&args.name, args.domain);
    options.description = args.description;
    options.license = args.license.into();
    options.owner = args.owner;
    options.windlass = match args.source.source(args.windlass_version, &root)? {
        Some(source) => source,
        None => Origin::of_this_program().source()?,
    };
    let source = project::describe(&options.windlass);
    let project = Project::new(options)?;
    if root.join("PROJECT").exists() {
        let message = format!("{} is already a project", root.display());
        return Err(ErrorWithHint {
            message,
            hint: "choose another name, or change the project with `windlass edit`".into(),
        }
        .into());
    }
    let recorded = BTreeMap::new();
    let update = ProjectUpdate { root: &root, recorded: &recorded, before: Files::new(), conflicts: Conflicts::Report };
    update.execute(project.into(), args.writing)?;
    eprintln!("\n{source}");
    if !args.writing.dry_run {
        eprintln!("\nnext:");
        eprintln!("  cd {}", root.display());
        eprintln!("  windlass create api --group GROUP --version v1alpha1 --kind KIND --field name:type");
        eprintln!("  cargo test");
    }
    Ok(())
}
