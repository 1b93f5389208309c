//! The LimitRanger admission plugin: sets default requests and limits of containers, and rejects objects that request
//! too much or too little.

use serde_json::{Map, Value};
use windlass_schema::quantity::Quantity;

use crate::kinds::pod::resources::aggregate;
use crate::object::{entries, items, map, set, text};
use crate::resource_list::{ResourceList, is_pod_level, list};

/// Annotation that lists the defaults that were set.
const NOTE: &str = "kubernetes.io/limit-ranger";
/// Largest number of units whose milli-units fit into 64 bits.
const MAX_MILLI: i64 = i64::MAX / 1000;

/// Sets the default requests and limits of a pod's containers.
pub fn default_resources(range: &Value, pod: &mut Value) {
    let mut notes = Vec::new();
    for (kind, name) in [("containers", "container"), ("initContainers", "init container")] {
        let Some(containers) = pod.pointer_mut(&format!("/spec/{kind}")).and_then(Value::as_array_mut) else {
            continue;
        };
        for container in containers {
            let limits = complete(range, "default", container, "/resources/limits");
            let requests = complete(range, "defaultRequest", container, "/resources/requests");
            let who = text(container, "/name");
            for (what, added) in [("request", requests), ("limit", limits)] {
                if !added.is_empty() {
                    notes.push(format!("{} {what} for {name} {who}", added.join(", ")));
                }
            }
        }
    }
    if !notes.is_empty() {
        let mut annotations = map(pod, "/metadata/annotations").cloned().unwrap_or_default();
        annotations.insert(NOTE.to_owned(), format!("LimitRanger plugin set: {}", notes.join("; ")).into());
        set(pod, "/metadata/annotations", annotations);
    }
}

/// Adds the missing resources to a list of a container; returns the names of the added ones, in order.
fn complete(range: &Value, defaults: &str, container: &mut Value, pointer: &str) -> Vec<String> {
    let mut wanted = Map::new();
    for limit in items(range, "/spec/limits").iter().filter(|limit| text(limit, "/type") == "Container") {
        wanted.extend(entries(limit, &format!("/{defaults}")).map(|(name, value)| (name.to_owned(), value.clone())));
    }
    let mut have = map(container, pointer).cloned().unwrap_or_default();
    let mut added: Vec<String> = Vec::new();
    for (name, value) in wanted {
        if !have.contains_key(&name) {
            added.push(name.clone());
            have.insert(name, value);
        }
    }
    if !added.is_empty() {
        set(container, pointer, have);
    }
    added.sort();
    added
}

/// Checks a pod against a LimitRange.
///
/// # Errors
/// Returns why the pod is forbidden.
pub fn check_pod(range: &Value, pod: &Value) -> Result<(), String> {
    let spec = pod.get("spec").unwrap_or(&Value::Null);
    let mut errors = Vec::new();
    for limit in items(range, "/spec/limits") {
        match text(limit, "/type") {
            "Container" => {
                for container in items(spec, "/containers").iter().chain(items(spec, "/initContainers")) {
                    let requests = list(container, "/resources/requests");
                    let limits = list(container, "/resources/limits");
                    check("Container", limit, &requests, &limits, &mut errors);
                }
            }
            "Pod" => {
                let (requests, limits) = (of_pod(spec, "requests"), of_pod(spec, "limits"));
                check("Pod", limit, &requests, &limits, &mut errors);
            }
            _ => {}
        }
    }
    aggregated(errors)
}

/// Checks a claim against a LimitRange.
///
/// # Errors
/// Returns why the claim is forbidden.
pub fn check_claim(range: &Value, claim: &Value) -> Result<(), String> {
    const KIND: &str = "PersistentVolumeClaim";
    let requests = list(claim, "/spec/resources/requests");
    let mut errors = Vec::new();
    for limit in items(range, "/spec/limits").iter().filter(|limit| text(limit, "/type") == KIND) {
        for (name, bound) in list(limit, "/min") {
            errors.extend(at_least(KIND, &name, &bound, requests.get(&name), None));
        }
        for (name, bound) in list(limit, "/max") {
            let rule = format!("maximum {name} usage per {KIND} is {bound}");
            match requests.get(&name) {
                None => errors.push(format!("{rule}.  No request is specified")),
                Some(request) if exceeds(request, &bound) => errors.push(format!("{rule}, but request is {request}")),
                Some(_) => {}
            }
        }
    }
    aggregated(errors)
}

