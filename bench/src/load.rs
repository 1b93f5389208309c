//! The load: every server gets the same, phase by phase.

mod watch;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail};
use clap::Args;
use http::{Method, StatusCode};
use serde_json::json;

use crate::{
    client::{Body, Client},
    figures::{Figure, Figures, Measure, Requests},
    kind::{Kind, NAMESPACE, SHARDS},
    phase::{self, Plan, Samples},
    servers::Running,
};

/// Lists are large: two at a time keep both cores busy.
const LIST_LANES: usize = 2;
/// How long a phase that changes nothing for good goes on, at least.
const AT_LEAST: Duration = Duration::from_secs(1);
/// Requests of each sort before anything is measured.
const WARM_UP: usize = 300;
/// How long a definition may take to be served.
const SERVED_WITHIN: Duration = Duration::from_secs(30);

/// How much load.
#[derive(Debug, Clone, Args)]
pub(crate) struct Load {
    /// What the objects are
    #[arg(long, value_enum, default_value_t = Kind::Configmap)]
    pub(crate) kind: Kind,
    /// Objects to create, patch and delete
    #[arg(long, default_value_t = 2000)]
    pub(crate) objects: usize,
    /// Bytes of text in an object
    #[arg(long, default_value_t = 1200)]
    pub(crate) payload: usize,
    /// Requests at a time
    #[arg(long, default_value_t = 32)]
    pub(crate) concurrency: usize,
    /// HTTP/2 connections
    #[arg(long, default_value_t = 4)]
    pub(crate) connections: usize,
    /// Objects to get
    #[arg(long, default_value_t = 20_000)]
    pub(crate) gets: usize,
    /// Lists of all objects, and sixteen times as many by label
    #[arg(long, default_value_t = 30)]
    pub(crate) lists: usize,
    /// Watches at a time
    #[arg(long, default_value_t = 100)]
    pub(crate) watchers: usize,
    /// Events for each of them
    #[arg(long, default_value_t = 500)]
    pub(crate) watch_events: usize,
}

/// Drives a server through all phases, and prints how each went.
pub(crate) async fn drive(server: &Running, load: &Load) -> anyhow::Result<Figures> {
    let client = Client::connect(&server.url, &server.tls, load.connections).await?;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    client.ensure("/api/v1/namespaces", &namespace).await?;
    define(&client, load.kind).await?;
    let driver = Driver { server, client, load: Arc::new(load.clone()), figures: Figures::new() };
    driver.run().await
}

struct Driver<'a> {
    server: &'a Running,
    client: Client,
    load: Arc<Load>,
    figures: Figures,
}

