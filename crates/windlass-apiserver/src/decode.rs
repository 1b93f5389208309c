//! From a request's body to an object of the endpoint's kind.

use http::header::CONTENT_TYPE;
use serde_json::{Map, Value};
use windlass_builtins::{check, protobuf, strategy::NameRule};
use windlass_schema::{
    decode::{self, Storage},
    field::{ErrorList, Path},
    json::{self, Document},
    names, object_meta,
    types::StructId,
    yaml,
};

use crate::{
    call::Call,
    custom::Custom,
    meta,
    negotiate::{self, Media},
    options::{DeleteOptions, FieldValidation},
    registry::Endpoint,
    status::{ApiError, Result},
};

impl Endpoint {
    /// An object as the real server would write it: absent fields that it never leaves out are filled in.
    pub(crate) fn normalize(&self, object: Value) -> Value {
        decode::decode(object, self.resource.ty, &self.table.types, self.storage_form()).value
    }

    fn storage_form(&self) -> Storage {
        match &*self.resource.group {
            "apiextensions.k8s.io" | "apiregistration.k8s.io" => Storage::Json,
            _ => Storage::Protobuf,
        }
    }
}

impl Call<'_> {
    /// The type of the request's body: the endpoint's, or that of the subresource.
    pub(crate) fn body_type(&self) -> StructId {
        self.subresource.and_then(|sub| sub.ty).unwrap_or(self.endpoint.resource.ty)
    }

    /// The apiVersion and kind of the request's body.
    pub(crate) fn body_kind(&self) -> (String, &str) {
        let resource = &*self.endpoint.resource;
        match self.subresource {
            Some(sub) if !sub.version.is_empty() => {
                let api_version = if sub.group.is_empty() {
                    sub.version.to_string()
                } else {
                    format!("{}/{}", sub.group, sub.version)
                };
                (api_version, &sub.kind)
            }
            Some(sub) => (resource.api_version(), &sub.kind),
            None => (resource.api_version(), &resource.kind),
        }
    }

    /// Decodes the body and fills in defaults. Unknown and duplicate fields become warnings or an error.
    pub(crate) fn decode_body(&self, validation: FieldValidation) -> Result<Value> {
        if let Some(custom) = self.custom_body() {
            return self.decode_custom(custom, validation);
        }
        let media = negotiate::content_type(self.headers.get(CONTENT_TYPE))?;
        let (api_version, kind) = self.body_kind();
        let unrecognized = |why: &str| {
            let shown = summary(&self.body);
            ApiError::bad_request(format!(
                "the object provided is unrecognized (must be of type {kind}): {why} ({shown})"
            ))
        };
        let document: Document<'_> = match media {
            Media::Json => json::parse(&self.body)
                .map_err(|error| unrecognized(&format!("couldn't get version/kind; json parse error: {error}")))?,
            Media::Yaml => yaml::parse(&self.body).map_err(|error| unrecognized(&error.to_string()))?,
            Media::Protobuf => {
                let decoded = protobuf::decode(&self.body, self.endpoint.table);
                decoded.map_err(|error| unrecognized(&error.to_string()))?.value.into()
            }
        };
        let given_version = given(&document.value, "apiVersion").unwrap_or(&api_version).to_owned();
        let given_kind = given(&document.value, "kind").unwrap_or(kind).to_owned();
        self.check_kind(&given_version, &given_kind, &api_version, kind)?;
        let refused = |why: &str| {
            let version = given_version.rsplit('/').next().unwrap_or_default();
            let message = format!("{given_kind} in version \"{version}\" cannot be handled as a {kind}: {why}");
            ApiError::bad_request(message)
        };
        let decoded =
            decode::decode(document, self.body_type(), &self.endpoint.table.types, self.endpoint.storage_form());
        if let Some(error) = decoded.error {
            return Err(refused(&error));
        }
        match validation {
            FieldValidation::Strict if !decoded.strict.is_empty() => {
                return Err(refused(&format!("strict decoding error: {}", decoded.strict.join(", "))));
            }
            FieldValidation::Warn => decoded.strict.into_iter().for_each(|complaint| self.warnings.add(complaint)),
            _ => {}
        }
        let mut object = decoded.value;
        self.complete(&mut object, &api_version, kind);
        Ok(object)
    }

    /// Makes a patched object fit its kind again; gives what a strict decoder complains about.
    pub(crate) fn decode_value(&self, object: &mut Value) -> Result<Vec<String>, String> {
        if let Some(custom) = self.custom_body() {
            return self.fit_custom(custom, object);
        }
        let (api_version, kind) = self.body_kind();
        let form = self.endpoint.storage_form();
        let decoded = decode::decode(object.take(), self.body_type(), &self.endpoint.table.types, form);
        if let Some(error) = decoded.error {
            return Err(error);
        }
        *object = decoded.value;
        self.complete(object, &api_version, kind);
        Ok(decoded.strict)
    }

    /// The definition of the body, if that is a custom resource.
    fn custom_body(&self) -> Option<&Custom> {
        self.endpoint.custom().filter(|_| self.subresource.is_none_or(|sub| sub.version.is_empty()))
    }

    fn complete(&self, object: &mut Value, api_version: &str, kind: &str) {
        object["apiVersion"] = api_version.into();
        object["kind"] = kind.into();
        if self.body_type() == self.endpoint.resource.ty {
            self.endpoint.strategy.default(object);
        }
    }

    /// Refuses a body that says it is something else.
    fn check_kind(&self, given_version: &str, given_kind: &str, api_version: &str, kind: &str) -> Result<()> {
        if given_version == api_version && given_kind == kind {
            return Ok(());
        }
        let version = given_version.rsplit('/').next().unwrap_or_default();
        let table = self.endpoint.table;
        // Definitions are decoded by a server of their own, which knows no other kinds.
        let definitions = self.is_definition();
        let known = table
            .resources
            .iter()
            .find(|have| !definitions && &*have.kind == given_kind && have.api_version() == given_version);
        let scheme = match definitions {
            true => "k8s.io/apiextensions-apiserver/pkg/apiserver/apiserver.go:55",
            false => "pkg/api/legacyscheme/scheme.go:30",
        };
        let other_version = definitions && given_kind == kind && given_version == "apiextensions.k8s.io/v1beta1";
        let why = match known {
            None if other_version => {
                return Err(ApiError::bad_request(format!(
                    "the API version in the data ({given_version}) does not match the expected API version ({api_version})"
                )));
            }
            Some(other) if &*other.kind == kind && self.endpoint.stored.plural == other.plural => {
                return Err(ApiError::bad_request(format!(
                    "the API version in the data ({given_version}) does not match the expected API version ({api_version})"
                )));
            }
            Some(_) => {
                let package = internal_package(&self.endpoint.resource.group);
                format!("converting ({version}.{given_kind}) to ({package}.{kind}): unknown conversion")
            }
            None => {
                format!("no kind \"{given_kind}\" is registered for version \"{given_version}\" in scheme \"{scheme}\"")
            }
        };
        let message = format!("{given_kind} in version \"{version}\" cannot be handled as a {kind}: {why}");
        Err(ApiError::bad_request(message))
    }

    /// The object's name must be the one in the path.
    pub(crate) fn match_name(&self, object: &mut Value) -> Result<()> {
        let name = meta::text(object, "name");
        if name.is_empty() {
            return Err(ApiError::bad_request(format!(
                "the name of the object ({} based on URL) was undeterminable: name must be provided",
                self.target.name
            )));
        }
        if name != self.target.name {
            return Err(ApiError::bad_request(format!(
                "the name of the object ({name}) does not match the name on the URL ({})",
                self.target.name
            )));
        }
        Ok(())
    }

    /// The object's namespace must be the one in the path; an object without one gets it.
    pub(crate) fn match_namespace(&self, object: &mut Value) -> Result<()> {
        let wanted = if self.endpoint.resource.namespaced { self.target.namespace } else { "" };
        let namespace = meta::text(object, "namespace");
        if namespace == wanted {
            return Ok(());
        }
        if wanted.is_empty() || namespace.is_empty() {
            if wanted.is_empty() {
                meta::metadata_mut(object).remove("namespace");
            } else {
                meta::set(object, "namespace", wanted);
            }
            return Ok(());
        }
        let message = "the namespace of the provided object does not match the namespace sent on the request";
        Err(ApiError::bad_request(message))
    }

    /// Writes into a certificate signing request who asks for it.
    pub(crate) fn sign(&self, object: &mut Value) {
        let resource = &*self.endpoint.resource;
        if (&*resource.group, &*resource.plural) != ("certificates.k8s.io", "certificatesigningrequests") {
            return;
        }
        let user = self.user;
        let spec = &mut object["spec"];
        spec["username"] = user.name.as_str().into();
        spec["groups"] = user.groups.clone().into();
        if !user.uid.is_empty() {
            spec["uid"] = user.uid.as_str().into();
        }
        if !user.extra.is_empty() {
            spec["extra"] = serde_json::json!(user.extra);
        }
    }

    /// Drops the status that a client sent along with a new object; nodes report theirs from the start.
    pub(crate) fn reset_status(&self, object: &mut Value) {
        if self.endpoint.resource.subresource("status").is_none() || self.is_core("nodes") {
            return;
        }
        if let Some(map) = object.as_object_mut() {
            map.remove("status");
        }
        if self.endpoint.custom().is_none() {
            *object = self.endpoint.normalize(object.take());
        }
    }

    /// Puts the old status back: an ordinary update does not touch it.
    pub(crate) fn keep_status(&self, object: &mut Value, old: &Value) {
        if self.endpoint.resource.subresource("status").is_none() {
            return;
        }
        match old.get("status") {
            Some(status) => object["status"] = status.clone(),
            None => {
                object.as_object_mut().map(|map| map.remove("status"));
            }
        }
    }

    /// Puts everything but metadata and status back, for updates of the status.
    pub(crate) fn keep_all_but(&self, subresource: &str, object: &mut Value, old: &Value) {
        if !matches!(subresource, "status" | "approval") {
            return;
        }
        if self.endpoint.custom().is_some() {
            keep_all_but_status(object, old);
            return;
        }
        let (Some(new), Some(old)) = (object.as_object_mut(), old.as_object()) else { return };
        keep_all_but(new, old, &["metadata", "status"]);
        if let Some(metadata) = new.get_mut("metadata").and_then(Value::as_object_mut) {
            for field in ["deletionTimestamp", "ownerReferences"] {
                match old["metadata"].get(field) {
                    Some(value) => metadata.insert(field.to_owned(), value.clone()),
                    None => metadata.remove(field),
                };
            }
        }
    }

    /// Validates a custom resource by its definition, metadata included.
    pub(crate) fn validate_custom(&self, custom: &Custom, object: &Value, old: Option<&Value>) -> ErrorList {
        let wrong_type = custom.validate_type(&self.endpoint.resource.kind, object);
        let mut errors = match old {
            None if !wrong_type.is_empty() => return wrong_type,
            None => self.validate_metadata(object, None),
            Some(old) => {
                // An update is held to the rules of all kinds, then to those of custom resources, which have the same about
                // metadata that changes: what is wrong with that is told twice.
                let mut errors = self.validate_metadata(object, None);
                let changes = validate_metadata_update(object, old);
                errors.extend(changes.iter().cloned());
                if !wrong_type.is_empty() {
                    errors.extend(wrong_type);
                    return errors;
                }
                errors.extend(changes);
                errors
            }
        };
        let warn = |warning: String| self.warnings.add(warning);
        errors.extend(match (self.subresource.map(|sub| &*sub.name), old) {
            (Some("status"), Some(old)) => custom.validate_status(object, old, warn),
            _ => custom.validate(object, old, warn),
        });
        errors
    }

    /// Validates the metadata by the rules of all kinds and the name rule of this one.
    pub(crate) fn validate_metadata(&self, object: &Value, old: Option<&Value>) -> ErrorList {
        let nothing = Map::new();
        let path = Path::new("metadata");
        let metadata = object["metadata"].as_object().unwrap_or(&nothing);
        let namespaced = self.endpoint.resource.namespaced;
        let rule = name_rule(self.endpoint.strategy.name_rule());
        let mut errors = object_meta::validate_object_meta(metadata, namespaced, rule, &path);
        if self.endpoint.custom().is_none() && self.endpoint.storage_form() == Storage::Protobuf {
            errors.extend(unqualified_finalizers(metadata, &path));
        }
        errors.extend(old.map(|old| validate_metadata_update(object, old)).unwrap_or_default());
        errors
    }

    /// The options of a delete: from the body if there is one, else from the query.
    pub(crate) fn delete_options(&self) -> Result<DeleteOptions> {
        if self.body.is_empty() {
            return DeleteOptions::from_query(&self.query);
        }
        let bad = |why: String| ApiError::bad_request(why);
        let body = match negotiate::content_type(self.headers.get(CONTENT_TYPE))? {
            Media::Json => {
                json::parse(&self.body)
                    .map_err(|error| bad(format!("couldn't get version/kind; json parse error: {error}")))?
                    .value
            }
            Media::Yaml => yaml::parse(&self.body).map_err(|error| bad(error.to_string()))?.value,
            Media::Protobuf => {
                protobuf::decode(&self.body, self.endpoint.table).map_err(|error| bad(error.to_string()))?.value
            }
        };
        let (kind, version) = (given(&body, "kind"), given(&body, "apiVersion").unwrap_or_default());
        if let Some(kind) = kind.filter(|kind| *kind != "DeleteOptions") {
            return Err(bad(format!(
                "no kind \"{kind}\" is registered for version \"{version}\" in scheme \
                 \"k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme/register.go:27\""
            )));
        }
        DeleteOptions::from_body(&body)
    }
}

