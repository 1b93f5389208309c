//! CRDs with the schemas of large projects: memory after they are written, after all documents that describe them were
//! read, and after they are deleted.

mod large;

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use http::Method;
use serde_json::{Value, json};
use windlass_bench::table::{render, thousands};

use self::large::LargeDefinition;
use crate::{
    client::{Body, Client, POLL},
    figures::Unit,
    phase::{self, Plan},
    report::show,
    servers::{self, Places, Running, Which},
};

const COLLECTION: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// Number of concurrent writes.
const LANES: usize = 4;
/// Maximum time until all CRDs are deleted.
const DELETED_WITHIN: Duration = Duration::from_secs(120);
/// The formats of the old document that clients request.
const OLD_DOCUMENT: [&str; 2] =
    ["application/json", "application/com.github.proto-openapi.spec.v2@v1.0+protobuf, application/json"];
/// The memory at the stages, at most.
const TARGETS: [Option<f64>; 3] = [None, Some(70e6), Some(90e6)];
/// The memory that may stay after all CRDs were deleted.
const STAYS: f64 = 10e6;

/// The server after a stage.
struct Stage {
    name: &'static str,
    took: Duration,
    memory: u64,
}

/// Measures all stages, prints the table and returns the numbers.
pub(super) async fn measure(count: usize, places: &Places) -> anyhow::Result<Value> {
    let bytes: usize = (0..count).map(|number| LargeDefinition::numbered(number).manifest().to_string().len()).sum();
    eprintln!("\n{} CRDs of {} KB on average", thousands(count as u64), bytes / count / 1_000);
    let server = servers::start_empty(Which::Windlass, places).await?;
    let client = Client::connect(&server.url, &server.tls, 1).await?;
    let mut stages = vec![settled(&server, "started", server.ready_in).await?];
    let took = write(&client, count).await.context("failed to write the CRDs")?;
    stages.push(settled(&server, "all CRDs written", took).await?);
    let took = describe(&client, count).await.context("failed to read the documents")?;
    stages.push(settled(&server, "described: `/openapi/v2`, `/openapi/v3`", took).await?);
    let took = delete(&client).await.context("failed to delete the CRDs")?;
    stages.push(settled(&server, "all CRDs deleted", took).await?);
    println!("\n{}", table(&stages));
    let stages: Vec<Value> = stages
        .iter()
        .map(|stage| json!({"stage": stage.name, "seconds": stage.took.as_secs_f64(), "memoryBytes": stage.memory}))
        .collect();
    Ok(json!({"count": count, "bytes": bytes, "stages": stages}))
}

async fn settled(server: &Running, name: &'static str, took: Duration) -> anyhow::Result<Stage> {
    Ok(Stage { name, took, memory: server.memory_at_rest().await? })
}

async fn write(client: &Client, count: usize) -> anyhow::Result<Duration> {
    let plan = Plan { requests: count, lanes: LANES, at_least: Duration::ZERO };
    let client = client.clone();
    let written = phase::run(plan, move |lane, number| {
        let client = client.clone();
        async move {
            let manifest = LargeDefinition::numbered(number).manifest();
            client.measure(lane, Method::POST, COLLECTION, Body::json(&manifest)).await
        }
    })
    .await?;
    Ok(written.elapsed)
}

/// Reads what clients read to describe kinds.
async fn describe(client: &Client, count: usize) -> anyhow::Result<Duration> {
    let begin = Instant::now();
    for accept in OLD_DOCUMENT {
        let response = client.send_accepting(accept, 0, Method::GET, "/openapi/v2", Body::default()).await?;
        ensure!(response.status().is_success(), "/openapi/v2: {}", response.status());
        // The rest arrives while the body is dropped.
        drain(response).await?;
    }
    for number in 0..count {
        let path = format!("/openapi/v3/apis/{}/v1", LargeDefinition::numbered(number).group);
        client.until_served(0, &path).await?;
    }
    Ok(begin.elapsed())
}

async fn drain(response: http::Response<hyper::body::Incoming>) -> anyhow::Result<()> {
    use http_body_util::BodyExt as _;
    let mut body = response.into_body();
    while let Some(frame) = body.frame().await {
        frame?;
    }
    Ok(())
}

/// Deletes all CRDs and waits until they are gone.
async fn delete(client: &Client) -> anyhow::Result<Duration> {
    let begin = Instant::now();
    client.measure(0, Method::DELETE, COLLECTION, Body::default()).await?;
    loop {
        let (status, list) = client.ask(Method::GET, &format!("{COLLECTION}?limit=1"), Body::default()).await?;
        ensure!(status.is_success(), "{status}: {list}");
        if list["items"].as_array().is_some_and(Vec::is_empty) {
            return Ok(begin.elapsed());
        }
        ensure!(begin.elapsed() < DELETED_WITHIN, "CRDs are left after {} s", DELETED_WITHIN.as_secs());
        tokio::time::sleep(POLL).await;
    }
}

fn table(stages: &[Stage]) -> String {
    let before = stages.first().map_or(0.0, |stage| stage.memory as f64);
    let targets = TARGETS.into_iter().chain([Some(before + STAYS)]);
    let header = ["", "time", "memory", "target"].map(str::to_owned).to_vec();
    let rows = stages.iter().zip(targets).map(|(stage, target)| {
        vec![
            stage.name.to_owned(),
            show(Unit::Seconds, stage.took.as_secs_f64()),
            show(Unit::Bytes, stage.memory as f64),
            target.map(|target| format!("<= {}", show(Unit::Bytes, target))).unwrap_or_default(),
        ]
    });
    render(&std::iter::once(header).chain(rows).collect::<Vec<_>>())
}
