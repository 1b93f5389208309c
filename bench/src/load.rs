//! The load, which is the same for every server, phase by phase.

mod watch;

use std::{sync::Arc, time::Duration};

use anyhow::Context as _;
use clap::Args;
use http::Method;
use serde_json::json;

use crate::{
    client::{Body, Client},
    figures::{Figure, Figures, Measure, Requests},
    kind::{Kind, NAMESPACE, SHARDS},
    phase::{self, Plan, Samples},
    servers::Running,
};

/// Lists are large: two concurrent ones keep both cores busy.
const LIST_LANES: usize = 2;
/// Minimum duration of a phase that only reads.
const AT_LEAST: Duration = Duration::from_secs(1);
/// Number of requests of each type before anything is measured.
const WARM_UP: usize = 300;

/// Size of the load.
#[derive(Debug, Clone, Args)]
pub(crate) struct Load {
    /// Kind of the objects
    #[arg(long, value_enum, default_value_t = Kind::Configmap)]
    pub(crate) kind: Kind,
    /// Objects to create, patch and delete
    #[arg(long, default_value_t = 2000)]
    pub(crate) objects: usize,
    /// Bytes of text in an object [default: makes the object 1.8 KB]
    #[arg(long)]
    payload: Option<usize>,
    /// Concurrent requests
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
    /// Concurrent watches
    #[arg(long, default_value_t = 100)]
    pub(crate) watchers: usize,
    /// Events per watch
    #[arg(long, default_value_t = 500)]
    pub(crate) watch_events: usize,
}

impl Load {
    /// Returns the number of bytes of text in an object.
    pub(crate) fn payload(&self) -> usize {
        self.payload.unwrap_or_else(|| self.kind.payload())
    }

    /// Returns the object with the given number.
    fn object(&self, number: usize) -> Body {
        Body::json(&self.kind.object(number, self.payload()))
    }
}

/// Drives a server through all phases and prints the result of each.
pub(crate) async fn drive(server: &Running, load: &Load) -> anyhow::Result<Figures> {
    let client = Client::connect(&server.url, &server.tls, load.connections).await?;
    ensure_namespace(&client).await?;
    if let Some(definition) = load.kind.definition() {
        definition.ensure(&client).await?;
    }
    let driver = Driver { server, client, load: Arc::new(load.clone()), figures: Figures::new() };
    driver.run().await
}

/// Creates the namespace of all objects unless it exists.
pub(crate) async fn ensure_namespace(client: &Client) -> anyhow::Result<()> {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    client.ensure("/api/v1/namespaces", &namespace).await
}

/// Returns a request for the object with the given number, if the kind has one of this type.
type ToWarmUp = fn(&Load, usize) -> Option<(Method, String, Body)>;

/// Requests sent before anything is measured.
const WARM_UPS: [ToWarmUp; 5] = [
    |load, number| Some((Method::POST, load.kind.collection(), load.object(number))),
    |load, number| Some((Method::GET, load.kind.path(number), Body::default())),
    |load, number| {
        let (path, body) = load.kind.merge_patch(number, 1);
        Some((Method::PATCH, path, body))
    },
    |load, number| {
        let (path, body) = load.kind.apply(number)?;
        Some((Method::PATCH, path, body))
    },
    |load, number| Some((Method::DELETE, load.kind.path(number), Body::default())),
];

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
            client.measure(lane, Method::POST, &load.kind.collection(), load.object(number)).await
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
        self.phase(self.load.kind.patch_measure(), self.once(objects), |client, load, lane, number| async move {
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

    /// Plans every number exactly once, for operations that cannot be repeated.
    fn once(&self, requests: usize) -> Plan {
        Plan { requests, lanes: self.load.concurrency, at_least: Duration::ZERO }
    }

    fn repeated(&self, requests: usize) -> Plan {
        Plan { requests, lanes: self.load.concurrency, at_least: AT_LEAST }
    }

    /// Creates, gets, patches, applies and deletes a few objects numbered after those of the load.
    async fn warm_up(&self) -> anyhow::Result<()> {
        for request in WARM_UPS {
            let (client, load) = (self.client.clone(), self.load.clone());
            if request(&load, 0).is_none() {
                continue;
            }
            let warm_up = move |lane, number| {
                let (client, request) = (client.clone(), request(&load, load.objects + number));
                async move {
                    let (method, path, body) = request.context("the kind must have such requests")?;
                    client.measure(lane, method, &path, body).await
                }
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
