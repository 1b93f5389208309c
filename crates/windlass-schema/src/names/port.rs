//! Rules for ports and IDs: small numbers, and the names of ports.

use super::{inclusive_range_error, max_len_error};

/// Checks for a port number, 1 to 65535.
pub fn is_valid_port_num(port: i64) -> Vec<String> {
    in_range(port, 1, 65535)
}

/// Checks for a Unix group ID.
pub fn is_valid_group_id(id: i64) -> Vec<String> {
    in_range(id, 0, i64::from(i32::MAX))
}

/// Checks for a Unix user ID.
pub fn is_valid_user_id(id: i64) -> Vec<String> {
    in_range(id, 0, i64::from(i32::MAX))
}

fn in_range(value: i64, lo: i64, hi: i64) -> Vec<String> {
    if (lo..=hi).contains(&value) { Vec::new() } else { vec![inclusive_range_error(lo, hi)] }
}

/// Checks for the name of a port: at most 15 lower-case letters, digits and single dashes, with at least one letter.
pub fn is_valid_port_name(port: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if port.len() > 15 {
        errors.push(max_len_error(15));
    }
    if port.is_empty() || !port.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-') {
        errors.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned());
    }
    if !port.bytes().any(|b| b.is_ascii_lowercase()) {
        errors.push("must contain at least one letter (a-z)".to_owned());
    }
    if port.contains("--") {
        errors.push("must not contain consecutive hyphens".to_owned());
    }
    if port.starts_with('-') || port.ends_with('-') {
        errors.push("must not begin or end with a hyphen".to_owned());
    }
    errors
}
