//! Permissions that recorded requests need.

use std::collections::BTreeSet;

use serde_json::Value;
use windlass_plane::{Permission, Verb};
use windlass_schema::sorting::Gather as _;

/// A recorded request.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Recorded {
    pub(super) method: String,
    /// Path and query.
    pub(super) uri: String,
    pub(super) status: u16,
    /// The namespace that stands for any namespace: that of a test.
    pub(super) any_namespace: Option<String>,
    /// The namespace that stands for the operator's own namespace, if known.
    pub(super) own_namespace: Option<String>,
}

/// A permission on a resource.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Need {
    pub(super) group: String,
    /// Including the subresource: `pods/log`.
    pub(super) resource: String,
    pub(super) verb: Verb,
    /// `None` for the whole cluster.
    pub(super) namespace: Option<String>,
    /// `None` for all objects.
    pub(super) name: Option<String>,
}

/// All needed permissions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Needs {
    pub(super) resources: BTreeSet<Need>,
    /// Verbs and non-resource paths.
    pub(super) paths: BTreeSet<(String, String)>,
}

/// Subresources that upgrade connections.
const CONNECTS: &[&str] = &["attach", "exec", "portforward"];

impl Recorded {
    /// Parses a line recorded by tests; `None` if it is not one.
    pub(super) fn read(line: &str) -> Option<Self> {
        let value: Value = serde_json::from_str(line).ok()?;
        let text = |name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
        let status = value.get("status").and_then(Value::as_u64).and_then(|status| u16::try_from(status).ok())?;
        let (any_namespace, own_namespace) = (text("namespace"), text("own"));
        Some(Self { method: text("method")?, uri: text("uri")?, status, any_namespace, own_namespace })
    }

    /// Namespace that a request counts for; `None` for any.
    fn place(&self, namespace: Option<String>, own: &str) -> Option<String> {
        if namespace.is_some() && namespace == self.own_namespace {
            return Some(own.to_owned());
        }
        namespace.filter(|namespace| self.any_namespace.as_ref() != Some(namespace))
    }

    pub(super) fn is_rejected(&self) -> bool {
        self.status == 403
    }
}

impl Need {
    /// The resource without its subresource.
    pub(super) fn base(&self) -> &str {
        self.resource.split('/').next().unwrap_or_default()
    }

    /// Returns whether the default roles of every cluster grant this to all authenticated users.
    fn is_granted_to_all(&self) -> bool {
        let reviews = ["selfsubjectaccessreviews", "selfsubjectreviews", "selfsubjectrulesreviews"];
        self.verb == Verb::Create && self.group.ends_with(".k8s.io") && reviews.contains(&self.resource.as_str())
    }
}

