//! The decisions of the naming and establishing controllers: which names a CRD gets, and whether it is established.
//!
//! Names belong to the CRD that was first in the group. A CRD that requests a name of another one keeps its previous
//! names and reports the conflict in its conditions.
//!
//! Several servers decide at the same time, each by what it has seen so far. So a name that is free does not go to a CRD
//! while another one waits for it that was written earlier: of two CRDs that want the same name, the server that decides
//! on the one written later has seen the other, waiting or accepted, and since each decision is stored only if its CRD has
//! not changed since, never are both accepted.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Value, json};
use windlass_schema::{field::quote, sorting::Gather as _};

use super::conditions::{self, Condition, ESTABLISHED, NAMES_ACCEPTED};
use super::conversion;
use crate::object::{copy, items, text};

/// Returns the new status of a CRD after comparing its names with the accepted names of `all` CRDs (CRDs of other
/// groups are ignored; the CRD itself may be included). `None` if nothing changes.
///
/// After writing the new status, the caller must check the other CRDs of the group again: names may have become free.
pub fn accept_names<'a>(object: &Value, all: impl IntoIterator<Item = &'a Value>, now: Timestamp) -> Option<Value> {
    let group = text(object, "/spec/group");
    let mut names = GroupNames::default();
    for other in all.into_iter().filter(|other| text(other, "/spec/group") == group) {
        names.set(text(other, "/metadata/name"), other);
    }
    accept_names_in(object, &names, now)
}

/// Like [`accept_names`], with the accepted names of the group.
pub fn accept_names_in(object: &Value, group: &GroupNames, now: Timestamp) -> Option<Value> {
    let wanted = Names { object, at: "/spec/names" };
    let accepted = Names { object, at: "/status/acceptedNames" };
    if wanted.json() == accepted.json() {
        return None;
    }
    let own = Accepted::of(object);
    let own_resources: BTreeSet<&str> = own.resources.iter().map(String::as_str).gather();
    let place = Place::of(object);
    let is_resource = |name: &str| group.resources.is_taken(name, &place) || own_resources.contains(name);
    let is_kind = |name: &str| group.kinds.is_taken(name, &place) || own.kinds.iter().any(|own| own == name);
    let mut conflict = None;
    let mut names = accepted.json();
    let mut conflicts = |reason, message| conflict = Some(Condition::new(NAMES_ACCEPTED, "False", reason, message));

    const SINGLE: [(&str, &str); 4] = [
        ("plural", "PluralConflict"),
        ("singular", "SingularConflict"),
        ("kind", "KindConflict"),
        ("listKind", "ListKindConflict"),
    ];
    for (index, (field, reason)) in SINGLE.into_iter().enumerate() {
        if index == 2 && wanted.list("shortNames") != accepted.list("shortNames") {
            let (own, asked) = (accepted.list("shortNames"), wanted.list("shortNames"));
            let mut seen: BTreeSet<&str> = own.iter().filter_map(Value::as_str).gather();
            let new = asked.iter().map(|name| name.as_str().unwrap_or_default()).filter(|name| seen.insert(name));
            let taken: Vec<String> = new.filter(|name| is_resource(name)).map(in_use).collect();
            match taken.as_slice() {
                [] => names["shortNames"] = wanted.list("shortNames").into(),
                [one] => conflicts("ShortNamesConflict", one.clone()),
                several => conflicts("ShortNamesConflict", format!("[{}]", several.join(", "))),
            }
        }
        let name = wanted.text(field);
        let is_taken = if index < 2 { is_resource(name) } else { is_kind(name) };
        if name != accepted.text(field) && is_taken {
            conflicts(reason, in_use(name));
        } else {
            names[field] = name.into();
        }
    }
    names["categories"] = wanted.list("categories").into();

    let verdict =
        conflict.unwrap_or_else(|| Condition::new(NAMES_ACCEPTED, "True", "NoConflicts", "no conflicts found"));
    let names = tidy(names);
    if names == accepted.json() && verdict.says_the_same_as(conditions::find(object, NAMES_ACCEPTED)) {
        return None;
    }
    let mut status = conditions::status_of(object);
    status["acceptedNames"] = names;
    let installing = verdict.status == "True" && !conditions::is_true(object, ESTABLISHED);
    conditions::set(&mut status, &verdict, now);
    if installing {
        let message = "the initial names have been accepted";
        conditions::set(&mut status, &Condition::new(ESTABLISHED, "False", "Installing", message), now);
    } else if conditions::find(object, ESTABLISHED).is_none() {
        let condition = Condition::new(ESTABLISHED, "False", "NotAccepted", "not all names are accepted");
        conditions::set(&mut status, &condition, now);
    }
    Some(status)
}