impl Driver<'_> {
    async fn run(mut self) -> anyhow::Result<Figures> {
        self.warm_up().await.context("warming up")?;
        let objects = self.load.objects;

        self.phase(Measure::Create, self.once(objects), |client, load, lane, number| async move {
            let body = Body::json(&load.kind.object(number, load.payload));
            client.measure(lane, Method::POST, &load.kind.collection(), body).await
        })
        .await?;
        self.phase(Measure::Get, self.repeated(self.load.gets), |client, load, lane, number| async move {
            let path = load.kind.path(number % load.objects);
            client.measure(lane, Method::GET, &path, Body::default()).await
        })
        .await?;
        let lists = Plan { lanes: LIST_LANES, ..self.repeated(self.load.lists) };
        self.phase(Measure::List, lists, |client, load, lane, _| async move {
            let path = format!("{}?resourceVersion=0", load.kind.collection());
            client.measure(lane, Method::GET, &path, Body::default()).await
        })
        .await?;
        let lists = Plan { requests: lists.requests * SHARDS, ..lists };
        self.phase(Measure::LabelList, lists, |client, load, lane, number| async move {
            let (collection, shard) = (load.kind.collection(), number % SHARDS);
            let path = format!("{collection}?resourceVersion=0&labelSelector=shard%3D{shard}");
            client.measure(lane, Method::GET, &path, Body::default()).await
        })
        .await?;
        self.phase(Measure::MergePatch, self.once(objects), |client, load, lane, number| async move {
            let (path, body) = load.kind.merge_patch(number, number);
            client.measure(lane, Method::PATCH, &path, body).await
        })
        .await?;
        if self.load.kind.apply(0).is_some() {
            self.phase(Measure::Apply, self.once(objects), |client, load, lane, number| async move {
                let (path, body) = load.kind.apply(number).context("the kind must have an apply")?;
                client.measure(lane, Method::PATCH, &path, body).await
            })
            .await?;
        }
        let processor = self.server.processor_time()?;
        let fan_out = watch::fan_out(&self.client, &self.load).await.context("watch fan-out")?;
        self.record(Measure::Watch, &fan_out, self.server.processor_time()? - processor);
        self.phase(Measure::Delete, self.once(objects), |client, load, lane, number| async move {
            client.measure(lane, Method::DELETE, &load.kind.path(number), Body::default()).await
        })
        .await?;
        Ok(self.figures)
    }

    /// Every number once: for what cannot be done twice.
    fn once(&self, requests: usize) -> Plan {
        Plan { requests, lanes: self.load.concurrency, at_least: Duration::ZERO }
    }

    fn repeated(&self, requests: usize) -> Plan {
        Plan { requests, lanes: self.load.concurrency, at_least: AT_LEAST }
    }

    /// Creates, gets, patches and deletes a few objects behind those of the load.
    async fn warm_up(&self) -> anyhow::Result<()> {
        for method in [Method::POST, Method::GET, Method::PATCH, Method::DELETE] {
            let (client, load) = (self.client.clone(), self.load.clone());
            let warm_up = move |lane, number| {
                let (client, load, method) = (client.clone(), load.clone(), method.clone());
                let number = load.objects + number;
                let (path, body) = match method {
                    Method::POST => (load.kind.collection(), Body::json(&load.kind.object(number, load.payload))),
                    Method::PATCH => load.kind.merge_patch(number, 1),
                    _ => (load.kind.path(number), Body::default()),
                };
                async move { client.measure(lane, method, &path, body).await }
            };
            phase::run(self.once(WARM_UP), warm_up).await?;
        }
        Ok(())
    }

    async fn phase<F, Answer>(&mut self, measure: Measure, plan: Plan, request: F) -> anyhow::Result<()>
    where
        F: Fn(Client, Arc<Load>, usize, usize) -> Answer + Clone + Send + 'static,
        Answer: Future<Output = anyhow::Result<u64>> + Send,
    {
        let (client, load) = (self.client.clone(), self.load.clone());
        let processor = self.server.processor_time()?;
        let samples = phase::run(plan, move |lane, number| request(client.clone(), load.clone(), lane, number))
            .await
            .with_context(|| measure.title())?;
        self.record(measure, &samples, self.server.processor_time()? - processor);
        Ok(())
    }

    fn record(&mut self, measure: Measure, samples: &Samples, processor: Duration) {
        let count = samples.micros.len() as f64;
        let requests = Requests {
            median_micros: samples.quantile(0.5),
            p99_micros: samples.quantile(0.99),
            bytes: samples.bytes as f64 / count,
            server_micros: processor.as_secs_f64() * 1e6 / count,
        };
        eprintln!(
            "  {:<22} {:>10.0} /s   p50 {:>8} us   p99 {:>8} us   {:>9.0} bytes   server {:>7.0} us",
            measure.title(),
            samples.per_second(),
            requests.median_micros,
            requests.p99_micros,
            requests.bytes,
            requests.server_micros,
        );
        self.figures.insert(measure, Figure { value: samples.per_second(), requests: Some(requests) });
    }
}

/// Creates the kind's definition, and waits until the server serves it.
async fn define(client: &Client, kind: Kind) -> anyhow::Result<()> {
    let Some(definition) = kind.definition() else { return Ok(()) };
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let (status, answer) = client.ask(Method::POST, path, Body::json(&definition)).await?;
    match status {
        StatusCode::NOT_FOUND => {
            bail!("this server has no custom resources (POST {path}: 404); measure it with --kind configmap")
        }
        status if status.is_success() || status == StatusCode::CONFLICT => {}
        status => bail!("POST {path}: {status}: {answer}"),
    }
    let start = Instant::now();
    loop {
        let (status, answer) = client.ask(Method::GET, &kind.collection(), Body::default()).await?;
        if status.is_success() {
            return Ok(());
        }
        if start.elapsed() > SERVED_WITHIN {
            bail!("the definition is not served: {status}: {answer}");
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
