//! Served versions of the built-in API groups, as with kube-apiserver's `--runtime-config`.
//!
//! Stable versions are served by default. A few beta and alpha versions can be enabled: those whose objects look like
//! those of the stable version, so that they are another view of the same objects, and those of kinds that have no
//! stable version yet, which have a table of their own.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{Mutex, PoisonError},
};

use windlass_builtins::resource::{Kind, Resource, Table};
use windlass_schema::{go_format::parse_bool, sorting::Gather as _};

/// A beta or alpha version of resources that also have another version, `base`, in which they are stored.
struct View {
    group: &'static str,
    version: &'static str,
    base: &'static str,
    resources: &'static [&'static str],
}

const fn view(
    group: &'static str,
    version: &'static str,
    base: &'static str,
    resources: &'static [&'static str],
) -> View {
    View { group, version, base, resources }
}

const POLICIES: &[&str] = &["mutatingadmissionpolicies", "mutatingadmissionpolicybindings"];
const DEVICES: &[&str] = &["deviceclasses", "resourceclaims", "resourceclaimtemplates", "resourceslices"];

const VIEWS: [View; 8] = [
    view("admissionregistration.k8s.io", "v1beta1", "v1", POLICIES),
    view("admissionregistration.k8s.io", "v1alpha1", "v1", POLICIES),
    view("networking.k8s.io", "v1beta1", "v1", &["ipaddresses", "servicecidrs"]),
    view("resource.k8s.io", "v1beta2", "v1", DEVICES),
    view("storage.k8s.io", "v1beta1", "v1", &["volumeattributesclasses"]),
    // These have no stable version.
    view("certificates.k8s.io", "v1alpha1", "v1beta1", &["clustertrustbundles"]),
    view("coordination.k8s.io", "v1alpha2", "v1beta1", &["leasecandidates"]),
    view("resource.k8s.io", "v1alpha3", "v1beta2", &["devicetaintrules"]),
];

/// Versions that kube-apiserver serves and this server does not.
const UNAVAILABLE: [(&str, &str); 2] = [("internal.apiserver.k8s.io", "v1alpha1"), ("resource.k8s.io", "v1beta1")];

/// A resource that this server does not serve, in a version of which it serves other resources.
const UNAVAILABLE_RESOURCE: &str = "resource.k8s.io/v1alpha3/resourcepoolstatusrequests";

/// Versions that kube-apiserver knows, but no longer serves any resources of.
const EMPTY: [(&str, &str); 24] = [
    ("admission.k8s.io", "v1"),
    ("admission.k8s.io", "v1beta1"),
    ("apiextensions.k8s.io", "v1beta1"),
    ("apiregistration.k8s.io", "v1beta1"),
    ("apps", "v1beta1"),
    ("apps", "v1beta2"),
    ("authentication.k8s.io", "v1alpha1"),
    ("authentication.k8s.io", "v1beta1"),
    ("authorization.k8s.io", "v1beta1"),
    ("batch", "v1beta1"),
    ("discovery.k8s.io", "v1beta1"),
    ("events.k8s.io", "v1beta1"),
    ("extensions", "v1beta1"),
    ("flowcontrol.apiserver.k8s.io", "v1beta1"),
    ("flowcontrol.apiserver.k8s.io", "v1beta2"),
    ("flowcontrol.apiserver.k8s.io", "v1beta3"),
    ("imagepolicy.k8s.io", "v1alpha1"),
    ("node.k8s.io", "v1alpha1"),
    ("node.k8s.io", "v1beta1"),
    ("policy", "v1beta1"),
    ("rbac.authorization.k8s.io", "v1alpha1"),
    ("rbac.authorization.k8s.io", "v1beta1"),
    ("scheduling.k8s.io", "v1beta1"),
    ("storage.k8s.io", "v1alpha1"),
];

/// Returns whether kube-apiserver knows a version, but serves nothing of it.
pub(crate) fn is_empty(group: &str, version: &str) -> bool {
    EMPTY.contains(&(group, version))
}

