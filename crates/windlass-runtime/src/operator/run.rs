//! Startup in order, shutdown in reverse.

use std::{sync::Arc, time::Duration};

use kube::Client;

#[cfg(feature = "pprof")]
use super::profile::Profiler;
use super::{
    Operator, OperatorError, Options, Replicas, Task, Unhealthy, debug_state,
    definitions::install,
    guard::Guard,
    http::Pages,
    https::Https,
    logs::LogLevel,
    stage::{Flag, Stage},
    webhooks,
};
use crate::{
    access::Denials,
    cache::Caches,
    client,
    clusters::{self, Clusters, Home},
    context::{Context, Reader, SharedHandles, WatchedKinds},
    controller::AnyController,
    events::{EventMetrics, Recorder},
    lease::{ElectionMetrics, ElectionOutcome, LeaderElection, Leadership, Shard, Sharding},
    shutdown::Shutdown,
};

/// Time to write the last events. They report finished work and are not worth a longer delay.
const FLUSH: Duration = Duration::from_secs(3);
/// Time to release the lease, which expires by itself otherwise. Together with the grace period, this must be shorter
/// than the pod's termination grace period in the manifests.
const SURRENDER: Duration = Duration::from_secs(5);

/// Tasks by startup order. The lease is held until everything else has stopped.
struct Stages {
    servers: Stage,
    webhooks: Stage,
    replicas: Stage,
    everywhere: Stage,
    /// Other clusters, which need nothing of this one but its servers.
    clusters: Stage,
    leader: Stage,
}

struct Process {
    handles: SharedHandles,
    /// Whether the process is stopping, on request or not.
    stopping: Arc<Flag>,
    stages: Stages,
    /// Controllers that have not started yet.
    controllers: Vec<AnyController>,
    tasks: Vec<Task>,
}

pub(super) async fn run(
    operator: Operator,
    client: Client,
    options: Options,
    shutdown: Shutdown,
) -> Result<(), OperatorError> {
    let grace = options.grace;
    // A signal must not wait for a slow API server.
    let started = tokio::select! {
        biased;
        () = shutdown.draining() => return Ok(()),
        started = Process::start(operator, client, options, &shutdown) => started,
    };
    let mut process = started?;
    let outcome = process.work(&shutdown).await;
    match &outcome {
        // Another process may lead already: nothing more is written, not even work in flight.
        Err(OperatorError::LeaderElectionLost) => return outcome,
        Err(error) => tracing::error!(error = error.chain(), "stopping"),
        Ok(()) => tracing::info!("stopping"),
    }
    process.stopping.set();
    let stopped = process.stop(grace, &shutdown).await;
    outcome.and(stopped)
}

