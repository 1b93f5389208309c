//! The tokens that a node may request: bound to pods on it, for audiences that the pods name.

use serde_json::Value;
use windlass_builtins::kinds::pod::references;

use super::{Attributes, Operation, Verdict, rejected};
use crate::{
    authorization::ResourceAction,
    meta,
    status::{ApiError, Result},
};

/// Checks a request for a token.
pub(super) async fn check(write: &Attributes<'_>, node: &str, request: &Value) -> Result<Verdict> {
    if write.operation != Operation::Create || write.subresource != "token" {
        return Ok(Ok(()));
    }
    let bound = &request["spec"]["boundObjectRef"];
    let name = bound["name"].as_str().unwrap_or_default();
    if bound["apiVersion"] != "v1" || bound["kind"] != "Pod" || name.is_empty() {
        return Ok(rejected("node requested token not bound to a pod"));
    }
    let uid = bound["uid"].as_str().unwrap_or_default();
    if uid.is_empty() {
        return Ok(rejected("node requested token with a pod binding without a uid"));
    }
    let pod = write.find("", "v1", "pods", write.namespace, name).await?;
    let pod = pod.ok_or_else(|| ApiError::not_found("pod", "", name))?;
    if uid != meta::text(&pod, "uid") {
        return Ok(Err(format!(
            "the UID in the bound object reference ({uid}) does not match the UID in record. The object might have \
             been deleted and then recreated"
        )));
    }
    if pod["spec"]["nodeName"] != node {
        return Ok(rejected("node requested token bound to a pod scheduled on a different node"));
    }
    let audiences: Vec<&str> =
        request["spec"]["audiences"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    match audiences[..] {
        [] => audience(write, &pod, "").await,
        [one] => audience(write, &pod, one).await,
        _ => Ok(rejected("node may only request 0 or 1 audiences")),
    }
}

/// Checks that the pod names the audience, or that the node may request tokens for it.
async fn audience(write: &Attributes<'_>, pod: &Value, audience: &str) -> Result<Verdict> {
    match is_named_by(write, pod, audience).await? {
        Ok(true) => return Ok(Ok(())),
        Ok(false) => {}
        Err(error) => return Ok(Err(format!("error validating audience {audience:?}: {error}"))),
    }
    let action = ResourceAction {
        verb: "request-serviceaccounts-token-audience",
        version: "v1",
        resource: audience,
        namespace: write.namespace,
        name: write.name,
        ..ResourceAction::default()
    };
    let decision = write.authorize(action).await;
    let missing = format!("audience {audience:?} not found in pod spec volume");
    let user = &write.user.name;
    Ok(match (decision.is_allowed(), decision.error) {
        (true, _) => Ok(()),
        (false, Some(error)) => {
            Err(format!("{missing}, error authorizing {user} to request tokens for this audience: {error}"))
        }
        (false, None) => Err(format!("{missing}, {user} is not authorized to request tokens for this audience")),
    })
}

/// Returns whether a pod names an audience, in a projected volume or through the driver of a volume.
async fn is_named_by(write: &Attributes<'_>, pod: &Value, audience: &str) -> Result<std::result::Result<bool, String>> {
    let mut errors = Vec::new();
    for volume in pod["spec"]["volumes"].as_array().into_iter().flatten() {
        let projected = volume["projected"]["sources"].as_array().into_iter().flatten();
        let mut tokens = projected.filter_map(|source| source.get("serviceAccountToken"));
        if tokens.any(|token| token["audience"].as_str().unwrap_or_default() == audience) {
            return Ok(Ok(true));
        }
        let driver = match references::volume_claim(pod, volume) {
            Some(claim) => driver_of_claim(write, &claim).await?,
            None => Ok(volume["csi"]["driver"].as_str().map(str::to_owned)),
        };
        let driver = match driver {
            Ok(Some(driver)) => driver,
            Ok(None) => continue,
            Err(error) => {
                errors.push(error);
                continue;
            }
        };
        match write.find("storage.k8s.io", "v1", "csidrivers", "", &driver).await? {
            Some(driver) => {
                let mut requests = driver["spec"]["tokenRequests"].as_array().into_iter().flatten();
                if requests.any(|request| request["audience"].as_str().unwrap_or_default() == audience) {
                    return Ok(Ok(true));
                }
            }
            None => errors.push(format!("csidriver.storage.k8s.io {driver:?} not found")),
        }
    }
    Ok(match &errors[..] {
        [] => Ok(false),
        [one] => Err(one.clone()),
        several => Err(format!("[{}]", several.join(", "))),
    })
}

/// Returns the CSI driver of a claim's volume; `None` if it has none.
async fn driver_of_claim(write: &Attributes<'_>, name: &str) -> Result<std::result::Result<Option<String>, String>> {
    let claim = write.find("", "v1", "persistentvolumeclaims", write.namespace, name).await?;
    let Some(claim) = claim else { return Ok(Err(format!("persistentvolumeclaim {name:?} not found"))) };
    let volume = claim["spec"]["volumeName"].as_str().unwrap_or_default();
    let found = match volume {
        "" => None,
        volume => write.find("", "v1", "persistentvolumes", "", volume).await?,
    };
    let Some(found) = found else { return Ok(Err(format!("persistentvolume {volume:?} not found"))) };
    Ok(Ok(found["spec"]["csi"]["driver"].as_str().map(str::to_owned)))
}
