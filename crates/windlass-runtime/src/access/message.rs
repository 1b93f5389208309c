//! The message of a denied request, which is the only part of the response that has the verb and the namespace.

use super::{Denial, Generated};

/// Parses `pods "web" is forbidden: User "U" cannot VERB resource "R" in API group "G" in the namespace "N"`.
pub(super) fn parse(message: &str) -> Option<Denial> {
    let (_, rest) = message.split_once(" is forbidden: User \"")?;
    let (user, rest) = rest.split_once("\" cannot ")?;
    let (verb, rest) = rest.split_once(" resource \"")?;
    let (resource, rest) = rest.split_once("\" in API group \"")?;
    let (group, rest) = rest.split_once('"')?;
    let namespace = match rest.strip_prefix(" in the namespace \"") {
        Some(rest) => Some(rest.split_once('"')?.0.to_owned()),
        None if rest.starts_with(" at the cluster scope") => None,
        None => return None,
    };
    Some(Denial {
        user: user.to_owned(),
        verb: verb.to_owned(),
        group: group.to_owned(),
        resource: resource.to_owned(),
        namespace,
        controller: None,
        operation: None,
        generated: Generated::Missing,
    })
}
