//! A CustomResourceDefinition as the server uses it: the fields needed to serve custom resources, with zero values for
//! unset ones.

use serde_json::Value;
use windlass_schema::names::compare_versions;
use windlass_schema::sorting;

use super::conditions;
use crate::object::{boolean, copy, integer, is_set, items, text};

/// A parsed CustomResourceDefinition.
#[derive(Debug, Clone, PartialEq)]
pub struct Definition {
    /// `metadata.name`: `<plural>.<group>`.
    pub name: String,
    /// `spec.group`
    pub group: String,
    /// `spec.names`: the requested names.
    pub names: Names,
    /// Whether the resource is namespaced.
    pub namespaced: bool,
    /// `spec.versions`, in the order of the object.
    pub versions: Vec<Version>,
    /// `spec.conversion`
    pub conversion: Conversion,
    /// `spec.preserveUnknownFields`
    pub preserve_unknown_fields: bool,
    /// `status.acceptedNames`: the names shown by discovery.
    pub accepted_names: Names,
    /// `status.storedVersions`
    pub stored_versions: Vec<String>,
    /// Whether the Established condition is true: the resource is served.
    pub established: bool,
    /// Whether the NamesAccepted condition is true.
    pub names_accepted: bool,
    /// Whether the Terminating condition is true: no new custom resources are accepted.
    pub terminating: bool,
    /// Whether the NonStructuralSchema condition is true.
    pub non_structural: bool,
}

/// The names of a resource.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Names {
    /// `plural`: the name of the resource in paths.
    pub plural: String,
    /// `singular`
    pub singular: String,
    /// `kind`
    pub kind: String,
    /// `listKind`
    pub list_kind: String,
    /// `shortNames`
    pub short_names: Vec<String>,
    /// `categories`
    pub categories: Vec<String>,
}

/// A version of the resource.
#[derive(Debug, Clone, PartialEq)]
pub struct Version {
    /// `name`
    pub name: String,
    /// `served`
    pub served: bool,
    /// `storage`
    pub storage: bool,
    /// `deprecated`
    pub deprecated: bool,
    /// `deprecationWarning`: replaces the usual warning.
    pub deprecation_warning: Option<String>,
    /// `schema.openAPIV3Schema`; null if there is none.
    pub schema: Value,
    /// Whether the status subresource is enabled.
    pub status: bool,
    /// The scale subresource.
    pub scale: Option<Scale>,
    /// `additionalPrinterColumns` as written; if empty, the only column is Age.
    pub columns: Vec<PrinterColumn>,
    /// The JSON paths of `selectableFields`, each starting with a dot.
    pub selectable_fields: Vec<String>,
}

/// JSON paths of the scale subresource (`.spec.replicas`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scale {
    /// `specReplicasPath`
    pub spec_replicas_path: String,
    /// `statusReplicasPath`
    pub status_replicas_path: String,
    /// `labelSelectorPath`; `None` if it is empty.
    pub label_selector_path: Option<String>,
}

/// A column of `kubectl get`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrinterColumn {
    /// `name`: the heading.
    pub name: String,
    /// `type`
    pub kind: String,
    /// `format`
    pub format: String,
    /// `description`
    pub description: String,
    /// `priority`: 0 for columns that are always shown.
    pub priority: i32,
    /// `jsonPath`
    pub json_path: String,
}

/// Conversion strategy of custom resources.
#[derive(Debug, Clone, PartialEq)]
pub enum Conversion {
    /// Only `apiVersion` changes.
    None,
    /// A webhook converts.
    Webhook(ConversionWebhook),
}

/// The webhook of a conversion.
#[derive(Debug, Clone, PartialEq)]
pub struct ConversionWebhook {
    /// `clientConfig.url`
    pub url: Option<String>,
    /// `clientConfig.service`
    pub service: Option<WebhookService>,
    /// `clientConfig.caBundle`, base64-encoded as in the object; if empty, the system's roots are trusted.
    pub ca_bundle: String,
    /// `conversionReviewVersions`
    pub review_versions: Vec<String>,
}

/// The service behind a webhook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookService {
    /// `namespace`
    pub namespace: String,
    /// `name`
    pub name: String,
    /// `path`; empty if there is none.
    pub path: String,
    /// `port`
    pub port: i32,
}

impl Definition {
    /// Parses a CRD. Never fails: a field that is absent or of the wrong type reads as its zero value.
    pub fn parse(object: &Value) -> Self {
        let is_true = |kind| conditions::is_true(object, kind);
        Self {
            name: text(object, "/metadata/name").to_owned(),
            group: text(object, "/spec/group").to_owned(),
            names: Names::parse(object, "/spec/names"),
            namespaced: text(object, "/spec/scope") == "Namespaced",
            versions: items(object, "/spec/versions").iter().map(Version::parse).collect(),
            conversion: Conversion::parse(object),
            preserve_unknown_fields: boolean(object, "/spec/preserveUnknownFields").unwrap_or_default(),
            accepted_names: Names::parse(object, "/status/acceptedNames"),
            stored_versions: texts(object, "/status/storedVersions"),
            established: is_true(conditions::ESTABLISHED),
            names_accepted: is_true(conditions::NAMES_ACCEPTED),
            terminating: is_true(conditions::TERMINATING),
            non_structural: is_true(conditions::NON_STRUCTURAL_SCHEMA),
        }
    }

