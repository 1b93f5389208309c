//! The Windlass runtime as operators use it.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use windlass::{
    cache::Caches,
    client::{self, ClientOptions},
    controller::{Action, Controller, Trigger},
    operator::{Operator, Options},
    queue::{Priority, Queue},
    scope::Scope,
    shutdown::Shutdown,
};

use crate::{
    subject::{Count, Latencies, Queued, Reconciled, SubjectArgs, Synced, Times, memory, while_writing},
    widget::Widget,
};

pub(crate) async fn sync(args: &SubjectArgs) -> anyhow::Result<Synced> {
    let before = memory("VmRSS")?;
    let start = Instant::now();
    let caches = Caches::new(client(args).await?);
    let widgets = caches.informer::<Widget>(&Scope::all());
    widgets.synced().await;
    let seconds = start.elapsed().as_secs_f64();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let (peak, after) = (memory("VmHWM")?, memory("VmRSS")?);
    Ok(Synced { objects: widgets.list().len(), seconds, before, peak, after })
}

pub(crate) async fn reconcile(args: &SubjectArgs) -> anyhow::Result<Reconciled> {
    let (count, trigger) = (Count::default(), Trigger::new());
    let counting = count.clone();
    let controller = Controller::<Widget>::new("widget", move |_, _| {
        counting.add();
        async { Ok(Action::done()) }
    });
    run(client(args).await?, args, controller.source(&trigger));
    count.reaches(args.objects).await;
    let (start, already) = (Instant::now(), count.get());
    trigger.enqueue_all();
    count.reaches(already + args.objects).await;
    Ok(Reconciled { reconciles: count.get() - already, seconds: start.elapsed().as_secs_f64() })
}

pub(crate) async fn latency(args: &SubjectArgs) -> anyhow::Result<Latencies> {
    let times = Times::new();
    let noting = times.clone();
    let controller = Controller::<Widget>::new("widget", move |widget: Arc<Widget>, _| {
        noting.note(&widget);
        async { Ok(Action::done()) }
    });
    run(times.arrivals.watching(client(args).await?), args, controller);
    times.reconciles.reaches(args.objects).await;
    while_writing().await?;
    Ok(times.latencies())
}

pub(crate) async fn queue(args: &SubjectArgs) -> anyhow::Result<Queued> {
    let keys = args.keys();
    let queue = Queue::new();
    let start = Instant::now();
    for key in keys {
        queue.add(key, Priority::NORMAL);
    }
    let mut keys = 0;
    while keys < args.objects
        && let Some(work) = queue.next().await
    {
        work.done();
        keys += 1;
    }
    Ok(Queued { keys, seconds: start.elapsed().as_secs_f64() })
}

async fn client(args: &SubjectArgs) -> anyhow::Result<kube::Client> {
    Ok(client::connect(&args.config().await?, ClientOptions::new("windlass-bench-sdk"))?)
}

fn run(client: kube::Client, args: &SubjectArgs, controller: Controller<Widget>) {
    let operator = Operator::new("bench").controller(controller.concurrency(args.concurrency.into()));
    tokio::spawn(operator.run_with(client, Options::default(), Shutdown::new()));
}
