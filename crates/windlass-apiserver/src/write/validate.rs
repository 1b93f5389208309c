//! Validate: the rules for all objects, those of its kind or schema, the fields that the user may not set, and the
//! warnings about it.

use serde_json::{Map, Value};
use windlass_builtins::{facts::NameRule, kinds::endpoints, resource::Subresource, validate as validation};
use windlass_schema::{
    decode::Storage,
    field::{ErrorList, Path},
    names, object_meta,
};

use crate::{
    admission::Attributes,
    call::{Call, Warnings},
    custom::Custom,
    endpoint::Endpoint,
    meta,
    status::{ApiError, Result},
    webhooks::Subject,
};

/// Returns the fields that the user may not set to their values in the object.
pub(super) async fn forbidden_fields(
    call: &Call<'_>,
    subject: &Subject<'_>,
    object: &Value,
    old: Option<&Value>,
) -> ErrorList {
    let mut errors = ErrorList::new();
    let write = Attributes::of(call, subject, meta::text(object, "name"), old);
    for plugin in &call.server.admission {
        if let Some(forbidden) = plugin.forbidden_fields(&write, object) {
            errors.extend(forbidden.await);
        }
    }
    errors
}

/// Validates an object, metadata included; `old` is the object that an update replaces, and `forbidden` are the fields
/// that the user may not set.
pub(super) fn validate(call: &Call<'_>, object: &Value, old: Option<&Value>, forbidden: ErrorList) -> Result<()> {
    let (endpoint, subresource, warnings) = (call.endpoint, call.subresource, &call.warnings);
    let resource = &*endpoint.resource;
    let name = meta::text(object, "name");
    if let Some(custom) = endpoint.custom() {
        let mut errors = custom_resource_errors(endpoint, custom, subresource, object, old, warnings);
        errors.extend(forbidden);
        // The message names the group and kind that the object claims, even if they are the wrong ones.
        let kind = object["kind"].as_str().unwrap_or(&resource.kind);
        let version = object["apiVersion"].as_str().unwrap_or_default();
        let group = version.split_once('/').map_or("", |(group, _)| group);
        return if errors.is_empty() { Ok(()) } else { Err(ApiError::invalid(kind, group, name, &errors)) };
    }
    let mut errors = metadata_errors(endpoint, object, old);
    errors.extend(forbidden);
    if subresource.is_none() && endpoint.facts.repeats_metadata_rules {
        // Both the rules of all kinds and those of the kind include the rules about changed metadata.
        errors.extend(old.map(|old| metadata_update_errors(object, old)).unwrap_or_default());
    }
    errors.extend(match (subresource, old) {
        (Some(sub), Some(old)) => endpoint.strategy.validate_subresource_update(&sub.name, object, old),
        (_, Some(old)) => endpoint.strategy.validate_update(object, old),
        (_, None) => endpoint.strategy.validate(object),
    });
    // Pods that are processes of this machine have loopback addresses.
    if call.server.pod_connections.is_some() && matches!(&*resource.plural, "endpoints" | "endpointslices") {
        errors.retain(|error| !endpoints::is_about_loopback(error));
    }
    if errors.is_empty() {
        return Ok(());
    }
    // The message names the group of the storage version, as kube-apiserver does for events.
    Err(ApiError::invalid(&resource.kind, &endpoint.stored.group, name, &errors))
}

/// Adds the warnings of the kind about an accepted object.
pub(super) fn warn(endpoint: &Endpoint, object: &Value, old: Option<&Value>, warnings: &Warnings) {
    endpoint.strategy.warnings(object, old).into_iter().for_each(|warning| warnings.add(warning));
}

/// Validates a custom resource by its CustomResourceDefinition.
fn custom_resource_errors(
    endpoint: &Endpoint,
    custom: &Custom,
    subresource: Option<&Subresource>,
    object: &Value,
    old: Option<&Value>,
    warnings: &Warnings,
) -> ErrorList {
    let wrong_type = custom.validate_type(&endpoint.resource.kind, &endpoint.resource.api_version(), object);
    let mut errors = match old {
        None if !wrong_type.is_empty() => return wrong_type,
        None => metadata_errors(endpoint, object, None),
        Some(old) => {
            // kube-apiserver runs the rules of all kinds, then those of custom resources. Both include the rules about
            // changed metadata, so their errors are reported twice.
            let mut errors = metadata_errors(endpoint, object, None);
            let changes = metadata_update_errors(object, old);
            errors.extend(changes.iter().cloned());
            if !wrong_type.is_empty() {
                errors.extend(wrong_type);
                return errors;
            }
            errors.extend(changes);
            errors
        }
    };
    let warn = |warning: String| warnings.add(warning);
    errors.extend(match (subresource.map(|sub| &*sub.name), old) {
        (Some("status"), Some(old)) => custom.validate_status(object, old, warn),
        _ => custom.validate(object, old, warn),
    });
    errors
}

/// Validates the metadata by the rules of all kinds and the name rule of this one.
fn metadata_errors(endpoint: &Endpoint, object: &Value, old: Option<&Value>) -> ErrorList {
    let nothing = Map::new();
    let path = Path::new("metadata");
    let metadata = object["metadata"].as_object().unwrap_or(&nothing);
    let rule = name_rule(endpoint.facts.name_rule);
    let mut errors = object_meta::validate_object_meta(metadata, endpoint.resource.namespaced, rule, &path);
    if endpoint.custom().is_none() && endpoint.wire_form() == Storage::Protobuf {
        errors.extend(unqualified_finalizers(metadata, &path));
    }
    errors.extend(old.map(|old| metadata_update_errors(object, old)).unwrap_or_default());
    errors
}

/// Validates the changes of the metadata.
fn metadata_update_errors(object: &Value, old: &Value) -> ErrorList {
    let nothing = Map::new();
    let new = object["metadata"].as_object().unwrap_or(&nothing);
    let old = old["metadata"].as_object().unwrap_or(&nothing);
    object_meta::validate_object_meta_update(new, old, &Path::new("metadata"))
}

/// Rejects finalizers that have no domain and are not among those of Kubernetes itself.
fn unqualified_finalizers(metadata: &Map<String, Value>, path: &Path) -> ErrorList {
    let finalizers = metadata.get("finalizers").and_then(Value::as_array).into_iter().flatten().enumerate();
    let path = path.child("finalizers");
    finalizers.filter_map(|(at, name)| validation::unqualified_finalizer(&path.index(at), name.as_str()?)).collect()
}

fn name_rule(rule: NameRule) -> names::NameRule {
    match rule {
        NameRule::DnsSubdomain => names::name_is_dns_subdomain,
        NameRule::DnsLabel => names::name_is_dns_label,
        NameRule::Dns1035Label => names::name_is_dns1035_label,
        NameRule::PathSegment => names::name_is_path_segment,
        NameRule::OfKind => |_, _| Vec::new(),
    }
}
