//! Telling the story: every step is done, and what it promises is looked for until it is true.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail};
use kube::Client;
use network_operator::backend::memory::Memory;
use serde_json::Value;
use tokio::task::{JoinError, JoinSet};
use windlass::{
    operator::{Operator, OperatorError, Options},
    prelude::ObjectKey,
    shutdown::Shutdown,
};

use super::{
    kubectl::{Kubectl, Line, Printed, Selection, kind},
    screen::{Screen, milliseconds},
    story::{Chapter, FILES, Step},
    until::{Until, id},
};
use crate::failure::Advised;

/// How long something may take to come true: on a busy machine, too.
const DEADLINE: Duration = Duration::from_secs(60);
/// How often one looks.
const AGAIN: Duration = Duration::from_millis(5);

/// The operators at work.
pub(super) struct Operators {
    client: Client,
    shutdown: Shutdown,
    running: JoinSet<Result<(), OperatorError>>,
    switch: Memory,
}

impl Operators {
    /// None yet; they will speak to the server as any other client.
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
        self.running.spawn(operator.run_with(self.client.clone(), Options::default(), self.shutdown.clone()));
    }

    /// Resolves if one ends, which none does unless something is wrong; and says why.
    pub(super) async fn failed(&mut self) -> anyhow::Error {
        match self.running.join_next().await {
            Some(ended) => why(ended),
            None => std::future::pending().await,
        }
    }

    /// Says why one has ended, if one has.
    fn check(&mut self) -> anyhow::Result<()> {
        match self.running.try_join_next() {
            None => Ok(()),
            Some(ended) => Err(why(ended)),
        }
    }

    /// Lets them finish what they do.
    pub(super) async fn stop(&mut self) {
        self.shutdown.drain();
        while self.running.join_next().await.is_some() {}
    }
}

fn why(ended: Result<Result<(), OperatorError>, JoinError>) -> anyhow::Error {
    const STOPPED: &str = "an operator stopped";
    match ended {
        Ok(Err(error)) => anyhow::Error::new(error).context(STOPPED),
        Err(error) => anyhow::Error::new(error).context(STOPPED),
        Ok(Ok(())) => anyhow::Error::msg(STOPPED),
    }
}

/// Somebody who tells the story.
pub(super) struct Teller<'a> {
    kubectl: Kubectl<'a>,
    screen: &'a Screen,
    operators: &'a mut Operators,
    /// When the last line was done.
    done: Instant,
    /// The pods that were there before it.
    pods: BTreeSet<String>,
    healed: Vec<(&'static str, Duration)>,
}

impl<'a> Teller<'a> {
    pub(super) fn new(client: Client, files: &'a Path, screen: &'a Screen, operators: &'a mut Operators) -> Self {
        let kubectl = Kubectl { client, files };
        Self { kubectl, screen, operators, done: Instant::now(), pods: BTreeSet::new(), healed: Vec::new() }
    }

    /// Tells all of it. Fails if something does not come true. Answers what healed, and how fast.
    pub(super) async fn tell(mut self, chapters: &[Chapter]) -> anyhow::Result<Vec<(&'static str, Duration)>> {
        for (number, chapter) in chapters.iter().enumerate() {
            if number > 0 {
                self.screen.between_chapters().await?;
            }
            self.screen.title(number + 1, chapter.title)?;
            for (at, step) in chapter.steps.iter().enumerate() {
                let told = self.take(step).await;
                told.with_context(|| format!("chapter {}, “{}”", number + 1, chapter.title))?;
                // What comes true one after the other is told in one go, lest times to read are measured.
                if step.is_promise() && !chapter.steps.get(at + 1).is_some_and(Step::is_promise) {
                    self.screen.end_of_output().await?;
                }
            }
        }
        Ok(self.healed)
    }

