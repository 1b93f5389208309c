//! Plays the story: runs every step, and waits until its condition is met.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail};
use futures_util::FutureExt as _;
use kube::Client;
use network_operator::backend::memory::Memory;
use serde_json::Value;
use tokio::task::{JoinError, JoinSet};
use windlass::{
    operator::{Operator, OperatorError, Options},
    prelude::ObjectKey,
    shutdown::Shutdown,
};
use windlass_schema::sorting::Gather as _;

use super::{
    kubectl::{Kubectl, Line, Printed, Selection, kind},
    screen::{Screen, milliseconds},
    story::{Chapter, FILES, StoryStep},
    until::{Until, id},
};
use crate::failure::ErrorWithHint;

/// Timeout for a condition, generous enough for a busy machine.
const DEADLINE: Duration = Duration::from_secs(60);
/// Polling interval.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// The running operators.
pub(super) struct Operators {
    client: Client,
    shutdown: Shutdown,
    running: JoinSet<Result<(), OperatorError>>,
    switch: Memory,
}

impl Operators {
    /// No operators yet; they will connect like any other client.
    pub(super) fn new(client: Client) -> Self {
        Self { client, shutdown: Shutdown::new(), running: JoinSet::new(), switch: Memory::default() }
    }

    fn start(&mut self) {
        let network = network_operator::operator::operator(self.switch.clone());
        for operator in [network, guestbook_operator::operator::operator()] {
            self.spawn(operator);
        }
    }

    fn spawn(&mut self, operator: Operator) {
        self.running.spawn(operator.run_with(self.client.clone(), Options::default(), self.shutdown.clone()).boxed());
    }

    /// Resolves if an operator stops, which is always an error, and returns the reason.
    pub(super) async fn failed(&mut self) -> anyhow::Error {
        match self.running.join_next().await {
            Some(ended) => why(ended),
            None => std::future::pending().await,
        }
    }

    /// Returns an error if an operator has stopped.
    fn check(&mut self) -> anyhow::Result<()> {
        match self.running.try_join_next() {
            None => Ok(()),
            Some(ended) => Err(why(ended)),
        }
    }

    /// Lets them finish reconciles in flight.
    pub(super) async fn stop(&mut self) {
        self.shutdown.drain();
        while self.running.join_next().await.is_some() {}
    }
}

fn why(ended: Result<Result<(), OperatorError>, JoinError>) -> anyhow::Error {
    const STOPPED: &str = "an operator stopped unexpectedly";
    match ended {
        Ok(Err(error)) => anyhow::Error::new(error).context(STOPPED),
        Err(error) => anyhow::Error::new(error).context(STOPPED),
        Ok(Ok(())) => anyhow::Error::msg(STOPPED),
    }
}

/// Plays the story.
pub(super) struct StoryPlayer<'a> {
    kubectl: Kubectl<'a>,
    screen: &'a Screen,
    operators: &'a mut Operators,
    /// Time at which the last command finished.
    done: Instant,
    /// Uids of pods that existed before it.
    pods: BTreeSet<String>,
    healed: Vec<(&'static str, Duration)>,
}

impl<'a> StoryPlayer<'a> {
    pub(super) fn new(client: Client, files: &'a Path, screen: &'a Screen, operators: &'a mut Operators) -> Self {
        let kubectl = Kubectl { client, files };
        Self { kubectl, screen, operators, done: Instant::now(), pods: BTreeSet::new(), healed: Vec::new() }
    }

    /// Plays all chapters. Fails if a condition is not met. Returns what recovered, and how fast.
    pub(super) async fn play(mut self, chapters: &[Chapter]) -> anyhow::Result<Vec<(&'static str, Duration)>> {
        for (number, chapter) in chapters.iter().enumerate() {
            if number > 0 {
                self.screen.between_chapters().await?;
            }
            self.screen.title(number + 1, chapter.title)?;
            for (at, step) in chapter.steps.iter().enumerate() {
                let told = self.perform(step).await;
                told.with_context(|| format!("chapter {}, “{}”", number + 1, chapter.title))?;
                // Consecutive checks are shown together, so that the reader's pause is not measured.
                if step.is_check() && !chapter.steps.get(at + 1).is_some_and(StoryStep::is_check) {
                    self.screen.end_of_output().await?;
                }
            }
        }
        Ok(self.healed)
    }