/// Returns the status that establishes a CRD whose names are accepted. `None` if the names are not accepted, or if it
/// is already established.
pub fn establish(object: &Value, now: Timestamp) -> Option<Value> {
    if !conditions::is_true(object, NAMES_ACCEPTED) || conditions::is_true(object, ESTABLISHED) {
        return None;
    }
    let bundle = text(object, "/spec/conversion/webhook/clientConfig/caBundle");
    let bundle = STANDARD.decode(bundle).unwrap_or_default();
    let condition = if bundle.is_empty() || conversion::is_ca_bundle(&bundle) {
        Condition::new(ESTABLISHED, "True", "InitialNamesAccepted", "the initial names have been accepted")
    } else {
        Condition::new(ESTABLISHED, "False", "InvalidCABundle", "The conversion webhook CABundle is invalid")
    };
    if condition.says_the_same_as(conditions::find(object, ESTABLISHED)) {
        return None;
    }
    let mut status = conditions::status_of(object);
    conditions::set(&mut status, &condition, now);
    Some(status)
}

/// The names in a part of a CRD.
struct Names<'a> {
    object: &'a Value,
    at: &'static str,
}

impl<'a> Names<'a> {
    fn text(&self, field: &str) -> &'a str {
        text(self.object, &format!("{}/{field}", self.at))
    }

    fn list(&self, field: &str) -> Vec<Value> {
        items(self.object, &format!("{}/{field}", self.at)).to_vec()
    }

    /// Returns the names as JSON, without empty optional ones.
    fn json(&self) -> Value {
        tidy(copy(self.object, self.at))
    }
}

fn tidy(names: Value) -> Value {
    let mut tidy = json!({"plural": text(&names, "/plural"), "kind": text(&names, "/kind")});
    for field in ["singular", "listKind"] {
        if let Some(name) = names[field].as_str().filter(|name| !name.is_empty()) {
            tidy[field] = name.into();
        }
    }
    for field in ["shortNames", "categories"] {
        if names[field].as_array().is_some_and(|list| !list.is_empty()) {
            tidy[field] = names[field].clone();
        }
    }
    tidy
}

/// Index of the names in a group.
#[derive(Debug, Clone, Default)]
pub struct GroupNames {
    definitions: BTreeMap<String, Known>,
    resources: Index,
    kinds: Index,
    waiting: BTreeSet<String>,
}

/// The names of a CRD in the index.
#[derive(Debug, Clone)]
struct Known {
    accepted: Accepted,
    /// The names that it requests and does not have.
    wanted: Accepted,
    place: Place,
}

/// The accepted names of a CRD.
#[derive(Debug, Clone)]
struct Accepted {
    resources: Vec<String>,
    kinds: Vec<String>,
}

impl Accepted {
    fn of(object: &Value) -> Self {
        Self::at(object, "/status/acceptedNames")
    }

    fn at(object: &Value, at: &'static str) -> Self {
        let names = Names { object, at };
        let mut resources = ["plural", "singular"].map(|field| names.text(field).to_owned()).to_vec();
        resources.extend(names.list("shortNames").iter().filter_map(|name| name.as_str().map(str::to_owned)));
        Self { resources, kinds: ["kind", "listKind"].map(|field| names.text(field).to_owned()).to_vec() }
    }

