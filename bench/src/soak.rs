//! A soak test of the control loops: thousands of Deployments on simulated nodes, rolled out again several times, then
//! left alone.
//!
//! Everything must converge, memory must stay flat from one rollout to the next, and at rest nothing may be written
//! except node heartbeats and events. In addition, connections may be opened and cut and responses read slowly, and
//! memory may have a ceiling.

mod hostile;
mod writes;

use std::time::{Duration, Instant};

use anyhow::{bail, ensure};
use clap::Args;
use http::Method;
use serde_json::{Value, json};
use windlass_bench::table::thousands;

use self::{
    hostile::{Hostile, HostileArgs},
    writes::Writes,
};
use crate::{
    client::{Body, Client},
    phase::{self, Plan},
    servers::{self, Running},
    setup::SetupArgs,
};

/// Interval between progress checks.
const LOOK: Duration = Duration::from_secs(2);
/// Number of pods a simulated node accepts.
const PODS_PER_NODE: usize = 110;
/// Maximum number of writes per Deployment and everything it owns, in one rollout or its creation; more means that a
/// loop spins.
const MAX_WRITES: f64 = 60.0;
/// Maximum growth of memory from the first rollout to the last.
const MAX_GROWTH: f64 = 1.15;

/// Create many Deployments on simulated nodes, roll them out again, and check that the control loops come to rest
#[derive(Debug, Args)]
pub(crate) struct SoakArgs {
    #[command(flatten)]
    setup: SetupArgs,
    /// Number of Deployments; with 0, only the other clients run
    #[arg(long, default_value_t = 5000)]
    deployments: usize,
    /// Pods per Deployment
    #[arg(long, default_value_t = 3)]
    replicas: usize,
    /// Number of rollouts
    #[arg(long, default_value_t = 2)]
    rolls: usize,
    /// Total duration in minutes; the time left after the rollouts is spent at rest
    #[arg(long, default_value_t = 10)]
    minutes: u64,
    #[command(flatten)]
    hostile: HostileArgs,
}

/// A completed phase.
struct Phase {
    name: String,
    took: Duration,
    memory: u64,
    writes: Writes,
}

pub(crate) async fn run(args: SoakArgs) -> anyhow::Result<()> {
    let begin = Instant::now();
    let places = args.setup.places(&[servers::Which::Windlass])?;
    // Rollouts need room for new pods in addition to the old ones.
    let nodes = (args.deployments * args.replicas).div_ceil(PODS_PER_NODE) * 3 / 2 + 1;
    let server = servers::start_with_nodes(&places, nodes).await?;
    eprintln!("ready in {:.1} ms with {nodes} nodes", server.ready_in.as_secs_f64() * 1e3);
    let soak = Soak { client: Client::connect(&server.url, &server.tls, 4).await?, server, args };
    let mut hostile = Hostile::start(soak.args.hostile.clone(), &soak.server).await?;
    let phases = tokio::select! {
        phases = soak.phases(begin) => phases?,
        failed = hostile.supervise(&soak.server) => return failed,
    };
    let strain = hostile.end(&soak.server).await?;
    println!("{}\n{}", table(&phases, soak.args.deployments), strain.table());
    soak.args.setup.write_json(&json!({"phases": numbers(&phases), "strain": strain.to_json()}))?;
    judge(&phases, soak.args.deployments)?;
    strain.judge()
}

struct Soak {
    client: Client,
    server: Running,
    args: SoakArgs,
}

impl Soak {
    /// Runs all phases.
    async fn phases(&self, begin: Instant) -> anyhow::Result<Vec<Phase>> {
        let mut phases = Vec::new();
        let forms = if self.args.deployments == 0 { 0 } else { self.args.rolls + 1 };
        for form in 1..=forms {
            let name = if form == 1 { "create".to_owned() } else { format!("roll {}", form - 1) };
            phases.push(self.phase(&name, form).await?);
        }
        phases.push(self.rest(begin + Duration::from_secs(self.args.minutes * 60)).await?);
        Ok(phases)
    }

    /// Writes every Deployment in its n-th form and waits until all have converged.
    async fn phase(&self, name: &str, form: usize) -> anyhow::Result<Phase> {
        let (begin, before) = (Instant::now(), Writes::of(&self.client).await?);
        let plan = Plan { requests: self.args.deployments, lanes: 32, at_least: Duration::ZERO };
        let (client, replicas) = (self.client.clone(), self.args.replicas);
        phase::run(plan, move |lane, number| {
            let client = client.clone();
            async move {
                match form {
                    1 => {
                        client.measure(lane, Method::POST, COLLECTION, Body::json(&deployment(number, replicas))).await
                    }
                    _ => client.measure(lane, Method::PATCH, &path(number), changed(form)).await,
                }
            }
        })
        .await?;
        let written = begin.elapsed();
        self.converged(form).await?;
        let took = begin.elapsed();
        self.server.settle().await?;
        let writes = Writes::of(&self.client).await?.since(&before);
        eprintln!(
            "{name}: written in {:.1} s, converged after {:.1} s, {:.1} MB",
            written.as_secs_f64(),
            took.as_secs_f64(),
            self.server.memory()? as f64 / 1e6
        );
        Ok(Phase { name: name.to_owned(), took, memory: self.server.memory()?, writes })
    }

