//! The main loop of a run: executes the decisions of [`Lifecycle`].

use std::{future, path::PathBuf, pin::Pin, sync::Arc, time::Duration};

use tokio::{sync::mpsc, time::Instant};

use super::{
    build::{Built, Recipe},
    changes::Changes,
    event::{Build, Event, Operator, Reporter, in_words},
    install::Installer,
    lifecycle::{Action, Input, Lifecycle},
    operator::{OnReady, Running, Samples, Surroundings},
    process::ending,
    resources::Resources,
    tunnel::Installation,
};
use crate::failure::ErrorWithHint;

/// Timeout for removing the webhooks of the run.
const WITHDRAWING: Duration = Duration::from_secs(5);

/// A command of the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Restart,
    Pause,
    Quit,
}

/// All parts of a run.
pub(crate) struct Supervisor {
    pub(crate) recipe: Recipe,
    pub(crate) surroundings: Surroundings,
    pub(crate) installer: Installer,
    pub(crate) resources: Resources,
    pub(crate) reporter: Reporter,
    /// Sources to watch, unless disabled.
    pub(crate) changes: Option<Changes>,
    /// A directory of manifests to apply once.
    pub(crate) samples: Samples,
    /// Whether a failed first build ends the run, since the sources are not watched.
    pub(crate) must_build: bool,
}

/// A build or installation in progress.
type Work = Pin<Box<dyn Future<Output = Worked>>>;

enum Worked {
    Built(anyhow::Result<Built>),
    Installed(anyhow::Result<Installation>),
}

/// Changing state of the run.
#[derive(Default)]
struct Moment {
    lifecycle: Lifecycle,
    work: Option<Work>,
    operator: Option<Running>,
    due: Option<Instant>,
    program: Option<PathBuf>,
    installation: Arc<Installation>,
}

impl Supervisor {
    /// Builds and runs until told to stop, then cleans up.
    pub(crate) async fn run(
        mut self,
        mut commands: mpsc::Receiver<Command>,
        stop: impl Future<Output = ()>,
    ) -> anyhow::Result<()> {
        // A killed run may have left webhooks that block all writes, and a build takes its time.
        self.withdraw("failed to remove webhooks of an earlier run").await;
        let mut moment = Moment::default();
        let action = moment.lifecycle.on(Input::Restart);
        self.act(action, &mut moment).await;
        tokio::pin!(stop);
        let outcome = loop {
            let input = tokio::select! {
                () = &mut stop => break Ok(()),
                Some(command) = commands.recv() => match command {
                    Command::Quit => break Ok(()),
                    Command::Restart => Some(Input::Restart),
                    Command::Pause => Some(Input::Pause),
                },
                paths = changed(&mut self.changes) => match paths == ["Cargo.lock"] && moment.work.is_some() {
                    // Cargo reports it when it starts.
                    true => None,
                    false => {
                        self.reporter.tell(Event::Changed(paths)).await;
                        Some(Input::Changed)
                    }
                },
                done = finished(&mut moment.work) => {
                    moment.work = None;
                    match self.worked(done, &mut moment).await {
                        Ok(input) => Some(input),
                        Err(error) => break Err(error),
                    }
                }
                (status, after) = ended(&mut moment.operator) => {
                    moment.operator = None;
                    let action = moment.lifecycle.on(Input::Exited { after });
                    let again = if let Action::Wait(again) = action { again } else { Duration::ZERO };
                    self.reporter.tell(Event::Operator(Operator::Crashed { how: ending(status), again })).await;
                    self.act(action, &mut moment).await;
                    None
                }
                () = reached(moment.due) => {
                    moment.due = None;
                    Some(Input::Due)
                }
            };
            let Some(input) = input else { continue };
            let action = moment.lifecycle.on(input);
            if input == Input::Pause {
                self.reporter.tell(Event::Paused(moment.lifecycle.paused())).await;
            }
            self.act(action, &mut moment).await;
        };
        self.reporter.tell(Event::Ending).await;
        self.end(moment).await;
        outcome
    }

