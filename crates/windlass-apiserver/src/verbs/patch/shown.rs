//! Patched objects in error messages. kube-apiserver writes the parts that the
//! patch touches with sorted keys, and all others in the order of the Go types.

use serde_json::{Map, Value};
use windlass_schema::sorting;
use windlass_schema::{
    go_format::marshal,
    types::{Type, TypeTable},
};

/// Formats an object of a built-in kind. `touched` has a map for each part that the patch goes through.
pub(super) fn show(object: &Value, ty: &Type, types: &TypeTable, touched: &Value) -> String {
    let mut out = String::new();
    write(&mut out, object, Some(ty), types, Some(touched));
    out
}

fn write(out: &mut String, value: &Value, ty: Option<&Type>, types: &TypeTable, touched: Option<&Value>) {
    match value {
        Value::Object(map) => {
            let structure = match ty {
                Some(Type::Struct(id)) => Some(types.get(*id)),
                _ => None,
            };
            let place = |name: &str| structure.and_then(|of| of.fields.iter().position(|field| *field.name == *name));
            let mut entries: Vec<(&String, &Value)> = map.iter().collect();
            if touched.is_none() {
                sorting::sort_by_key(&mut entries, |(name, _)| place(name).unwrap_or(usize::MAX));
            }
            out.push('{');
            for (index, (name, value)) in entries.into_iter().enumerate() {
                let ty = match ty {
                    Some(Type::Map(element)) => Some(&**element),
                    _ => structure.and_then(|of| of.field(name)).map(|field| &field.ty),
                };
                let touched = touched.and_then(|touched| touched.get(name));
                // A list of a merge patch replaces the one of the object, with its own order of keys.
                let touched = touched.filter(|touched| touched.is_object() || *touched == value && touched.is_array());
                separate(out, index);
                out.push_str(&marshal(&name.as_str().into()));
                out.push(':');
                write(out, value, ty, types, touched);
            }
            out.push('}');
        }
        Value::Array(items) => {
            let element = match ty {
                Some(Type::List(element)) => Some(&**element),
                _ => None,
            };
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                separate(out, index);
                let part = match touched {
                    Some(Value::Array(items)) => items.get(index),
                    touched => touched.and_then(|touched| touched.get(index.to_string())),
                };
                write(out, item, element, types, part);
            }
            out.push(']');
        }
        // A number keeps its fraction, which may be why the patch is rejected.
        Value::Number(number) => out.push_str(&number.to_string()),
        scalar => out.push_str(&marshal(scalar)),
    }
}

fn separate(out: &mut String, index: usize) {
    if index > 0 {
        out.push(',');
    }
}

/// Returns the parts that JSON pointers go through.
pub(super) fn parts<'p>(pointers: impl IntoIterator<Item = &'p str>) -> Value {
    let mut touched = Value::Object(Map::new());
    for pointer in pointers {
        let mut segments: Vec<_> = pointer.split('/').skip(1).collect();
        segments.pop();
        let mut part = &mut touched;
        for segment in segments {
            let name = segment.replace("~1", "/").replace("~0", "~");
            if let Value::Object(parts) = part {
                part = parts.entry(name).or_insert_with(|| Value::Object(Map::new()));
            }
        }
    }
    touched
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn parts_that_the_patch_goes_through_are_sorted_and_others_are_in_the_order_of_go() {
        let table = windlass_builtins::table();
        let resource = table.resources.iter().find(|resource| &*resource.plural == "configmaps").expect("ConfigMaps");
        let object = json!({
            "kind": "ConfigMap", "apiVersion": "v1", "metadata": {"uid": "u", "name": "n", "labels": {"b": "1", "a": "<"}},
        });
        let shown = |touched: &Value| show(&object, &Type::Struct(resource.ty), &table.types, touched);
        assert_eq!(
            show(&json!({"data": {"b": 10.0, "a": 1}}), &Type::Struct(resource.ty), &table.types, &json!({"data": {}})),
            r#"{"data":{"a":1,"b":10.0}}"#
        );
        assert_eq!(
            shown(&json!({"data": 3})),
            r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"n","uid":"u","labels":{"a":"\u003c","b":"1"}}}"#
        );
        assert_eq!(
            shown(&parts(["/metadata/labels/b"])),
            r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"labels":{"a":"\u003c","b":"1"},"name":"n","uid":"u"}}"#
        );
    }
}
