//! JSON patches, merge patches and strategic merge patches.

use windlass_builtins::table;
use windlass_merge::{
    MAX_DEPTH, json_patch,
    json_patch::{Checks, Patch},
    merge_patch, strategic,
};
use windlass_schema::json;

/// Applies a patch of every type to an object. The first line is the object; the rest is the patch.
pub fn patch(data: &[u8]) {
    let [document, patch] = super::parts(data);
    let Some(document) = super::parse(document) else { return };
    let _ = json_patch::apply(document.clone(), patch);
    if let Ok(decoded) = Patch::decode(patch, Checks::Strict) {
        decoded.strict_errors();
        if let Ok(patched) = decoded.apply(document.clone()) {
            readable(&json::encode(&patched));
        }
    }
    if let Ok(decoded) = merge_patch::decode(patch, Checks::Strict) {
        let mut patched = document.clone();
        merge_patch::apply(&mut patched, decoded.value.clone());
        let once = patched.clone();
        merge_patch::apply(&mut patched, decoded.value);
        assert_eq!(patched, once, "a merge patch must be idempotent");
    }
    for (api_version, kind) in [("v1", "Pod"), ("v1", "Service"), ("apps/v1", "Deployment")] {
        let ty = table().kind(api_version, kind).expect("the kind must be in the table");
        if let Ok(decoded) = strategic::decode(patch, Checks::Strict)
            && let Ok(patched) = strategic::apply(document.clone(), decoded.value, ty, &table().types)
        {
            readable(&json::encode(&patched));
        }
    }
}

/// Checks that the result of a patch can be read again.
fn readable(encoded: &[u8]) {
    assert!(json::parse(encoded).is_ok(), "the result of a patch must parse, limit {MAX_DEPTH}");
}
