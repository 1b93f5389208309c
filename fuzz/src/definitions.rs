//! CustomResourceDefinitions and their structural schemas.

use jiff::Timestamp;
use serde_json::{Value, json};
use windlass_builtins::{
    kinds::{self, custom_resource_definition as crd},
    strategy::WriteContext,
    table, upgrade,
};
use windlass_schema::{
    decode::{self, Storage},
    structural::{NormalizeOptions, PruneOptions, Steps, Structural},
};

/// Compiles a structural schema, and validates, prunes and defaults objects with it. The first line is the schema, the
/// others are the new and the old object.
pub fn schema(data: &[u8]) {
    let [schema, new, old] = super::parts(data);
    let Some(schema) = super::parse(schema) else { return };
    let Ok(mut compiled) = Structural::compile(&schema) else { return };
    let Some(new) = super::parse(new) else { return };
    let errors = compiled.validate(&new);
    let unchanged = compiled.validate_update(&new, &new);
    assert!(unchanged.iter().all(|error| errors.contains(error)), "an update without changes has new errors");
    compiled.validate_lists(&new);
    if let Some(old) = super::parse(old) {
        compiled.validate_update(&new, &old);
        compiled.validate_status_update(&new, &old);
        compiled.validate_lists_update(&new, &old);
    }
    let options = PruneOptions { resource_root: true, unknown_fields: true };
    let mut pruned = new.clone();
    compiled.prune(&mut pruned, options);
    let once = pruned.clone();
    assert!(compiled.prune(&mut pruned, options).is_empty(), "pruning must be idempotent");
    assert_eq!(pruned, once, "pruning must be idempotent");
    if compiled.prune_defaults(table::object_meta()).is_err() || compiled.build_tables().is_err() {
        return;
    }
    let mut defaulted = new.clone();
    if compiled.apply_defaults(&mut defaulted).is_ok() {
        let once = defaulted.clone();
        let _ = compiled.apply_defaults(&mut defaulted);
        assert_eq!(defaulted, once, "defaulting must be idempotent");
    }
    compiled.prune_and_default(&mut new.clone(), Steps::ALL, options);
    let mut normalized = new;
    let options = NormalizeOptions { default: true, drop_invalid_metadata: true, unknown_fields: true };
    if normalized.get("apiVersion").is_some_and(Value::is_string)
        && normalized.get("kind").is_some_and(Value::is_string)
    {
        let _ = compiled.normalize(&mut normalized, table::object_meta(), options);
    }
}

/// Accepts a CustomResourceDefinition: decoding, defaulting, validation, names and conditions. The first line is its
/// spec; the second is the one that it replaces.
pub fn definition(data: &[u8]) {
    let [new, old] = super::parts(data);
    let (Some(new), old) = (super::parse(new), super::parse(old)) else { return };
    let Some(mut object) = decoded(new) else { return };
    let strategy = kinds::strategy("apiextensions.k8s.io", "customresourcedefinitions");
    let extra = Default::default();
    let now = Timestamp::UNIX_EPOCH;
    let context = WriteContext { user_name: "fuzz", user_uid: "", groups: &[], extra: &extra, now };
    strategy.default(&mut object);
    let once = object.clone();
    strategy.default(&mut object);
    assert_eq!(object, once, "defaulting must be idempotent");
    if let Some(mut old) = old.and_then(decoded) {
        strategy.default(&mut old);
        let mut new = object.clone();
        strategy.prepare_for_update(&mut new, &old, &context);
        strategy.validate_update(&new, &old);
        strategy.warnings(&new, Some(&old));
        crd::accept_names(&new, [&old, &new], now);
    }
    strategy.prepare_for_create(&mut object, &context);
    let errors = strategy.validate(&object);
    let parsed = crd::Definition::parse(&object);
    parsed.served_versions();
    crd::establish(&object, now);
    crd::check_structural(&object, now);
    crd::api_approval(&object, now);
    if errors.is_empty() {
        let served = parsed.storage_version().expect("a valid definition must have a storage version");
        parsed.deprecation_warning(served);
    }
}

/// Returns a CustomResourceDefinition with this spec, as the server decodes it.
fn decoded(spec: Value) -> Option<Value> {
    let kind = "CustomResourceDefinition";
    let api_version = spec.get("version").map_or("v1", |_| "v1beta1");
    let object = json!({
        "apiVersion": format!("apiextensions.k8s.io/{api_version}"), "kind": kind,
        "metadata": {"name": "widgets.example.com"}, "spec": spec,
    });
    let object = match upgrade::is_old(&object) {
        true => upgrade::upgrade(&object).ok()?.definition,
        false => object,
    };
    let ty = table().kind("apiextensions.k8s.io/v1", kind)?;
    let decoded = decode::decode(object, ty, &table().types, Storage::Json);
    decoded.error.is_none().then_some(decoded.value)
}
