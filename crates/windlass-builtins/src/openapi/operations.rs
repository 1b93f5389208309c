//! The operations of a resource, independent of the OpenAPI version.

use windlass_schema::types::StructId;

use super::Subject;
use super::names::{capital, group_version, tag};
use super::parameters::{self, DELETE, FORCE, PRETTY, Parameter, RESOURCE_VERSION, SELECT, WATCH, WRITE};
use crate::resource::{Resource, Subresource, Table};
use crate::verb::Verb;

pub(super) const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.";

/// Part of the description of the old watch paths.
const DEPRECATED: &str = "deprecated: use the 'watch' parameter with a list operation";

/// A path with its operations.
#[derive(Debug)]
pub(super) struct PathItem<'a> {
    pub(super) path: String,
    /// Parameters that all operations share.
    pub(super) parameters: Vec<Parameter<'a>>,
    pub(super) operations: Vec<Operation<'a>>,
}

/// An operation.
#[derive(Debug)]
pub(super) struct Operation<'a> {
    /// `get`, `put`...
    pub(super) method: &'static str,
    pub(super) id: String,
    pub(super) tag: String,
    /// Description; empty if there is none.
    pub(super) description: String,
    /// `x-kubernetes-action`; empty for discovery.
    pub(super) action: &'static str,
    /// Group, version and kind.
    pub(super) kind: Option<[&'a str; 3]>,
    pub(super) parameters: Vec<Parameter<'a>>,
    pub(super) body: Option<Body>,
    pub(super) answer: Answer,
    /// Success codes.
    pub(super) codes: &'static [u16],
}

/// The body of a request.
#[derive(Debug)]
pub(super) enum Body {
    /// An object of this schema.
    Object(String),
    /// Options, which are optional.
    Options(String),
    /// A patch.
    Patch,
}

/// The body of a response.
#[derive(Debug)]
pub(super) enum Answer {
    /// An object of this schema.
    Object(String),
    /// A list or watch event of this schema, which may be streamed.
    Stream(String),
    /// Text, as returned by `pods/log`.
    Text,
    /// Anything that the other end of a proxied connection returns.
    Connection,
}

/// Returns the paths of a resource.
pub(super) fn of<'a>(subject: &Subject<'a>, table: &'a Table) -> Vec<PathItem<'a>> {
    let resource = subject.resource;
    let base = base(&resource.group, &resource.version);
    let collection = if resource.namespaced {
        format!("{base}/namespaces/{{namespace}}/{}", resource.plural)
    } else {
        format!("{base}/{}", resource.plural)
    };
    let writer = Writer { subject, table };
    let mut items = vec![writer.collection(&collection), writer.object(&format!("{collection}/{{name}}"))];
    for subresource in &resource.subresources {
        items.extend(writer.subresource(&format!("{collection}/{{name}}/{}", subresource.name), subresource));
    }
    if resource.namespaced && resource.has_verb(Verb::List) {
        items.push(writer.all_namespaces(&format!("{base}/{}", resource.plural)));
    }
    if resource.has_verb(Verb::Watch) && !subject.custom {
        items.extend(writer.watches(&base, &collection));
    }
    items.retain(|item| !item.operations.is_empty());
    let is_watched = resource.has_verb(Verb::Watch) && !subject.custom;
    for item in &mut items {
        let subresource = item.path.rsplit_once("{name}/").map_or("", |(_, name)| name.trim_end_matches("/{path}"));
        for operation in &mut item.operations {
            operation.description = description(operation, subresource, &resource.kind, is_watched);
        }
    }
    items
}

/// Returns the description of an operation, as kube-apiserver forms it.
fn description(operation: &Operation<'_>, subresource: &str, kind: &str, is_watched: bool) -> String {
    let of = if subresource.is_empty() { String::new() } else { format!(" {subresource} of") };
    let article = match kind {
        plural if plural.ends_with('s') && !plural.ends_with("ss") => "",
        vowel if vowel.to_ascii_lowercase().starts_with(['a', 'e', 'i', 'o', 'u']) => "an ",
        _ => "a ",
    };
    match operation.action {
        "connect" => format!("connect {} requests to {subresource} of {kind}", operation.method.to_uppercase()),
        "watchlist" => format!("watch individual changes to a list of {kind}. {DEPRECATED} instead."),
        "watch" => format!(
            "watch changes to an object of kind {kind}. {DEPRECATED} instead, \
             filtered to a single item with the 'fieldSelector' parameter."
        ),
        "list" if is_watched => format!("list or watch objects of kind {kind}"),
        "list" => format!("list objects of kind {kind}"),
        "get" => format!("read{of} the specified {kind}"),
        "put" => format!("replace{of} the specified {kind}"),
        "patch" => format!("partially update{of} the specified {kind}"),
        "post" => format!("create{of} {article}{kind}"),
        "deletecollection" => format!("delete collection of {kind}"),
        _ => format!("delete {article}{kind}"),
    }
}

