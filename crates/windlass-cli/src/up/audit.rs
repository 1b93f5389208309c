//! The options of auditing, under the names of kube-apiserver.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use tracing::warn;
use windlass_plane::audit::{AuditOptions, Batching, LogFormat, LogOptions, Mode, Policy, Truncation, WebhookOptions};

use crate::failure::ErrorWithHint;

/// Options for auditing.
#[derive(Debug, Args)]
#[command(next_help_heading = "Auditing")]
pub(crate) struct AuditArgs {
    /// Audit policy: which requests are recorded, and at which level
    #[arg(long, value_name = "FILE")]
    audit_policy_file: Option<PathBuf>,
    /// File for audit events, one JSON object per line; "-" for standard output
    #[arg(long, value_name = "FILE", allow_hyphen_values = true)]
    audit_log_path: Option<PathBuf>,
    /// Maximum size of the audit log in MiB before it is rotated; 0 for no rotation
    #[arg(long, value_name = "MIB", default_value_t = 100)]
    audit_log_maxsize: u32,
    /// Number of days to keep rotated audit logs; 0 for no limit
    #[arg(long, value_name = "DAYS", default_value_t = 366)]
    audit_log_maxage: u32,
    /// Number of rotated audit logs to keep; 0 for no limit
    #[arg(long, value_name = "N", default_value_t = 100)]
    audit_log_maxbackup: usize,
    /// Compress rotated audit logs with gzip
    #[arg(long)]
    audit_log_compress: bool,
    /// Format of events in the audit log
    #[arg(long, value_enum, default_value_t = FormatArg::Json)]
    audit_log_format: FormatArg,
    /// Handling of events: whether requests wait until their events are logged
    #[arg(long, value_enum, default_value_t = ModeArg::Batch)]
    audit_log_mode: ModeArg,
    /// Maximum number of events waiting to be logged; in mode batch, further events are dropped
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    audit_log_batch_buffer_size: usize,
    /// Truncate large events in the audit log by omitting their objects
    #[arg(long)]
    audit_log_truncate_enabled: bool,
    /// Maximum size of an event in bytes; larger events are truncated if truncation is enabled
    #[arg(long, value_name = "BYTES", default_value_t = Truncation::default().max_event_size)]
    audit_log_truncate_max_event_size: usize,
    /// Kubeconfig of a webhook that receives audit events
    #[arg(long, value_name = "FILE")]
    audit_webhook_config_file: Option<PathBuf>,
    /// Handling of events: whether requests wait until the webhook has received them
    #[arg(long, value_enum, default_value_t = ModeArg::Batch)]
    audit_webhook_mode: ModeArg,
    /// Initial delay before events are sent again after a failure, such as 10s; grows with each attempt
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration)]
    audit_webhook_initial_backoff: Duration,
    /// Maximum number of events waiting to be sent; in mode batch, further events are dropped
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    audit_webhook_batch_buffer_size: usize,
    /// Maximum number of events in a batch
    #[arg(long, value_name = "N", default_value_t = 400)]
    audit_webhook_batch_max_size: usize,
    /// Maximum time to wait for a batch to fill
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration)]
    audit_webhook_batch_max_wait: Duration,
    /// Maximum number of batches per second; 0 for no limit
    #[arg(long, value_name = "N", default_value_t = 10.0)]
    audit_webhook_batch_throttle_qps: f64,
    /// Maximum burst of batches
    #[arg(long, value_name = "N", default_value_t = 15)]
    audit_webhook_batch_throttle_burst: u32,
    /// Truncate large events by omitting their objects, and split large batches
    #[arg(long)]
    audit_webhook_truncate_enabled: bool,
    /// Maximum size of an event in bytes; larger events are truncated if truncation is enabled
    #[arg(long, value_name = "BYTES", default_value_t = Truncation::default().max_event_size)]
    audit_webhook_truncate_max_event_size: usize,
    /// Maximum size of a batch in bytes; larger batches are split if truncation is enabled
    #[arg(long, value_name = "BYTES", default_value_t = Truncation::default().max_batch_size)]
    audit_webhook_truncate_max_batch_size: usize,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum FormatArg {
    /// One line of text per event, with the most important fields
    Legacy,
    /// One line of JSON per event
    Json,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ModeArg {
    /// Requests never wait; if there are too many events, they are dropped and counted
    Batch,
    /// Requests wait for their events
    Blocking,
    /// Requests wait for their events, and fail if the first one cannot be recorded
    BlockingStrict,
}

impl From<ModeArg> for Mode {
    fn from(mode: ModeArg) -> Self {
        match mode {
            ModeArg::Batch => Self::Batch,
            ModeArg::Blocking => Self::Blocking,
            ModeArg::BlockingStrict => Self::BlockingStrict,
        }
    }
}

impl AuditArgs {
    /// Reads the policy. Returns `None` if nothing is audited.
    pub(crate) fn options(self) -> anyhow::Result<Option<AuditOptions>> {
        let (log, webhook) = (self.log()?, self.webhook()?);
        let Some(file) = &self.audit_policy_file else {
            if log.is_some() || webhook.is_some() {
                warn!("no audit events are recorded: --audit-policy-file is missing");
            }
            return Ok(None);
        };
        let policy = policy(file)?;
        if log.is_none() && webhook.is_none() {
            warn!("no audit events are recorded: there is neither --audit-log-path nor --audit-webhook-config-file");
        }
        Ok(Some(AuditOptions { policy, log, webhook }))
    }

    fn log(&self) -> anyhow::Result<Option<LogOptions>> {
        let Some(path) = &self.audit_log_path else { return Ok(None) };
        let path = if path.as_os_str() == "-" { None } else { Some(absolute(path)?) };
        let max_event_size = self.audit_log_truncate_max_event_size;
        Ok(Some(LogOptions {
            path,
            max_size: u64::from(self.audit_log_maxsize) << 20,
            max_age: self.audit_log_maxage,
            max_backups: self.audit_log_maxbackup,
            compress: self.audit_log_compress,
            format: match self.audit_log_format {
                FormatArg::Legacy => LogFormat::Legacy,
                FormatArg::Json => LogFormat::Json,
            },
            mode: self.audit_log_mode.into(),
            batching: Batching { buffer_events: self.audit_log_batch_buffer_size, ..Batching::default() },
            truncation: self
                .audit_log_truncate_enabled
                .then_some(Truncation { max_event_size, ..Truncation::default() }),
        }))
    }

    fn webhook(&self) -> anyhow::Result<Option<WebhookOptions>> {
        let Some(config_file) = &self.audit_webhook_config_file else { return Ok(None) };
        let (rate, burst) = (self.audit_webhook_batch_throttle_qps, self.audit_webhook_batch_throttle_burst);
        Ok(Some(WebhookOptions {
            config_file: absolute(config_file)?,
            initial_backoff: self.audit_webhook_initial_backoff,
            mode: self.audit_webhook_mode.into(),
            batching: Batching {
                buffer_events: self.audit_webhook_batch_buffer_size,
                max_size: self.audit_webhook_batch_max_size,
                max_wait: self.audit_webhook_batch_max_wait,
                throttle: (rate > 0.0).then_some((rate, burst)),
                ..Batching::default()
            },
            truncation: self.audit_webhook_truncate_enabled.then_some(Truncation {
                max_event_size: self.audit_webhook_truncate_max_event_size,
                max_batch_size: self.audit_webhook_truncate_max_batch_size,
            }),
        }))
    }
}

/// Reads a policy, with the complaints of a strict decoder as a warning.
fn policy(file: &Path) -> anyhow::Result<Policy> {
    let text = fs::read(file).with_context(|| format!("cannot read audit policy {}", file.display()))?;
    let policy = Policy::parse(&text).map_err(|error| ErrorWithHint {
        message: format!("cannot use audit policy {}: {error}", file.display()),
        hint: error.hint().into(),
    })?;
    if !policy.complaints().is_empty() {
        warn!("audit policy {} has fields that are ignored: {}", file.display(), policy.complaints().join(", "));
    }
    Ok(policy)
}

fn absolute(path: &Path) -> anyhow::Result<PathBuf> {
    std::path::absolute(path).with_context(|| format!("cannot resolve the path {}", path.display()))
}

/// Parses a duration in the format of Go.
fn duration(text: &str) -> Result<Duration, String> {
    let nanoseconds = windlass_schema::time::parse_duration(text)?;
    u64::try_from(nanoseconds).map(Duration::from_nanos).map_err(|_| "must not be negative".to_owned())
}