/// Groups that the server itself needs.
const NEEDED: [&str; 3] = ["", "apiextensions.k8s.io", "apiregistration.k8s.io"];

/// The keys that stand for many versions, in the order in which they apply.
const MANY: [&str; 4] = ["api/all", "api/ga", "api/beta", "api/alpha"];

/// Served versions of the built-in API groups.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct RuntimeConfig {
    /// By key: `api/beta`, `GROUP/VERSION` or `GROUP/VERSION/RESOURCE`.
    enabled: BTreeMap<String, bool>,
}

/// The form of the option: `KEY=true,KEY=false`.
impl fmt::Display for RuntimeConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entries: Vec<String> = self.enabled.iter().map(|(key, enabled)| format!("{key}={enabled}")).collect();
        f.write_str(&entries.join(","))
    }
}

/// Reasons why a configuration is rejected. The messages are those of kube-apiserver where it has one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RuntimeConfigError {
    /// Nothing would be served.
    #[error("invalid runtime-config with only api/all=false")]
    Nothing,
    /// A key that is not `GROUP/VERSION` or `GROUP/VERSION/RESOURCE`.
    #[error("runtime-config invalid key {0}")]
    Key(String),
    /// A value that is not a bool, for a key that stands for many versions.
    #[error("invalid value {key}={value}")]
    ValueOfMany {
        /// The key.
        key: String,
        /// The value.
        value: String,
    },
    /// A value that is not a bool.
    #[error("invalid value of {key}: {value}, err: strconv.ParseBool: parsing {value:?}: invalid syntax")]
    Value {
        /// The key.
        key: String,
        /// The value.
        value: String,
    },
    /// Groups that do not exist.
    #[error("unknown api groups {0}")]
    Groups(String),
    /// A version that does not exist.
    #[error("group version {0} that has not been registered")]
    Version(String),
    /// A resource in upper case.
    #[error("invalid key {key}: group/version/resource and resource is always lowercase plural, not {resource:?}")]
    Resource {
        /// The key.
        key: String,
        /// The resource.
        resource: String,
    },
    /// A version of kube-apiserver that this server does not have.
    #[error("cannot enable {0}: not supported by Windlass")]
    Unavailable(String),
    /// A version that the server needs.
    #[error("cannot disable {0}: the server needs it")]
    Needed(String),
}

