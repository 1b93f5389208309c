//! A small client: sends requests as the administrator and returns answers as JSON.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, header};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use tower::ServiceExt;
use windlass_apiserver::{Server, body::Body, user::User};
use windlass_store::{Store, memory::MemoryStore};

/// A server with an empty memory store, and a client of it.
pub(crate) struct Client {
    pub(crate) server: Server,
    store: Arc<dyn Store>,
}

/// A response whose body has been read.
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) raw: Bytes,
}

impl Answer {
    pub(crate) async fn read(response: Response<Body>) -> Self {
        let (parts, body) = response.into_parts();
        let raw = body.collect().await.expect("a complete body").to_bytes();
        Self { code: parts.status.as_u16(), headers: parts.headers, raw }
    }

    /// Returns the body as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.raw).unwrap_or(Value::Null)
    }

    /// Returns the message of a Status.
    pub(crate) fn message(&self) -> String {
        self.json()["message"].as_str().unwrap_or_default().to_owned()
    }

    /// Returns the body; the response must have this code.
    #[track_caller]
    pub(crate) fn expect(self, code: u16) -> Value {
        assert_eq!(self.code, code, "{}", String::from_utf8_lossy(&self.raw));
        self.json()
    }
}

impl Client {
    pub(crate) async fn new() -> Self {
        Self::over(Arc::new(MemoryStore::new())).await
    }

    /// Starts another server over the same store, as after a restart.
    pub(crate) async fn restarted(&self) -> Self {
        Self::over(self.store.clone()).await
    }

    /// Starts a server that accepts only `v1` CustomResourceDefinitions.
    pub(crate) async fn without_old_definitions() -> Self {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let server = Server::builder(store.clone()).old_definitions(false).build().await.unwrap();
        Self { server, store }
    }

    /// Starts a server whose pods run as service accounts.
    pub(crate) async fn with_service_accounts() -> Self {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let server = Server::builder(store.clone()).service_accounts(true).build().await.unwrap();
        Self { server, store }
    }

    /// Starts a server over a store.
    pub(crate) async fn over(store: Arc<dyn Store>) -> Self {
        let server = Server::builder(store.clone()).build().await.unwrap();
        Self { server, store }
    }

    /// Returns a client of a server that was built elsewhere.
    pub(crate) fn of(server: Server) -> Self {
        Self { server, store: Arc::new(MemoryStore::new()) }
    }

    /// Sends a GET as another user.
    pub(crate) async fn ask_as(&self, user: &str, path: &str) -> Answer {
        self.send_as(user, Method::GET, path, &Value::Null).await
    }

    /// Sends a request as another user. A PATCH is a merge.
    pub(crate) async fn send_as(&self, user: &str, method: Method, path: &str, body: &Value) -> Answer {
        let media_type = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
        let request = Request::builder().method(method).uri(path).header(header::CONTENT_TYPE, media_type);
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let mut request = request.body(Full::new(Bytes::from(body))).unwrap();
        let groups = vec!["system:authenticated".to_owned()];
        request.extensions_mut().insert(Arc::new(User { name: user.to_owned(), groups, ..User::default() }));
        let response = match self.server.clone().oneshot(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        };
        Answer::read(response).await
    }

    /// Sends a request with a JSON body as another user.
    pub(crate) async fn ask_for(&self, user: &User, method: Method, path: &str, body: &Value) -> Answer {
        let kind = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
        let body = if body.is_null() { Bytes::new() } else { body.to_string().into() };
        let request = Request::builder().method(method).uri(path).header(header::CONTENT_TYPE, kind);
        let mut request = request.body(Full::new(body)).unwrap();
        request.extensions_mut().insert(Arc::new(user.clone()));
        let response = match self.server.clone().oneshot(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        };
        Answer::read(response).await
    }

    /// Sends a request as the administrator.
    pub(crate) async fn send(&self, mut request: Request<Full<Bytes>>) -> Response<Body> {
        request.extensions_mut().insert(Arc::new(User::admin()));
        match self.server.clone().oneshot(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        }
    }

    /// Sends a request with headers and reads the response.
    pub(crate) async fn ask(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Answer {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        Answer::read(self.send(request.body(Full::new(body.into())).unwrap()).await).await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.ask(Method::GET, path, &[], "").await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.ask(Method::POST, path, &[("content-type", "application/json")], body.to_string()).await
    }

    pub(crate) async fn put(&self, path: &str, body: &Value) -> Answer {
        self.ask(Method::PUT, path, &[("content-type", "application/json")], body.to_string()).await
    }

    pub(crate) async fn merge(&self, path: &str, body: &Value) -> Answer {
        self.ask(Method::PATCH, path, &[("content-type", "application/merge-patch+json")], body.to_string()).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        self.ask(Method::DELETE, path, &[], "").await
    }

    /// Waits until a path is not found. Fails the test if it stays.
    pub(crate) async fn gone(&self, path: &str) {
        for _ in 0..2000 {
            if self.get(path).await.code == 404 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("{path} is still there");
    }

    /// Starts a watch.
    pub(crate) async fn watch(&self, path: &str) -> Events {
        self.watch_as(path, "application/json").await
    }

    /// Starts a watch whose events are in a form of JSON.
    pub(crate) async fn watch_as(&self, path: &str, accept: &str) -> Events {
        let request = Request::get(path).header(header::ACCEPT, accept).body(Full::new(Bytes::new())).unwrap();
        let response = self.send(request).await;
        assert_eq!(response.status(), 200);
        Events { body: response.into_body(), buffer: Vec::new() }
    }
}

/// The events of a watch.
pub(crate) struct Events {
    body: Body,
    buffer: Vec<u8>,
}

impl Events {
    /// Returns the next event; `None` at the end of the stream. Fails the test if none arrives.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                return Some(serde_json::from_slice(&line).unwrap());
            }
            let frame =
                tokio::time::timeout(Duration::from_secs(10), self.body.frame()).await.expect("an event in time");
            match frame {
                Some(Ok(frame)) => self.buffer.extend_from_slice(&frame.into_data().unwrap()),
                Some(Err(error)) => panic!("the watch failed: {error}"),
                None => return None,
            }
        }
    }

    /// Returns the next event as `TYPE name`.
    pub(crate) async fn brief(&mut self) -> String {
        match self.next().await {
            Some(event) => {
                let name = event["object"]["metadata"]["name"].as_str().unwrap_or("-");
                format!("{} {name}", event["type"].as_str().unwrap_or_default())
            }
            None => "end".to_owned(),
        }
    }
}

/// The path of the ConfigMaps in the default namespace.
pub(crate) const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

pub(crate) fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "1"}})
}

pub(crate) fn labelled(name: &str, key: &str, value: &str) -> Value {
    let mut object = config_map(name);
    object["metadata"]["labels"] = json!({ key: value });
    object
}

/// Returns the names of a list's items.
pub(crate) fn names(list: &Value) -> Vec<String> {
    list["items"].as_array().unwrap().iter().map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}