/// Returns the resources of a pod as a whole: pod-level resources, or the sum of the containers' resources.
fn of_pod(spec: &Value, kind: &str) -> ResourceList {
    let mut total = aggregate(spec, kind);
    let own = list(spec, &format!("/resources/{kind}"));
    total.extend(own.into_iter().filter(|(name, _)| is_pod_level(name)));
    total
}

fn check(kind: &str, limit: &Value, requests: &ResourceList, limits: &ResourceList, errors: &mut Vec<String>) {
    for (name, bound) in list(limit, "/min") {
        errors.extend(at_least(kind, &name, &bound, requests.get(&name), limits.get(&name)));
    }
    for (name, bound) in list(limit, "/max") {
        errors.extend(at_most(kind, &name, &bound, requests.get(&name), limits.get(&name)));
    }
    for (name, bound) in list(limit, "/maxLimitRequestRatio") {
        errors.extend(within_ratio(kind, &name, &bound, requests.get(&name), limits.get(&name)));
    }
}

fn at_least(
    kind: &str,
    name: &str,
    bound: &Quantity,
    request: Option<&Quantity>,
    limit: Option<&Quantity>,
) -> Option<String> {
    let rule = format!("minimum {name} usage per {kind} is {bound}");
    match (request, limit) {
        (None, _) => Some(format!("{rule}.  No request is specified")),
        (Some(request), _) if exceeds(bound, request) => Some(format!("{rule}, but request is {request}")),
        (_, Some(limit)) if exceeds(bound, limit) => Some(format!("{rule}, but limit is {limit}")),
        _ => None,
    }
}

fn at_most(
    kind: &str,
    name: &str,
    bound: &Quantity,
    request: Option<&Quantity>,
    limit: Option<&Quantity>,
) -> Option<String> {
    let rule = format!("maximum {name} usage per {kind} is {bound}");
    match (request, limit) {
        (_, None) => Some(format!("{rule}.  No limit is specified")),
        (_, Some(limit)) if exceeds(limit, bound) => Some(format!("{rule}, but limit is {limit}")),
        (Some(request), _) if exceeds(request, bound) => Some(format!("{rule}, but request is {request}")),
        _ => None,
    }
}

fn within_ratio(
    kind: &str,
    name: &str,
    bound: &Quantity,
    request: Option<&Quantity>,
    limit: Option<&Quantity>,
) -> Option<String> {
    let rule = format!("{name} max limit to request ratio per {kind} is {bound}");
    let Some(request) = request.filter(|request| !request.is_zero()) else {
        return Some(format!("{rule}, but no request is specified or request is 0"));
    };
    let Some(limit) = limit.filter(|limit| !limit.is_zero()) else {
        return Some(format!("{rule}, but no limit is specified or limit is 0"));
    };
    let fine = [request, limit, bound].iter().all(|quantity| quantity.value() <= MAX_MILLI);
    let number = |quantity: &Quantity| if fine { quantity.milli_value() } else { quantity.value() };
    #[expect(clippy::cast_precision_loss, reason = "ratios are compared as kube-apiserver does")]
    let (ratio, allowed) = {
        let ratio = number(limit) as f64 / number(request) as f64;
        let allowed = match bound.value() <= MAX_MILLI {
            true => bound.milli_value() as f64 / 1000.0,
            false => bound.value() as f64,
        };
        (ratio, allowed)
    };
    (ratio > allowed).then(|| format!("{rule}, but provided ratio is {ratio:.6}"))
}

/// Returns whether one quantity exceeds another, in milli-units if these fit into 64 bits.
fn exceeds(one: &Quantity, other: &Quantity) -> bool {
    if one.value() <= MAX_MILLI && other.value() <= MAX_MILLI {
        return one.milli_value() > other.milli_value();
    }
    one.value() > other.value()
}

