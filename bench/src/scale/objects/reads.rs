//! Gets, lists and pages.

use std::time::Duration;

use anyhow::Context as _;
use http::Method;

use super::{
    figure::{Figure, Figures},
    pages::{JSON, TABLE, page, walk},
};
use crate::{
    client::{Body, Client},
    kind::Kind,
    phase::{self, Plan, Samples},
};

const GETS: usize = 2_000;
/// The number of times that a page is read.
const PAGES: usize = 40;
/// Lists are repeated until this many objects were read, within the limits.
const LISTED: usize = 400_000;
const FEWEST_LISTS: usize = 3;
const MOST_LISTS: usize = 40;
/// A number that shares no factor with the sizes, so that its multiples visit all objects in no order.
const STRIDE: usize = 7_919;

/// Measures reads of a state that does not change.
pub(super) async fn measure(client: &Client, objects: usize, figures: &mut Figures) -> anyhow::Result<()> {
    let gets = repeated(GETS, client, move |client, number| async move {
        let path = Kind::Widget.path(number * STRIDE % objects);
        client.measure(0, Method::GET, &path, Body::default()).await
    })
    .await?;
    both(figures, &gets, Figure::Get, Figure::GetSlow);
    let lists = (LISTED / objects).clamp(FEWEST_LISTS, MOST_LISTS);
    let lists = repeated(lists, client, |client, _| async move { list(&client).await }).await?;
    both(figures, &lists, Figure::List, Figure::ListSlow);
    figures.insert(Figure::Walk, walk(client, TABLE).await?.0.as_secs_f64());
    in_pages(client, figures).await
}

/// Lists all objects, as informers do.
pub(super) async fn list(client: &Client) -> anyhow::Result<u64> {
    let path = format!("{}?resourceVersion=0", Kind::Widget.collection());
    client.measure(0, Method::GET, &path, Body::default()).await
}

async fn in_pages(client: &Client, figures: &mut Figures) -> anyhow::Result<()> {
    let (_, tokens) = walk(client, JSON).await?;
    let middle = tokens.get(tokens.len() / 2).context("there must be several pages")?;
    let last = tokens.last().context("there must be several pages")?;
    let mut slowest: f64 = 0.0;
    for (figure, token) in [(Figure::PageAtStart, ""), (Figure::PageInMiddle, middle), (Figure::PageAtEnd, last)] {
        let pages = read(client, JSON, token).await?;
        slowest = slowest.max(seconds(&pages, 0.99));
        figures.insert(figure, seconds(&pages, 0.5));
    }
    figures.insert(Figure::PageSlow, slowest);
    figures.insert(Figure::PageAsTable, seconds(&read(client, TABLE, middle).await?, 0.5));
    // From now on, the pages are of an older state.
    let (path, patch) = Kind::Widget.merge_patch(0, 1);
    client.measure(0, Method::PATCH, &path, patch).await?;
    figures.insert(Figure::PageOfHistory, seconds(&read(client, JSON, middle).await?, 0.5));
    Ok(())
}

async fn read(client: &Client, accept: &'static str, token: &str) -> anyhow::Result<Samples> {
    let token = token.to_owned();
    repeated(PAGES, client, move |client, _| {
        let token = token.clone();
        async move { page(&client, accept, &token).await.map(|_| 0) }
    })
    .await
}

/// Sends a request several times, one after the other.
pub(super) async fn repeated<F, Answer>(times: usize, client: &Client, request: F) -> anyhow::Result<Samples>
where
    F: Fn(Client, usize) -> Answer + Clone + Send + 'static,
    Answer: Future<Output = anyhow::Result<u64>> + Send,
{
    let plan = Plan { requests: times, lanes: 1, at_least: Duration::ZERO };
    let client = client.clone();
    phase::run(plan, move |_, number| request(client.clone(), number)).await
}

/// Records the median and the 99th percentile.
pub(super) fn both(figures: &mut Figures, samples: &Samples, median: Figure, slow: Figure) {
    figures.insert(median, seconds(samples, 0.5));
    figures.insert(slow, seconds(samples, 0.99));
}

fn seconds(samples: &Samples, part: f64) -> f64 {
    f64::from(samples.quantile(part)) / 1e6
}