    /// Waits until every Deployment has all its pods in the newest form.
    async fn converged(&self, form: usize) -> anyhow::Result<()> {
        let deadline = Instant::now() + Duration::from_secs(60 * self.args.minutes.max(1));
        loop {
            let (status, list) = self.client.ask(Method::GET, COLLECTION, Body::default()).await?;
            ensure!(status.is_success(), "failed to list Deployments: {status}");
            let done = list["items"]
                .as_array()
                .map_or(0, |all| all.iter().filter(|deployment| is_done(deployment, self.args.replicas, form)).count());
            if done == self.args.deployments {
                return Ok(());
            }
            if Instant::now() > deadline {
                bail!("only {done} of {} Deployments have converged", self.args.deployments);
            }
            eprintln!("  {} of {}", thousands(done as u64), thousands(self.args.deployments as u64));
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Leaves everything alone until the end and counts the writes.
    async fn rest(&self, end: Instant) -> anyhow::Result<Phase> {
        let (begin, before) = (Instant::now(), Writes::of(&self.client).await?);
        tokio::time::sleep_until(end.max(begin + Duration::from_secs(60)).into()).await;
        let writes = Writes::of(&self.client).await?.since(&before);
        Ok(Phase { name: "rest".to_owned(), took: begin.elapsed(), memory: self.server.memory()?, writes })
    }
}

const COLLECTION: &str = "/apis/apps/v1/namespaces/default/deployments";

fn path(number: usize) -> String {
    format!("{COLLECTION}/soak-{number}")
}

fn deployment(number: usize, replicas: usize) -> Value {
    let labels = json!({"app": format!("soak-{number}")});
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": format!("soak-{number}"), "labels": labels},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "app:1"}]}},
        },
    })
}

fn changed(form: usize) -> Body {
    let containers = json!([{"name": "main", "image": format!("app:{form}")}]);
    let patch = json!({"spec": {"template": {"spec": {"containers": containers}}}});
    Body { content_type: "application/strategic-merge-patch+json", bytes: patch.to_string().into() }
}

fn is_done(deployment: &Value, replicas: usize, form: usize) -> bool {
    let status = &deployment["status"];
    let all = |field: &str| status[field].as_u64() == Some(replicas as u64);
    status["observedGeneration"].as_u64().is_some_and(|seen| seen >= form as u64)
        && ["replicas", "updatedReplicas", "readyReplicas", "availableReplicas"].into_iter().all(all)
}

fn table(phases: &[Phase], deployments: usize) -> String {
    let mut text =
        String::from("| phase | time | memory | writes | per Deployment | by kind |\n|---|---|---|---|---|---|\n");
    for phase in phases {
        let total = phase.writes.without_signs_of_life();
        text += &format!(
            "| {} | {:.1} s | {:.1} MB | {} | {:.1} | {} |\n",
            phase.name,
            phase.took.as_secs_f64(),
            phase.memory as f64 / 1e6,
            thousands(total),
            total as f64 / deployments.max(1) as f64,
            phase.writes
        );
    }
    text
}

fn numbers(phases: &[Phase]) -> Value {
    let phase = |phase: &Phase| {
        json!({"phase": phase.name, "seconds": phase.took.as_secs_f64(), "memoryBytes": phase.memory,
            "writes": phase.writes.to_json()})
    };
    phases.iter().map(phase).collect()
}

/// Fails if the loops did not come to rest.
fn judge(phases: &[Phase], deployments: usize) -> anyhow::Result<()> {
    let Some((rest, busy)) = phases.split_last() else { return Ok(()) };
    for phase in busy {
        let each = phase.writes.without_signs_of_life() as f64 / deployments as f64;
        ensure!(each <= MAX_WRITES, "{}: {each:.1} writes per Deployment: a loop spins", phase.name);
    }
    let idle = rest.writes.without_signs_of_life();
    ensure!(idle == 0, "{idle} writes at rest: {}", rest.writes);
    if let [_, first, .., last] = busy {
        let growth = last.memory as f64 / first.memory as f64;
        ensure!(growth <= MAX_GROWTH, "memory grew by a factor of {growth:.2} from the first rollout to the last");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deployment_is_done_when_all_its_pods_are_new_and_ready() {
        let status = |seen: u64, ready: u64| {
            json!({"status": {"observedGeneration": seen, "replicas": 3, "updatedReplicas": 3, "readyReplicas": ready,
                "availableReplicas": ready}})
        };
        assert!(is_done(&status(2, 3), 3, 2));
        assert!(!is_done(&status(1, 3), 3, 2), "its loop has not seen the change");
        assert!(!is_done(&status(2, 2), 3, 2));
        assert!(!is_done(&json!({}), 3, 1));
    }

    #[test]
    fn writes_at_rest_and_growing_memory_are_reported() {
        let phase = |name: &str, memory: u64, writes: u64| {
            let text = format!("apiserver_request_total{{verb=\"PUT\",resource=\"pods\",code=\"200\"}} {writes}\n");
            Phase { name: name.to_owned(), took: Duration::ZERO, memory, writes: Writes::parse(&text) }
        };
        let run = |roll: u64, rest: u64, memory: u64| {
            judge(
                &[
                    phase("create", 1, 9),
                    phase("roll 1", 100, 9),
                    phase("roll 2", memory, roll),
                    phase("rest", 1, rest),
                ],
                1,
            )
        };
        run(9, 0, 100).unwrap();
        assert!(run(1000, 0, 100).unwrap_err().to_string().contains("spins"));
        assert!(run(9, 1, 100).unwrap_err().to_string().contains("at rest"));
        assert!(run(9, 0, 200).unwrap_err().to_string().contains("grew"));
    }
}