    /// Removes the names of another CRD, and those that are empty.
    fn without(mut self, other: &Self) -> Self {
        self.resources.retain(|name| !name.is_empty() && !other.resources.contains(name));
        self.kinds.retain(|name| !name.is_empty() && !other.kinds.contains(name));
        self
    }
}

/// The order in which CRDs get names: that of their last writes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    revision: u64,
    definition: String,
}

impl Place {
    fn of(object: &Value) -> Self {
        let revision = text(object, "/metadata/resourceVersion").parse().unwrap_or(0);
        Self { revision, definition: text(object, "/metadata/name").to_owned() }
    }
}

/// The CRDs that have or want a name.
#[derive(Debug, Clone, Default)]
struct Index {
    /// Number of CRDs that have it.
    accepted: HashMap<String, usize>,
    wanted: HashMap<String, BTreeSet<Place>>,
}

impl Index {
    /// Returns whether a name belongs to another CRD, or will because that was written before this one.
    fn is_taken(&self, name: &str, by: &Place) -> bool {
        let is_earlier = |other: &&Place| other.revision < by.revision && other.definition != by.definition;
        let earlier = self.wanted.get(name).is_some_and(|places| places.iter().take(2).any(|place| is_earlier(&place)));
        earlier || self.accepted.contains_key(name)
    }

    fn add(&mut self, accepted: &[String], wanted: &[String], place: &Place) {
        for name in accepted {
            *self.accepted.entry(name.clone()).or_default() += 1;
        }
        for name in wanted {
            self.wanted.entry(name.clone()).or_default().insert(place.clone());
        }
    }

    fn remove(&mut self, accepted: &[String], wanted: &[String], place: &Place) {
        for name in accepted {
            if let Some(count) = self.accepted.get_mut(name) {
                *count -= 1;
                if *count == 0 {
                    self.accepted.remove(name);
                }
            }
        }
        for name in wanted {
            if let Some(places) = self.wanted.get_mut(name) {
                places.remove(place);
                if places.is_empty() {
                    self.wanted.remove(name);
                }
            }
        }
    }
}

impl GroupNames {
    /// Records the current names of a CRD of the group. Returns whether its accepted names differ from those recorded
    /// before.
    pub fn set(&mut self, definition: &str, object: &Value) -> bool {
        let accepted = Accepted::of(object);
        let before = self.definitions.get(definition).map(|known| &known.accepted);
        let differs =
            before.is_some_and(|before| (&before.resources, &before.kinds) != (&accepted.resources, &accepted.kinds));
        self.remove(definition);
        let wanted = Accepted::at(object, "/spec/names").without(&accepted);
        let place = Place::of(object);
        self.resources.add(&accepted.resources, &wanted.resources, &place);
        self.kinds.add(&accepted.kinds, &wanted.kinds, &place);
        if !conditions::is_true(object, NAMES_ACCEPTED) {
            self.waiting.insert(definition.to_owned());
        }
        self.definitions.insert(definition.to_owned(), Known { accepted, wanted, place });
        differs
    }

    /// Removes a CRD.
    pub fn remove(&mut self, definition: &str) {
        self.waiting.remove(definition);
        let Some(Known { accepted, wanted, place }) = self.definitions.remove(definition) else { return };
        self.resources.remove(&accepted.resources, &wanted.resources, &place);
        self.kinds.remove(&accepted.kinds, &wanted.kinds, &place);
    }

    /// Returns whether the index is empty.
    pub fn is_empty(&self) -> bool {
        self.definitions.is_empty()
    }

    /// Returns the CRDs in the index.
    pub fn definitions(&self) -> impl Iterator<Item = &str> {
        self.definitions.keys().map(String::as_str)
    }

    /// Returns the CRDs whose names are not all accepted.
    pub fn waiting(&self) -> impl Iterator<Item = &str> {
        self.waiting.iter().map(String::as_str)
    }
}

fn in_use(name: &str) -> String {
    format!("{} is already in use", quote(name))
}