/// Validates what changed in the metadata.
fn validate_metadata_update(object: &Value, old: &Value) -> ErrorList {
    let nothing = Map::new();
    let new = object["metadata"].as_object().unwrap_or(&nothing);
    let old = old["metadata"].as_object().unwrap_or(&nothing);
    object_meta::validate_object_meta_update(new, old, &Path::new("metadata"))
}

/// Puts everything but the status of a custom resource back; who owns what has just been decided anew.
fn keep_all_but_status(object: &mut Value, old: &Value) {
    let (Value::Object(new), Value::Object(old)) = (object, old) else { return };
    keep_all_but(new, old, &["status", "metadata"]);
    if let (Some(Value::Object(new)), Some(Value::Object(old))) = (new.get_mut("metadata"), old.get("metadata")) {
        keep_all_but(new, old, &["managedFields"]);
    }
}

/// Makes a map like an old one in all but some fields. Most of the others are the same already and are not touched.
fn keep_all_but(new: &mut Map<String, Value>, old: &Map<String, Value>, changed: &[&str]) {
    new.retain(|field, _| changed.contains(&field.as_str()) || old.contains_key(field));
    for (field, value) in old.iter().filter(|(field, _)| !changed.contains(&field.as_str())) {
        if new.get(field) != Some(value) {
            new.insert(field.clone(), value.clone());
        }
    }
}