    async fn take(&mut self, step: &Step) -> anyhow::Result<()> {
        match step {
            Step::Say(text) => self.screen.say(text).await?,
            Step::Show(name) => {
                let (_, text) = FILES.iter().find(|(known, _)| known == name).context("there is no such file")?;
                self.screen.command(&format!("cat {name}")).await?;
                self.screen.table(text)?;
                self.screen.end_of_output().await?;
            }
            Step::Do(line) => self.run(line, false).await?,
            Step::Refused(line) => self.run(line, true).await?,
            Step::Watch(line, until) => self.watch(line, until).await?,
            Step::Comes(what, until) => {
                let after = self.wait(what, until).await?;
                self.screen.come_true(what, Some(after))?;
            }
            Step::Stays(what, until) => {
                self.wait(what, until).await?;
                self.screen.come_true(what, None)?;
            }
            Step::Heals(what, until) => {
                let after = self.wait(what, until).await?;
                self.healed.push((what, after));
                self.screen.come_true(what, Some(after))?;
            }
            Step::StartOperators => {
                self.operators.start();
                self.screen.come_true("network-operator and guestbook-operator work", None)?;
            }
            Step::Switch(broken) => {
                self.operators.switch.fail_with(*broken);
                self.done = Instant::now();
            }
            Step::InSwitch { network, there } => {
                let kept = self.operators.switch.get(&ObjectKey::namespaced("default", network)).is_some();
                if kept != *there {
                    bail!("the switch {} the network {network}", if kept { "still has" } else { "has lost" });
                }
            }
        }
        Ok(())
    }

    async fn run(&mut self, text: &str, refused: bool) -> anyhow::Result<()> {
        let line = Line::parse(text)?;
        let pods = self.kubectl.list(kind("pods").context("pods are a kind")?, &Selection::default()).await?;
        self.pods = pods.iter().map(|pod| id(pod).to_owned()).collect();
        self.screen.command(text).await?;
        let printed = self.kubectl.run(&line).await.with_context(|| text.to_owned())?;
        self.done = Instant::now();
        match (printed, refused) {
            (Printed::Done(printed), false) if matches!(line, Line::Get(..)) => self.screen.table(&printed)?,
            (Printed::Done(printed), false) => self.screen.output(&printed)?,
            (Printed::Refused(printed), true) => self.screen.refusal(&printed)?,
            (Printed::Done(_), true) => bail!("`{text}` was to be refused, and was not"),
            (Printed::Refused(printed), false) => bail!("`{text}` was refused: {}", printed.trim_end()),
        }
        // What comes true next is looked for at once; the time to read is after that.
        match line {
            Line::Get(..) => self.screen.end_of_output().await?,
            _ if refused => self.screen.end_of_output().await?,
            _ => self.screen.print("\n")?,
        }
        Ok(())
    }

    /// Prints rows as they change.
    async fn watch(&mut self, text: &str, until: &Until) -> anyhow::Result<()> {
        let Line::Get(selection, _) = Line::parse(text)? else { bail!("only get watches") };
        let [kind] = selection.kinds[..] else { bail!("only one kind is watched") };
        let since = self.done;
        self.screen.command_at_once(text)?;
        let (mut seen, mut widths, mut headed) = (BTreeMap::new(), Vec::new(), false);
        loop {
            // Asked first: what made it true is printed, too.
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
                Err(_) => tokio::time::sleep(AGAIN).await,
            }
        }
    }

    /// Waits until it is true, and answers how long that was after the last line.
    async fn wait(&mut self, what: &str, until: &Until) -> anyhow::Result<Duration> {
        loop {
            match self.look(until).await? {
                (Ok(()), at) => return Ok(at.duration_since(self.done)),
                (Err(why), _) if self.done.elapsed() > DEADLINE => return Err(late(what, &why)),
                (Err(_), _) => tokio::time::sleep(AGAIN).await,
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
    Advised {
        message: format!("“{what}” did not come true within {}: {why}", milliseconds(DEADLINE)),
        hint: "this should not happen: `windlass -vv demo` logs what the operators and loops do".into(),
    }
    .into()
}
