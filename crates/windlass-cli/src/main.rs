//! The `windlass` command.
//!
//! Data goes to standard output, everything else to standard error. Exit codes: 0 success, 1 failure, 2 usage error,
//! 3 the data of a running control plane was lost or can no longer be written, 130 aborted by a second signal.

// The one crate whose business is to print.
#![allow(clippy::print_stdout, clippy::print_stderr)]

/// Prints to standard error. Unlike the macro of the standard library, it does not panic if writing fails: a closed
/// pipe or a full disk is no reason to stop in the middle of an operation.
macro_rules! eprint {
    ($($text:tt)*) => {{
        let _ = std::io::Write::write_fmt(&mut std::io::stderr(), format_args!($($text)*));
    }};
}

/// Prints a line to standard error.
macro_rules! eprintln {
    () => { eprint!("\n") };
    ($($text:tt)*) => { eprint!("{}\n", format_args!($($text)*)) };
}

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::drop_in::Entry;

mod assets;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may fail")]
mod book;
mod cluster;
mod completion;
mod confirm;
mod crd;
mod create;
mod data_dir;
mod delete;
mod demo;
mod deploy;
mod doctor;
mod down;
mod drop_in;
mod duration;
mod edit;
mod etcd;
mod failure;
mod generate;
mod import;
mod init;
mod install;
mod join_file;
mod kubeconfig;
mod kubectl_env;
mod logging;
mod migrate;
mod output;
mod plan;
mod project;
mod rbac;
mod ready_file;
mod run;
mod running;
mod secret_file;
mod service_account;
mod shell;
mod signals;
mod snapshot;
mod status;
mod store;
mod threads;
mod undeploy;
mod uninstall;
mod up;
mod upgrade;
mod user;
mod version;

/// A server of JSON makes many small allocations: with glibc's allocator they take a third of its processor time.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Build, run and test Kubernetes operators with an embedded control plane
#[derive(Debug, Parser)]
#[command(name = "windlass", version)]
struct Cli {
    /// Increase log verbosity; up to three times. RUST_LOG takes precedence
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    verbose: u8,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Demo(demo::DemoArgs),
    Init(init::InitArgs),
    Create(create::CreateArgs),
    Edit(edit::EditArgs),
    Delete(delete::DeleteArgs),
    Import(import::ImportArgs),
    Upgrade(upgrade::UpgradeArgs),
    Generate(generate::GenerateArgs),
    Install(install::InstallArgs),
    Uninstall(uninstall::UninstallArgs),
    Deploy(deploy::DeployArgs),
    Undeploy(undeploy::UndeployArgs),
    Run(run::RunArgs),
    Plan(plan::PlanArgs),
    Migrate(migrate::MigrateArgs),
    Up(Box<up::UpArgs>),
    Down(down::DownArgs),
    Status(status::StatusArgs),
    Snapshot(snapshot::SnapshotArgs),
    Store(store::StoreArgs),
    JoinFile(join_file::JoinFileArgs),
    KubectlEnv(kubectl_env::KubectlEnvArgs),
    Assets(assets::AssetsArgs),
    User(user::UserArgs),
    Doctor(doctor::DoctorArgs),
    Crd(crd::CrdArgs),
    Rbac(rbac::RbacArgs),
    Completion(completion::CompletionArgs),
    Version(version::VersionArgs),
}

fn main() -> ExitCode {
    let mut arguments = std::env::args_os();
    if let Some(entry) = arguments.next().and_then(|program| Entry::called_as(&program)) {
        return entry.run(arguments);
    }
    // Internal: the plane runs processes of pods with this command.
    if arguments.next().is_some_and(|first| first == windlass_plane::POD_PROCESS) {
        let error = windlass_plane::exec_pod_process(arguments);
        return failure::report(&anyhow::Error::new(error).context("failed to start a process of a pod"));
    }
    let cli = Cli::parse();
    // Errors that the demo provokes on purpose are not logged between its lines.
    if !matches!(cli.command, Command::Demo(_)) || cli.verbose > 0 {
        logging::start(cli.verbose);
    }
    let result = match cli.command {
        Command::Demo(args) => demo::run(args),
        Command::Init(args) => init::run(args),
        Command::Create(args) => create::run(args),
        Command::Edit(args) => edit::run(args),
        Command::Delete(args) => delete::run(args),
        Command::Import(args) => import::run(args),
        Command::Upgrade(args) => upgrade::run(args),
        Command::Generate(args) => generate::run(args),
        Command::Install(args) => install::run(args),
        Command::Uninstall(args) => uninstall::run(args),
        Command::Deploy(args) => deploy::run(args),
        Command::Undeploy(args) => undeploy::run(args),
        Command::Run(args) => run::run(args),
        Command::Plan(args) => plan::run(args),
        Command::Migrate(args) => migrate::run(args),
        Command::Up(args) => up::run(*args),
        Command::Down(args) => down::run(args),
        Command::Status(args) => status::run(args),
        Command::Snapshot(args) => snapshot::run(args),
        Command::Store(args) => store::run(args),
        Command::JoinFile(args) => join_file::run(args),
        Command::KubectlEnv(args) => kubectl_env::run(args),
        Command::Assets(args) => assets::run(args),
        Command::User(args) => user::run(args),
        Command::Doctor(args) => doctor::run(args),
        Command::Crd(args) => crd::run(args),
        Command::Rbac(args) => rbac::run(args),
        Command::Completion(args) => completion::run(args),
        Command::Version(args) => version::run(args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failure::report(&error),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_well_formed() {
        super::Cli::command().debug_assert();
    }
}