impl RuntimeConfig {
    /// Parses entries of the form `KEY=BOOL`.
    ///
    /// # Errors
    /// Returns why kube-apiserver would reject them, or that this server does not have a version.
    pub fn parse<'a>(entries: impl IntoIterator<Item = &'a str>) -> Result<Self, RuntimeConfigError> {
        let (config, unavailable) = Self::parse_available(entries)?;
        unavailable.into_iter().next().map_or(Ok(config), |key| Err(RuntimeConfigError::Unavailable(key)))
    }

    /// Parses entries like [`parse`](Self::parse), but skips entries that enable a version of kube-apiserver which this
    /// server does not have, and returns their keys.
    ///
    /// # Errors
    /// Returns why kube-apiserver would reject the entries.
    pub fn parse_available<'a>(
        entries: impl IntoIterator<Item = &'a str>,
    ) -> Result<(Self, Vec<String>), RuntimeConfigError> {
        let entries = entries.into_iter().filter(|entry| !entry.is_empty());
        let entries = entries.map(|entry| entry.split_once('=').unwrap_or((entry, "")));
        let entries = entries.map(|(key, value)| (key.trim(), value.trim()));
        let entries: BTreeMap<&str, &str> =
            entries.filter_map(|(key, value)| Some((current_key(key)?, value))).gather();
        if entries.len() == 1 && entries.get("api/all") == Some(&"false") {
            return Err(RuntimeConfigError::Nothing);
        }
        check_groups(entries.keys().copied().filter(|key| !MANY.contains(key)))?;
        let (mut enabled, mut unavailable) = (BTreeMap::new(), Vec::new());
        for (key, value) in entries {
            let is_enabled = parse_entry(key, value)?;
            match is_enabled && is_unavailable(key) {
                true => unavailable.push(key.to_owned()),
                false => drop(enabled.insert(key.to_owned(), is_enabled)),
            }
        }
        Ok((Self { enabled }, unavailable))
    }

    /// Returns the beta and alpha versions that can be enabled.
    pub fn available() -> impl Iterator<Item = String> {
        let versions: BTreeSet<(&str, &str)> = unstable_versions().gather();
        versions.into_iter().map(|(group, version)| format!("{group}/{version}"))
    }

    /// Returns the table of the resources that are served.
    pub(crate) fn table(&self) -> &'static Table {
        static TABLES: Mutex<BTreeMap<RuntimeConfig, &'static Table>> = Mutex::new(BTreeMap::new());
        let stable = windlass_builtins::table();
        if self.enabled.is_empty() {
            return stable;
        }
        // A process has few configurations, so their tables are never freed.
        let mut tables = TABLES.lock().unwrap_or_else(PoisonError::into_inner);
        tables.entry(self.clone()).or_insert_with(|| Box::leak(Box::new(self.apply(stable))))
    }

    fn apply(&self, stable: &Table) -> Table {
        let mut table = stable.clone();
        table.resources.retain(|resource| self.serves(&resource.group, &resource.version, &resource.plural));
        let (of_stable, of_unstable): (Vec<&View>, Vec<&View>) = VIEWS.iter().partition(|view| view.base == "v1");
        for view in of_stable {
            self.add_view(&mut table, stable, view);
        }
        let is_served = |resource: &Resource| self.serves(&resource.group, &resource.version, &resource.plural);
        let has_view = |resource: &Resource| {
            let views = of_unstable.iter().filter(|view| view.is_of(resource));
            views.into_iter().any(|view| self.serves(view.group, view.version, &resource.plural))
        };
        // Views are made from the types of this table.
        table.extend(windlass_builtins::table::unstable(), |resource| is_served(resource) || has_view(resource));
        let bases = table.clone();
        for view in of_unstable {
            self.add_view(&mut table, &bases, view);
        }
        table.resources.retain(|resource| is_served(resource));
        for group in &mut table.groups {
            let resources = &table.resources;
            let has = |version: &str| {
                resources.iter().any(|resource| resource.group == group.name && &*resource.version == version)
            };
            let served = group.versions.iter().filter(|version| has(version)).cloned().collect();
            group.versions = served;
        }
        table.groups.retain(|group| !group.versions.is_empty());
        table
    }

    /// Adds the resources of a view that are served, with their kinds.
    fn add_view(&self, table: &mut Table, from: &Table, view: &View) {
        let serves =
            |resource: &&Resource| view.is_of(resource) && self.serves(view.group, view.version, &resource.plural);
        let of_version = |resource: &Resource| Resource { version: view.version.into(), ..resource.clone() };
        let views: Vec<Resource> = from.resources.iter().filter(serves).map(of_version).collect();
        for kind in from.kinds.iter().filter(|kind| &*kind.group == view.group && &*kind.version == view.base) {
            let is_own = |view: &Resource| kind.kind.strip_suffix("List").unwrap_or(&kind.kind) == &*view.kind;
            if views.iter().any(is_own) {
                table.kinds.push(Kind { version: view.version.into(), ..kind.clone() });
            }
        }
        if !views.is_empty() {
            let groups = table.groups.iter_mut().filter(|have| &*have.name == view.group);
            groups.for_each(|have| have.versions.push(view.version.into()));
        }
        table.resources.extend(views);
    }

    /// Returns whether a resource is served: the most specific key decides.
    fn serves(&self, group: &str, version: &str, resource: &str) -> bool {
        let is_stable = !version.contains("alpha") && !version.contains("beta");
        let stands_for = |key: &str| match key {
            "api/ga" => is_stable,
            "api/beta" => version.contains("beta"),
            "api/alpha" => version.contains("alpha"),
            _ => true,
        };
        if NEEDED.contains(&group) {
            return true;
        }
        let many = MANY.into_iter().filter(|key| stands_for(key)).map(str::to_owned);
        let own = [format!("{group}/{version}"), format!("{group}/{version}/{resource}")];
        many.chain(own).filter_map(|key| self.enabled.get(&key).copied()).next_back().unwrap_or(is_stable)
    }
}

