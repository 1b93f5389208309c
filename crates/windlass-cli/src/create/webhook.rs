//! `windlass create webhook`: admission and conversion webhooks.

use clap::Args;
use windlass_scaffold::{WebhookOptions, Webhooks};

use crate::project::{self, Writing};

/// Scaffold webhooks for a resource of the project or a built-in kind
#[derive(Debug, Args)]
pub(crate) struct WebhookArgs {
    /// Group of the kind, if several groups have it
    #[arg(long)]
    group: Option<String>,
    /// Kind of the objects
    #[arg(long)]
    kind: String,
    /// Add a defaulting webhook
    #[arg(long)]
    defaulting: bool,
    /// Add a validating webhook
    #[arg(long)]
    validating: bool,
    /// Add a conversion webhook
    #[arg(long)]
    conversion: bool,
    #[command(flatten)]
    writing: Writing,
}

/// Adds the webhooks.
pub(crate) fn run(args: WebhookArgs) -> anyhow::Result<()> {
    let opened = project::open_current()?;
    let WebhookArgs { group, kind, defaulting, validating, conversion, writing } = args;
    let webhooks = Webhooks { defaulting, validating, conversion };
    opened.change(writing, |project| project.create_webhook(WebhookOptions { group, kind, webhooks }))
}
