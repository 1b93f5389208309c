//! Named string formats.

use windlass_schema::go_url::parse_request_uri;
use windlass_schema::names;

use super::{Call, Table};
use crate::value::{NamedFormat, Opaque, Outcome, Timestamp, Value};

pub(crate) const FUNCTIONS: &Table = &[
    ("format.named", named),
    ("validate", validate),
    ("format.dns1123Label", constant),
    ("format.dns1123Subdomain", constant),
    ("format.dns1035Label", constant),
    ("format.qualifiedName", constant),
    ("format.dns1123LabelPrefix", constant),
    ("format.dns1123SubdomainPrefix", constant),
    ("format.dns1035LabelPrefix", constant),
    ("format.labelValue", constant),
    ("format.uri", constant),
    ("format.uuid", constant),
    ("format.byte", constant),
    ("format.date", constant),
    ("format.datetime", constant),
];

/// The formats, by their names in expressions.
static FORMATS: [(&str, NamedFormat); 13] = [
    (
        "dns1123Label",
        NamedFormat { name: "DNS1123Label", validate: |s| names::name_is_dns_label(s, false), regex_size: 30 },
    ),
    (
        "dns1123Subdomain",
        NamedFormat { name: "DNS1123Subdomain", validate: |s| names::name_is_dns_subdomain(s, false), regex_size: 60 },
    ),
    (
        "dns1035Label",
        NamedFormat { name: "DNS1035Label", validate: |s| names::name_is_dns1035_label(s, false), regex_size: 30 },
    ),
    ("qualifiedName", NamedFormat { name: "QualifiedName", validate: names::is_qualified_name, regex_size: 60 }),
    (
        "dns1123LabelPrefix",
        NamedFormat { name: "DNS1123LabelPrefix", validate: |s| names::name_is_dns_label(s, true), regex_size: 30 },
    ),
    (
        "dns1123SubdomainPrefix",
        NamedFormat {
            name: "DNS1123SubdomainPrefix",
            validate: |s| names::name_is_dns_subdomain(s, true),
            regex_size: 60,
        },
    ),
    (
        "dns1035LabelPrefix",
        NamedFormat { name: "DNS1035LabelPrefix", validate: |s| names::name_is_dns1035_label(s, true), regex_size: 30 },
    ),
    ("labelValue", NamedFormat { name: "LabelValue", validate: names::is_valid_label_value, regex_size: 40 }),
    ("uri", NamedFormat { name: "URI", validate: validate_uri, regex_size: 1103 }),
    ("uuid", NamedFormat { name: "uuid", validate: validate_uuid, regex_size: 70 }),
    ("byte", NamedFormat { name: "byte", validate: validate_byte, regex_size: 84 }),
    ("date", NamedFormat { name: "date", validate: validate_date, regex_size: 71 }),
    ("datetime", NamedFormat { name: "datetime", validate: validate_datetime, regex_size: 71 }),
];

fn fails(valid: bool, message: &str) -> Vec<String> {
    if valid { Vec::new() } else { vec![message.to_owned()] }
}

fn validate_uri(text: &str) -> Vec<String> {
    parse_request_uri(text).err().into_iter().collect()
}

fn validate_uuid(text: &str) -> Vec<String> {
    let mut rest = text;
    for (index, length) in [8, 4, 4, 4, 12].into_iter().enumerate() {
        if index > 0 {
            rest = rest.strip_prefix('-').unwrap_or(rest);
        }
        match rest.get(..length).filter(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit())) {
            Some(_) => rest = &rest[length..],
            None => return fails(false, "does not match the UUID format"),
        }
    }
    fails(rest.is_empty(), "does not match the UUID format")
}

fn validate_byte(text: &str) -> Vec<String> {
    let digits = text.trim_end_matches('=');
    let padding = text.len() - digits.len();
    let valid = text.len().is_multiple_of(4)
        && padding <= 2
        && digits.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/'));
    fails(valid, "invalid base64")
}

fn validate_date(text: &str) -> Vec<String> {
    fails(Timestamp::parse_date(text).is_some(), "invalid date")
}

fn validate_datetime(text: &str) -> Vec<String> {
    let lower = text.to_ascii_lowercase();
    let valid = lower.split_once('t').is_some_and(|(date, time)| {
        Timestamp::parse_date(date).is_some()
            && Timestamp::parse(&format!("{date}T{}", time.to_ascii_uppercase())).is_ok()
    });
    fails(valid, "invalid datetime")
}

fn find(name: &str) -> Option<&'static NamedFormat> {
    FORMATS.iter().find(|(candidate, _)| *candidate == name).map(|(_, format)| format)
}

fn named<'a>(call: Call<'_, 'a>) -> Outcome<'a> {
    let [Value::String(name)] = &*call.arguments else { return Err(call.mismatch()) };
    Ok(find(name).map_or(Value::NONE, |format| Value::some(Value::opaque(Opaque::Format(format)))))
}

fn constant<'a>(call: Call<'_, 'a>) -> Outcome<'a> {
    let format = call.function.strip_prefix("format.").and_then(find);
    format.map(|format| Value::opaque(Opaque::Format(format))).ok_or_else(|| call.mismatch())
}

fn validate<'a>(call: Call<'_, 'a>) -> Outcome<'a> {
    match &*call.arguments {
        [Value::Opaque(value), Value::String(text)] if let Opaque::Format(format) = &**value => {
            let messages = (format.validate)(text);
            Ok(if messages.is_empty() {
                Value::NONE
            } else {
                Value::some(Value::list(messages.into_iter().map(Value::string).collect()))
            })
        }
        _ => Err(call.mismatch()),
    }
}
