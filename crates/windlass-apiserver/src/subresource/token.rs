//! TokenRequests: a token for a service account.

use http::StatusCode;
use serde_json::{Value, json};
use windlass_schema::field::{ErrorList, FieldError, Path};

use crate::{
    admission::{Operation, node_restriction},
    call::{Answer, Call},
    dynamic_admission, meta,
    options::{WriteKind, WriteOptions},
    status::{ApiError, Result},
    tokens::{Bound, Claims, Reference},
    webhooks::{Options, Subject},
    write::{decode::decode_body, managed_fields, preconditions, run_plugins},
};

const GROUP: &str = "authentication.k8s.io";
const KIND: &str = "TokenRequest";

/// The validity of a token in seconds: default, minimum and maximum.
const DEFAULT: i64 = 3600;
const SHORTEST: i64 = 600;
const LONGEST: i64 = 1 << 32;
/// The validity that kubelets request for pods whose clients may not reload tokens. Such a token is valid for longer,
/// and its late use is reported.
const UNRENEWED: i64 = 3607;
const EXTENDED: i64 = 365 * 24 * 3600;

/// Creates a token.
pub(crate) async fn create(call: &Call<'_>) -> Result<Answer> {
    let options = WriteOptions::parse(&call.query, WriteKind::Create)?;
    let mut request = decode_body(call, options.field_validation)?;
    set_defaults(&mut request);
    preconditions::match_namespace(call, &mut request)?;
    managed_fields::track(call, &options, None, &mut request);
    let subject = Subject { operation: Operation::Create, name: call.target.name, options: Options::Write(&options) };
    run_plugins(call, &subject, &mut request, None).await?;
    node_restriction::check_request(call, &subject, &request).await?;
    dynamic_admission::mutate(call, &subject, &mut request).await?;
    // Webhooks may have changed everything; from here on, the request is checked as they left it.
    set_defaults(&mut request);
    check_account(call, &request)?;
    let issuers = &call.server.authentication.issuers;
    let account = call.current().await?.ok_or_else(|| call.not_found())?;
    let account = call.endpoint.to_served_value(&account);
    let (given, uid) = (meta::text(&request, "uid").to_owned(), meta::text(&account, "uid").to_owned());
    if !given.is_empty() && given != uid {
        let why =
            format!("the UID in the token request ({given}) does not match the UID of the service account ({uid})");
        return Err(ApiError::conflict(KIND, GROUP, call.target.name, &why));
    }
    let now = call.server.now();
    meta::set(&mut request, "name", call.target.name);
    meta::set(&mut request, "namespace", call.target.namespace);
    meta::set(&mut request, "uid", uid.as_str());
    meta::set(&mut request, "creationTimestamp", meta::format_time(now));
    if let Some(request) = request.as_object_mut() {
        request.remove("status");
    }
    let spec = &mut request["spec"];
    if spec["audiences"].as_array().is_none_or(Vec::is_empty) {
        spec["audiences"] = json!(issuers.audiences());
    }
    let seconds = check_duration(spec)?;
    dynamic_admission::validate(call, &subject, &request).await?;
    let spec = &mut request["spec"];
    // The field is present even if it is null.
    let reference = spec["boundObjectRef"].take();
    spec["boundObjectRef"] = reference;
    let mut bound = bound_to(call, &spec["boundObjectRef"])?;
    bound.namespace = call.target.namespace.to_owned();
    bound.serviceaccount = Reference { name: call.target.name.to_owned(), uid };
    let audiences: Vec<String> = strings(&spec["audiences"]);
    let seconds = match issuers.max_seconds() {
        Some(most) if seconds > most => {
            call.warnings.add(format!("requested expiration of {seconds} seconds shortened to {most} seconds"));
            spec["expirationSeconds"] = most.into();
            most
        }
        _ => seconds,
    };

    let second = now.as_second();
    let own = issuers.audiences();
    let for_server = audiences.iter().all(|audience| own.contains(&audience.as_str()));
    let extended = issuers.extends() && bound.pod.is_some() && seconds == UNRENEWED && for_server;
    if extended {
        bound.warnafter = Some(second + seconds);
    }
    let claims = Claims {
        aud: audiences,
        exp: second + if extended { EXTENDED } else { seconds },
        iat: second,
        iss: issuers.signing().to_owned(),
        jti: meta::new_uid(),
        nbf: second,
        sub: format!("system:serviceaccount:{}:{}", call.target.namespace, call.target.name),
        bound,
    };
    if let Some(audit) = call.audit {
        audit.annotate("authentication.kubernetes.io/issued-credential-id", &format!("JTI={}", claims.jti));
    }
    let expiration = now.checked_add(jiff::SignedDuration::from_secs(seconds)).unwrap_or(jiff::Timestamp::MAX);
    request["status"] =
        json!({"token": call.server.token_key.sign(&claims), "expirationTimestamp": meta::format_time(expiration)});
    Ok(Answer::Value { code: StatusCode::CREATED, value: request })
}