/// Returns the path that lists a group version's resources.
pub(super) fn discovery(group: &str, version: &str) -> PathItem<'static> {
    let operation = Operation {
        method: "get",
        id: format!("get{}APIResources", group_version(group, version)),
        tag: tag(group, version),
        description: "get available resources".to_owned(),
        action: "",
        kind: None,
        parameters: Vec::new(),
        body: None,
        answer: Answer::Object(format!("{META}APIResourceList")),
        codes: &[200],
    };
    PathItem { path: base(group, version) + "/", parameters: Vec::new(), operations: vec![operation] }
}

fn base(group: &str, version: &str) -> String {
    format!("/{}", super::group_version_path(group, version))
}

struct Writer<'s, 'a> {
    subject: &'s Subject<'a>,
    table: &'a Table,
}

impl<'a> Writer<'_, 'a> {
    fn resource(&self) -> &'a Resource {
        self.subject.resource
    }

    /// Returns an operation ID: `createAppsV1NamespacedDeployment`; `rest` follows the kind.
    fn id(&self, verb: &str, rest: &str) -> String {
        self.long_id(verb, "", rest)
    }

    /// Returns an operation ID with a word after the group version: `deleteAppsV1CollectionNamespacedDeployment`.
    fn long_id(&self, verb: &str, word: &str, rest: &str) -> String {
        let resource = self.resource();
        let namespaced = if resource.namespaced { "Namespaced" } else { "" };
        let version = group_version(&resource.group, &resource.version);
        format!("{verb}{version}{word}{namespaced}{}{rest}", resource.kind)
    }

    /// Returns an operation ID for all namespaces: `listAppsV1DeploymentForAllNamespaces`.
    fn wide_id(&self, verb: &str, rest: &str) -> String {
        let resource = self.resource();
        let version = group_version(&resource.group, &resource.version);
        format!("{verb}{version}{}{rest}ForAllNamespaces", resource.kind)
    }

    fn operation(&self, method: &'static str, action: &'static str, id: String) -> Operation<'a> {
        let resource = self.resource();
        Operation {
            method,
            id,
            tag: tag(&resource.group, &resource.version),
            description: String::new(),
            action,
            kind: Some([&resource.group, &resource.version, &resource.kind]),
            parameters: vec![PRETTY],
            body: None,
            answer: Answer::Object(self.subject.object.to_owned()),
            codes: &[200],
        }
    }

    fn write(&self, method: &'static str, id: String, schema: &str) -> Operation<'a> {
        let mut operation = self.operation(method, method, id);
        operation.parameters.extend(WRITE);
        operation.answer = Answer::Object(schema.to_owned());
        operation.codes = if method == "post" { &[200, 201, 202] } else { &[200, 201] };
        if method == "patch" {
            operation.parameters.push(FORCE);
            operation.body = Some(Body::Patch);
            if self.subject.custom {
                operation.codes = &[200];
            }
        } else {
            operation.body = Some(Body::Object(schema.to_owned()));
        }
        operation
    }

    fn read(&self, id: String) -> Operation<'a> {
        let mut operation = self.operation("get", "get", id);
        if self.subject.custom {
            operation.parameters.push(RESOURCE_VERSION);
        }
        operation
    }

    fn list(&self, id: String) -> Operation<'a> {
        let mut operation = self.operation("get", "list", id);
        operation.parameters.extend(SELECT.into_iter().chain(WATCH));
        operation.answer = Answer::Stream(self.subject.list.unwrap_or(self.subject.object).to_owned());
        operation
    }

    fn delete(&self, action: &'static str, id: String) -> Operation<'a> {
        let mut operation = self.operation("delete", action, id);
        operation.parameters.extend(DELETE);
        operation.body = Some(Body::Options(format!("{META}DeleteOptions")));
        operation.answer = Answer::Object(format!("{META}Status"));
        operation
    }

    fn collection(&self, path: &str) -> PathItem<'a> {
        let resource = self.resource();
        let mut operations = Vec::new();
        if resource.has_verb(Verb::DeleteCollection) {
            let id = self.long_id("delete", "Collection", "");
            let mut operation = self.delete("deletecollection", id);
            if self.subject.custom {
                operation.parameters = [PRETTY].into_iter().chain(SELECT).chain(WATCH).collect();
                operation.body = None;
            } else {
                operation.parameters.extend(SELECT);
            }
            operations.push(operation);
        }
        if resource.has_verb(Verb::List) {
            operations.push(self.list(self.id("list", "")));
        }
        if resource.has_verb(Verb::Create) {
            operations.push(self.write("post", self.id("create", ""), self.subject.object));
        }
        self.item(path, operations)
    }

    fn object(&self, path: &str) -> PathItem<'a> {
        let resource = self.resource();
        let mut operations = Vec::new();
        if resource.has_verb(Verb::Delete) {
            let mut operation = self.delete("delete", self.id("delete", ""));
            if resource.deletion_returns_object {
                operation.answer = Answer::Object(self.subject.object.to_owned());
            }
            operation.codes = &[200, 202];
            operations.push(operation);
        }
        if resource.has_verb(Verb::Get) {
            operations.push(self.read(self.id("read", "")));
        }
        if resource.has_verb(Verb::Patch) {
            operations.push(self.write("patch", self.id("patch", ""), self.subject.object));
        }
        if resource.has_verb(Verb::Update) {
            operations.push(self.write("put", self.id("replace", ""), self.subject.object));
        }
        self.item(path, operations)
    }

    fn all_namespaces(&self, path: &str) -> PathItem<'a> {
        self.item(path, vec![self.list(self.wide_id("list", ""))])
    }

    /// Returns the deprecated `/watch/` paths: clients no longer use them, but the documents still list them.
    fn watches(&self, base: &str, collection: &str) -> Vec<PathItem<'a>> {
        let watch = |path: String, action, id: String| {
            let mut operation = self.list(id);
            operation.action = action;
            operation.answer = Answer::Stream(format!("{META}WatchEvent"));
            self.item(&path, vec![operation])
        };
        let plural = &self.resource().plural;
        let below = collection.strip_prefix(base).unwrap_or(collection);
        let mut items = vec![
            watch(format!("{base}/watch{below}"), "watchlist", self.id("watch", "List")),
            watch(format!("{base}/watch{below}/{{name}}"), "watch", self.id("watch", "")),
        ];
        if self.resource().namespaced {
            items.push(watch(format!("{base}/watch/{plural}"), "watchlist", self.wide_id("watch", "List")));
        }
        items
    }

    fn subresource(&self, path: &str, subresource: &'a Subresource) -> Vec<PathItem<'a>> {
        if let Some(ty) = subresource.ty.filter(|_| subresource.kind.ends_with("Options")) {
            return self.connections(path, subresource, ty);
        }
        let rest = capital(&subresource.name);
        let schema = subresource.ty.map_or(self.subject.object, |ty| &self.table.types.get(ty).name);
        let schema = if subresource.kind == self.resource().kind { self.subject.object } else { schema };
        let mut operations = Vec::new();
        for verb in &subresource.verbs {
            operations.push(match verb {
                Verb::Get => {
                    let mut operation = self.read(self.id("read", &rest));
                    operation.answer = Answer::Object(schema.to_owned());
                    if subresource.name == "log" {
                        let options = self.table.kind(&self.resource().api_version(), "PodLogOptions");
                        let options = options.into_iter().flat_map(|id| parameters::options(id, self.table));
                        operation.parameters.extend(options);
                        operation.answer = Answer::Text;
                    }
                    operation
                }
                Verb::Create => self.write("post", self.id("create", &rest), schema),
                Verb::Patch => self.write("patch", self.id("patch", &rest), schema),
                Verb::Update => self.write("put", self.id("replace", &rest), schema),
                _ => continue,
            });
        }
        for operation in &mut operations {
            operation.kind = Some(self.kind_of(subresource));
        }
        vec![self.item(path, operations)]
    }

    fn kind_of(&self, subresource: &'a Subresource) -> [&'a str; 3] {
        let resource = self.resource();
        if self.subject.custom {
            [&resource.group, &resource.version, &resource.kind]
        } else if subresource.version.is_empty() {
            [&resource.group, &resource.version, &subresource.kind]
        } else {
            [&subresource.group, &subresource.version, &subresource.kind]
        }
    }

    fn connections(&self, path: &str, subresource: &'a Subresource, options: StructId) -> Vec<PathItem<'a>> {
        let mut methods: Vec<&'static str> = Vec::new();
        for verb in &subresource.verbs {
            match verb {
                Verb::Create => methods.push("post"),
                Verb::Delete => methods.push("delete"),
                Verb::Get => methods.push("get"),
                Verb::Patch => methods.push("patch"),
                Verb::Update => methods.extend(["put", "head", "options"]),
                _ => {}
            }
        }
        let rest = capital(&subresource.name);
        let paths = if subresource.name == "proxy" { &["", "/{path}"][..] } else { &[""] };
        let item = |suffix: &&str| {
            let connect = |method: &&'static str| {
                let with_path = if suffix.is_empty() { "" } else { "WithPath" };
                let id = self.long_id("connect", &capital(method), &format!("{rest}{with_path}"));
                let mut operation = self.operation(method, "connect", id);
                operation.kind = Some(self.kind_of(subresource));
                operation.parameters = parameters::options(options, self.table).collect();
                operation.answer = Answer::Connection;
                operation
            };
            self.item(&format!("{path}{suffix}"), methods.iter().map(connect).collect())
        };
        paths.iter().map(item).collect()
    }

    /// Moves the parameters that all operations share to the path.
    fn item(&self, path: &str, mut operations: Vec<Operation<'a>>) -> PathItem<'a> {
        let in_path = ["name", "namespace", "path"].into_iter().filter(|name| path.contains(&format!("{{{name}}}")));
        let mut shared: Vec<Parameter<'a>> = in_path.map(parameters::path).collect();
        let first = operations.first().map(|first| first.parameters.clone()).unwrap_or_default();
        shared.extend(first.into_iter().filter(|one| operations.iter().all(|other| other.parameters.contains(one))));
        shared.sort();
        for operation in &mut operations {
            operation.parameters.retain(|one| !shared.contains(one));
            operation.parameters.sort();
        }
        PathItem { path: path.to_owned(), parameters: shared, operations }
    }
}