fn given<'a>(value: &'a Value, field: &str) -> Option<&'a str> {
    value.get(field)?.as_str().filter(|text| !text.is_empty())
}

/// The beginning of a body, for messages: as it is if it looks like JSON, else in hexadecimal digits.
pub(crate) fn summary(body: &[u8]) -> String {
    const SHOWN: usize = 30;
    let beginning = &body[..body.len().min(SHOWN)];
    let shown = match body.first() {
        None => return "<empty>".to_owned(),
        Some(b'{') => String::from_utf8_lossy(beginning).into_owned(),
        Some(_) => beginning.iter().map(|byte| format!("{byte:02x}")).collect(),
    };
    if body.len() > SHOWN { format!("{shown} ...") } else { shown }
}

/// The Go package of a group's types, as messages name it.
pub(crate) fn internal_package(group: &str) -> &str {
    match group.split('.').next().unwrap_or_default() {
        "" | "events" => "core",
        first => first,
    }
}

/// Finalizers without a prefix must be among those that Kubernetes itself has.
fn unqualified_finalizers(metadata: &Map<String, Value>, path: &Path) -> ErrorList {
    let finalizers = metadata.get("finalizers").and_then(Value::as_array).into_iter().flatten().enumerate();
    let path = path.child("finalizers");
    finalizers.filter_map(|(at, name)| check::unqualified_finalizer(&path.index(at), name.as_str()?)).collect()
}

fn name_rule(rule: NameRule) -> names::NameRule {
    match rule {
        NameRule::DnsSubdomain => names::name_is_dns_subdomain,
        NameRule::DnsLabel => names::name_is_dns_label,
        NameRule::Dns1035Label => names::name_is_dns1035_label,
        NameRule::PathSegment => names::name_is_path_segment,
    }
}
