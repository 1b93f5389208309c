//! The subset of kubectl that the story uses, with the same requests and output.
//!
//! The demo runs exactly what it shows: a command is parsed, its requests are sent to the server, and the output is
//! made from the responses. A test checks that every command of the story parses.

mod kinds;
mod parse;
mod table;

use std::path::Path;

use anyhow::Context as _;
use http::{Method, Request};
use kube::{Client, core::Status};
use serde_json::{Value, json};
use windlass_schema::yaml;

pub(super) use self::{
    kinds::{Kind, kind},
    parse::{Line, Output, Selection, Taint},
    table::{Rows, Table},
};

/// Accept header for tables.
const AS_TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

/// Output of a command.
#[derive(Debug)]
pub(super) enum Printed {
    /// The command succeeded.
    Done(String),
    /// The server rejected the request; this is kubectl's error message.
    Rejected(String),
}

/// A kubectl for the server and directory of the demo.
#[derive(Clone)]
pub(super) struct Kubectl<'a> {
    pub(super) client: Client,
    pub(super) files: &'a Path,
}

impl Kubectl<'_> {
    /// Runs a command.
    pub(super) async fn run(&self, line: &Line) -> anyhow::Result<Printed> {
        let done = match line {
            Line::Get(selection, output) => self.get(selection, output).await,
            Line::Apply { file } => self.apply(file).await,
            Line::Delete(selection) => self.delete(selection).await,
            Line::Scale { kind, name, replicas } => self.scale(kind, name, *replicas).await,
            Line::Taint { node, taint } => self.taint(node, taint).await,
        };
        match done {
            Ok(text) => Ok(Printed::Done(text)),
            Err(error) => match error.downcast::<kube::Error>() {
                Ok(kube::Error::Api(status)) => Ok(Printed::Rejected(rejection(&status))),
                Ok(error) => Err(error.into()),
                Err(error) => Err(error),
            },
        }
    }

    /// Lists complete objects of a kind.
    pub(super) async fn list(&self, kind: &Kind, selection: &Selection) -> anyhow::Result<Vec<Value>> {
        let mut list = self.request(Method::GET, &kind.collection(selection), None, None).await?;
        match list["items"].take() {
            Value::Array(items) => Ok(items),
            _ => anyhow::bail!("the server did not send a list of {}", kind.plural),
        }
    }

    /// Lists objects of a kind as table rows.
    pub(super) async fn rows(&self, kind: &'static Kind, selection: &Selection) -> anyhow::Result<Rows> {
        let path = match &selection.name {
            Some(name) => kind.object(name),
            None => kind.collection(selection),
        };
        let answer = self.request(Method::GET, &path, Some(("accept", AS_TABLE)), None).await?;
        Rows::read(&answer).with_context(|| format!("the server did not send a table of {}", kind.plural))
    }

    async fn get(&self, selection: &Selection, output: &Output) -> anyhow::Result<String> {
        if let (Output::Field(path), [kind], Some(name)) = (output, &selection.kinds[..], &selection.name) {
            let object = self.request(Method::GET, &kind.object(name), None, None).await?;
            return Ok(match table::field(&object, path) {
                Value::Null => String::new(),
                Value::String(text) => format!("{text}\n"),
                other => format!("{other}\n"),
            });
        }
        let mut tables = Vec::new();
        for kind in &selection.kinds {
            let table = match output {
                Output::Table => {
                    let prefix = (selection.kinds.len() > 1).then(|| kind.printed());
                    self.rows(kind, selection).await?.table(prefix.as_deref())
                }
                Output::Field(_) => anyhow::bail!("jsonpath needs a single object"),
                Output::Columns(columns) => Table::custom(columns, &self.list(kind, selection).await?),
            };
            tables.extend((!table.is_empty()).then(|| table.to_string()));
        }
        if tables.is_empty() {
            let namespaced = selection.kinds.iter().any(|kind| kind.namespaced);
            return Ok(format!("No resources found{}\n", if namespaced { " in default namespace." } else { "" }));
        }
        Ok(tables.join("\n"))
    }

    async fn apply(&self, file: &str) -> anyhow::Result<String> {
        let path = self.files.join(file);
        let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let mut printed = String::new();
        for (_, document) in yaml::documents(&text).into_iter().filter(|(_, document)| !yaml::is_blank(document)) {
            let object = yaml::to_json_value(document).with_context(|| format!("cannot read {}", path.display()))?;
            let named = object["kind"].as_str().unwrap_or_default();
            let kind = kind(named).with_context(|| format!("{file} has an object of an unknown kind {named}"))?;
            let name = object["metadata"]["name"].as_str().context("an object must have a name")?;
            let created =
                self.request(Method::POST, &kind.collection(&Selection::default()), None, Some(&object)).await;
            let done = match created {
                Ok(_) => "created",
                Err(error) if is_there(&error) => {
                    let merge = Some(("content-type", "application/merge-patch+json"));
                    self.request(Method::PATCH, &kind.object(name), merge, Some(&object)).await?;
                    "configured"
                }
                Err(error) => return Err(error),
            };
            printed.push_str(&format!("{}/{name} {done}\n", kind.printed()));
        }
        Ok(printed)
    }

    async fn delete(&self, selection: &Selection) -> anyhow::Result<String> {
        let mut printed = String::new();
        for kind in &selection.kinds {
            let names = match &selection.name {
                Some(name) => vec![name.clone()],
                None => {
                    let objects = self.list(kind, selection).await?;
                    objects.iter().filter_map(|object| object["metadata"]["name"].as_str().map(str::to_owned)).collect()
                }
            };
            for name in names {
                let background =
                    json!({"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"});
                self.request(Method::DELETE, &kind.object(&name), None, Some(&background)).await?;
                let place = if kind.namespaced { " from default namespace" } else { "" };
                printed.push_str(&format!("{} \"{name}\" deleted{place}\n", kind.printed()));
            }
        }
        Ok(printed)
    }

    async fn scale(&self, kind: &Kind, name: &str, replicas: u32) -> anyhow::Result<String> {
        let merge = Some(("content-type", "application/merge-patch+json"));
        let path = format!("{}/scale", kind.object(name));
        self.request(Method::PATCH, &path, merge, Some(&json!({"spec": {"replicas": replicas}}))).await?;
        Ok(format!("{}/{name} scaled\n", kind.printed()))
    }

    async fn taint(&self, node: &str, taint: &Taint) -> anyhow::Result<String> {
        let path = kind("nodes").context("nodes must be a known kind")?.object(node);
        let object = self.request(Method::GET, &path, None, None).await?;
        let mut taints = object["spec"]["taints"].as_array().cloned().unwrap_or_default();
        let done = match taint {
            Taint::Add { key, value, effect } => {
                taints.push(json!({"key": key, "value": value, "effect": effect}));
                "tainted"
            }
            Taint::Remove { key } => {
                taints.retain(|taint| taint["key"] != key.as_str());
                "untainted"
            }
        };
        // With the resource version that was read: taints may change concurrently.
        let patch =
            json!({"metadata": {"resourceVersion": object["metadata"]["resourceVersion"]}, "spec": {"taints": taints}});
        let merge = Some(("content-type", "application/merge-patch+json"));
        self.request(Method::PATCH, &path, merge, Some(&patch)).await?;
        Ok(format!("node/{node} {done}\n"))
    }

    async fn request(
        &self,
        method: Method,
        path: &str,
        header: Option<(&str, &str)>,
        body: Option<&Value>,
    ) -> anyhow::Result<Value> {
        let mut request = Request::builder().method(method).uri(path);
        if body.is_some() && header.is_none_or(|(name, _)| name != "content-type") {
            request = request.header("content-type", "application/json");
        }
        if let Some((name, value)) = header {
            request = request.header(name, value);
        }
        let body = body.map(serde_json::to_vec).transpose().context("failed to build a request")?;
        let request = request.body(body.unwrap_or_default()).context("failed to build a request")?;
        Ok(self.client.request(request).await?)
    }
}

fn is_there(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(kube::Error::Api(status)) if status.reason == "AlreadyExists")
}

/// The error message of kubectl for a rejected request.
fn rejection(status: &Status) -> String {
    let details = status.details.as_ref();
    let causes = details.map(|details| details.causes.as_slice()).unwrap_or_default();
    if status.reason != "Invalid" || causes.is_empty() {
        return format!("Error from server ({}): {}\n", status.reason, status.message);
    }
    let what = details.filter(|details| !details.kind.is_empty() || !details.name.is_empty());
    let what = what.map_or_else(
        || "The request is invalid".to_owned(),
        |details| format!("The {} \"{}\" is invalid", details.kind, details.name),
    );
    let causes: Vec<String> = causes.iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect();
    match causes.as_slice() {
        [cause] => format!("{what}: {cause}\n"),
        causes => format!("{what}: \n{}", causes.iter().map(|cause| format!("* {cause}\n")).collect::<String>()),
    }
}