impl Process {
    /// Starts everything up to leader election.
    async fn start(
        operator: Operator,
        client: Client,
        options: Options,
        shutdown: &Shutdown,
    ) -> Result<Self, OperatorError> {
        let mut wanted = operator.manifests(&options.webhooks.namespace, "");
        wanted.service.clone_from(&options.webhooks.service);
        let denials = Denials::new(wanted.all_permissions());
        let Operator {
            name,
            definitions,
            webhooks,
            controllers,
            tasks,
            clusters,
            event_style,
            live,
            ready,
            metrics,
            state,
            request_timeout,
            is_member,
            ..
        } = operator;
        if let Some(name) = Clusters::shared_name(&clusters) {
            let problem = format!("two sets of clusters are named {name:?} (hint: use Clusters::named)");
            return Err(OperatorError::Setting(problem));
        }
        let mut stages = Stages::new(shutdown);
        if !is_member {
            metrics.register_process();
        }
        let caches = Caches::new(client.clone());
        caches.register_metrics(&metrics);
        operator.configure.into_iter().for_each(|configure| configure(&caches));

        // Not ready before the first probe can arrive.
        let (started, stopping) = (Arc::new(Flag::default()), Arc::new(Flag::default()));
        live.add("ping", || Ok(()));
        ready.add("informer-sync", informers_synced(caches.clone(), started.clone()));
        ready.add("shutdown", not_stopping(shutdown.clone(), stopping.clone()));
        let informers = caches.clone();
        state.add("informers", move || informers.status().iter().map(debug_state::informer).collect());

        let probes = options.probes.listener("probes").await?;
        stages.serve("probes", probes, None, Pages { live: Some(live), ready: Some(ready), ..Pages::default() });
        if let Some(listener) = options.metrics.listener("metrics").await? {
            let pages = Pages {
                metrics: Some(metrics.clone()),
                state: options.debug_state.then(|| state.clone()),
                log_level: LogLevel::of_process(),
                #[cfg(feature = "pprof")]
                profiler: options.profiling.then(Profiler::new),
                guard: options.metrics_secure.then(|| Arc::new(Guard::new(&client))),
                ..Pages::default()
            };
            let https = match options.metrics_secure {
                true => Some(Https::start(options.metrics_certificate, &metrics).await.map_err(OperatorError::Https)?),
                false => None,
            };
            stages.serve("metrics", Some(listener), https, pages);
        }

        if options.install_crds {
            install(&client, &wanted).await?;
        }
        let counted = metrics.shared(EventMetrics::register);
        let events = Recorder::with_metrics(client.clone(), &name, &options.instance, counted).with_style(event_style);
        let mut webhooks = webhooks;
        if !webhooks.is_empty() {
            webhooks.restrict_to(&options.namespaces);
            // Every replica has webhooks, whether it leads or not.
            webhooks.connect(SharedHandles {
                client: client.clone(),
                caches: caches.clone(),
                events: events.clone(),
                metrics: metrics.clone(),
                leadership: Leadership::always(),
                shard: Shard::whole(),
                field_manager: format!("{name}/webhooks").into(),
                controller: None,
                denials: denials.clone(),
                planning: false,
                request_timeout,
            });
            let serving = webhooks::serving(options.webhooks, &name, &client, &definitions, &webhooks);
            let server = webhooks.bind(serving, &metrics).await.map_err(OperatorError::Webhooks)?;
            let address = server.address();
            tracing::info!(%address, "serving webhooks");
            state.add("webhooks", move || serde_json::json!({ "address": address.to_string() }));
            let stop = stages.webhooks.shutdown();
            stages.webhooks.spawn("webhooks", async move {
                server.run(stop).await;
                Ok(())
            });
        }

        // A lease must not be lost because reconciles have used up the rate limit.
        let urgent = client::urgent(&client);
        let everywhere = options.replicas.clone();
        let needs_leader =
            controllers.iter().any(AnyController::needs_leader) || tasks.iter().any(|task| task.needs_leader);
        // The clusters have elections of their own, which must not depend on that of the home cluster.
        let replicas = if clusters.is_empty() || needs_leader { options.replicas } else { Replicas::Single };
        let (leadership, shard) = match replicas {
            Replicas::Single => (Leadership::always(), Shard::whole()),
            Replicas::Leader(lease) => {
                let election = LeaderElection::new(urgent, &lease.namespace, &lease.name)
                    .timing(lease.timing)
                    .map_err(|error| OperatorError::Setting(error.to_string()))?
                    .metrics(ElectionMetrics::register(&metrics));
                (stages.stand(election), Shard::whole())
            }
            Replicas::Shards(lease) => {
                let sharding = Sharding::new(urgent, &lease.namespace, &lease.name)
                    .timing(lease.timing)
                    .map_err(|error| OperatorError::Setting(error.to_string()))?;
                (Leadership::always(), stages.share(sharding))
            }
        };
        let leads = leadership.clone();
        state.add("leadership", move || serde_json::json!({ "leads": leads.check().is_ok() }));

        let handles = SharedHandles {
            caches,
            events,
            client,
            metrics,
            leadership,
            shard,
            field_manager: name.into(),
            controller: None,
            denials,
            planning: false,
            request_timeout,
        };
        for clusters in clusters {
            let home = Home {
                client: handles.client.clone(),
                caches: handles.caches.clone(),
                metrics: handles.metrics.clone(),
                state: state.clone(),
                replicas: everywhere.clone(),
                instance: options.instance.clone(),
                namespaces: options.namespaces.clone(),
                debug_state: options.debug_state,
                grace: options.grace,
                user_agent: handles.field_manager.to_string(),
            };
            let stop = stages.clusters.shutdown();
            stages.clusters.spawn("clusters", async move {
                clusters::run(clusters, home, stop).await;
                Ok(())
            });
        }
        let mut process = Self { handles, stopping, stages, controllers, tasks };
        for controller in &mut process.controllers {
            controller.restrict_to(&options.namespaces);
            if options.debug_state {
                controller.keep_recent();
            }
            controller.prepare(&process.handles);
        }
        let controllers: Vec<_> = process.controllers.iter().filter_map(AnyController::view).collect();
        state.add("controllers", move || controllers.iter().map(debug_state::controller).collect());
        started.set();
        process.run_all(false);
        Ok(process)
    }

