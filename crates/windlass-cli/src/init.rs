//! `windlass init`: a new project.

use std::{collections::BTreeMap, path::PathBuf};

use clap::{Args, ValueEnum};
use windlass_scaffold::{Conflicts, Files, License, Project, ProjectOptions};

use crate::{
    failure::Advised,
    project::{self, Origin, SourceArgs, Step, Writing},
};

/// Make a new project: an operator that builds, passes its tests and can be deployed
///
/// The folder is named as the project, unless --dir says another. Resources are added with `windlass create api`.
#[derive(Debug, Args)]
pub(crate) struct InitArgs {
    /// Name of the project: of its crate, its Deployment and its lease
    name: String,
    /// Domain that the groups of its resources end with, as example.com
    #[arg(long)]
    domain: String,
    /// Folder to make it in [default: NAME]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// A sentence about it
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// Licence it is under
    #[arg(long, value_enum, default_value_t = LicenseArg::Apache2)]
    license: LicenseArg,
    /// Whose it is, for the licence
    #[arg(long, value_name = "NAME")]
    owner: Option<String>,
    #[command(flatten)]
    source: SourceArgs,
    /// Release of Windlass to depend on [default: where this windlass was installed from]
    #[arg(long = "version", alias = "windlass-version", value_name = "VERSION")]
    windlass_version: Option<String>,
    #[command(flatten)]
    writing: Writing,
}

/// Licences of projects.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum LicenseArg {
    /// Apache License 2.0
    Apache2,
    /// MIT
    Mit,
    /// None
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

/// Makes the project.
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
        let message = format!("{} is a project already", root.display());
        return Err(Advised { message, hint: "choose another name, or change it with `windlass edit`".into() }.into());
    }
    let recorded = BTreeMap::new();
    let step = Step { root: &root, recorded: &recorded, before: Files::new(), conflicts: Conflicts::ByHand };
    step.take(project.into(), args.writing)?;
    eprintln!("\n{source}");
    if !args.writing.dry_run {
        eprintln!("\nnext:");
        eprintln!("  cd {}", root.display());
        eprintln!("  windlass create api --group GROUP --version v1alpha1 --kind KIND --field name:type");
        eprintln!("  cargo test");
    }
    Ok(())
}
