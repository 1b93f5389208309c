//! Eviction: a deletion that PodDisruptionBudgets may reject.

use std::collections::BTreeMap;

use http::StatusCode;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::{Selector, SelectorExt as _};
use serde_json::{Map, Value, json};
use windlass_builtins::kinds::{
    pod,
    pod_disruption_budget::eviction::{self, Denied},
};
use windlass_schema::field::{FieldError, Path};
use windlass_schema::sorting::Gather as _;

use crate::{
    admission::{Operation, node_restriction},
    call::{Answer, Call},
    dynamic_admission, meta,
    options::{DeleteOptions, WriteKind, WriteOptions, dry_run},
    request_info::ResourceRequest,
    status::{ApiError, Result},
    user::User,
    verbs::delete::{check_preconditions, delete_named},
    webhooks::{Options, Subject},
    write::{
        MANAGER, ManagedFieldsMode, OnConflict, Running, Written, decode::decode_body, preconditions::match_namespace,
        run_plugins, update_object,
    },
};

/// The number of times an eviction is tried after conflicts.
const ATTEMPTS: usize = 20;

/// Seconds after which to retry if the budget is not up to date.
const UNSETTLED: u64 = 10;

/// Creates an Eviction.
pub(crate) async fn create(call: &Call<'_>) -> Result<Answer> {
    let write = WriteOptions::parse(&call.query, WriteKind::Create)?;
    let mut eviction = decode_body(call, write.field_validation)?;
    match_namespace(call, &mut eviction)?;
    let subject = Subject { operation: Operation::Create, name: call.target.name, options: Options::Write(&write) };
    run_plugins(call, &subject, &mut eviction, None).await?;
    node_restriction::check_request(call, &subject, &eviction).await?;
    dynamic_admission::mutate(call, &subject, &mut eviction).await?;
    if meta::text(&eviction, "name") != call.target.name {
        return Err(ApiError::bad_request("name in URL does not match name in Eviction object"));
    }
    let options = &eviction["deleteOptions"];
    check_options(call, options)?;
    dynamic_admission::validate(call, &subject, &eviction).await?;
    // As in kube-apiserver, the options of the deletion matter only if there is a pod.
    call.current().await?.ok_or_else(|| call.not_found())?;
    let options = DeleteOptions::from_body(options)?;
    let options = DeleteOptions { dry_run: options.dry_run || write.dry_run, ..options };
    evict_to_end(call, options).await?;
    Ok(Answer::Value { code: StatusCode::CREATED, value: success(StatusCode::CREATED) })
}

/// Rejects options that no eviction may have, and a dry run that contradicts the one of the request.
fn check_options(call: &Call<'_>, body: &Value) -> Result<()> {
    const IGNORES_ERRORS: &str = "ignoreStoreReadErrorWithClusterBreakingPotential";
    if body[IGNORES_ERRORS] == true {
        let path = Path::new("deleteOptions").child(IGNORES_ERRORS);
        let detail = "can not be set for pod eviction, try after removing the option";
        let error = FieldError::invalid(&path, &json!(true), detail);
        return Err(ApiError::invalid("Eviction", "policy", call.target.name, &vec![error]));
    }
    let (asked, given) = (call.query.all("dryRun"), dry_run(body));
    if !asked.is_empty() && !given.is_empty() && asked != given {
        let (asked, given) = (asked.join(" "), given.join(" "));
        return Err(ApiError::unexpected(format!(
            "Non-matching dry-run options in request and content: [{asked}] and [{given}]"
        )));
    }
    Ok(())
}

/// Evicts in a task of its own: a budget that has been charged must lose its pod.
async fn evict_to_end(call: &Call<'_>, options: DeleteOptions) -> Result<()> {
    let (server, endpoint) = (call.server.clone(), call.endpoint.clone());
    let (namespace, name) = (call.target.namespace.to_owned(), call.target.name.to_owned());
    let (user, headers) = (call.user.clone(), call.headers.clone());
    let eviction = |running: Running| async move {
        let _running = running;
        let (namespace, name) = (&*namespace, &*name);
        let target = ResourceRequest {
            version: "v1",
            resource: "pods",
            subresource: "eviction",
            namespace,
            name,
            ..ResourceRequest::default()
        };
        evict(&Call::internal(&server, &endpoint, target, &user, &headers), options).await
    };
    call.server.units.run(eviction).await
}

async fn evict(call: &Call<'_>, options: DeleteOptions) -> Result<()> {
    let stated = options.resource_version.is_some();
    for attempt in 1.. {
        let stored = call.current().await?.ok_or_else(|| call.not_found())?;
        let pod = call.endpoint.to_served_value(&stored);
        let version = || Some(stored.revision.to_string());
        let phase = pod["status"]["phase"].as_str().unwrap_or_default();
        let leaves = matches!(phase, "Succeeded" | "Failed") || meta::is_terminating(&pod);
        if !leaves && phase != "Pending" {
            return ask_and_delete(call, &pod, options).await;
        }
        // A pending pod may start in the meantime, and counts then.
        let held = !leaves && !stated;
        let resource_version = if held { version() } else { options.resource_version.clone() };
        match delete(call, DeleteOptions { resource_version, ..options.clone() }).await {
            Err(error) if error.reason == "Conflict" && !stated && attempt < ATTEMPTS => {}
            result => return result,
        }
    }
    Ok(())
}

