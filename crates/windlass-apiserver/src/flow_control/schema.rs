//! FlowSchemas, compiled: which requests they match.

mod filter;

use serde_json::Value;

pub(super) use self::filter::SchemaFilter;
use crate::{request_info::ResourceRequest, user::User, verb::Verb};

/// The value that matches everything.
const ANY: &str = "*";

/// The rules of a FlowSchema.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct SchemaSpec {
    pub(super) level: String,
    pub(super) precedence: i64,
    pub(super) distinguisher: Option<Distinguisher>,
    rules: Vec<Rule>,
}

/// Property that distinguishes the flows of a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Distinguisher {
    ByUser,
    ByNamespace,
}

#[derive(Debug, PartialEq, Eq)]
struct Rule {
    subjects: Vec<Subject>,
    resources: Vec<ResourceRule>,
    paths: Vec<PathRule>,
}

#[derive(Debug, PartialEq, Eq)]
enum Subject {
    Everyone,
    User(String),
    Group(String),
    /// The prefix of the names of all accounts of a namespace.
    ServiceAccounts(String),
}

#[derive(Debug, PartialEq, Eq)]
struct ResourceRule {
    verbs: Names,
    groups: Names,
    resources: Names,
    namespaces: Names,
    cluster_scope: bool,
}

#[derive(Debug, PartialEq, Eq)]
struct PathRule {
    verbs: Names,
    paths: Vec<String>,
}

/// A list of names, or all names.
#[derive(Debug, PartialEq, Eq)]
enum Names {
    All,
    These(Vec<String>),
}

/// A request, as FlowSchemas see it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Digest<'a> {
    pub(crate) user: &'a User,
    pub(crate) target: Target<'a>,
}

/// The target of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Target<'a> {
    /// A resource, or one of its objects.
    Resource { verb: &'a str, group: &'a str, resource: &'a str, subresource: &'a str, namespace: &'a str },
    /// Any other path, with the HTTP method in lower case.
    Path { verb: &'a str, path: &'a str },
}

impl<'a> Digest<'a> {
    /// A request for a resource.
    pub(crate) fn of(user: &'a User, verb: Verb, target: &ResourceRequest<'a>) -> Self {
        let ResourceRequest { group, resource, subresource, namespace, .. } = *target;
        Self { user, target: Target::Resource { verb: verb.as_str(), group, resource, subresource, namespace } }
    }
}

impl SchemaSpec {
    /// Compiles the spec of a FlowSchema. Fields of a wrong type are treated as absent.
    pub(super) fn compile(spec: &Value) -> Self {
        Self {
            level: text(&spec["priorityLevelConfiguration"]["name"]),
            precedence: spec["matchingPrecedence"].as_i64().unwrap_or(1000),
            distinguisher: match spec["distinguisherMethod"]["type"].as_str() {
                Some("ByUser") => Some(Distinguisher::ByUser),
                Some("ByNamespace") => Some(Distinguisher::ByNamespace),
                _ => None,
            },
            rules: items(&spec["rules"]).iter().map(Rule::compile).collect(),
        }
    }

    /// Returns whether a request matches.
    pub(super) fn matches(&self, request: &Digest<'_>) -> bool {
        self.rules.iter().any(|rule| rule.matches(request))
    }

    /// Returns the part of the request that distinguishes its flow from others of the schema.
    pub(super) fn distinguisher<'a>(&self, request: &Digest<'a>) -> &'a str {
        match (self.distinguisher, request.target) {
            (Some(Distinguisher::ByUser), _) => &request.user.name,
            (Some(Distinguisher::ByNamespace), Target::Resource { namespace, .. }) => namespace,
            _ => "",
        }
    }
}

impl Rule {
    fn compile(rule: &Value) -> Self {
        Self {
            subjects: items(&rule["subjects"]).iter().filter_map(Subject::compile).collect(),
            resources: items(&rule["resourceRules"]).iter().map(ResourceRule::compile).collect(),
            paths: items(&rule["nonResourceRules"]).iter().map(PathRule::compile).collect(),
        }
    }