/// Joins distinct reasons: a single one as is, several in brackets.
fn aggregated(errors: Vec<String>) -> Result<(), String> {
    let mut once: Vec<String> = Vec::new();
    for error in errors {
        if !once.contains(&error) {
            once.push(error);
        }
    }
    match once.as_slice() {
        [] => Ok(()),
        [one] => Err(one.clone()),
        many => Err(format!("[{}]", many.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn range(limits: Value) -> Value {
        json!({"spec": {"limits": limits}})
    }

    fn pod(resources: Value) -> Value {
        json!({"spec": {"containers": [{"name": "c", "resources": resources}]}})
    }

    #[test]
    fn containers_get_default_resources_and_the_pod_an_annotation() {
        let range = range(json!([
            {"type": "Container", "default": {"cpu": "500m", "memory": "1Gi"}, "defaultRequest": {"cpu": "250m"}},
            {"type": "Pod", "default": {"cpu": "9"}},
        ]));
        let mut pod = json!({"spec": {
            "containers": [{"name": "c", "resources": {"limits": {"memory": "64Mi"}}}],
            "initContainers": [{"name": "i"}],
        }});
        default_resources(&range, &mut pod);
        assert_eq!(
            pod["spec"]["containers"][0]["resources"],
            json!({"limits": {"cpu": "500m", "memory": "64Mi"}, "requests": {"cpu": "250m"}})
        );
        assert_eq!(
            pod["metadata"]["annotations"]["kubernetes.io/limit-ranger"],
            "LimitRanger plugin set: cpu request for container c; cpu limit for container c; cpu request for init \
             container i; cpu, memory limit for init container i"
        );
        let once = pod.clone();
        default_resources(&range, &mut pod);
        assert_eq!(pod, once);
    }

    #[test]
    fn values_out_of_range_are_rejected_as_in_kube_apiserver() {
        let limits = json!([{"type": "Container", "max": {"cpu": "1", "memory": "1Gi"}, "min": {"cpu": "50m"},
            "maxLimitRequestRatio": {"cpu": "4"}}]);
        for (resources, expected) in [
            (json!({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "250m"}}), Ok(())),
            (
                json!({"limits": {"cpu": "1", "memory": "2Gi"}, "requests": {"cpu": "10m"}}),
                Err(
                    "[minimum cpu usage per Container is 50m, but request is 10m, maximum memory usage per Container is \
                     1Gi, but limit is 2Gi, cpu max limit to request ratio per Container is 4, but provided ratio is \
                     100.000000]",
                ),
            ),
            (
                json!({"limits": {"memory": "1Gi"}, "requests": {"cpu": "50m"}}),
                Err(
                    "[maximum cpu usage per Container is 1.  No limit is specified, cpu max limit to request ratio per \
                     Container is 4, but no limit is specified or limit is 0]",
                ),
            ),
        ] {
            let checked = check_pod(&range(limits.clone()), &pod(resources.clone()));
            assert_eq!(checked, expected.map_err(str::to_owned), "{resources}");
        }
    }

    #[test]
    fn a_pod_is_limited_by_its_containers_or_its_pod_level_resources() {
        let limits = range(json!([{"type": "Pod", "max": {"cpu": "1"}}]));
        let container = json!({"name": "c", "resources": {"limits": {"cpu": "600m"}}});
        let mut pod = json!({"spec": {"containers": [container, container]}});
        assert_eq!(check_pod(&limits, &pod), Err("maximum cpu usage per Pod is 1, but limit is 1200m".to_owned()),);
        pod["spec"]["resources"] = json!({"limits": {"cpu": "1"}});
        assert_eq!(check_pod(&limits, &pod), Ok(()));
    }

    #[test]
    fn claims_are_limited_by_their_requests() {
        let limits =
            range(json!([{"type": "PersistentVolumeClaim", "max": {"storage": "2Gi"}, "min": {"storage": "1Gi"}}]));
        let claim = |storage: &str| json!({"spec": {"resources": {"requests": {"storage": storage}}}});
        assert_eq!(check_claim(&limits, &claim("2Gi")), Ok(()));
        assert_eq!(
            check_claim(&limits, &claim("5Gi")),
            Err("maximum storage usage per PersistentVolumeClaim is 2Gi, but request is 5Gi".to_owned())
        );
        assert_eq!(
            check_claim(&limits, &claim("1Mi")),
            Err("minimum storage usage per PersistentVolumeClaim is 1Gi, but request is 1Mi".to_owned())
        );
    }
}
