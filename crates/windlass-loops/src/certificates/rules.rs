//! The rules of each signer, and the lifetime of certificates. Pure.

use std::{collections::BTreeSet, time::Duration};

use windlass_schema::sorting::Gather as _;

use super::Request;

const CLIENT: &str = "kubernetes.io/kube-apiserver-client";
pub(crate) const KUBELET_CLIENT: &str = "kubernetes.io/kube-apiserver-client-kubelet";
const KUBELET_SERVING: &str = "kubernetes.io/kubelet-serving";
const LEGACY: &str = "kubernetes.io/legacy-unknown";

/// The supported signers.
pub(crate) const SIGNERS: [&str; 4] = [CLIENT, KUBELET_CLIENT, KUBELET_SERVING, LEGACY];

/// Maximum lifetime of a certificate, which is also the default, and minimum lifetime.
const LONGEST: Duration = Duration::from_hours(365 * 24);
const SHORTEST: Duration = Duration::from_secs(10 * 60);

/// The decision about a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Sign,
    Reject(String),
}

/// Decides about a request by the rules of its signer.
pub(crate) fn verdict(signer: &str, request: &Request, usages: &[String]) -> Verdict {
    let checked = match signer {
        CLIENT => check_client(usages),
        KUBELET_CLIENT => check_kubelet_client(request, usages),
        KUBELET_SERVING => check_kubelet_serving(request, usages),
        _ => Ok(()),
    };
    checked.map_or_else(Verdict::Reject, |()| Verdict::Sign)
}

/// Returns whether a request has the form of a kubelet's request for its own client certificate.
pub(crate) fn is_kubelet_client(request: &Request, usages: &[String]) -> bool {
    check_kubelet_client(request, usages).is_ok()
}

/// The lifetime of a certificate for the requested number of seconds.
pub(crate) fn lifetime(seconds: Option<i32>) -> Duration {
    let asked = seconds.map(|seconds| Duration::from_secs(u64::try_from(seconds).unwrap_or_default()));
    asked.map_or(LONGEST, |asked| asked.clamp(SHORTEST, LONGEST))
}

fn check_client(usages: &[String]) -> Result<(), String> {
    let allowed = ["digital signature", "key encipherment", "client auth"];
    if let Some(usage) = usages.iter().find(|usage| !allowed.contains(&usage.as_str())) {
        return Err(format!("invalid usage for client certificate: {usage}"));
    }
    match usages.iter().any(|usage| usage == "client auth") {
        true => Ok(()),
        false => Err("missing required usage for client certificate: client auth".to_owned()),
    }
}

fn check_kubelet_client(request: &Request, usages: &[String]) -> Result<(), String> {
    check(request.organizations == ["system:nodes"], "subject organization is not system:nodes")?;
    check(request.dns_names.is_empty(), "DNS subjectAltNames are not allowed")?;
    check(request.email_addresses.is_empty(), "Email subjectAltNames are not allowed")?;
    check(request.ip_addresses.is_empty(), "IP subjectAltNames are not allowed")?;
    check(request.uris.is_empty(), "URI subjectAltNames are not allowed")?;
    check(is_node(request), "subject common name does not begin with system:node:")?;
    check_usages(usages, ["client auth", "digital signature", "key encipherment"])
}

fn check_kubelet_serving(request: &Request, usages: &[String]) -> Result<(), String> {
    check(request.organizations == ["system:nodes"], "subject organization is not system:nodes")?;
    let named = !request.dns_names.is_empty() || !request.ip_addresses.is_empty();
    check(named, "DNS or IP subjectAltName is required")?;
    check(request.email_addresses.is_empty(), "Email subjectAltNames are not allowed")?;
    check(request.uris.is_empty(), "URI subjectAltNames are not allowed")?;
    check_usages(usages, ["digital signature", "key encipherment", "server auth"])?;
    check(is_node(request), "subject common name does not begin with system:node:")
}

fn is_node(request: &Request) -> bool {
    request.common_name.starts_with("system:node:")
}

/// Checks that the usages are the required ones; "key encipherment" is optional, as some keys cannot be used for it.
fn check_usages(usages: &[String], required: [&str; 3]) -> Result<(), String> {
    let asked: BTreeSet<&str> = usages.iter().map(String::as_str).gather();
    let all: BTreeSet<&str> = required.into_iter().gather();
    let mut fewer = all.clone();
    fewer.remove("key encipherment");
    check(asked == all || asked == fewer, &format!("usages did not match [{}]", required.join(" ")))
}

fn check(holds: bool, message: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(message.to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    fn request(organizations: &[&str], name: &str, hosts: &[&str]) -> Request {
        Request {
            common_name: name.to_owned(),
            organizations: words(organizations),
            dns_names: words(hosts),
            ..Request::default()
        }
    }

    #[test]
    fn each_signer_has_its_rules() {
        let node = || request(&["system:nodes"], "system:node:a", &[]);
        let host = || request(&["system:nodes"], "system:node:a", &["a.example"]);
        let person = || request(&["dev"], "jane", &[]);
        let client = ["digital signature", "client auth"];
        let serving = ["digital signature", "key encipherment", "server auth"];
        for (signer, request, usages, rejected) in [
            (CLIENT, person(), &client[..], None),
            (CLIENT, person(), &serving[..], Some("invalid usage for client certificate: server auth")),
            (CLIENT, person(), &client[..1], Some("missing required usage for client certificate: client auth")),
            (LEGACY, person(), &["code signing"][..], None),
            (KUBELET_CLIENT, node(), &client[..], None),
            (KUBELET_CLIENT, person(), &client[..], Some("subject organization is not system:nodes")),
            (KUBELET_CLIENT, host(), &client[..], Some("DNS subjectAltNames are not allowed")),
            (
                KUBELET_CLIENT,
                request(&["system:nodes"], "a", &[]),
                &client[..],
                Some("subject common name does not begin with system:node:"),
            ),
            (
                KUBELET_CLIENT,
                node(),
                &serving[..],
                Some("usages did not match [client auth digital signature key encipherment]"),
            ),
            (KUBELET_SERVING, host(), &serving[..], None),
            (KUBELET_SERVING, node(), &serving[..], Some("DNS or IP subjectAltName is required")),
            (
                KUBELET_SERVING,
                host(),
                &client[..],
                Some("usages did not match [digital signature key encipherment server auth]"),
            ),
        ] {
            let expected = rejected.map_or(Verdict::Sign, |message| Verdict::Reject(message.to_owned()));
            assert_eq!(verdict(signer, &request, &words(usages)), expected, "{signer} {usages:?}");
        }
    }

    #[test]
    fn the_requested_lifetime_is_clamped() {
        for (asked, expected) in [
            (None, LONGEST),
            (Some(600), SHORTEST),
            (Some(-1), SHORTEST),
            (Some(3600), Duration::from_secs(3600)),
            (Some(i32::MAX), LONGEST),
        ] {
            assert_eq!(lifetime(asked), expected, "{asked:?}");
        }
    }
}
