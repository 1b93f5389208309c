//! Type checking of validating policies: writes what it finds to their status, as kube-controller-manager does.
//!
//! The objects and parameters of a policy have no types when it is compiled, because a policy can match many kinds. This
//! task checks its expressions against every kind that its rules name, and reports errors as warnings.

mod types;

use std::{
    pin::pin,
    sync::{Arc, Weak},
};

use http::{Method, StatusCode};
use serde_json::{Value, json};
use tracing::warn;
use windlass_cel::policy::{Compiler, ObjectTypes};
use windlass_schema::sorting;

use super::{VALIDATING, list, params::endpoint_of_kind};
use crate::{
    bootstrap::request, endpoint::Endpoint, meta, registry::Registry, server::Inner, status::Result, webhooks::GROUP,
};

/// The field manager of kube-controller-manager.
const MANAGER: &str = "validatingadmissionpolicy-status";
/// The maximum number of kinds that a rule's expressions are checked against.
const MAX_KINDS: usize = 10;

/// Checks policies whenever they change, until the server is dropped.
pub(crate) async fn run(server: Weak<Inner>) {
    let Some(policies) = server.upgrade().map(|server| server.policies.validating.policies.clone()) else { return };
    loop {
        let mut changed = pin!(policies.changed());
        changed.as_mut().enable();
        {
            let Some(server) = server.upgrade() else { return };
            for object in policies.snapshot().objects() {
                let policy = object.to_value();
                if policy["status"]["observedGeneration"].as_i64().unwrap_or(0) >= meta::generation(&policy) {
                    continue;
                }
                // A policy may be deleted or replaced meanwhile.
                if let Err(error) = write_status(&server, &policy).await
                    && !matches!(error.code, StatusCode::NOT_FOUND | StatusCode::CONFLICT)
                {
                    let name = &object.header.name;
                    warn!(%error, "failed to update status of validatingadmissionpolicy {name}");
                }
            }
        }
        changed.await;
    }
}

async fn write_status(server: &Arc<Inner>, policy: &Value) -> Result<()> {
    let warnings = check(&server.registry.load(), policy);
    let name = meta::text(policy, "name");
    let path = format!("/apis/{GROUP}/v1/{}/{name}/status?fieldManager={MANAGER}&force=true", VALIDATING.0);
    let mut type_checking = json!({});
    if !warnings.is_empty() {
        type_checking["expressionWarnings"] = warnings.into();
    }
    let status = json!({"observedGeneration": meta::generation(policy), "typeChecking": type_checking});
    let object = json!({
        "apiVersion": format!("{GROUP}/v1"), "kind": "ValidatingAdmissionPolicy",
        // If the policy was replaced meanwhile, the status is not that of the new one.
        "metadata": {"name": name, "uid": meta::text(policy, "uid")},
        "status": status,
    });
    request(server, Method::PATCH, &path, &object).await
}

/// Returns the warnings about the expressions of a policy.
fn check(registry: &Registry, policy: &Value) -> Vec<Value> {
    let spec = &policy["spec"];
    let kinds = kinds(registry, spec);
    let param_kind = &spec["paramKind"];
    let params = param_kind["apiVersion"].as_str().and_then(|api_version| {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let endpoint = endpoint_of_kind(registry, group, version, param_kind["kind"].as_str().unwrap_or_default())?;
        types::of(endpoint, "params")
    });
    let compilers: Vec<(String, Compiler)> = kinds
        .iter()
        .filter_map(|endpoint| {
            let object = types::of(endpoint, "object")?;
            let compiler = compiler(spec, object, params.clone());
            let resource = &*endpoint.resource;
            Some((format!("{}/{}, Kind={}", resource.group, resource.version, resource.kind), compiler))
        })
        .collect();
    let mut warnings = Vec::new();
    for (index, validation) in list(spec, "validations").enumerate() {
        for field in ["expression", "messageExpression"] {
            let Some(text) = validation[field].as_str().filter(|text| !text.is_empty()) else { continue };
            let problems: Vec<String> = compilers
                .iter()
                .filter_map(|(kind, compiler)| Some(format!("{kind}: {}\n", compiler.check(text).err()?)))
                .collect();
            if !problems.is_empty() {
                let field = format!("spec.validations[{index}].{field}");
                warnings.push(json!({"fieldRef": field, "warning": problems.join("\n")}));
            }
        }
    }
    warnings
}

fn compiler(spec: &Value, object: ObjectTypes, params: Option<ObjectTypes>) -> Compiler {
    let has_params = spec["paramKind"].is_object();
    let mut compiler = Compiler::new(has_params).with_variables().with_types(Some(object), params);
    for variable in list(spec, "variables") {
        let text = |field: &str| variable[field].as_str().unwrap_or_default();
        compiler.declare(text("name"), text("expression"));
    }
    compiler
}

/// Returns the kinds that the rules of a policy name, ordered by group, version and kind. Rules with wildcards name none.
fn kinds(registry: &Registry, spec: &Value) -> Vec<Arc<Endpoint>> {
    let mut found: Vec<Arc<Endpoint>> = Vec::new();
    for rule in list(&spec["matchConstraints"], "resourceRules") {
        let texts = |field: &str| {
            let mut texts: Vec<&str> = list(rule, field).filter_map(Value::as_str).collect();
            texts.sort_unstable();
            texts
        };
        let (groups, versions) = (texts("apiGroups"), texts("apiVersions"));
        if groups.iter().chain(&versions).any(|text| text.contains('*')) {
            continue;
        }
        let mut resources = texts("resources");
        resources.retain(|resource| !resource.contains(['*', '/']));
        let mut of_rule = 0;
        let all = groups.iter().flat_map(|group| versions.iter().map(move |version| (group, version)));
        let all = all.flat_map(|(group, version)| resources.iter().map(move |resource| (group, version, resource)));
        for (group, version, resource) in all {
            let Some(endpoint) = registry.endpoint(group, version, resource) else { continue };
            if of_rule < MAX_KINDS && !found.iter().any(|known| Arc::ptr_eq(known, endpoint)) {
                found.push(endpoint.clone());
            }
            of_rule += 1;
        }
    }
    sorting::sort_by(&mut found, |a, b| {
        let key = |endpoint: &Endpoint| {
            let resource = &*endpoint.resource;
            (resource.group.to_string(), resource.version.to_string(), resource.kind.to_string())
        };
        key(a).cmp(&key(b))
    });
    found
}
