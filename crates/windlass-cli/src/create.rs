//! `windlass create`: additions to a project.

use clap::{Args, Subcommand};
use windlass_scaffold::{Field, ScaffoldError};

mod api;
mod controller;
mod extension;
mod overlay;
mod release;
mod version;
mod webhook;

/// Add a resource, a version, a webhook, a controller or an API server to the project
#[derive(Debug, Args)]
pub(crate) struct CreateArgs {
    #[command(subcommand)]
    command: CreateCommand,
}

#[derive(Debug, Subcommand)]
enum CreateCommand {
    Api(api::ApiArgs),
    Controller(controller::ControllerArgs),
    Extension(extension::ExtensionArgs),
    Overlay(overlay::OverlayArgs),
    Release(release::ReleaseArgs),
    Version(version::VersionArgs),
    Webhook(webhook::WebhookArgs),
}

/// Runs the subcommand.
pub(crate) fn run(args: CreateArgs) -> anyhow::Result<()> {
    match args.command {
        CreateCommand::Api(args) => api::run(args),
        CreateCommand::Controller(args) => controller::run(args),
        CreateCommand::Extension(args) => extension::run(args),
        CreateCommand::Overlay(args) => overlay::run(args),
        CreateCommand::Release(args) => release::run(args),
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
    /// int32, int64, bool, number, duration, quantity, time, enum(a|b|c), object, []TYPE for lists, map for maps of
    /// strings and map[string]TYPE for others. A `?` makes the field optional. A range limits the value of a number, the
    /// length of a string, or the number of items of a list or map. Fields of an object, or of the objects in a list or
    /// map, are given by their path: `pod:object`, then `pod.image:string`.
    #[arg(long = "field", value_name = "FIELD")]
    fields: Vec<String>,
}

/// Fields of a status.
#[derive(Debug, Args)]
pub(crate) struct StatusFieldArgs {
    /// Field of the status, in the syntax of --field, for example readyReplicas:int32; may be repeated
    #[arg(long = "status-field", value_name = "FIELD")]
    status_fields: Vec<String>,
}

impl FieldArgs {
    pub(crate) fn read(&self) -> Result<Vec<Field>, ScaffoldError> {
        self.fields.iter().map(|text| text.parse()).collect()
    }
}

impl StatusFieldArgs {
    pub(crate) fn read(&self) -> Result<Vec<Field>, ScaffoldError> {
        self.status_fields.iter().map(|text| text.parse::<Field>()?.into_status()).collect()
    }
}
