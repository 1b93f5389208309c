//! kube-runtime, used as documented.

use std::{
    convert::Infallible,
    future::{poll_fn, ready},
    pin::pin,
    sync::Arc,
    task::Poll,
    time::{Duration, Instant},
};

use futures_util::{StreamExt as _, stream};
use kube::{
    Api,
    runtime::{
        Controller, WatchStreamExt as _,
        controller::{Action, Config},
        reflector,
        scheduler::{ScheduleRequest, scheduler},
        watcher,
    },
};
use tokio::sync::mpsc;

use crate::{
    subject::{Count, Latencies, Queued, Reconciled, SubjectArgs, Synced, Times, memory, while_writing},
    widget::Widget,
};

pub(crate) async fn sync(args: &SubjectArgs) -> anyhow::Result<Synced> {
    let before = memory("VmRSS")?;
    let start = Instant::now();
    let api: Api<Widget> = Api::all(args.client().await?);
    let (store, writer) = reflector::store();
    let stream = reflector::reflector(writer, watcher(api, watcher::Config::default())).default_backoff();
    tokio::spawn(stream.for_each(|_| ready(())));
    store.wait_until_ready().await?;
    let seconds = start.elapsed().as_secs_f64();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let (peak, after) = (memory("VmHWM")?, memory("VmRSS")?);
    Ok(Synced { objects: store.state().len(), seconds, before, peak, after })
}

pub(crate) async fn reconcile(args: &SubjectArgs) -> anyhow::Result<Reconciled> {
    let count = Count::default();
    let (trigger, triggered) = mpsc::channel::<()>(1);
    let triggered = stream::unfold(triggered, async |mut triggered| Some((triggered.recv().await?, triggered)));
    let reconcile = async |_: Arc<Widget>, count: Arc<Count>| {
        count.add();
        Ok::<_, Infallible>(Action::await_change())
    };
    let controller = Controller::new(Api::<Widget>::all(args.client().await?), watcher::Config::default())
        .with_config(Config::default().concurrency(args.concurrency))
        .reconcile_all_on(triggered)
        .run(reconcile, |_, _, _| Action::await_change(), Arc::new(count.clone()));
    tokio::spawn(controller.for_each(|_| ready(())));
    count.reaches(args.objects).await;
    let (start, already) = (Instant::now(), count.get());
    trigger.send(()).await?;
    count.reaches(already + args.objects).await;
    Ok(Reconciled { reconciles: count.get() - already, seconds: start.elapsed().as_secs_f64() })
}

pub(crate) async fn latency(args: &SubjectArgs) -> anyhow::Result<Latencies> {
    let times = Times::new();
    let reconcile = async |widget: Arc<Widget>, times: Arc<Times>| {
        times.note(&widget);
        Ok::<_, Infallible>(Action::await_change())
    };
    let client = times.arrivals.watching(args.client().await?);
    let controller = Controller::new(Api::<Widget>::all(client), watcher::Config::default())
        .with_config(Config::default().concurrency(args.concurrency))
        .run(reconcile, |_, _, _| Action::await_change(), Arc::new(times.clone()));
    tokio::spawn(controller.for_each(|_| ready(())));
    times.reconciles.reaches(args.objects).await;
    while_writing().await?;
    Ok(times.latencies())
}

pub(crate) async fn queue(args: &SubjectArgs) -> anyhow::Result<Queued> {
    let keys = args.keys();
    let start = Instant::now();
    let now = tokio::time::Instant::now();
    let requests = stream::iter(keys).map(|message| ScheduleRequest { message, run_at: now });
    let mut scheduler = pin!(scheduler(requests.chain(stream::pending())));
    // Its controller holds back messages while its workers are busy, then handles them one by one.
    for _ in 0..2 {
        poll_fn(|context| {
            let _ = scheduler.as_mut().hold().poll_next_unpin(context);
            Poll::Ready(())
        })
        .await;
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let mut keys = 0;
    while keys < args.objects && scheduler.as_mut().hold_unless(|_| true).next().await.is_some() {
        keys += 1;
    }
    Ok(Queued { keys, seconds: start.elapsed().as_secs_f64() })
}
