//! Bodies in protobuf.

use serde_json::Value;
use windlass_builtins::{
    protobuf::{decode, encode_object, envelope},
    table,
};

/// Decodes a body, and the same bytes as the message of a kind; a decoded object is stable under encoding.
pub fn protobuf(data: &[u8]) {
    if let Ok(decoded) = decode(data, table()) {
        check_round_trip(&decoded.value);
    }
    let Some((choice, message)) = data.split_first_chunk::<2>() else { return };
    let kinds = &table().kinds;
    let kind = &kinds[usize::from(u16::from_le_bytes(*choice)) % kinds.len()];
    let api_version = format!("{}/{}", kind.group, kind.version);
    if let Ok(decoded) = decode(&envelope(api_version.trim_start_matches('/'), &kind.kind, message), table()) {
        check_round_trip(&decoded.value);
    }
}

/// Checks that an object that can be encoded decodes to itself, once it has the form that decoding returns.
pub(crate) fn check_round_trip(value: &Value) {
    let Ok(bytes) = encode_object(value, table()) else { return };
    let Ok(first) = decode(&bytes, table()) else { return };
    let bytes = encode_object(&first.value, table()).expect("a decoded object must be encodable");
    let second = decode(&bytes, table()).expect("an encoded object must be decodable");
    assert_eq!(second.value, first.value);
}