    async fn perform(&mut self, step: &StoryStep) -> anyhow::Result<()> {
        match step {
            StoryStep::Say(text) => self.screen.say(text).await?,
            StoryStep::Show(name) => {
                let (_, text) = FILES.iter().find(|(known, _)| known == name).context("there is no such file")?;
                self.screen.command(&format!("cat {name}")).await?;
                self.screen.table(text)?;
                self.screen.end_of_output().await?;
            }
            StoryStep::Do(line) => self.run(line, false).await?,
            StoryStep::Rejected(line) => self.run(line, true).await?,
            StoryStep::Watch(line, until) => self.watch(line, until).await?,
            StoryStep::Await(what, until) => {
                let after = self.wait(what, until).await?;
                self.screen.come_true(what, Some(after))?;
            }
            StoryStep::Stays(what, until) => {
                self.wait(what, until).await?;
                self.screen.come_true(what, None)?;
            }
            StoryStep::Recovers(what, until) => {
                let after = self.wait(what, until).await?;
                self.healed.push((what, after));
                self.screen.come_true(what, Some(after))?;
            }
            StoryStep::StartOperators => {
                self.operators.start();
                self.screen.come_true("network-operator and guestbook-operator are running", None)?;
            }
            StoryStep::Switch(broken) => {
                self.operators.switch.fail_with(*broken);
                self.done = Instant::now();
            }
            StoryStep::InSwitch { network, exists } => {
                let kept = self.operators.switch.get(&ObjectKey::namespaced("default", network)).is_some();
                if kept != *exists {
                    bail!("the switch {} the network {network}", if kept { "still has" } else { "has lost" });
                }
            }
        }
        Ok(())
    }

    async fn run(&mut self, text: &str, rejected: bool) -> anyhow::Result<()> {
        let line = Line::parse(text)?;
        let pods = self.kubectl.list(kind("pods").context("pods must be a known kind")?, &Selection::default()).await?;
        self.pods = pods.iter().map(|pod| id(pod).to_owned()).gather();
        self.screen.command(text).await?;
        let printed = self.kubectl.run(&line).await.with_context(|| text.to_owned())?;
        self.done = Instant::now();
        match (printed, rejected) {
            (Printed::Done(printed), false) if matches!(line, Line::Get(..)) => self.screen.table(&printed)?,
            (Printed::Done(printed), false) => self.screen.output(&printed)?,
            (Printed::Rejected(printed), true) => self.screen.rejection(&printed)?,
            (Printed::Done(_), true) => bail!("`{text}` was not rejected"),
            (Printed::Rejected(printed), false) => bail!("`{text}` was rejected: {}", printed.trim_end()),
        }
        // The next condition is awaited at once; time to read comes after it.
        match line {
            Line::Get(..) => self.screen.end_of_output().await?,
            _ if rejected => self.screen.end_of_output().await?,
            _ => self.screen.print("\n")?,
        }
        Ok(())
    }

    /// Prints rows as they change.
    async fn watch(&mut self, text: &str, until: &Until) -> anyhow::Result<()> {
        let Line::Get(selection, _) = Line::parse(text)? else { bail!("only get supports -w") };
        let [kind] = selection.kinds[..] else { bail!("only one kind can be watched") };
        let since = self.done;
        self.screen.command_at_once(text)?;
        let (mut seen, mut widths, mut headed) = (BTreeMap::new(), Vec::new(), false);
        loop {
            // Checked first, so that the change that met the condition is printed, too.
            let (holds, _) = self.look(until).await?;
            let news = self.kubectl.rows(kind, &selection).await?.news(&mut seen);
            if !news.is_empty() {
                if !headed {
                    self.screen.table(&news.head(&mut widths))?;
                    headed = true;
                }
                self.screen.table(&news.lines(&mut widths).join("\n"))?;
            }
            match holds {
                Ok(()) => return Ok(self.screen.print("\n")?),
                Err(why) if since.elapsed() > DEADLINE => return Err(late(text, &why)),
                Err(_) => tokio::time::sleep(POLL_INTERVAL).await,
            }
        }
    }

    /// Waits until the condition is met, and returns the time since the last command.
    async fn wait(&mut self, what: &str, until: &Until) -> anyhow::Result<Duration> {
        loop {
            match self.look(until).await? {
                (Ok(()), at) => return Ok(at.duration_since(self.done)),
                (Err(why), _) if self.done.elapsed() > DEADLINE => return Err(late(what, &why)),
                (Err(_), _) => tokio::time::sleep(POLL_INTERVAL).await,
            }
        }
    }

    async fn look(&mut self, until: &Until) -> anyhow::Result<(Result<(), String>, Instant)> {
        self.operators.check()?;
        let about = until.about();
        let mut objects: Vec<Value> = Vec::new();
        for kind in &about.kinds {
            objects.extend(self.kubectl.list(kind, &about).await?);
        }
        Ok((until.holds(&objects, &self.pods), Instant::now()))
    }
}

fn late(what: &str, why: &str) -> anyhow::Error {
    ErrorWithHint {
        message: format!("“{what}” did not happen within {}: {why}", milliseconds(DEADLINE)),
        hint: "this is a bug: `windlass -vv demo` logs what the operators and control loops do".into(),
    }
    .into()
}
