//! Values with a format of their own: quantities, times, schedules, patterns, URLs, names, paths.

use windlass_schema::{
    cron::Schedule,
    formats, go_regex, go_url,
    json_path::JsonPath,
    names,
    printer::{Column, SelectableField},
    quantity::Quantity,
    structural::Structural,
    structural::field_path::{Brackets, FieldPath},
    time::{self, Time},
};

const FORMATS: &[&str] = &[
    "bsonobjectid",
    "uri",
    "email",
    "hostname",
    "ipv4",
    "ipv6",
    "cidr",
    "mac",
    "uuid",
    "uuid3",
    "uuid4",
    "uuid5",
    "isbn",
    "isbn10",
    "isbn13",
    "creditcard",
    "ssn",
    "hexcolor",
    "rgbcolor",
    "byte",
    "password",
    "date",
    "duration",
    "datetime",
];

/// Parses a string as everything that is short: quantity, time, duration, schedule, URL, name, format.
pub fn scalars(data: &[u8]) {
    let Some(text) = super::text(data) else { return };
    if let Ok(quantity) = Quantity::parse(text) {
        let canonical = quantity.to_string();
        let again = Quantity::parse(&canonical).expect("a formatted quantity must parse");
        // Larger ones lose their suffix, as in Kubernetes.
        if quantity.as_f64().abs() < 1e20 {
            assert_eq!(again, quantity);
            assert_eq!(again.to_string(), canonical);
        }
        let mut sum = quantity.clone();
        sum.add(&again);
        sum.sub(&again);
        sum.neg();
        let _ = (sum.value(), sum.milli_value(), sum.as_f64(), sum.as_i64(), sum.sign(), sum.to_string());
    }
    if let Ok(parsed) = time::parse_rfc3339(text) {
        assert_eq!(time::parse_rfc3339(&parsed.to_rfc3339()).map(Time::unix_seconds), Ok(parsed.unix_seconds()));
    }
    if let Ok(parsed) = time::parse_rfc3339_micro(text) {
        let _ = parsed.to_rfc3339_micro();
    }
    if let Ok(schedule) = Schedule::parse(text) {
        let zone = schedule.time_zone().cloned().unwrap_or(jiff::tz::TimeZone::UTC);
        let start = jiff::Timestamp::UNIX_EPOCH.to_zoned(zone);
        if let Some(next) = schedule.next_after(&start) {
            assert!(next > start);
        }
    }
    let _ = (go_url::parse(text), go_url::parse_request_uri(text), go_url::unescape_query(text));
    for rule in [names::is_dns1123_label, names::is_dns1123_subdomain, names::is_qualified_name] {
        rule(text);
    }
    let _ = (names::is_wildcard_dns1123_subdomain(text), names::is_http_header_name(text));
    let _ = (names::is_valid_label_value(text), names::is_config_map_key(text), names::is_path_segment_name(text));
    for name in FORMATS {
        if let Some(format) = formats::find(name) {
            format(text);
        }
    }
}

/// Parses patterns, JSON paths and columns. The first line is the path; the second is the object.
pub fn paths(data: &[u8]) {
    let [path, object] = super::parts(data);
    let Some(path) = super::text(path) else { return };
    if go_regex::check(path).is_ok() {
        let _ = go_regex::compile_dynamic(path);
    }
    let _ = FieldPath::parse(path, None::<&Structural>, Brackets::Allowed);
    let object = super::parse(object).unwrap_or_default();
    for parsed in [JsonPath::expression(path), JsonPath::template(path)].into_iter().flatten() {
        let _ = parsed.find(&object);
    }
    for kind in ["string", "integer", "date"] {
        if let Ok(column) = Column::compile("c", kind, "", "", 0, path) {
            column.cell(&object, Time::from_unix(1_700_000_000, 0));
        }
    }
    if let Ok(field) = SelectableField::compile(path) {
        let _ = field.value(&object);
    }
}
