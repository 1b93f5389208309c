//! A watch whose lines are not parsed: the time that request, server and connection take, which no runtime can beat.

use futures_util::{AsyncBufReadExt as _, TryStreamExt as _};
use kube::{Api, Client, api::ListParams, api::WatchParams, core::Request};

use crate::{
    arrivals::sent_at,
    subject::{Latencies, SubjectArgs, Times, now, while_writing},
    widget::{NAMESPACE, Widget},
};

pub(crate) async fn latency(args: &SubjectArgs) -> anyhow::Result<Latencies> {
    let client = args.client().await?;
    let times = Times::new();
    tokio::spawn(watch(client, times.clone()));
    while_writing().await?;
    Ok(times.latencies())
}

async fn watch(client: Client, times: Times) -> anyhow::Result<()> {
    let widgets: Api<Widget> = Api::namespaced(client.clone(), NAMESPACE);
    let revision = widgets.list_metadata(&ListParams::default().limit(1)).await?.metadata.resource_version;
    let request = Request::new(widgets.resource_url()).watch(&WatchParams::default(), &revision.unwrap_or_default())?;
    let mut lines = client.request_stream(request).await?.lines();
    while let Some(line) = lines.try_next().await? {
        let now = now();
        if let Some(sent) = sent_at(&line) {
            times.took(now, sent);
        }
    }
    Ok(())
}