    /// Runs the controllers and tasks of every replica, or those of the leader.
    fn run_all(&mut self, leader: bool) {
        let stage = if leader { &mut self.stages.leader } else { &mut self.stages.everywhere };
        let (now, later): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.controllers).into_iter().partition(|one| one.needs_leader() == leader);
        self.controllers = later;
        for controller in now {
            let name = controller.name().to_owned();
            let running = controller.run(self.handles.clone(), stage.shutdown());
            stage.spawn(&name.clone(), async move {
                running.await.map_err(|source| OperatorError::Controller { name, source })
            });
        }
        let (now, later): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.tasks).into_iter().partition(|one| one.needs_leader == leader);
        self.tasks = later;
        for Task { name, client, run, .. } in now {
            let mut handles = self.handles.clone();
            if let Some(client) = client {
                handles = handles.with_client(&client);
            }
            let running = run(Context::new(handles, WatchedKinds::of(Reader::Task)), stage.shutdown());
            stage.spawn_finite(&name.clone(), async move {
                running.await.map_err(|error| OperatorError::Task { name, source: error.to_string().into() })
            });
        }
    }

    /// Runs until asked to stop, or until something fails.
    async fn work(&mut self, shutdown: &Shutdown) -> Result<(), OperatorError> {
        let leadership = self.handles.leadership.clone();
        tokio::select! {
            biased;
            () = shutdown.draining() => return Ok(()),
            error = self.failure() => return Err(error),
            () = leadership.acquired() => {}
        }
        self.run_all(true);
        tokio::select! {
            biased;
            () = shutdown.draining() => Ok(()),
            () = leadership.lost() => Err(OperatorError::LeaderElectionLost),
            error = self.failure() => Err(error),
        }
    }

    /// Resolves when something has failed.
    async fn failure(&mut self) -> OperatorError {
        tokio::select! {
            error = self.stages.failure() => error,
            resource = self.handles.caches.failed() => OperatorError::Informer { resource: debug_state::resource(&resource) },
        }
    }

    /// Stops everything in order, within the grace period.
    async fn stop(mut self, grace: Duration, shutdown: &Shutdown) -> Result<(), OperatorError> {
        let Stages { servers, webhooks, replicas, everywhere, clusters, leader } = &mut self.stages;
        let finished = async {
            // Each has the whole grace period.
            let (led, left) = tokio::join!(leader.drain(), clusters.drain());
            let mut outcome = led.and(left);
            for stage in [&mut *everywhere, &mut *webhooks, &mut *servers] {
                outcome = outcome.and(stage.drain().await);
            }
            outcome
        };
        let in_time = tokio::select! {
            biased;
            () = shutdown.aborting() => return Err(OperatorError::Aborted),
            () = self.handles.leadership.lost() => return Err(OperatorError::LeaderElectionLost),
            in_time = tokio::time::timeout(grace, finished) => in_time,
        };
        let Ok(outcome) = in_time else {
            // The first stage that still runs has delayed the others.
            let first = [leader.names(), clusters.names()].concat();
            let stages = [first, everywhere.names(), webhooks.names(), servers.names()];
            let mut names = stages.into_iter().find(|names| !names.is_empty()).unwrap_or_default();
            names.sort();
            // Dropped work may be half-written, so the lease is left to expire.
            return Err(OperatorError::GraceExceeded { names, grace });
        };
        // All work is done, so an API server that does not respond is no reason to fail.
        let ending = async {
            let _ = tokio::time::timeout(FLUSH, self.handles.events.flush()).await;
            let _ = tokio::time::timeout(SURRENDER, replicas.drain()).await;
        };
        tokio::select! {
            biased;
            () = shutdown.aborting() => Err(OperatorError::Aborted),
            () = ending => outcome,
        }
    }
}

