//! The objects that every cluster has: created at the first start, and at every later start if they are missing.

use std::{net::Ipv4Addr, sync::Arc};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, StatusCode, header};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};

use crate::{
    aggregation,
    authentication::Publication,
    authorization::rbac,
    flow_control,
    server::{BuildError, Inner, Server},
    status::ApiError,
    user::User,
};

/// The roles and bindings, in error messages.
const POLICY: &str = "the default roles and role bindings";

/// Creates the missing objects concurrently, so that a durable store syncs only once or twice.
pub(crate) async fn run(server: &Server, publication: Option<&Publication>) -> Result<(), BuildError> {
    let namespaces = ["default", "kube-system", "kube-public", "kube-node-lease"];
    let missing = |name: &&str| server.inner.storage.cache("/core/namespaces/").get(name).is_none();
    let wanted = namespaces.into_iter().filter(missing).map(|name| {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        create(server, "/api/v1/namespaces".to_owned(), namespace)
    });
    let defaults = async {
        let created = flow_control::bootstrap(&server.inner).await;
        created.map_err(|error| failed("the default objects of flow control", &error))
    };
    let policy = async {
        let stored = rbac::bootstrap::store_defaults(&server.inner).await;
        stored.map_err(|error| failed(POLICY, &error))
    };
    let api_services = async {
        let stored = aggregation::store_builtin(&server.inner).await;
        stored.map_err(|error| failed("the APIServices of built-in kinds", &error))
    };
    let namespaces = futures_util::future::try_join_all(wanted);
    let (_, (), is_stored, ()) = futures_util::future::try_join4(namespaces, defaults, policy, api_services).await?;
    if !is_stored {
        rbac::bootstrap::reconcile(&server.inner).await.map_err(|error| failed(POLICY, &error))?;
    }
    let published = async {
        match publication {
            Some(publication) => publication.publish(&server.inner).await,
            None => Ok(()),
        }
    };
    let published =
        async { published.await.map_err(|error| failed("the published configuration of authentication", &error)) };
    futures_util::future::try_join(create_service(server), published).await?;
    Ok(())
}

/// Creates the service of the server itself, unless it exists.
async fn create_service(server: &Server) -> Result<(), BuildError> {
    if server.inner.storage.cache("/core/services/").get("default/kubernetes").is_none() {
        let address = first_address(&server.inner.services.lock().network());
        let service = json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {
                "name": "kubernetes", "namespace": "default",
                "labels": {"component": "apiserver", "provider": "kubernetes"},
            },
            "spec": {
                "type": "ClusterIP", "clusterIP": address, "sessionAffinity": "None",
                "ports": [{"name": "https", "protocol": "TCP", "port": 443, "targetPort": 6443}],
            },
        });
        create(server, "/api/v1/namespaces/default/services".to_owned(), service).await?;
    }
    Ok(())
}

/// Returns the address of the `kubernetes` service, which is the first of the network.
fn first_address(network: &str) -> String {
    let base = network.split('/').next().and_then(|base| base.parse::<Ipv4Addr>().ok());
    base.map_or_else(String::new, |base| Ipv4Addr::from(u32::from(base) + 1).to_string())
}

async fn create(server: &Server, path: String, object: Value) -> Result<(), BuildError> {
    match request(&server.inner, Method::POST, &path, &object).await {
        Err(error) if error.code != StatusCode::CONFLICT => {
            let what = format!("{} {}", object["kind"].as_str().unwrap_or_default(), object["metadata"]["name"]);
            Err(failed(&what, &error))
        }
        _ => Ok(()),
    }
}

fn failed(what: &str, error: &ApiError) -> BuildError {
    BuildError::Bootstrap { what: what.to_owned(), message: error.message.clone() }
}

/// Sends a request of the server itself. A PATCH is an apply.
pub(crate) async fn request(server: &Arc<Inner>, method: Method, path: &str, object: &Value) -> Result<(), ApiError> {
    let media_type = if method == Method::PATCH { "application/apply-patch+yaml" } else { "application/json" };
    send(server, method, path, media_type, object).await
}

/// Sends a request of the server itself with a body of this media type.
pub(crate) async fn send(
    server: &Arc<Inner>,
    method: Method,
    path: &str,
    media_type: &'static str,
    object: &Value,
) -> Result<(), ApiError> {
    let body = if object.is_null() { Bytes::new() } else { Bytes::from(object.to_string()) };
    let mut request = Request::new(Full::new(body));
    *request.method_mut() = method;
    *request.uri_mut() = path.parse().expect("a path of the server itself must be a URI");
    request.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    request.headers_mut().insert(header::USER_AGENT, HeaderValue::from_static("kube-apiserver"));
    request.extensions_mut().insert(Arc::new(User::apiserver()));
    // Boxed, because the handler of a request sends others through this function.
    let response = Box::pin(server.handle(request)).await;
    let code = response.status();
    if code.is_success() {
        return Ok(());
    }
    let body = match response.into_body().collect().await {
        Ok(body) => body.to_bytes(),
        Err(never) => match never {},
    };
    let status: Value = serde_json::from_slice(&body).unwrap_or_default();
    Err(ApiError::new(code, "", status["message"].as_str().unwrap_or("unknown error")))
}