impl Needs {
    /// Permissions for these requests of a program in namespace `own`, except for permissions that everyone has.
    pub(super) fn of<'a>(requests: impl IntoIterator<Item = &'a Recorded>, own: &str) -> Self {
        let mut needs = Self::default();
        for request in requests {
            let (Ok(method), Ok(uri)) = (request.method.parse(), request.uri.parse()) else { continue };
            match Permission::of(&method, &uri) {
                Some(Permission::Path { verb, path }) if !is_path_granted_to_all(&verb, &path) => {
                    needs.paths.insert((verb, path));
                }
                Some(Permission::Resource { verb, group, resource, subresource, namespace, name })
                    if verb != Verb::Unknown =>
                {
                    let connects = verb == Verb::Get && CONNECTS.contains(&subresource.as_str());
                    let creates = request.status == 201 && matches!(verb, Verb::Patch | Verb::Update);
                    let some = |text: String| Some(text).filter(|text| !text.is_empty());
                    let need = Need {
                        group,
                        resource: if subresource.is_empty() { resource } else { format!("{resource}/{subresource}") },
                        verb,
                        namespace: request.place(some(namespace), own),
                        name: some(name),
                    };
                    if connects {
                        // Since 1.35, upgraded GET requests need this as well.
                        needs.resources.insert(Need { verb: Verb::Create, ..need.clone() });
                    }
                    if creates {
                        // An apply or a PUT of an object that did not exist.
                        needs.resources.insert(Need { verb: Verb::Create, name: None, ..need.clone() });
                    }
                    if !need.is_granted_to_all() {
                        needs.resources.insert(need);
                    }
                }
                _ => {}
            }
        }
        needs
    }

    /// Adds permissions of a further run. If that run used other names of a resource, the names are not fixed: the
    /// permission is then for all objects, because the next run would use others again.
    pub(super) fn learn(&mut self, more: Self) {
        for need in more.resources {
            let is_same = |known: &Need| Need { name: None, ..known.clone() } == Need { name: None, ..need.clone() };
            let varies =
                need.name.is_some() && self.resources.iter().any(|known| known.name.is_some() && is_same(known));
            self.resources.insert(if varies { Need { name: None, ..need } } else { need });
        }
        self.paths.extend(more.paths);
    }

    /// The same permissions for objects of any name.
    pub(super) fn without_names(self) -> Self {
        let resources = self.resources.into_iter().map(|need| Need { name: None, ..need }).gather();
        Self { resources, ..self }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.resources.is_empty() && self.paths.is_empty()
    }

    /// Adds the permissions for leader election unless they were exercised; returns whether they were added.
    ///
    /// Operators only elect a leader in a cluster, where there may be several replicas.
    pub(super) fn add_election(&mut self, name: &str, own: &str) -> bool {
        let lease = |verb: Verb, name: Option<&str>| Need {
            group: "coordination.k8s.io".to_owned(),
            resource: "leases".to_owned(),
            verb,
            namespace: Some(own.to_owned()),
            name: name.map(str::to_owned),
        };
        let is_seen =
            self.resources.iter().any(|need| (need.group.as_str(), need.base()) == ("coordination.k8s.io", "leases"));
        if !is_seen {
            self.resources.extend([
                lease(Verb::Create, None),
                lease(Verb::Get, Some(name)),
                lease(Verb::Update, Some(name)),
            ]);
        }
        !is_seen
    }

    /// Adds the permissions to renew webhook certificates that the operator keeps in its own Secret, and to write the
    /// CA bundle into the configurations it read, unless they were exercised; returns whether they were added. Renewal
    /// happens after months, and the CA bundle is only written where the configurations exist.
    pub(super) fn add_renewal(&mut self, own: &str) -> bool {
        let trusts = ["mutatingwebhookconfigurations", "validatingwebhookconfigurations", "customresourcedefinitions"];
        let renewal = |need: &Need| {
            let name = need.name.as_ref().filter(|_| need.verb == Verb::Get)?;
            let is_kept = need.group.is_empty()
                && need.resource == "secrets"
                && need.namespace.as_deref() == Some(own)
                && name.ends_with("-webhook-certificates");
            let verb = if trusts.contains(&need.resource.as_str()) { Verb::Patch } else { Verb::Update };
            (is_kept || verb == Verb::Patch).then(|| Need { verb, ..need.clone() })
        };
        let renewals: Vec<Need> = self.resources.iter().filter_map(renewal).collect();
        // An operator without certificates reads CRDs for other reasons.
        if !renewals.iter().any(|need| need.verb == Verb::Update) {
            return false;
        }
        let before = self.resources.len();
        self.resources.extend(renewals);
        self.resources.len() > before
    }

    /// Adds the permissions to create and update events wherever something is watched, unless they were exercised;
    /// returns whether they were added. Events are sent with a delay, when a test may be over.
    pub(super) fn add_events(&mut self) -> bool {
        let watched = self.resources.iter().filter(|need| need.verb == Verb::Watch).map(|need| need.namespace.clone());
        let mut places: BTreeSet<Option<String>> = watched.gather();
        if places.contains(&None) {
            places = BTreeSet::from([None]);
        }
        let event = |verb: Verb, namespace: &Option<String>| Need {
            group: "events.k8s.io".to_owned(),
            resource: "events".to_owned(),
            verb,
            namespace: namespace.clone(),
            name: None,
        };
        let before = self.resources.len();
        self.resources.extend(places.iter().flat_map(|place| [event(Verb::Create, place), event(Verb::Patch, place)]));
        self.resources.len() > before
    }

    /// Returns whether roles or bindings were written, which needs permissions that requests do not show.
    pub(super) fn grants_rights(&self) -> bool {
        let writes = [Verb::Create, Verb::Update, Verb::Patch];
        self.resources.iter().any(|need| need.group == "rbac.authorization.k8s.io" && writes.contains(&need.verb))
    }
}

