//! Names of drivers, pools and attributes.

use windlass_schema::field::{ErrorList, FieldError, Path};
use windlass_schema::names;

use crate::field_errors::FieldErrors;

const DRIVER: usize = 63;
const POOL: usize = 253;
const IDENTIFIER: usize = 32;

/// Requires the name of a driver.
pub(in super::super) fn driver_name(path: &Path, name: &str, errors: &mut ErrorList) {
    if name.is_empty() {
        return errors.required(path);
    }
    if name.len() > DRIVER {
        errors.push(FieldError::too_long(path, DRIVER));
    }
    errors.invalid_each(path, name, names::is_dns1123_subdomain(&name.to_lowercase()));
}

/// Requires the name of a pool: subdomains, separated by slashes.
pub(in super::super) fn pool_name(path: &Path, name: &str, errors: &mut ErrorList) {
    if name.is_empty() {
        return errors.required(path);
    }
    if name.len() > POOL {
        errors.push(FieldError::too_long(path, POOL));
    }
    name.split('/').for_each(|part| errors.dns_subdomain(path, part));
}

/// Requires the name of an attribute or a capacity: an identifier, maybe after a domain.
pub(in super::super) fn qualified_name(path: &Path, name: &str, errors: &mut ErrorList) {
    match *name.split('/').collect::<Vec<_>>() {
        [identifier] => validate_identifier(path, identifier, errors),
        [domain, identifier] => {
            match domain {
                "" => errors.invalid(path, "", "the domain must not be empty"),
                domain => driver_name(path, domain, errors),
            }
            match identifier {
                "" => errors.invalid(path, "", "the name must not be empty"),
                identifier => validate_identifier(path, identifier, errors),
            }
        }
        // kube-apiserver accepts these.
        _ => {}
    }
}

/// Requires the name of an attribute with its domain.
pub(in super::super) fn fully_qualified_name(path: &Path, name: &str, errors: &mut ErrorList) {
    qualified_name(path, name, errors);
    if !name.contains('/') {
        errors.invalid(path, name, "a fully qualified name must be a domain and a name separated by a slash");
    }
}

fn validate_identifier(path: &Path, identifier: &str, errors: &mut ErrorList) {
    if identifier.len() > IDENTIFIER {
        errors.push(FieldError::too_long(path, IDENTIFIER));
    }
    errors.invalid_each(path, identifier, names::is_c_identifier(identifier));
}

/// Requires a value that labels may have.
pub(in super::super) fn label_value(path: &Path, value: &str, errors: &mut ErrorList) {
    errors.invalid_each(path, value, names::is_valid_label_value(value));
}

/// Requires a UUID in its usual form.
pub(in super::super) fn unique_id(path: &Path, id: &str, errors: &mut ErrorList) {
    let groups: Vec<&str> = id.split('-').collect();
    let is_hex = |group: &&str| group.bytes().all(|byte| byte.is_ascii_hexdigit());
    let lengths: Vec<usize> = groups.iter().map(|group| group.len()).collect();
    if lengths != [8, 4, 4, 4, 12] || !groups.iter().all(is_hex) {
        let why = match id.len() {
            36 => "invalid UUID format".to_owned(),
            length => format!("invalid UUID length: {length}"),
        };
        errors.invalid(path, id, format!("error validating uid: {why}"));
    } else if id.bytes().any(|byte| byte.is_ascii_uppercase()) {
        let detail = "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase \
                      hexadecimal characters";
        errors.invalid(path, id, detail);
    }
}