    /// Returns the version with this name.
    pub fn version(&self, name: &str) -> Option<&Version> {
        self.versions.iter().find(|version| version.name == name)
    }

    /// Returns the storage version; every valid CRD has exactly one.
    pub fn storage_version(&self) -> Option<&Version> {
        self.versions.iter().find(|version| version.storage)
    }

    /// Returns the warning for responses in a deprecated version; `None` for other versions.
    ///
    /// Unless the CRD sets a string, the warning names the newest served version that is not deprecated, if that is more
    /// stable or newer than the deprecated one.
    pub fn deprecation_warning(&self, version: &Version) -> Option<String> {
        if !version.deprecated {
            return None;
        }
        if let Some(warning) = &version.deprecation_warning {
            return Some(warning.clone());
        }
        let (group, kind) = (&self.group, &self.names.kind);
        let mut warning = format!("{group}/{} {kind} is deprecated", version.name);
        let by_name = |one: &Version, other: &Version| compare_versions(&one.name, &other.name);
        let better = |other: &&Version| other.served && !other.deprecated && by_name(other, version).is_gt();
        if let Some(newest) = self.versions.iter().filter(better).max_by(|one, other| by_name(one, other)) {
            warning.push_str(&format!("; use {group}/{} {kind}", newest.name));
        }
        Some(warning)
    }

    /// Returns the served versions in the order of preference in discovery: stable before beta before alpha, higher
    /// numbers first, other names last in alphabetical order.
    pub fn served_versions(&self) -> Vec<&Version> {
        let mut served: Vec<_> = self.versions.iter().filter(|version| version.served).collect();
        sorting::sort_by(&mut served, |one, other| compare_versions(&other.name, &one.name));
        served
    }
}

impl Names {
    fn parse(object: &Value, at: &str) -> Self {
        let field = |name: &str| text(object, &format!("{at}/{name}")).to_owned();
        Self {
            plural: field("plural"),
            singular: field("singular"),
            kind: field("kind"),
            list_kind: field("listKind"),
            short_names: texts(object, &format!("{at}/shortNames")),
            categories: texts(object, &format!("{at}/categories")),
        }
    }
}

impl Version {
    fn parse(version: &Value) -> Self {
        let flag = |pointer| boolean(version, pointer).unwrap_or_default();
        let column = |column: &Value| PrinterColumn {
            name: text(column, "/name").to_owned(),
            kind: text(column, "/type").to_owned(),
            format: text(column, "/format").to_owned(),
            description: text(column, "/description").to_owned(),
            priority: integer(column, "/priority").and_then(|number| number.try_into().ok()).unwrap_or_default(),
            json_path: text(column, "/jsonPath").to_owned(),
        };
        let selectable = items(version, "/selectableFields").iter().map(|field| text(field, "/jsonPath").to_owned());
        Self {
            name: text(version, "/name").to_owned(),
            served: flag("/served"),
            storage: flag("/storage"),
            deprecated: flag("/deprecated"),
            deprecation_warning: optional_text(version, "/deprecationWarning"),
            schema: copy(version, "/schema/openAPIV3Schema"),
            status: is_set(version, "/subresources/status"),
            scale: Scale::parse(version),
            columns: items(version, "/additionalPrinterColumns").iter().map(column).collect(),
            selectable_fields: selectable.collect(),
        }
    }
}

impl Scale {
    fn parse(version: &Value) -> Option<Self> {
        is_set(version, "/subresources/scale").then(|| Self {
            spec_replicas_path: text(version, "/subresources/scale/specReplicasPath").to_owned(),
            status_replicas_path: text(version, "/subresources/scale/statusReplicasPath").to_owned(),
            label_selector_path: optional_text(version, "/subresources/scale/labelSelectorPath")
                .filter(|path| !path.is_empty()),
        })
    }
}

impl Conversion {
    fn parse(object: &Value) -> Self {
        if text(object, "/spec/conversion/strategy") != "Webhook" {
            return Self::None;
        }
        const CONFIG: &str = "/spec/conversion/webhook/clientConfig";
        let field = |name: &str| text(object, &format!("{CONFIG}/service/{name}")).to_owned();
        let port = integer(object, &format!("{CONFIG}/service/port")).and_then(|port| port.try_into().ok());
        let service = is_set(object, &format!("{CONFIG}/service")).then(|| WebhookService {
            namespace: field("namespace"),
            name: field("name"),
            path: field("path"),
            port: port.unwrap_or(443),
        });
        Self::Webhook(ConversionWebhook {
            url: optional_text(object, &format!("{CONFIG}/url")),
            service,
            ca_bundle: text(object, &format!("{CONFIG}/caBundle")).to_owned(),
            review_versions: texts(object, "/spec/conversion/webhook/conversionReviewVersions"),
        })
    }
}

fn texts(object: &Value, pointer: &str) -> Vec<String> {
    items(object, pointer).iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn optional_text(object: &Value, pointer: &str) -> Option<String> {
    object.pointer(pointer).and_then(Value::as_str).map(str::to_owned)
}