impl Stages {
    fn new(shutdown: &Shutdown) -> Self {
        let stage = || Stage::new(shutdown.later());
        Self {
            servers: stage(),
            webhooks: stage(),
            replicas: stage(),
            everywhere: stage(),
            clusters: stage(),
            leader: stage(),
        }
    }

    fn serve(
        &mut self,
        what: &'static str,
        listener: Option<tokio::net::TcpListener>,
        https: Option<Https>,
        pages: Pages,
    ) {
        let Some(listener) = listener else { return };
        if let Ok(address) = listener.local_addr() {
            tracing::info!(%address, "serving {what}");
        }
        let shutdown = self.servers.shutdown();
        self.servers.spawn(what, async move {
            pages.serve(listener, https, shutdown).await;
            Ok(())
        });
    }

    /// Takes part in leader election until everything else has stopped.
    fn stand(&mut self, election: LeaderElection) -> Leadership {
        let leadership = election.leadership();
        let stop = self.replicas.shutdown();
        self.replicas.spawn("leader election", async move {
            match election.run(async move { stop.draining().await }).await {
                ElectionOutcome::Stopped => Ok(()),
                ElectionOutcome::Lost => Err(OperatorError::LeaderElectionLost),
            }
        });
        leadership
    }

    /// Takes a share of the keys until everything else has stopped.
    fn share(&mut self, sharding: Sharding) -> Shard {
        let shard = sharding.shard();
        let stop = self.replicas.shutdown();
        self.replicas.spawn("sharding", async move {
            sharding.run(async move { stop.draining().await }).await;
            Ok(())
        });
        shard
    }

    async fn failure(&mut self) -> OperatorError {
        tokio::select! {
            error = self.replicas.failure() => error,
            error = self.leader.failure() => error,
            error = self.clusters.failure() => error,
            error = self.everywhere.failure() => error,
            error = self.webhooks.failure() => error,
            error = self.servers.failure() => error,
        }
    }
}

/// Checks that all informers have synced. Kinds that are not served are ignored: there is nothing to wait for.
fn informers_synced(caches: Caches, started: Arc<Flag>) -> impl Fn() -> Result<(), Unhealthy> {
    move || {
        if !started.is_set() {
            return Err(Unhealthy::shown("caches have not started yet"));
        }
        let mut waiting: Vec<String> = caches
            .status()
            .iter()
            // Leased informers come and go, and must not decide whether the process is ready.
            .filter(|informer| !informer.synced && !informer.absent && !informer.leased)
            .map(|informer| debug_state::resource(&informer.resource))
            .collect();
        waiting.sort();
        waiting.dedup();
        if waiting.is_empty() { Ok(()) } else { Err(Unhealthy::shown(format!("waiting for {}", waiting.join(", ")))) }
    }
}

fn not_stopping(shutdown: Shutdown, stopping: Arc<Flag>) -> impl Fn() -> Result<(), Unhealthy> {
    move || {
        let stops = shutdown.is_draining() || stopping.is_set();
        if stops { Err(Unhealthy::shown("the process is stopping")) } else { Ok(()) }
    }
}