impl View {
    /// Returns whether it is a view of this resource.
    fn is_of(&self, resource: &Resource) -> bool {
        (&*resource.group, &*resource.version) == (self.group, self.base) && self.resources.contains(&&*resource.plural)
    }
}

/// Returns the version in which the objects of a resource are stored, if the resource is a view of another version.
pub(crate) fn base_of(resource: &Resource) -> Option<&'static str> {
    let is_own = |view: &&View| {
        (view.group, view.version) == (&*resource.group, &*resource.version)
            && view.resources.contains(&&*resource.plural)
    };
    VIEWS.iter().find(is_own).map(|view| view.base)
}

/// Returns the beta and alpha versions that can be enabled, some of them twice.
fn unstable_versions() -> impl Iterator<Item = (&'static str, &'static str)> {
    let own = windlass_builtins::table::unstable().resources.iter();
    let views = VIEWS.iter().map(|view| (view.group, view.version));
    views.chain(own.map(|resource| (&*resource.group, &*resource.version)))
}

/// Returns the current key for an old one; `None` if it no longer has a meaning.
fn current_key(key: &str) -> Option<&str> {
    match key {
        "api/legacy" => None,
        "v1" | "api/v1" => Some("/v1"),
        _ if key.starts_with("v1/") || key.starts_with("api/v1/") => Some("/v1"),
        _ => Some(key),
    }
}

/// Returns whether a key names a version that kube-apiserver has and this server does not.
fn is_unavailable(key: &str) -> bool {
    let mut parts = key.split('/');
    key == UNAVAILABLE_RESOURCE || parts.next().zip(parts.next()).is_some_and(|version| UNAVAILABLE.contains(&version))
}

/// Rejects keys of unknown groups.
fn check_groups<'a>(keys: impl Iterator<Item = &'a str>) -> Result<(), RuntimeConfigError> {
    let mut unknown = Vec::new();
    for key in keys {
        let (group, version) = match *key.split('/').collect::<Vec<_>>() {
            [group, version] | [group, version, _] => (group, version),
            _ => return Err(RuntimeConfigError::Key(key.to_owned())),
        };
        let is_builtin = windlass_builtins::table().groups.iter().any(|have| &*have.name == group);
        let mut others = UNAVAILABLE.iter().chain(&EMPTY).copied().chain(unstable_versions());
        if !is_builtin && !others.any(|(have, _)| have == group) {
            unknown.push(format!("{group}/{version}"));
        }
    }
    unknown.dedup();
    if unknown.is_empty() { Ok(()) } else { Err(RuntimeConfigError::Groups(unknown.join(","))) }
}

