//! Files of one volume whose paths are equal, or one of which is inside the other.

use serde_json::Value;
use windlass_schema::field::quote;

use crate::object::{items, text};

/// A path in a volume and its source.
#[derive(Clone, PartialEq)]
struct Place {
    path: String,
    source: String,
}

impl Place {
    fn show(&self) -> String {
        match self.source.as_str() {
            "" => quote(&self.path),
            source => format!("{} ({source})", quote(&self.path)),
        }
    }

    fn overlaps(&self, other: &Self) -> bool {
        let (a, b) = (format!("{}/", self.path), format!("{}/", other.path));
        !self.path.is_empty() && !other.path.is_empty() && (a.starts_with(&b) || b.starts_with(&a))
    }
}

/// Returns warnings about the volumes of a pod.
pub(super) fn warnings(volumes: &[Value]) -> Vec<String> {
    let mut warnings = Vec::new();
    for volume in volumes {
        let name = quote(text(volume, "/name"));
        for (field, about) in [
            ("configMap", format!("ConfigMap {}", quote(text(volume, "/configMap/name")))),
            ("secret", format!("Secret {}", quote(text(volume, "/secret/secretName")))),
            ("downwardAPI", "DownwardAPI".to_owned()),
        ] {
            let places = paths(volume, &format!("/{field}/items"), "");
            for overlap in overlaps(places) {
                warnings.push(format!("volume {name} ({about}): overlapping paths: {overlap}"));
            }
        }
        let mut places = Vec::new();
        for source in items(volume, "/projected/sources") {
            if source.as_object().is_some_and(|fields| fields.values().all(Value::is_null)) {
                warnings.push(format!("volume {name} (Projected) has no sources provided"));
            }
            places.extend(projected(source));
        }
        for overlap in overlaps(places) {
            warnings.push(format!("volume {name} (Projected): overlapping paths: {overlap}"));
        }
    }
    warnings
}

fn projected(source: &Value) -> Vec<Place> {
    let about = |kind: &str, field: &str| format!("{kind} {}", quote(text(source, field)));
    let has = |pointer: &str| source.pointer(pointer).is_some_and(Value::is_array);
    if has("/configMap/items") {
        return paths(source, "/configMap/items", &about("ConfigMap", "/configMap/name"));
    }
    if has("/secret/items") {
        return paths(source, "/secret/items", &about("Secret", "/secret/name"));
    }
    if has("/downwardAPI/items") {
        return paths(source, "/downwardAPI/items", "DownwardAPI");
    }
    match source.get("serviceAccountToken").filter(|token| !token.is_null()) {
        Some(token) => vec![place(text(token, "/path"), "ServiceAccountToken")],
        None => Vec::new(),
    }
}

fn paths(value: &Value, pointer: &str, source: &str) -> Vec<Place> {
    items(value, pointer).iter().map(|item| place(text(item, "/path"), source)).collect()
}

fn place(path: &str, source: &str) -> Place {
    Place { path: path.trim_end_matches('/').to_owned(), source: source.to_owned() }
}

fn overlaps(places: Vec<Place>) -> Vec<String> {
    let mut found = Vec::new();
    for (index, place) in places.iter().enumerate() {
        for other in places[..index].iter().filter(|other| other.overlaps(place)) {
            found.push(format!("{} with {}", place.show(), other.show()));
        }
    }
    found
}
