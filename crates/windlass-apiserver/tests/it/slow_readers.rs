//! Clients that read long lists slowly or not at all.

use bytes::Bytes;
use flate2::read::GzDecoder;
use http::Request;
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use std::io::Read as _;
use std::time::Duration;
use tokio::time::Instant;
use windlass_apiserver::body::{Body, BodyError};

use crate::client::{CONFIG_MAPS, Client, names};

const READERS: usize = 100;
/// Number of objects of the list, each of about 20 kB.
const OBJECTS: usize = 150;
/// What one reader may hold: the pieces that it was sent first, and the next one.
const PER_READER: usize = 300 << 10;

async fn with_long_list() -> Client {
    let client = Client::new().await;
    for number in 0..OBJECTS {
        // Does not compress to nothing.
        let text: String = (0..4000).map(|n| format!("{:x}", n * 7919 + number * 104_729)).collect();
        let metadata = json!({"name": format!("c{number:03}"), "labels": {"long": "yes"}});
        client.post(CONFIG_MAPS, &json!({"metadata": metadata, "data": {"a": text}})).await.expect(201);
    }
    client
}

/// Starts to read a list: one piece.
async fn start(client: &Client, path: &str, headers: &[(&str, &str)]) -> (Body, Vec<Bytes>) {
    let mut request = Request::get(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = client.send(request.body(Full::new(Bytes::new())).unwrap()).await;
    assert_eq!(response.status(), 200);
    let mut body = response.into_body();
    let first = piece(&mut body).await.expect("a piece");
    (body, vec![first])
}

async fn piece(body: &mut Body) -> Option<Bytes> {
    body.frame().await?.expect("a complete body").into_data().ok()
}

/// Returns the number of bytes of encoded lists that the server holds.
async fn held(client: &Client) -> usize {
    let metrics = client.get("/metrics").await;
    let text = String::from_utf8_lossy(&metrics.raw).into_owned();
    let line = text.lines().find_map(|line| line.strip_prefix("windlass_encoded_list_bytes "));
    line.and_then(|count| count.parse().ok()).expect("the metric")
}

const FORMS: [(&str, &[(&str, &str)]); 6] = [
    ("", &[]),
    ("", &[("accept-encoding", "gzip")]),
    ("?labelSelector=long%3Dyes", &[]),
    ("?labelSelector=long%3Dyes", &[("accept-encoding", "gzip")]),
    ("?includeObject=Object", &[("accept", "application/json;as=Table;g=meta.k8s.io;v=v1")]),
    ("?labelSelector=long%3Dyes&limit=140", &[("accept-encoding", "gzip")]),
];

#[tokio::test]
async fn a_hundred_slow_readers_hold_a_few_pieces_each() {
    let client = with_long_list().await;
    let whole = client.get(CONFIG_MAPS).await.raw.len();
    assert!(whole > 10 * PER_READER, "the list has only {whole} bytes");
    for (query, headers) in FORMS {
        let mut readers = Vec::new();
        for number in 0..READERS {
            readers.push(start(&client, &format!("{CONFIG_MAPS}{query}"), headers).await);
            // No two readers can share their list.
            let change = json!({"metadata": {"annotations": {"n": number.to_string()}}});
            client.merge(&format!("{CONFIG_MAPS}/c001"), &change).await.expect(200);
        }
        let held_by_all = held(&client).await;
        assert!(held_by_all <= READERS * PER_READER, "{query} {headers:?}: {held_by_all} bytes");
        drop(readers);
        // A consistent read waits for the last change, with which the cache drops its list.
        client.get(&format!("{CONFIG_MAPS}/c001")).await.expect(200);
        assert_eq!(held(&client).await, 0, "{query} {headers:?}");
    }
}

#[tokio::test]
async fn a_slow_reader_gets_the_list_as_it_was_when_it_began() {
    let client = with_long_list().await;
    for (query, headers) in FORMS {
        let path = format!("{CONFIG_MAPS}{query}");
        let expected = client.ask(http::Method::GET, &path, headers, "").await.raw;
        let (mut body, mut pieces) = start(&client, &path, headers).await;
        // Another reader shares the pieces until the change.
        let (other, _) = start(&client, &path, headers).await;
        client.delete(&format!("{CONFIG_MAPS}/c149")).await.expect(200);
        client.merge(&format!("{CONFIG_MAPS}/c148"), &json!({"data": {"a": "changed"}})).await.expect(200);
        drop(other);
        while let Some(piece) = piece(&mut body).await {
            pieces.push(piece);
        }
        assert!(pieces.len() > 5, "{query} {headers:?}: {} pieces", pieces.len());
        let (read, expected) = (plain(&pieces.concat()), plain(&expected));
        assert_eq!(without_age(&read), without_age(&expected), "{query} {headers:?}");
        let restored =
            json!({"metadata": {"name": "c149", "labels": {"long": "yes"}}, "data": {"a": "x".repeat(20_000)}});
        client.post(CONFIG_MAPS, &restored).await.expect(201);
        client.merge(&format!("{CONFIG_MAPS}/c148"), &json!({"data": {"a": "y".repeat(20_000)}})).await.expect(200);
    }
}

#[tokio::test]
async fn readers_of_an_unchanged_list_share_its_pieces() {
    let client = with_long_list().await;
    let mut readers = Vec::new();
    for _ in 0..READERS {
        readers.push(start(&client, CONFIG_MAPS, &[]).await);
    }
    assert!(held(&client).await <= 2 * PER_READER);
    for (body, pieces) in &mut readers {
        while let Some(piece) = piece(body).await {
            pieces.push(piece);
        }
        let list: Value = serde_json::from_slice(&pieces.concat()).unwrap();
        assert_eq!(names(&list).len(), OBJECTS);
    }
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_stops_holds_nothing_after_the_time_limit_of_its_request() {
    let client = with_long_list().await;
    for (query, headers) in FORMS {
        let separator = if query.is_empty() { '?' } else { '&' };
        for (limit, seconds) in [("", 60), ("timeout=20s", 20), ("timeout=5m", 60)] {
            let begun = Instant::now();
            let path = format!("{CONFIG_MAPS}{query}{separator}{limit}");
            let (mut stopped, _) = start(&client, &path, headers).await;
            tokio::time::sleep_until(begun + Duration::from_secs(seconds) - Duration::from_millis(1)).await;
            let text = format!("{query} {headers:?} {limit}");
            // The cache drops its list with the change, and only the reader still has the pieces.
            let change = json!({"metadata": {"annotations": {"n": text.replace(|c: char| !c.is_alphanumeric(), "-")}}});
            client.merge(&format!("{CONFIG_MAPS}/c001"), &change).await.expect(200);
            client.get(&format!("{CONFIG_MAPS}/c001")).await.expect(200);
            assert!(held(&client).await > 0, "{text}: the reader still has time");
            tokio::time::sleep(Duration::from_millis(2)).await;
            assert_eq!(held(&client).await, 0, "{text}");
            assert_eq!(stopped.frame().await.map(|frame| frame.unwrap_err()), Some(BodyError::TimedOut), "{text}");
        }
    }
}

/// Returns the JSON of a response, whether it is compressed or not.
fn plain(body: &[u8]) -> Value {
    let mut text = Vec::new();
    match GzDecoder::new(body).read_to_end(&mut text) {
        Ok(_) => serde_json::from_slice(&text).unwrap(),
        Err(_) => serde_json::from_slice(body).unwrap(),
    }
}

/// Returns a list without the ages of a table, which grow.
fn without_age(list: &Value) -> Value {
    let mut list = list.clone();
    for row in list.get_mut("rows").and_then(Value::as_array_mut).into_iter().flatten() {
        row["cells"][2] = Value::Null;
    }
    list
}
