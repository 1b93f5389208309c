//! `windlass create`: additions to a project.

use clap::{Args, Subcommand};
use windlass_scaffold::{Field, ScaffoldError};

mod api;
mod controller;
mod version;
mod webhook;

/// Add a resource, a version, a webhook or a controller to the project
#[derive(Debug, Args)]
pub(crate) struct CreateArgs {
    #[command(subcommand)]
    command: CreateCommand,
}

#[derive(Debug, Subcommand)]
enum CreateCommand {
    Api(api::ApiArgs),
    Controller(controller::ControllerArgs),
    Version(version::VersionArgs),
    Webhook(webhook::WebhookArgs),
}

/// Runs the subcommand.
pub(crate) fn run(args: CreateArgs) -> anyhow::Result<()> {
    match args.command {
        CreateCommand::Api(args) => api::run(args),
        CreateCommand::Controller(args) => controller::run(args),
        CreateCommand::Version(args) => version::run(args),
        CreateCommand::Webhook(args) => webhook::run(args),
    }
}

/// Fields of a spec.
#[derive(Debug, Args)]
pub(crate) struct FieldArgs {
    /// Field of the spec, for example replicas:int32=1..10,default=3; may be repeated
    ///
    /// NAME:TYPE[?][=RANGE][,default=VALUE][,pattern=REGEX][,example=VALUE][,doc=DESCRIPTION]. Types: string, int,
    /// int32, int64, bool, number, duration, quantity, time, enum(a|b|c), map, and []TYPE for lists. A `?` makes the
    /// field optional. A range limits the value of a number, the length of a string, or the number of items of a list
    /// or map.
    #[arg(long = "field", value_name = "FIELD")]
    fields: Vec<String>,
}

impl FieldArgs {
    pub(crate) fn read(&self) -> Result<Vec<Field>, ScaffoldError> {
        self.fields.iter().map(|text| text.parse()).collect()
    }
}
