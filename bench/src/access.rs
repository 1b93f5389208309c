//! Roles as the load: the cost of role-based authorization.

mod decision;
mod policy;

use std::time::Duration;

use anyhow::{Context as _, ensure};
use clap::Args;
use http::Method;
use serde_json::{Value, json};
use windlass_bench::table::{render, thousands};

use self::policy::Policy;
use crate::{
    client::{Body, Client},
    kind::Kind,
    load,
    phase::{self, Plan, Rate, Samples, micros},
    servers::{self, Places, Which},
    setup::SetupArgs,
};

/// The servers that have roles.
const SERVERS: [Which; 2] = [Which::Kubernetes, Which::Windlass];
/// Number of times that user and administrator take turns, so that both see the same state of the machine.
const ROUNDS: usize = 5;
/// Minimum duration of a round.
const AT_LEAST: Duration = Duration::from_secs(1);

/// Measure access control: gets by an ordinary user and by the administrator, with many roles and bindings
#[derive(Debug, Args)]
pub(crate) struct AccessArgs {
    #[command(flatten)]
    setup: SetupArgs,
    /// ClusterRoles
    #[arg(long, value_name = "N", default_value_t = 1000)]
    roles: usize,
    /// RoleBindings, in a hundred namespaces and for as many users as there are roles
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    bindings: usize,
    /// Requests per round
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    gets: usize,
    /// Concurrent requests
    #[arg(long, value_name = "N", default_value_t = 32)]
    concurrency: usize,
    /// HTTP/2 connections
    #[arg(long, value_name = "N", default_value_t = 4)]
    connections: usize,
}

/// Results of one server.
#[derive(Debug)]
struct Outcome {
    /// Time to write all roles and bindings.
    written: Duration,
    /// Median time from sending a binding to the first request that it allows.
    in_force: Duration,
    /// Gets.
    user: Rate,
    administrator: Rate,
}

/// Measures the servers one after the other and prints the comparison.
pub(crate) async fn run(args: AccessArgs) -> anyhow::Result<()> {
    ensure!(args.roles > 0 && args.bindings > 0 && args.gets > 0, "--roles, --bindings and --gets must be at least 1");
    ensure!(args.concurrency > 0 && args.connections > 0, "--concurrency and --connections must be at least 1");
    let which = args.setup.servers(&SERVERS);
    ensure!(!which.contains(&Which::Floor), "the floor has no roles: remove `--only floor`");
    let places = args.setup.places(&which)?;
    let policy = Policy { roles: args.roles, bindings: args.bindings };
    let mut outcomes = Vec::new();
    for which in which {
        eprintln!("\n{}", which.title());
        outcomes.push((which, measure(which, &places, &args, policy).await.with_context(|| which.title())?));
    }
    eprintln!("\ndecisions of Windlass in this process");
    let decisions = decision::measure(policy).await?;
    println!("\n{}", table(&outcomes));
    println!("{}", decision::table(&decisions));
    let json: serde_json::Map<String, Value> =
        outcomes.iter().map(|(which, outcome)| (which.title().to_owned(), outcome.to_json())).collect();
    args.setup.write_json(&json!({"servers": json, "decisions": decision::to_json(&decisions)}))
}

async fn measure(which: Which, places: &Places, args: &AccessArgs, policy: Policy) -> anyhow::Result<Outcome> {
    let server = servers::start_empty(which, places).await?;
    server.settle().await?;
    let admin = Client::connect(&server.url, &server.tls, args.connections).await?;
    load::ensure_namespace(&admin).await?;
    let object = json!({"metadata": {"name": "measured"}, "data": {"text": "x".repeat(1200)}});
    admin.ensure(&Kind::Configmap.collection(), &object).await?;
    let written = policy.write(&admin, args.concurrency).await.context("failed to write roles and bindings")?;
    eprintln!("  roles and bindings written in {:.1} s", written.as_secs_f64());
    let user = Client::connect(&server.url, &server.pki.client_config_of(policy::USER)?, args.connections).await?;
    let in_force = policy::in_force(&admin, &user).await.context("failed to measure new bindings")?;
    server.settle().await?;

    let plan = Plan { requests: args.gets, lanes: args.concurrency, at_least: AT_LEAST };
    let mut rounds: [Vec<Rate>; 2] = Default::default();
    for _ in 0..ROUNDS {
        for (client, results) in [&user, &admin].into_iter().zip(&mut rounds) {
            let before = server.processor_time()?;
            let samples = gets(client, plan).await?;
            results.push(Rate::of(&samples, server.processor_time()? - before)?);
        }
    }
    let [user, administrator] = rounds.map(Rate::median);
    eprintln!("  {:.0} gets/s by the user, {:.0} by the administrator", user.per_second, administrator.per_second);
    Ok(Outcome { written, in_force, user, administrator })
}

async fn gets(client: &Client, plan: Plan) -> anyhow::Result<Samples> {
    let client = client.clone();
    phase::run(plan, move |lane, _| {
        let client = client.clone();
        async move {
            let path = format!("{}/measured", Kind::Configmap.collection());
            client.measure(lane, Method::GET, &path, Body::default()).await
        }
    })
    .await
}

/// The name of a row, and its cell for a server.
type Line<'a> = (&'a str, &'a dyn Fn(&Outcome) -> String);

fn table(outcomes: &[(Which, Outcome)]) -> String {
    let mut rows = vec![vec![String::new()]];
    rows[0].extend(outcomes.iter().map(|(which, _)| which.title().to_owned()));
    let rate = |rate: f64| thousands(rate.round() as u64);
    let lines: [Line<'_>; 7] = [
        ("gets/s by the administrator", &|outcome| rate(outcome.administrator.per_second)),
        ("gets/s by an ordinary user", &|outcome| rate(outcome.user.per_second)),
        ("user : administrator (target: at least 95 %)", &|outcome| {
            format!("{:.1} %", 100.0 * outcome.user.per_second / outcome.administrator.per_second)
        }),
        ("processor time per get, administrator", &|outcome| micros(outcome.administrator.processor)),
        ("processor time per get, user", &|outcome| micros(outcome.user.processor)),
        ("binding written to first allowed request", &|outcome| micros(outcome.in_force)),
        ("roles and bindings written", &|outcome| format!("{:.1} s", outcome.written.as_secs_f64())),
    ];
    for (name, show) in lines {
        rows.push([name.to_owned()].into_iter().chain(outcomes.iter().map(|(_, outcome)| show(outcome))).collect());
    }
    render(&rows)
}

impl Outcome {
    fn to_json(&self) -> Value {
        json!({
            "userGetsPerSecond": self.user.per_second, "administratorGetsPerSecond": self.administrator.per_second,
            "userProcessorSeconds": self.user.processor.as_secs_f64(),
            "administratorProcessorSeconds": self.administrator.processor.as_secs_f64(),
            "inForceSeconds": self.in_force.as_secs_f64(), "writtenSeconds": self.written.as_secs_f64(),
        })
    }
}
