//! Bodies of requests in JSON and YAML.

use serde_json::Value;
use windlass_builtins::{kinds, table};
use windlass_schema::{
    decode::{self, Storage},
    json, yaml,
};

/// The memory that a value may need per byte of its source.
const YAML_GROWTH: usize = 4096;

/// Parses JSON; its encoding is stable.
pub fn json(data: &[u8]) {
    let Ok(document) = json::parse(data) else { return };
    let encoded = json::encode(&document.value);
    let again = json::parse(&encoded).expect("encoded JSON must parse");
    // Encoding turns floats without a fraction into integers, as in Go; then nothing changes anymore.
    let encoded = json::encode(&again.value);
    assert_eq!(json::parse(&encoded).expect("encoded JSON must parse").value, again.value);
    json::encode_pretty(&document.value);
    document.duplicates();
}

/// Parses YAML; a parsed value is stable under encoding, and its size is bounded.
pub fn yaml(data: &[u8]) {
    if let Some(text) = super::text(data) {
        for (_, document) in yaml::documents(text) {
            yaml::is_blank(document);
        }
    }
    let Ok(document) = yaml::parse(data) else { return };
    let encoded = json::encode(&document.value);
    let size = encoded.len();
    assert!(size <= (data.len() + 1) * YAML_GROWTH, "{} bytes of YAML are {size} bytes of JSON", data.len());
    let value = json::parse(&encoded).expect("encoded JSON must parse").value;
    let encoded = yaml::to_yaml(&value);
    assert_eq!(yaml::parse(encoded.as_bytes()).expect("encoded YAML must parse").value, value, "{encoded}");
}

/// Decodes an object of a built-in kind, and runs the kind's defaulting and validation on it.
pub fn object(data: &[u8]) {
    let [new, old] = super::parts(data);
    let Ok(document) = json::parse(new) else { return };
    let text = |name: &str| document.value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", &api_version));
    let Some(resource) = table()
        .resources
        .iter()
        .find(|resource| resource.kind == kind && resource.group == group && resource.version == version)
    else {
        return;
    };
    let storage = if group == "apiextensions.k8s.io" { Storage::Json } else { Storage::Protobuf };
    let decode = |document: json::Document<'_>| {
        let decoded = decode::decode(document, resource.ty, &table().types, storage);
        decoded.error.is_none().then_some(decoded.value)
    };
    let Some(mut object) = decode(document) else { return };
    let again = decode(object.clone().into()).expect("a decoded object must decode");
    assert_eq!(again, object, "decoding must be idempotent");
    let strategy = kinds::strategy(&resource.group, &resource.plural);
    strategy.default(&mut object);
    let once = object.clone();
    strategy.default(&mut object);
    assert_eq!(object, once, "defaulting must be idempotent");
    let extra = Default::default();
    let now = jiff::Timestamp::UNIX_EPOCH;
    let context =
        windlass_builtins::strategy::WriteContext { user_name: "fuzz", user_uid: "", groups: &[], extra: &extra, now };
    let mut created = object.clone();
    strategy.prepare_for_create(&mut created, &context);
    strategy.validate(&created);
    strategy.warnings(&created, None);
    strategy.grace(&created, Some(i64::MAX));
    strategy.selectable_fields(&created);
    super::protobuf::check_round_trip(&created);
    let Some(mut old) = json::parse(old).ok().and_then(decode) else { return };
    strategy.default(&mut old);
    for subresource in &resource.subresources {
        let mut updated = object.clone();
        strategy.prepare_for_subresource_update(&subresource.name, &mut updated, &old, &context);
        strategy.validate_subresource_update(&subresource.name, &updated, &old);
    }
    strategy.prepare_for_update(&mut object, &old, &context);
    strategy.validate_update(&object, &old);
    strategy.warnings(&object, Some(&old));
}
