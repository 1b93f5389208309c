//! Admission policies as the load: what a policy costs the writes that it matches.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use clap::Args;
use http::{Method, StatusCode};
use serde_json::{Value, json};
use windlass_bench::table::{render, thousands};

use crate::{
    client::{Body, Client, POLL, SERVED_WITHIN},
    phase::{self, Plan, Rate, Samples, micros},
    servers::{self, Places, Which},
    setup::SetupArgs,
};

/// The servers that have policies.
const SERVERS: [Which; 2] = [Which::Kubernetes, Which::Windlass];
/// Number of times that the namespaces take turns, so that all see the same state of the machine.
const ROUNDS: usize = 7;
/// Minimum duration of a round.
const AT_LEAST: Duration = Duration::from_secs(1);
const API: &str = "/apis/admissionregistration.k8s.io/v1";

/// A namespace of the measurement, and the policy that matches its objects.
#[derive(Debug, Clone, Copy)]
enum Place {
    /// No policy: what a request costs.
    Nothing,
    Validating,
    Mutating,
}

impl Place {
    const ALL: [Self; 3] = [Self::Nothing, Self::Validating, Self::Mutating];

    fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Validating => "validating",
            Self::Mutating => "mutating",
        }
    }

    fn collection(self) -> String {
        format!("/api/v1/namespaces/{}/configmaps", self.name())
    }
}

/// Measure admission policies: writes that no policy matches, and writes that one policy matches
#[derive(Debug, Args)]
pub(crate) struct PoliciesArgs {
    #[command(flatten)]
    setup: SetupArgs,
    /// Requests per round
    #[arg(long, value_name = "N", default_value_t = 5_000)]
    writes: usize,
    /// Concurrent requests
    #[arg(long, value_name = "N", default_value_t = 32)]
    concurrency: usize,
    /// HTTP/2 connections
    #[arg(long, value_name = "N", default_value_t = 4)]
    connections: usize,
}

/// Measures the servers one after the other and prints the comparison.
pub(crate) async fn run(args: PoliciesArgs) -> anyhow::Result<()> {
    ensure!(args.writes > 0, "--writes must be at least 1");
    ensure!(args.concurrency > 0 && args.connections > 0, "--concurrency and --connections must be at least 1");
    let which = args.setup.servers(&SERVERS);
    ensure!(!which.contains(&Which::Floor), "the floor has no policies: remove `--only floor`");
    let places = args.setup.places(&which)?;
    let mut outcomes = Vec::new();
    for which in which {
        eprintln!("\n{}", which.title());
        outcomes.push((which, measure(which, &places, &args).await.with_context(|| which.title())?));
    }
    println!("\n{}", table(&outcomes));
    let json: serde_json::Map<String, Value> =
        outcomes.iter().map(|(which, rates)| (which.title().to_owned(), to_json(rates))).collect();
    args.setup.write_json(&Value::Object(json))
}

async fn measure(which: Which, places: &Places, args: &PoliciesArgs) -> anyhow::Result<[Rate; 3]> {
    let server = servers::start_empty(which, places).await?;
    server.settle().await?;
    let client = Client::connect(&server.url, &server.tls, args.connections).await?;
    for place in Place::ALL {
        let namespace = json!({"metadata": {"name": place.name(), "labels": {"policy": place.name()}}});
        client.ensure("/api/v1/namespaces", &namespace).await?;
    }
    write_policies(&client).await?;
    server.settle().await?;
    let plan = Plan { requests: args.writes, lanes: args.concurrency, at_least: AT_LEAST };
    let mut rounds: [Vec<Rate>; 3] = Default::default();
    for _ in 0..ROUNDS {
        for (place, results) in Place::ALL.into_iter().zip(&mut rounds) {
            let before = server.processor_time()?;
            let samples = creates(&client, place, plan).await?;
            results.push(Rate::of(&samples, server.processor_time()? - before)?);
        }
    }
    Ok(rounds.map(Rate::median))
}