    fn matches(&self, request: &Digest<'_>) -> bool {
        self.subjects.iter().any(|subject| subject.matches(request.user))
            && match request.target {
                Target::Resource { verb, group, resource, subresource, namespace } => {
                    self.resources.iter().any(|rule| {
                        rule.verbs.contain(verb)
                            && rule.resources.contain_resource(resource, subresource)
                            && rule.groups.contain(group)
                            && if namespace.is_empty() {
                                rule.cluster_scope
                            } else {
                                rule.namespaces.contain(namespace)
                            }
                    })
                }
                Target::Path { verb, path } => self.paths.iter().any(|rule| {
                    rule.verbs.contain(verb) && rule.paths.iter().any(|pattern| path_matches(pattern, path))
                }),
            }
    }
}

impl Subject {
    fn compile(subject: &Value) -> Option<Self> {
        let name = |field: &str| subject[field]["name"].as_str();
        Some(match subject["kind"].as_str()? {
            "User" if name("user")? == ANY => Self::Everyone,
            "User" => Self::User(name("user")?.to_owned()),
            "Group" if name("group")? == ANY => Self::Everyone,
            "Group" => Self::Group(name("group")?.to_owned()),
            "ServiceAccount" => {
                let prefix = format!("system:serviceaccount:{}:", text(&subject["serviceAccount"]["namespace"]));
                match name("serviceAccount")? {
                    ANY => Self::ServiceAccounts(prefix),
                    name => Self::User(prefix + name),
                }
            }
            _ => return None,
        })
    }

    fn matches(&self, user: &User) -> bool {
        match self {
            Self::Everyone => true,
            Self::User(name) => user.name == *name,
            Self::ServiceAccounts(prefix) => user.name.starts_with(prefix.as_str()),
            Self::Group(group) => {
                user.groups.iter().any(|one| one == group)
                    // Every authenticated user is a member, even if a program created the user without groups.
                    || (group == "system:authenticated" && !user.is_anonymous())
            }
        }
    }
}

impl ResourceRule {
    fn compile(rule: &Value) -> Self {
        Self {
            verbs: Names::compile(&rule["verbs"]),
            groups: Names::compile(&rule["apiGroups"]),
            resources: Names::compile(&rule["resources"]),
            namespaces: Names::compile(&rule["namespaces"]),
            cluster_scope: rule["clusterScope"].as_bool() == Some(true),
        }
    }
}

impl PathRule {
    fn compile(rule: &Value) -> Self {
        let paths = items(&rule["nonResourceURLs"]).iter().map(text).collect();
        Self { verbs: Names::compile(&rule["verbs"]), paths }
    }
}

impl Names {
    fn compile(list: &Value) -> Self {
        match items(list) {
            [only] if only == ANY => Self::All,
            many => Self::These(many.iter().map(text).collect()),
        }
    }

    fn contain(&self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::These(names) => names.iter().any(|one| one == name),
        }
    }

    fn contain_resource(&self, resource: &str, subresource: &str) -> bool {
        let same = |name: &String| match name.split_once('/') {
            None => name == resource && subresource.is_empty(),
            Some((of, sub)) => of == resource && sub == subresource,
        };
        match self {
            Self::All => true,
            Self::These(names) => names.iter().any(same),
        }
    }
}

/// Returns whether a path is the pattern's or below it.
fn path_matches(pattern: &str, path: &str) -> bool {
    if pattern == ANY || pattern == path {
        return true;
    }
    let prefix = pattern.strip_suffix('*').unwrap_or(pattern);
    let prefix = prefix.strip_suffix('/').unwrap_or(prefix);
    path.strip_prefix(prefix).is_some_and(|rest| rest.starts_with('/'))
}