    async fn act(&mut self, action: Action, moment: &mut Moment) {
        match action {
            Action::Nothing => {}
            Action::Build => {
                // Cancels the build or installation in progress.
                moment.work = None;
                self.reporter.tell(Event::Build(Build::Started)).await;
                moment.work = Some(match self.recipe.start(&self.reporter) {
                    Ok(building) => Box::pin(async { Worked::Built(building.finish().await) }),
                    Err(error) => Box::pin(future::ready(Worked::Built(Err(error)))),
                });
            }
            Action::Install => {
                self.reporter.tell(Event::Operator(Operator::Installing)).await;
                let (installer, program) = (self.installer.clone(), moment.program.clone().unwrap_or_default());
                moment.work = Some(Box::pin(async move { Worked::Installed(installer.install(program).await) }));
            }
            Action::Wait(time) => moment.due = Some(Instant::now() + time),
            Action::Start => self.start(moment).await,
        }
    }

    async fn start(&mut self, moment: &mut Moment) {
        moment.due = None;
        if let Some(operator) = moment.operator.take() {
            self.reporter.tell(Event::Operator(Operator::Stopping)).await;
            operator.stop().await;
        }
        let after = OnReady {
            installer: self.installer.clone(),
            installation: moment.installation.clone(),
            samples: self.samples.clone(),
        };
        let program = moment.program.clone().unwrap_or_default();
        match self.surroundings.start(&program, after, &self.reporter) {
            Ok(operator) => {
                self.reporter.tell(Event::Operator(Operator::Starting { process: operator.id() })).await;
                moment.operator = Some(operator);
            }
            Err(error) => self.reporter.tell(Event::Operator(Operator::Failed { why: in_words(&error) })).await,
        }
    }

    /// Handles the end of a build or an installation.
    async fn worked(&mut self, done: Worked, moment: &mut Moment) -> anyhow::Result<Input> {
        Ok(match done {
            Worked::Built(Ok(Built { program, fresh, took })) => {
                moment.program = Some(program);
                self.must_build = false;
                self.reporter.tell(Event::Build(Build::Done { took, fresh })).await;
                Input::Built { fresh }
            }
            Worked::Built(Err(error)) => {
                if self.must_build {
                    let hint = "fix the compiler errors and run it again";
                    return Err(ErrorWithHint { message: format!("{error:#}"), hint: hint.into() }.into());
                }
                self.reporter.tell(Event::Build(Build::Failed { why: in_words(&error) })).await;
                Input::BuildFailed
            }
            Worked::Installed(Ok(installation)) => {
                self.resources.follow(&installation.definitions).await;
                moment.installation = Arc::new(installation);
                Input::Installed
            }
            Worked::Installed(Err(error)) => {
                self.reporter.tell(Event::Operator(Operator::Failed { why: in_words(&error) })).await;
                Input::InstallFailed
            }
        })
    }

    /// Webhooks are removed first: without an operator to respond, they would block writes.
    async fn end(self, mut moment: Moment) {
        moment.work = None;
        self.withdraw("failed to remove webhooks of this run").await;
        if let Some(operator) = moment.operator {
            operator.stop().await;
        }
    }

    async fn withdraw(&self, otherwise: &'static str) {
        let withdrawn = tokio::time::timeout(WITHDRAWING, self.installer.withdraw()).await;
        let withdrawn = withdrawn.unwrap_or_else(|_| Err(anyhow::anyhow!("the cluster does not respond")));
        if let Err(error) = withdrawn {
            self.reporter.complain(&error.context(otherwise)).await;
        }
    }
}

async fn changed(changes: &mut Option<Changes>) -> Vec<String> {
    match changes {
        Some(changes) => changes.next().await,
        None => future::pending().await,
    }
}

async fn finished(work: &mut Option<Work>) -> Worked {
    match work {
        Some(work) => work.await,
        None => future::pending().await,
    }
}

async fn ended(operator: &mut Option<Running>) -> (std::io::Result<std::process::ExitStatus>, Duration) {
    match operator {
        Some(operator) => operator.ended().await,
        None => future::pending().await,
    }
}

async fn reached(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => future::pending().await,
    }
}