/// Charges the budget that covers the pod, and deletes the pod.
async fn ask_and_delete(call: &Call<'_>, pod: &Value, options: DeleteOptions) -> Result<()> {
    let name = call.target.name;
    let budgets = budgets_of(call, pod);
    let Some((budget, others)) = budgets.split_first() else { return delete(call, options).await };
    if !others.is_empty() {
        return Err(ApiError::unexpected(
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
        ));
    }
    let budget_name = meta::text(budget, "name");
    if !pod::is_ready(pod) && eviction::allows_unready_eviction(budget) {
        // The pod may become ready in the meantime, and counts then.
        let stated = options.resource_version.is_some();
        let resource_version = Some(meta::text(pod, "resourceVersion").to_owned());
        return match delete(call, DeleteOptions { resource_version, ..options }).await {
            Err(error) if error.reason == "Conflict" && !stated => Err(unsettled(budget_name)),
            result => result,
        };
    }
    charge(call, budget_name, name, options.dry_run).await?;
    delete(call, options).await
}

/// Returns the budgets that select a pod.
fn budgets_of(call: &Call<'_>, pod: &Value) -> Vec<Value> {
    let labels = pod["metadata"]["labels"].as_object().into_iter().flatten();
    let labels: BTreeMap<String, String> =
        labels.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned()))).gather();
    let selects = |budget: &Value| {
        let selector = serde_json::from_value::<LabelSelector>(budget["spec"]["selector"].clone());
        let selector = selector.ok().and_then(|selector| Selector::try_from(selector).ok());
        selector.is_some_and(|selector| selector.matches(&labels))
    };
    let budgets = call.server.storage.cache("/policy/poddisruptionbudgets/").snapshot();
    let prefix = format!("{}/", call.target.namespace);
    budgets.range(&prefix, None).map(|(_, cached)| cached.object.to_value()).filter(selects).collect()
}

/// Charges a disruption to a budget.
async fn charge(call: &Call<'_>, budget: &str, pod: &str, dry_run: bool) -> Result<()> {
    let registry = call.server.registry.load_full();
    let endpoint = registry.endpoint("policy", "v1", "poddisruptionbudgets").ok_or_else(ApiError::no_such_resource)?;
    let target = ResourceRequest {
        group: "policy",
        version: "v1",
        namespace: call.target.namespace,
        resource: "poddisruptionbudgets",
        name: budget,
        subresource: "status",
        ..ResourceRequest::default()
    };
    let user = User::apiserver();
    let budgets = Call::internal(call.server, endpoint, target, &user, call.headers);
    let options = WriteOptions { dry_run, field_manager: MANAGER.to_owned(), ..WriteOptions::internal() };
    let now = call.server.now();
    let charged = update_object(&budgets, &options, OnConflict::Retry, ManagedFieldsMode::Track, |budget| {
        eviction::check_and_decrement(budget, pod, now).map_err(|denied| rejected(denied, meta::text(budget, "name")))
    });
    charged.await.map(drop)
}

fn rejected(denied: Denied, budget: &str) -> ApiError {
    match denied {
        Denied::NotYet => unsettled(budget),
        Denied::Broken(why) => ApiError::forbidden("poddisruptionbudget", "policy", budget, why),
        Denied::Exhausted(why) => too_many(&why, None),
    }
}

fn unsettled(budget: &str) -> ApiError {
    too_many(&format!("The disruption budget {budget} is still being processed by the server."), Some(UNSETTLED))
}

fn too_many(why: &str, seconds: Option<u64>) -> ApiError {
    let mut details = Map::new();
    details.insert("causes".to_owned(), json!([{"reason": "DisruptionBudget", "message": why}]));
    details.extend(seconds.map(|seconds| ("retryAfterSeconds".to_owned(), seconds.into())));
    let message = "Cannot evict pod as it would violate the pod's disruption budget.";
    ApiError::new(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", message).with_details(details)
}

/// Adds the reason to the conditions of the pod, and deletes it.
async fn delete(call: &Call<'_>, mut options: DeleteOptions) -> Result<()> {
    if !options.dry_run {
        let target = ResourceRequest { subresource: "status", ..call.target.clone() };
        let pods = call.redirected(call.endpoint, target);
        let now = meta::format_time(call.server.now());
        let internal = WriteOptions::internal();
        let written = update_object(&pods, &internal, OnConflict::Retry, ManagedFieldsMode::AlreadySet, |old| {
            check_preconditions(call, &options, old, call.target.name)?;
            let mut object = old.clone();
            pod::set_condition(
                &mut object,
                "DisruptionTarget",
                "EvictionByEvictionAPI",
                "Eviction API: evicting",
                &now,
            );
            Ok(object)
        });
        if let (Written::Stored(pod), true) = (written.await?, options.resource_version.is_some()) {
            options.resource_version = Some(pod.revision.to_string());
        }
    }
    // Webhooks were called for the eviction already.
    let pods = call.redirected(call.endpoint, call.target.clone());
    delete_named(&pods, call.target.namespace, call.target.name, &options).await.map(drop)
}

/// Returns a Status of success.
pub(crate) fn success(code: StatusCode) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": code.as_u16()})
}