/// Sets the fields of the spec that have defaults.
fn set_defaults(request: &mut Value) {
    let bound = request["spec"].as_object_mut().and_then(|spec| spec.remove("boundObjectRef")).unwrap_or_default();
    if request["spec"]["expirationSeconds"].is_null() {
        request["spec"]["expirationSeconds"] = DEFAULT.into();
    }
    if !bound.is_null() {
        request["spec"]["boundObjectRef"] = bound;
    }
}

/// Checks that a request names the service account of its path, if any.
fn check_account(call: &Call<'_>, request: &Value) -> Result<()> {
    for (field, wanted) in [("name", call.target.name), ("namespace", call.target.namespace)] {
        let given = meta::text(request, field);
        if !given.is_empty() && given != wanted {
            let detail = format!("must match the service account {field} if specified");
            let error = FieldError::invalid(&Path::new("metadata").child(field), &json!(given), &detail);
            return Err(ApiError::invalid(KIND, GROUP, call.target.name, &vec![error]));
        }
    }
    Ok(())
}

fn strings(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(|text| text.as_str().map(str::to_owned)).collect()
}

fn check_duration(spec: &Value) -> Result<i64> {
    let seconds = spec["expirationSeconds"].as_i64().unwrap_or_default();
    let mut errors = ErrorList::new();
    let path = Path::new("spec").child("expirationSeconds");
    let mut reject = |detail: &str| errors.push(FieldError::invalid(&path, &json!(seconds), detail));
    if seconds < SHORTEST {
        reject("may not specify a duration less than 10 minutes");
    }
    if seconds > LONGEST {
        reject("may not specify a duration larger than 2^32 seconds");
    }
    if errors.is_empty() { Ok(seconds) } else { Err(ApiError::invalid(KIND, GROUP, "", &errors)) }
}

/// Returns the objects that a token is bound to, which must exist.
fn bound_to(call: &Call<'_>, reference: &Value) -> Result<Bound> {
    let mut bound = Bound::default();
    if reference.is_null() {
        return Ok(bound);
    }
    let text = |field: &str| reference[field].as_str().unwrap_or_default();
    let (group, version) = text("apiVersion").split_once('/').unwrap_or(("", text("apiVersion")));
    let (kind, name) = (text("kind"), text("name"));
    let plural = match (group, kind) {
        ("", "Pod") => "pods",
        ("", "Secret") => "secrets",
        ("", "Node") => "nodes",
        _ => {
            let message = format!("cannot bind token to object of type {group}/{version}, Kind={kind}");
            return Err(ApiError::bad_request(message));
        }
    };
    let find = |plural: &str, name: &str| {
        let key = if plural == "nodes" { name.to_owned() } else { format!("{}/{name}", call.target.namespace) };
        call.server.storage.cache(&format!("/core/{plural}/")).get(&key)
    };
    let object = find(plural, name).ok_or_else(|| ApiError::not_found(plural, "", name))?;
    let uid = object.header.uid.to_string();
    if kind == "Pod" {
        let pod = object.to_value();
        if pod["spec"]["serviceAccountName"].as_str().unwrap_or_default() != call.target.name {
            return Err(ApiError::bad_request(format!(
                "cannot bind token for serviceaccount {:?} to pod running with different serviceaccount name.",
                call.target.name
            )));
        }
        bound.node = pod["spec"]["nodeName"].as_str().filter(|node| !node.is_empty()).map(|node| {
            let uid = find("nodes", node).map(|node| node.header.uid.to_string()).unwrap_or_default();
            Reference { name: node.to_owned(), uid }
        });
    }
    let wanted = text("uid");
    if !wanted.is_empty() && wanted != uid {
        let why = format!(
            "the UID in the bound object reference ({wanted}) does not match the UID in record. The object might have \
             been deleted and then recreated"
        );
        return Err(ApiError::conflict(kind, "", name, &why));
    }
    let reference = Some(Reference { name: name.to_owned(), uid });
    match kind {
        "Pod" => bound.pod = reference,
        "Secret" => bound.secret = reference,
        _ => bound.node = reference,
    }
    Ok(bound)
}