/// Paths granted by `system:discovery` and `system:public-info-viewer`.
fn is_path_granted_to_all(verb: &str, path: &str) -> bool {
    let first = path.trim_matches('/').split('/').next().unwrap_or_default();
    let trees = ["api", "apis", "openapi"];
    let alone = ["healthz", "livez", "readyz", "version"];
    verb == "get" && (trees.contains(&first) || (alone.contains(&first) && path.trim_matches('/') == first))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded(method: &str, uri: &str) -> Recorded {
        Recorded {
            method: method.to_owned(),
            uri: uri.to_owned(),
            status: 200,
            any_namespace: Some("test-1".to_owned()),
            own_namespace: Some("me-system".to_owned()),
        }
    }

    #[test]
    fn default_permissions_are_not_needed() {
        let needs = Needs::of(
            &[
                recorded("GET", "/apis/apps/v1"),
                recorded("GET", "/version"),
                recorded("GET", "/metrics"),
                recorded("GET", "/livez/ping"),
                recorded("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"),
            ],
            "system",
        );
        assert!(needs.resources.is_empty(), "{needs:?}");
        assert_eq!(needs.paths.iter().map(|(_, path)| path.as_str()).collect::<Vec<_>>(), ["/livez/ping", "/metrics"]);
    }

    #[test]
    fn the_namespace_of_a_test_stands_for_any_namespace() {
        let needs = Needs::of(
            &[
                recorded("GET", "/api/v1/namespaces/test-1/pods/a"),
                recorded("GET", "/api/v1/namespaces/other/pods/a/exec"),
                recorded("GET", "/api/v1/namespaces/me-system/secrets/a"),
            ],
            "system",
        );
        let text: Vec<String> = needs
            .resources
            .iter()
            .map(|need| format!("{} {} {:?}", need.verb, need.resource, need.namespace.as_deref()))
            .collect();
        assert_eq!(
            text,
            [
                "get pods None",
                "create pods/exec Some(\"other\")",
                "get pods/exec Some(\"other\")",
                "get secrets Some(\"system\")"
            ]
        );
    }

    #[test]
    fn an_apply_or_put_that_created_its_object_needs_create() {
        let answered = |method, status| Recorded { status, ..recorded(method, "/api/v1/namespaces/a/configmaps/b") };
        for (request, verbs) in [
            (answered("PATCH", 201), &["create", "patch"][..]),
            (answered("PUT", 201), &["create", "update"]),
            (answered("PATCH", 200), &["patch"]),
        ] {
            let needs = Needs::of([&request], "system");
            assert_eq!(needs.resources.iter().map(|need| need.verb.as_str()).collect::<Vec<_>>(), verbs);
        }
    }

    #[test]
    fn names_that_change_from_run_to_run_are_not_fixed() {
        let map =
            |name: &str| Needs::of([&recorded("GET", &format!("/api/v1/namespaces/a/configmaps/{name}"))], "system");
        let mut needs = map("one");
        needs.learn(map("two"));
        let names: Vec<Option<&str>> = needs.resources.iter().map(|need| need.name.as_deref()).collect();
        assert_eq!(names, [None, Some("one")]);
        let mut needs = Needs::default();
        needs.learn(map("one"));
        assert_eq!(needs, map("one"), "a name that only a later run uses is kept");
        assert_eq!(map("one").without_names(), map("two").without_names());
    }

    #[test]
    fn permissions_that_are_not_exercised_are_added_once() {
        let secret = "/api/v1/namespaces/me-system/secrets/me-webhook-certificates";
        let hooks_path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/me";
        let mut needs = Needs::of(&[recorded("GET", secret), recorded("GET", hooks_path)], "system");
        assert!(needs.add_election("me", "system") && needs.add_renewal("system"));
        let text: Vec<String> = needs
            .resources
            .iter()
            .map(|need| format!("{} {} {}", need.verb, need.resource, need.name.as_deref().unwrap_or("*")))
            .collect();
        let secrets = ["get secrets me-webhook-certificates", "update secrets me-webhook-certificates"];
        let hooks = ["get mutatingwebhookconfigurations me", "patch mutatingwebhookconfigurations me"];
        assert_eq!(text, [&secrets[..], &hooks, &["create leases *", "get leases me", "update leases me"]].concat());
        assert!(!Needs::of(&[recorded("GET", hooks_path)], "system").add_renewal("system"));
        assert!(!needs.add_election("me", "system") && !needs.add_renewal("system"));
        // There is nothing that events could be about.
        assert!(!needs.add_events());
        let watch = |uri: &str| Needs::of(&[recorded("GET", uri)], "system");
        for (uri, place) in [("/api/v1/pods?watch=1", None), ("/api/v1/namespaces/a/pods?watch=1", Some("a"))] {
            let mut needs = watch(uri);
            assert!(needs.add_events());
            let events: Vec<_> = needs.resources.iter().filter(|need| need.resource == "events").collect();
            assert!(events.len() == 2 && events.iter().all(|event| event.namespace.as_deref() == place), "{events:?}");
            assert!(!needs.add_events());
        }
        assert!(!Needs::of(&[recorded("GET", "/api/v1/secrets")], "system").add_renewal("system"));
    }

    #[test]
    fn recorded_lines_are_parsed_and_others_skipped() {
        let line =
            r#"{"method":"GET","uri":"/api/v1/pods?watch=1","status":200,"namespace":"test-1","own":"me-system"}"#;
        assert_eq!(Recorded::read(line), Some(recorded("GET", "/api/v1/pods?watch=1")));
        for line in ["", "{", "[]", "{\"method\":\"GET\"}", "{\"method\":1,\"uri\":\"/\",\"status\":70000}"] {
            assert_eq!(Recorded::read(line), None);
        }
    }
}
