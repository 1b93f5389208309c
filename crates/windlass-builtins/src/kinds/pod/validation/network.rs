//! Validation of DNS settings, host names and host aliases.

use serde_json::Value;
use windlass_schema::field::{ErrorList, FieldError, Path};
use windlass_schema::names;

use crate::field_errors::FieldErrors;
use crate::object::{boolean, is_set, items, text};

/// Validates the DNS policy and configuration.
pub(super) fn validate_dns(spec: &Value, path: &Path, errors: &mut ErrorList) {
    let config = spec.get("dnsConfig").filter(|config| !config.is_null());
    if text(spec, "/dnsPolicy") == "None" {
        let Some(config) = config else {
            return errors.required_because(path, "must provide `dnsConfig` when `dnsPolicy` is None");
        };
        if items(config, "/nameservers").is_empty() {
            let detail = "must provide at least one DNS nameserver when `dnsPolicy` is None";
            return errors.required_because(&path.child("nameservers"), detail);
        }
    }
    let Some(config) = config else { return };
    let (servers, searches) = (items(config, "/nameservers"), items(config, "/searches"));
    if servers.len() > 3 {
        errors.invalid(&path.child("nameservers"), servers.to_vec(), "must not have more than 3 nameservers");
    }
    for (index, server) in servers.iter().enumerate() {
        let at = path.child("nameservers").index(index);
        errors.extend(names::is_valid_ip_legacy(&at, server.as_str().unwrap_or_default(), true));
    }
    let at = path.child("searches");
    if searches.len() > 32 {
        errors.invalid(&at, searches.to_vec(), "must not have more than 32 search paths");
    }
    let length: usize = searches.iter().filter_map(Value::as_str).map(|search| search.len() + 1).sum();
    if length > 2049 {
        let detail = "must not have more than 2048 characters (including spaces) in the search list";
        errors.invalid(&at, searches.to_vec(), detail);
    }
    for (index, search) in searches.iter().filter_map(Value::as_str).enumerate() {
        if search != "." {
            let search = search.strip_suffix('.').unwrap_or(search);
            errors.invalid_each(&at.index(index), search, names::is_dns1123_subdomain_with_underscore(search));
        }
    }
    for (index, option) in items(config, "/options").iter().enumerate() {
        if text(option, "/name").is_empty() {
            errors.required_because(&path.child("options").index(index), "must not be empty");
        }
    }
}

/// Validates the entries for the hosts file.
pub(super) fn validate_host_aliases(spec: &Value, path: &Path, errors: &mut ErrorList) {
    for (index, alias) in items(spec, "/hostAliases").iter().enumerate() {
        let at = path.index(index);
        errors.extend(names::is_valid_ip_legacy(&at.child("ip"), text(alias, "/ip"), true));
        for (host_index, host) in items(alias, "/hostnames").iter().enumerate() {
            errors.dns_subdomain(&at.child("hostnames").index(host_index), host.as_str().unwrap_or_default());
        }
    }
}

/// Validates a host name override.
pub(super) fn validate_hostname_override(spec: &Value, path: &Path, errors: &mut ErrorList) {
    if !is_set(spec, "/hostnameOverride") {
        return;
    }
    let path = path.child("hostnameOverride");
    if boolean(spec, "/setHostnameAsFQDN") == Some(true) {
        errors.forbidden(&path, "may not be specified when setHostnameAsFQDN is true");
    }
    if boolean(spec, "/hostNetwork") == Some(true) {
        errors.forbidden(&path, "may not be specified when hostNetwork is true");
    }
    let name = text(spec, "/hostnameOverride");
    if name.len() > 64 {
        errors.push(FieldError::too_long(&path, 64));
    }
    errors.dns_subdomain(&path, name);
}
