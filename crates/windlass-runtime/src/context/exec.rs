//! Commands in containers.

use std::time::Duration;

use futures_util::future::join;
use k8s_openapi::{api::core::v1::Pod, apimachinery::pkg::apis::meta::v1::Status};
use kube::{
    Api,
    api::{AttachParams, AttachedProcess},
};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};

use super::{
    Context, ContextError,
    error::{RequestSubject, Verb},
    writes::interrupted,
};
use crate::{key::ObjectKey, lease::NotLeading, objects::AsObject};

/// Bytes that are kept of the output and of the error output, unless the command has another limit.
const LONGEST: u64 = 1 << 20;
/// Time limit of a command, unless it has another.
const LIMIT: Duration = Duration::from_secs(60);

/// A command to run in a container of a pod; see [`Context::exec`].
#[must_use = "nothing is run before `run`"]
pub struct Exec<'a> {
    context: &'a Context,
    pod: ObjectKey,
    command: Vec<String>,
    container: Option<String>,
    input: Option<Vec<u8>>,
    limit: Duration,
    longest: u64,
}

/// Result of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExecOutput {
    /// Output of the command, up to the limit.
    pub stdout: Vec<u8>,
    /// Error output of the command, up to the limit.
    pub stderr: Vec<u8>,
    /// Exit code; `None` if it is unknown, for example because the container has ended.
    pub exit_code: Option<i32>,
}

impl ExecOutput {
    /// Returns whether the command has succeeded.
    pub fn is_success(&self) -> bool {
        self.exit_code == Some(0)
    }
}

impl Context {
    /// Prepares a command in a container of a pod. It runs only while this process leads, and is cut off when it no longer
    /// does. It needs [`Controller::execs`](crate::controller::Controller::execs).
    ///
    /// ```no_run
    /// # use k8s_openapi::api::core::v1::Pod;
    /// # use windlass_runtime::{Error, Result, context::Context};
    /// # async fn backup(ctx: &Context, pod: &Pod) -> Result<()> {
    /// let dump = ctx.exec(pod, ["pg_dump", "shop"]).container("database").run().await?;
    /// if !dump.is_success() {
    ///     return Err(Error::new(String::from_utf8_lossy(&dump.stderr).into_owned()));
    /// }
    /// # Ok(()) }
    /// ```
    pub fn exec<C: Into<String>>(&self, pod: &impl AsObject<Pod>, command: impl IntoIterator<Item = C>) -> Exec<'_> {
        Exec {
            context: self,
            pod: ObjectKey::of(pod.object()),
            command: command.into_iter().map(Into::into).collect(),
            container: None,
            input: None,
            limit: LIMIT,
            longest: LONGEST,
        }
    }
}

impl Exec<'_> {
    /// Sets the container; the only one, or the default one, without it.
    pub fn container(mut self, name: impl Into<String>) -> Self {
        self.container = Some(name.into());
        self
    }

    /// Sets the input of the command.
    pub fn input(mut self, input: impl Into<Vec<u8>>) -> Self {
        self.input = Some(input.into());
        self
    }

    /// Sets the time after which the connection is cut off; a minute by default. The command may continue in the
    /// container.
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Sets the number of bytes that are kept of the output, and of the error output; 1 MiB by default. The rest is
    /// dropped.
    pub fn limit_bytes(mut self, longest: u64) -> Self {
        self.longest = longest;
        self
    }

    /// Runs the command and returns its output. The command may have run even if this is an error, except in a
    /// [dry run](Context::dry_run), which runs no commands.
    pub async fn run(self) -> Result<ExecOutput, ContextError> {
        let kind = self.context.kind::<Pod>();
        let target = kind.any().target(Verb::Exec, &self.pod);
        if self.context.is_dry_run() {
            return Err(target.no_dry_run());
        }
        self.context.may_write(&target)?;
        let handles = &self.context.handles;
        let key_lost = async {
            match &self.context.primary {
                Some(primary) => {
                    handles.shard.lost(primary).await;
                    target.clone().key_lost(primary)
                }
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = handles.leadership.lost() => Err(target.clone().not_leading(NotLeading)),
            error = key_lost => Err(error),
            output = tokio::time::timeout(self.limit, self.output(&target)) => match output {
                Ok(output) => output,
                Err(_) => Err(target.clone().failed(interrupted("the command took too long"))),
            },
        }
    }

    async fn output(&self, target: &RequestSubject) -> Result<ExecOutput, ContextError> {
        let pods: Api<Pod> = Api::namespaced(self.context.client(), self.pod.namespace().unwrap_or_default());
        let params = AttachParams {
            container: self.container.clone(),
            stdin: self.input.is_some(),
            stdout: true,
            stderr: true,
            ..AttachParams::default()
        };
        let process = pods.exec(self.pod.name(), self.command.iter().cloned(), &params).await;
        let mut process = process.map_err(|error| self.context.failed(target.clone(), error))?;
        let (stdout, stderr) = (process.stdout(), process.stderr());
        let status = process.take_status();
        let talking = join(self.feed(&mut process), join(self.read(stdout), self.read(stderr)));
        let ((), (stdout, stderr)) = talking.await;
        let status = match status {
            Some(status) => status.await,
            None => None,
        };
        Ok(ExecOutput { stdout, stderr, exit_code: status.as_ref().and_then(exit_code) })
    }

    async fn feed(&self, process: &mut AttachedProcess) {
        if let (Some(input), Some(mut stdin)) = (&self.input, process.stdin()) {
            // It is not an error if the command does not read its input.
            let _ = stdin.write_all(input).await;
            let _ = stdin.shutdown().await;
        }
    }

    /// Reads everything, and keeps the beginning: a command whose output is not read would block.
    async fn read(&self, from: Option<impl AsyncRead + Unpin>) -> Vec<u8> {
        let mut kept = Vec::new();
        if let Some(mut from) = from {
            let _ = (&mut from).take(self.longest).read_to_end(&mut kept).await;
            let _ = tokio::io::copy(&mut from, &mut tokio::io::sink()).await;
        }
        kept
    }
}

/// Returns the exit code that the API server reports.
fn exit_code(status: &Status) -> Option<i32> {
    if status.status.as_deref() == Some("Success") {
        return Some(0);
    }
    let causes = status.details.as_ref()?.causes.as_ref()?;
    let code = causes.iter().find(|cause| cause.reason.as_deref() == Some("ExitCode"))?;
    code.message.as_ref()?.parse().ok()
}
