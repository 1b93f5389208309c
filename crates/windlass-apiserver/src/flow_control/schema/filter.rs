//! A filter for classification: most FlowSchemas match other subjects, which a comparison of a few numbers shows
//! without reading the schemas.

use super::{Digest, SchemaSpec, Subject, Target};
use crate::{fingerprint::fingerprint, user::User};

/// The subjects of all schemas, in the order of the schemas.
#[derive(Debug, Default)]
pub(in crate::flow_control) struct SchemaFilter(Vec<Entry>);

/// A subject of a rule.
#[derive(Debug)]
struct Entry {
    /// The place of the schema.
    schema: usize,
    subject: Print,
    /// Whether the rule matches resources, and whether it matches other paths.
    resources: bool,
    paths: bool,
}

/// A subject, with a fingerprint instead of its name.
#[derive(Debug, Clone, Copy)]
enum Print {
    Any,
    User(u64),
    Group(u64),
    ServiceAccounts,
}

/// A user, with fingerprints instead of names.
struct UserPrint {
    name: u64,
    is_service_account: bool,
    groups: [u64; Self::GROUPS],
    /// The number of groups; more than the array has room for if not all are known.
    group_count: usize,
}

impl SchemaFilter {
    pub(in crate::flow_control) fn new<'a>(schemas: impl Iterator<Item = &'a SchemaSpec>) -> Self {
        let rules = schemas.enumerate().flat_map(|(schema, spec)| spec.rules.iter().map(move |rule| (schema, rule)));
        let entries = rules.flat_map(|(schema, rule)| {
            let (resources, paths) = (!rule.resources.is_empty(), !rule.paths.is_empty());
            rule.subjects.iter().map(move |subject| Entry { schema, subject: Print::of(subject), resources, paths })
        });
        Self(entries.collect())
    }

    /// Returns the places of all schemas that match a request, in order, and of some that do not.
    pub(in crate::flow_control) fn candidates(&self, request: &Digest<'_>) -> impl Iterator<Item = usize> {
        let user = UserPrint::of(request.user);
        let is_resource = matches!(request.target, Target::Resource { .. });
        let fits = move |entry: &&Entry| {
            (if is_resource { entry.resources } else { entry.paths }) && user.may_be(entry.subject)
        };
        self.0.iter().filter(fits).map(|entry| entry.schema)
    }
}

impl Print {
    fn of(subject: &Subject) -> Self {
        match subject {
            Subject::Everyone => Self::Any,
            // A user may belong to this group without listing it.
            Subject::Group(group) if group == "system:authenticated" => Self::Any,
            Subject::User(name) => Self::User(fingerprint(name)),
            Subject::Group(group) => Self::Group(fingerprint(group)),
            Subject::ServiceAccounts(_) => Self::ServiceAccounts,
        }
    }
}

impl UserPrint {
    /// The number of groups that are compared. Users with more may match all groups.
    const GROUPS: usize = 8;

    fn of(user: &User) -> Self {
        let mut groups = [0; Self::GROUPS];
        for (place, group) in groups.iter_mut().zip(&user.groups) {
            *place = fingerprint(group);
        }
        Self {
            name: fingerprint(&user.name),
            is_service_account: user.name.starts_with("system:serviceaccount:"),
            groups,
            group_count: user.groups.len(),
        }
    }

    fn may_be(&self, subject: Print) -> bool {
        match subject {
            Print::Any => true,
            Print::User(name) => self.name == name,
            Print::ServiceAccounts => self.is_service_account,
            Print::Group(group) => match self.groups.get(..self.group_count) {
                Some(groups) => groups.contains(&group),
                None => true,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    /// Names that are equal, short, or differ only at their beginning.
    const NAMES: [&str; 9] = [
        "system:authenticated",
        "system:unauthenticated",
        "system:masters",
        "system:serviceaccount:a:robot",
        "system:serviceaccount:b:robot",
        "another:authenticated",
        "a",
        "b",
        "",
    ];

    fn name() -> impl Strategy<Value = &'static str> {
        prop::sample::select(&NAMES[..])
    }

    fn subject() -> impl Strategy<Value = Value> {
        prop_oneof![
            name().prop_map(|name| json!({"kind": "User", "user": {"name": name}})),
            name().prop_map(|name| json!({"kind": "Group", "group": {"name": name}})),
            Just(json!({"kind": "Group", "group": {"name": "*"}})),
            prop::sample::select(&["robot", "*"][..])
                .prop_map(|name| json!({"kind": "ServiceAccount", "serviceAccount": {"namespace": "a", "name": name}})),
        ]
    }

    fn schema() -> impl Strategy<Value = SchemaSpec> {
        let rule = (prop::collection::vec(subject(), 0..3), any::<bool>(), any::<bool>());
        prop::collection::vec(rule, 0..3).prop_map(|rules| {
            let all = json!(["*"]);
            let rules: Vec<Value> = rules
                .into_iter()
                .map(|(subjects, resources, paths)| {
                    let resource = json!({"verbs": all, "apiGroups": all, "resources": all, "namespaces": all});
                    let path = json!({"verbs": all, "nonResourceURLs": all});
                    json!({
                        "subjects": subjects,
                        "resourceRules": if resources { json!([resource]) } else { json!([]) },
                        "nonResourceRules": if paths { json!([path]) } else { json!([]) },
                    })
                })
                .collect();
            SchemaSpec::compile(&json!({"rules": rules}))
        })
    }

    proptest! {
        #[test]
        fn no_schema_that_matches_is_skipped(
            schemas in prop::collection::vec(schema(), 0..6),
            name in name(),
            groups in prop::collection::vec(name(), 0..12),
            is_resource: bool,
        ) {
            let groups = groups.into_iter().map(str::to_owned).collect();
            let user = User { name: name.to_owned(), groups, ..User::default() };
            let target = match is_resource {
                true => Target::Resource { verb: "get", group: "", resource: "pods", subresource: "", namespace: "a" },
                false => Target::Path { verb: "get", path: "/version" },
            };
            let request = Digest { user: &user, target };
            let naive = schemas.iter().position(|schema| schema.matches(&request));
            let filter = SchemaFilter::new(schemas.iter());
            let filtered = filter.candidates(&request).find(|place| schemas[*place].matches(&request));
            prop_assert_eq!(filtered, naive);
        }
    }

    #[test]
    fn schemas_of_other_subjects_are_skipped() {
        let rule = |group: &str| {
            json!({"rules": [{"subjects": [{"kind": "Group", "group": {"name": group}}],
                "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": true}]}]})
        };
        let schemas = ["system:masters", "system:nodes", "system:authenticated"].map(|g| SchemaSpec::compile(&rule(g)));
        let filter = SchemaFilter::new(schemas.iter());
        let eve = User { name: "eve".to_owned(), groups: vec!["developers".to_owned()], ..User::default() };
        let target = Target::Resource { verb: "get", group: "", resource: "nodes", subresource: "", namespace: "" };
        let request = Digest { user: &eve, target };
        assert_eq!(filter.candidates(&request).collect::<Vec<_>>(), [2]);
    }
}