fn items(list: &Value) -> &[Value] {
    list.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn user(name: &str, groups: &[&str]) -> User {
        let groups = groups.iter().map(|group| (*group).to_owned()).collect();
        User { name: name.to_owned(), groups, ..User::default() }
    }

    fn matches(subjects: &Value, rules: &Value, user: &User, target: Target<'_>) -> bool {
        let mut rule = rules.clone();
        rule["subjects"] = subjects.clone();
        SchemaSpec::compile(&json!({"rules": [rule]})).matches(&Digest { user, target })
    }

    #[test]
    fn subjects_are_users_groups_and_service_accounts() {
        let all = json!({"nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}]});
        let account = |namespace: &str, name: &str| json!([{"kind": "ServiceAccount", "serviceAccount": {"namespace": namespace, "name": name}}]);
        let robot = user("system:serviceaccount:a:robot", &[]);
        for (subjects, user, expected) in [
            (json!([{"kind": "User", "user": {"name": "eve"}}]), user("eve", &[]), true),
            (json!([{"kind": "User", "user": {"name": "eve"}}]), user("bob", &["eve"]), false),
            (json!([{"kind": "User", "user": {"name": "*"}}]), user("bob", &[]), true),
            (json!([{"kind": "Group", "group": {"name": "g"}}]), user("bob", &["f", "g"]), true),
            (json!([{"kind": "Group", "group": {"name": "g"}}]), user("g", &[]), false),
            (json!([{"kind": "Group", "group": {"name": "system:authenticated"}}]), user("bob", &[]), true),
            (json!([{"kind": "Group", "group": {"name": "system:authenticated"}}]), User::anonymous(), false),
            (account("a", "robot"), robot.clone(), true),
            (account("a", "*"), robot.clone(), true),
            (account("a", "other"), robot.clone(), false),
            (account("", "*"), robot, false),
            (json!([{"kind": "Robot"}]), user("bob", &[]), false),
        ] {
            let target = Target::Path { verb: "get", path: "/version" };
            assert_eq!(matches(&subjects, &all, &user, target), expected, "{subjects} {}", user.name);
        }
    }

    #[test]
    fn resource_rules_select_verbs_groups_resources_and_scopes() {
        let everyone = json!([{"kind": "Group", "group": {"name": "*"}}]);
        let eve = user("eve", &[]);
        let rule = |verbs: &str, resources: &str, namespaces: Value, cluster: bool| {
            json!({"resourceRules": [{"verbs": [verbs], "apiGroups": ["apps"], "resources": [resources],
                "namespaces": namespaces, "clusterScope": cluster}]})
        };
        for (rule, subresource, namespace, expected) in [
            (rule("get", "deployments", json!(["*"]), false), "", "a", true),
            (rule("get", "deployments", json!(["*"]), false), "", "", false),
            (rule("get", "deployments", json!(["*"]), true), "", "", true),
            (rule("get", "deployments", json!([]), true), "", "a", false),
            (rule("get", "deployments", json!(["a"]), false), "", "b", false),
            (rule("get", "deployments", json!(["*"]), false), "status", "a", false),
            (rule("get", "deployments/status", json!(["*"]), false), "status", "a", true),
            (rule("*", "*", json!(["*"]), false), "status", "a", true),
            (rule("list", "*", json!(["*"]), false), "", "a", false),
        ] {
            let target =
                Target::Resource { verb: "get", group: "apps", resource: "deployments", subresource, namespace };
            assert_eq!(matches(&everyone, &rule, &eve, target), expected, "{rule} {subresource} {namespace}");
        }
    }

    #[test]
    fn paths_match_with_everything_below_them() {
        for (pattern, path, expected) in [
            ("/healthz", "/healthz", true),
            ("/healthz", "/healthz/ping", true),
            ("/healthz", "/healthzz", false),
            ("/apis/*", "/apis/apps", true),
            ("/apis/*", "/apis", false),
            ("*", "/", true),
            ("/", "/anything", true),
        ] {
            assert_eq!(path_matches(pattern, path), expected, "{pattern} {path}");
        }
    }

    #[test]
    fn flows_are_distinguished_by_user_or_namespace() {
        let eve = user("eve", &[]);
        let target = Target::Resource { verb: "get", group: "", resource: "pods", subresource: "", namespace: "a" };
        let request = Digest { user: &eve, target };
        for (method, expected) in [("ByUser", "eve"), ("ByNamespace", "a"), ("", "")] {
            let spec = SchemaSpec::compile(&json!({"distinguisherMethod": {"type": method}}));
            assert_eq!(spec.distinguisher(&request), expected);
        }
    }
}