/// Parses an entry whose group exists.
fn parse_entry(key: &str, value: &str) -> Result<bool, RuntimeConfigError> {
    if MANY.contains(&key) {
        let error = || RuntimeConfigError::ValueOfMany { key: key.to_owned(), value: value.to_owned() };
        return value.parse().map_err(|_| error());
    }
    let mut parts = key.split('/');
    let (group, version) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let group_version = format!("{group}/{version}");
    let is_stable = windlass_builtins::table()
        .groups
        .iter()
        .any(|have| &*have.name == group && have.versions.iter().any(|known| &**known == version));
    let is_beta = unstable_versions().any(|known| known == (group, version));
    if !is_stable && !is_beta && !is_unavailable(key) && !is_empty(group, version) {
        return Err(RuntimeConfigError::Version(group_version));
    }
    let enabled = match value {
        "" => true,
        value => parse_bool(value)
            .ok_or_else(|| RuntimeConfigError::Value { key: key.to_owned(), value: value.to_owned() })?,
    };
    if let Some(resource) = parts.next().filter(|resource| resource.to_lowercase() != *resource) {
        return Err(RuntimeConfigError::Resource { key: key.to_owned(), resource: resource.to_owned() });
    }
    match enabled {
        false if NEEDED.contains(&group) => Err(RuntimeConfigError::Needed(group_version)),
        enabled => Ok(enabled),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(entries: &str) -> String {
        RuntimeConfig::parse(entries.split(',')).expect_err("it must be rejected").to_string()
    }

    fn table(entries: &str) -> &'static Table {
        RuntimeConfig::parse(entries.split(',')).expect("a configuration").table()
    }

    fn versions(table: &Table, group: &str) -> Vec<String> {
        let found = table.groups.iter().find(|have| &*have.name == group);
        found.map(|group| group.versions.iter().map(ToString::to_string).collect()).unwrap_or_default()
    }

    #[test]
    fn wrong_entries_are_rejected_as_kube_apiserver_does() {
        for (entries, expected) in [
            ("api/all=false", "invalid runtime-config with only api/all=false"),
            ("batch", "runtime-config invalid key batch"),
            ("a/b/c/d=true", "runtime-config invalid key a/b/c/d"),
            ("api/beta=yes", "invalid value api/beta=yes"),
            ("x.io/v1,foo/v2=true", "unknown api groups foo/v2,x.io/v1"),
            ("batch/v3=true", "group version batch/v3 that has not been registered"),
            (
                "batch/v1=maybe",
                "invalid value of batch/v1: maybe, err: strconv.ParseBool: parsing \"maybe\": invalid syntax",
            ),
            (
                "batch/v1/Jobs=true",
                "invalid key batch/v1/Jobs: group/version/resource and resource is always lowercase plural, not \"Jobs\"",
            ),
            (
                "storagemigration.k8s.io/v1alpha1=true",
                "group version storagemigration.k8s.io/v1alpha1 that has not been registered",
            ),
            ("resource.k8s.io/v1beta1=true", "cannot enable resource.k8s.io/v1beta1: not supported by Windlass"),
            ("/v1=false", "cannot disable /v1: the server needs it"),
            ("v1=false", "cannot disable /v1: the server needs it"),
        ] {
            assert_eq!(error(entries), expected, "{entries}");
        }
    }

    #[test]
    fn versions_that_only_kube_apiserver_has_can_be_left_out() {
        let entries = "resource.k8s.io/v1beta1,storage.k8s.io/v1beta1,internal.apiserver.k8s.io/v1alpha1/x=true,batch/v1=false,resource.k8s.io/v1alpha3/resourcepoolstatusrequests";
        let (found, unavailable) = RuntimeConfig::parse_available(entries.split(',')).expect("a configuration");
        assert_eq!(
            unavailable,
            [
                "internal.apiserver.k8s.io/v1alpha1/x",
                "resource.k8s.io/v1alpha3/resourcepoolstatusrequests",
                "resource.k8s.io/v1beta1"
            ]
        );
        assert_eq!(found, RuntimeConfig::parse(["storage.k8s.io/v1beta1", "batch/v1=false"]).expect("a configuration"));
        let old = RuntimeConfig::parse(["api/legacy=false", "v1", "api/v1/pods=true"]).expect("a configuration");
        assert_eq!(old, RuntimeConfig::parse(["/v1=true"]).expect("a configuration"));
    }

    #[test]
    fn stable_versions_are_served_by_default() {
        assert!(std::ptr::eq(RuntimeConfig::default().table(), windlass_builtins::table()));
        for without_effect in ["resource.k8s.io/v1beta1=false", "batch/v1beta1=true,extensions/v1beta1=true"] {
            let same = table(without_effect);
            assert_eq!(same.resources.len(), windlass_builtins::table().resources.len());
        }
    }

    #[test]
    fn beta_versions_are_enabled_by_version_by_resource_or_all() {
        let policies = table("admissionregistration.k8s.io/v1beta1,admissionregistration.k8s.io/v1alpha1");
        assert_eq!(versions(policies, "admissionregistration.k8s.io"), ["v1", "v1beta1", "v1alpha1"]);
        let served = |resource: &&Resource| {
            &*resource.group == "admissionregistration.k8s.io" && &*resource.version == "v1beta1"
        };
        let served: Vec<_> = policies.resources.iter().filter(served).map(|resource| &*resource.plural).collect();
        // Kubernetes v1.34 has removed those of validating policies.
        assert_eq!(served, ["mutatingadmissionpolicies", "mutatingadmissionpolicybindings"]);
        let one = table("networking.k8s.io/v1beta1");
        assert_eq!(versions(one, "networking.k8s.io"), ["v1", "v1beta1"]);
        assert_eq!(versions(one, "storage.k8s.io"), ["v1"]);
        let resource = table("resource.k8s.io/v1beta2/resourceslices=true");
        let beta = resource.resources.iter().filter(|resource| &*resource.version == "v1beta2");
        assert_eq!(beta.map(|resource| &*resource.plural).collect::<Vec<_>>(), ["resourceslices"]);
        for all in ["api/all=true", "api/beta=true"] {
            for View { group, version, .. } in VIEWS {
                let served = all == "api/all=true" || version.contains("beta");
                assert_eq!(versions(table(all), group).iter().any(|have| have == version), served, "{all} {group}");
            }
        }
        let own = table("storagemigration.k8s.io/v1beta1,certificates.k8s.io/v1beta1/clustertrustbundles");
        assert_eq!(versions(own, "storagemigration.k8s.io"), ["v1beta1"]);
        let beta = own.resources.iter().filter(|resource| &*resource.version == "v1beta1");
        let beta: Vec<_> = beta.map(|resource| &*resource.plural).collect();
        assert_eq!(beta, ["clustertrustbundles", "storageversionmigrations"]);
        assert_eq!(versions(table("api/beta=true"), "scheduling.k8s.io"), ["v1"]);
        assert_eq!(versions(table("api/alpha=true"), "scheduling.k8s.io"), ["v1", "v1alpha2"]);
        // Of versions without a stable one, each can be served without the other.
        let candidates = |entries: &str| {
            let resources = table(entries).resources.iter();
            let candidates = resources.filter(|resource| &*resource.plural == "leasecandidates");
            candidates.map(|resource| &*resource.version).collect::<Vec<_>>()
        };
        let (alpha, beta) = ("coordination.k8s.io/v1alpha2=true", "coordination.k8s.io/v1beta1=true");
        assert_eq!((candidates(alpha), candidates(beta)), (vec!["v1alpha2"], vec!["v1beta1"]));
        assert_eq!(candidates(&format!("{alpha},{beta}")), ["v1beta1", "v1alpha2"]);
        assert_eq!(versions(table(alpha), "coordination.k8s.io"), ["v1", "v1alpha2"]);
        let kept = table("api/beta=true,storage.k8s.io/v1beta1=false");
        assert_eq!(versions(kept, "storage.k8s.io"), ["v1"]);
    }

    #[test]
    fn versions_are_disabled() {
        let without = table("batch/v1=false,apps/v1/daemonsets=false");
        assert!(versions(without, "batch").is_empty());
        let apps = without.resources.iter().filter(|resource| &*resource.group == "apps");
        assert!(apps.into_iter().all(|resource| &*resource.plural != "daemonsets"));
        let few = table("api/all=false,apps/v1=true");
        let groups: Vec<_> = few.groups.iter().map(|group| &*group.name).collect();
        assert_eq!(groups, ["", "apiregistration.k8s.io", "apps", "apiextensions.k8s.io"]);
    }
}
