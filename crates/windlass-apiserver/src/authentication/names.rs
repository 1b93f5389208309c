//! User names and user attributes with a special meaning.

use windlass_schema::names;

/// The extra attribute with the node of a service account's pod.
pub(crate) const NODE_NAME: &str = "authentication.kubernetes.io/node-name";

/// Returns the namespace and the name of a service account by the name of its user.
pub(crate) fn service_account(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix("system:serviceaccount:")?.split_once(':')?;
    let valid =
        names::name_is_dns_label(namespace, false).is_empty() && names::name_is_dns_subdomain(name, false).is_empty();
    valid.then_some((namespace, name))
}

/// Returns the name of a node by the name of its user.
pub(crate) fn node(user: &str) -> Option<&str> {
    user.strip_prefix("system:node:").filter(|name| names::name_is_dns_subdomain(name, false).is_empty())
}
