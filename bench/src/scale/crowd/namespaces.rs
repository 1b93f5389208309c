//! Namespaces that are deleted at once, with everything in them.

use std::time::{Duration, Instant};

use anyhow::ensure;
use http::Method;
use serde_json::json;

use super::{Row, probe::Probe};
use crate::{
    client::{Body, Client},
    figures::Unit,
    kind::Kind,
    load::ensure_namespace,
    phase::{self, Plan},
    servers::{self, Places},
};

/// Number of objects in a namespace.
const OBJECTS: usize = 10;
/// Number of concurrent requests.
const LANES: usize = 32;
/// Maximum time until all namespaces are gone.
const GONE_WITHIN: Duration = Duration::from_secs(300);
/// Interval between looks at the namespaces.
const LOOK: Duration = Duration::from_millis(100);
const COLLECTION: &str = "/api/v1/namespaces";

pub(super) async fn measure(count: usize, places: &Places) -> anyhow::Result<Vec<Row>> {
    eprintln!("\n{count} namespaces with {OBJECTS} objects each");
    let server = servers::start_with_nodes(places, 0).await?;
    let client = Client::connect(&server.url, &server.tls, 4).await?;
    ensure_namespace(&client).await?;
    client.ensure(&Kind::Configmap.collection(), &Kind::Configmap.object(0, 100)).await?;
    let creator = client.clone();
    let plan = Plan { requests: count, lanes: LANES, at_least: Duration::ZERO };
    phase::run(plan, move |lane, number| {
        let client = creator.clone();
        async move { create(&client, lane, number).await }
    })
    .await?;
    server.settle().await?;

    let probe = Probe::start(Client::connect(&server.url, &server.tls, 1).await?, Kind::Configmap.path(0));
    let (begin, deleter) = (Instant::now(), client.clone());
    let deleted = phase::run(plan, move |lane, number| {
        let client = deleter.clone();
        async move { client.measure(lane, Method::DELETE, &path(number), Body::default()).await }
    })
    .await?;
    while left(&client).await? > 0 {
        ensure!(begin.elapsed() < GONE_WITHIN, "{} namespaces are left", left(&client).await?);
        tokio::time::sleep(LOOK).await;
    }
    let gone = begin.elapsed();
    let gets = probe.end().await?;
    Ok(vec![
        Row::one("namespaces deleted at once", Unit::Count, count as f64),
        Row::latencies("their deletion, answered", &deleted),
        Row::one("all namespaces gone after", Unit::Seconds, gone.as_secs_f64()),
        Row::latencies("get until then", &gets),
    ])
}

fn path(number: usize) -> String {
    format!("{COLLECTION}/crowd-{number}")
}

async fn create(client: &Client, lane: usize, number: usize) -> anyhow::Result<u64> {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": format!("crowd-{number}"), "labels": {"crowd": "yes"}}});
    let mut bytes = client.measure(lane, Method::POST, COLLECTION, Body::json(&namespace)).await?;
    for object in 0..OBJECTS {
        let mut object = Kind::Configmap.object(object, 100);
        object["metadata"]["namespace"] = format!("crowd-{number}").into();
        let collection = format!("{}/configmaps", path(number));
        bytes += client.measure(lane, Method::POST, &collection, Body::json(&object)).await?;
    }
    Ok(bytes)
}

/// Returns the number of namespaces that exist.
async fn left(client: &Client) -> anyhow::Result<usize> {
    let path = format!("{COLLECTION}?labelSelector=crowd%3Dyes");
    let (status, list) = client.ask(Method::GET, &path, Body::default()).await?;
    ensure!(status.is_success(), "{status}: {list}");
    Ok(list["items"].as_array().map_or(0, Vec::len))
}