/// Creates a validating and a mutating policy, and waits until both have taken effect.
async fn write_policies(client: &Client) -> anyhow::Result<()> {
    let constraints = |place: Place| {
        json!({
            "namespaceSelector": {"matchLabels": {"policy": place.name()}},
            "resourceRules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["configmaps"]},
            ],
        })
    };
    let validating = json!({
        "metadata": {"name": "measured"},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": constraints(Place::Validating),
            "matchConditions": [{"name": "not-a-node", "expression": "!request.userInfo.username.startsWith('system:node:')"}],
            "variables": [
                {"name": "team", "expression": "object.metadata.?labels['team'].orValue('')"},
                {"name": "large", "expression": "object.data.exists(key, size(object.data[key]) > 100000)"},
            ],
            "validations": [
                {"expression": "variables.team != ''", "message": "the label team is required"},
                {"expression": "variables.team in ['red', 'green', 'blue']", "messageExpression": "'unknown team ' + variables.team"},
                {"expression": "!variables.large", "message": "values must be at most 100 kB"},
            ],
        },
    });
    let mutating = json!({
        "metadata": {"name": "measured"},
        "spec": {
            "failurePolicy": "Fail",
            "reinvocationPolicy": "Never",
            "matchConstraints": constraints(Place::Mutating),
            "mutations": [{
                "patchType": "ApplyConfiguration",
                "applyConfiguration": {"expression": "Object{metadata: Object.metadata{labels: {'cost-center': 'a1'}}}"},
            }],
        },
    });
    let binding =
        json!({"metadata": {"name": "measured"}, "spec": {"policyName": "measured", "validationActions": ["Deny"]}});
    let unconditional = json!({"metadata": {"name": "measured"}, "spec": {"policyName": "measured"}});
    for (resource, object) in [
        ("validatingadmissionpolicies", &validating),
        ("validatingadmissionpolicybindings", &binding),
        ("mutatingadmissionpolicies", &mutating),
        ("mutatingadmissionpolicybindings", &unconditional),
    ] {
        client.ensure(&format!("{API}/{resource}"), object).await.with_context(|| resource.to_owned())?;
    }
    let in_force = async {
        loop {
            let mut without_team = object();
            without_team["metadata"] = json!({"name": "rejected"});
            let (status, _) = ask(client, Place::Validating, &without_team).await?;
            let (_, answer) = ask(client, Place::Mutating, &object()).await?;
            if status == StatusCode::UNPROCESSABLE_ENTITY && answer["metadata"]["labels"]["cost-center"] == "a1" {
                return anyhow::Ok(());
            }
            tokio::time::sleep(POLL).await;
        }
    };
    tokio::time::timeout(SERVED_WITHIN, in_force).await.context("the policies have not taken effect")?
}

fn object() -> Value {
    json!({
        "metadata": {"generateName": "measured-", "labels": {"team": "green", "app": "web"}},
        "data": {"text": "x".repeat(1200), "more": "y".repeat(400)},
    })
}

/// Path of creates that store nothing, so that the disk is not measured.
fn dry_run(place: Place) -> String {
    format!("{}?dryRun=All", place.collection())
}

async fn ask(client: &Client, place: Place, object: &Value) -> anyhow::Result<(StatusCode, Value)> {
    client.ask(Method::POST, &dry_run(place), Body::json(object)).await
}

async fn creates(client: &Client, place: Place, plan: Plan) -> anyhow::Result<Samples> {
    let (client, path, body) = (client.clone(), dry_run(place), Body::json(&object()));
    phase::run(plan, move |lane, _| {
        let (client, path, body) = (client.clone(), path.clone(), body.clone());
        async move { client.measure(lane, Method::POST, &path, body).await }
    })
    .await
}

fn table(outcomes: &[(Which, [Rate; 3])]) -> String {
    let mut rows = vec![vec![String::new()]];
    rows[0].extend(outcomes.iter().map(|(which, _)| which.title().to_owned()));
    let mut row = |name: String, show: &dyn Fn(&[Rate; 3]) -> String| {
        rows.push([name].into_iter().chain(outcomes.iter().map(|(_, rates)| show(rates))).collect());
    };
    for (number, place) in Place::ALL.into_iter().enumerate() {
        row(
            format!("dry-run creates/s, {}", title(place)),
            &|rates| thousands(rates[number].per_second.round() as u64),
        );
    }
    for (number, place) in Place::ALL.into_iter().enumerate() {
        row(format!("processor time, {}", title(place)), &|rates| micros(rates[number].processor));
    }
    for (number, place) in Place::ALL.into_iter().enumerate().skip(1) {
        row(format!("cost of {} (target: less than 20 µs)", title(place)), &|rates| {
            micros(rates[number].processor.saturating_sub(rates[0].processor))
        });
    }
    render(&rows)
}

fn title(place: Place) -> &'static str {
    match place {
        Place::Nothing => "no policy",
        Place::Validating => "a validating policy",
        Place::Mutating => "a mutating policy",
    }
}

fn to_json(rates: &[Rate; 3]) -> Value {
    Place::ALL
        .into_iter()
        .zip(rates)
        .map(|(place, rate)| {
            let value = json!({"perSecond": rate.per_second, "processorSeconds": rate.processor.as_secs_f64()});
            (place.name().to_owned(), value)
        })
        .collect::<serde_json::Map<_, _>>()
        .into()
}
