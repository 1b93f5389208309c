//! `windlass create webhook`: what the API server asks before it writes.

use clap::Args;
use windlass_scaffold::{WebhookOptions, Webhooks};

use crate::project::{self, Writing};

/// Add webhooks for a resource of the project, or for a kind of Kubernetes
#[derive(Debug, Args)]
pub(crate) struct WebhookArgs {
    /// Group of the kind, if several have it
    #[arg(long)]
    group: Option<String>,
    /// The kind
    #[arg(long)]
    kind: String,
    /// Fill in what was left out
    #[arg(long)]
    defaulting: bool,
    /// Refuse what cannot be
    #[arg(long)]
    validating: bool,
    /// Convert between the versions
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
