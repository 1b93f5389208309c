//! The objects that every cluster has: created at the first start, and at every later start if they are missing. Some
//! are also restored while the server runs.

pub(crate) mod agreement;
pub(crate) mod endpoint_lease;
pub(crate) mod identity_lease;
mod kubernetes_service;
pub(crate) mod restore;
pub(crate) mod service_addresses;
mod token_tracking;

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use bytes::Bytes;
use futures_util::FutureExt as _;
use http::{HeaderValue, Method, Request, StatusCode, header};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use windlass_builtins::kinds::priority_class;

pub(crate) use self::kubernetes_service::{own_address, peer_address};
use crate::{
    aggregation,
    authentication::Publication,
    authorization::rbac,
    flow_control, meta,
    server::{BuildError, Inner, Server},
    status::ApiError,
    user::User,
};

/// The namespaces that every cluster has.
const NAMESPACES: &[&str] = &["default", "kube-system", "kube-public", "kube-node-lease"];

/// The roles and bindings, in error messages.
const POLICY: &str = "the default roles and role bindings";

/// Creates the missing objects concurrently, so that a durable store syncs only once or twice.
pub(crate) async fn run(
    server: &Server,
    publication: Option<&Publication>,
    listening: Option<SocketAddr>,
    advertised: Option<IpAddr>,
) -> Result<(), BuildError> {
    if let Some(lease) = &server.inner.endpoint_lease {
        agreement::join(server, lease).await?;
    }
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
    let namespaces = create_namespaces(server);
    let network = kubernetes_service::create_service_cidr(server);
    let classes = futures_util::future::try_join(create_priority_classes(server), network);
    let others = futures_util::future::try_join(classes, api_services);
    let ((), (), is_stored, _) = futures_util::future::try_join4(namespaces, defaults, policy, others).await?;
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
    let tracking = async {
        // Admission may reject it, and requests do not need it.
        if listening.is_some()
            && let Err(error) = token_tracking::write(&server.inner).await
        {
            tracing::warn!(%error, "failed to note that uses of service account tokens are recorded");
        }
        Ok(())
    };
    let service = create_own_service(server, listening, advertised);
    kubernetes_service::warn_of_other_network(server);
    let network = kubernetes_service::mark_service_cidr_ready(server);
    futures_util::future::try_join4(service, tracking, network, published).await?;
    Ok(())
}

/// Creates the missing namespaces.
async fn create_namespaces(server: &Server) -> Result<(), BuildError> {
    let present = server.inner.storage.cache("/core/namespaces/");
    let missing = NAMESPACES.iter().filter(|name| present.get(name).is_none()).map(|name| {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        create(server, "/api/v1/namespaces".to_owned(), namespace).boxed()
    });
    futures_util::future::try_join_all(missing).await?;
    Ok(())
}

/// Creates the service of the server itself if it is missing, and writes its endpoints unless they are correct.
async fn create_own_service(
    server: &Server,
    listening: Option<SocketAddr>,
    advertised: Option<IpAddr>,
) -> Result<(), BuildError> {
    let endpoints = async {
        match listening {
            Some(_) if server.inner.storage.store().is_shared() => {
                let endpoints = endpoint_lease::endpoints(&server.inner.storage);
                kubernetes_service::write_endpoints(server, &endpoints).await
            }
            Some(listening) => {
                let own = kubernetes_service::own_address(listening, advertised);
                kubernetes_service::write_endpoints(server, own.as_slice()).await
            }
            None => Ok(()),
        }
    };
    let service = kubernetes_service::create_service(server, listening.map_or(6443, |listening| listening.port()));
    futures_util::future::try_join(service, endpoints).await?;
    Ok(())
}

/// Creates the PriorityClasses of system pods, unless they exist.
async fn create_priority_classes(server: &Server) -> Result<Vec<()>, BuildError> {
    let present = server.inner.storage.cache("/scheduling.k8s.io/priorityclasses/");
    let missing = |class: &Value| present.get(meta::text(class, "name")).is_none();
    let creations = priority_class::system_classes()
        .filter(missing)
        .map(|class| create(server, "/apis/scheduling.k8s.io/v1/priorityclasses".to_owned(), class).boxed());
    futures_util::future::try_join_all(creations).await
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
    let (parts, body) = request.into_parts();
    // Boxed, because the handler of a request sends others through this function.
    let Ok(response) = server.clone().handle_boxed(parts, Box::pin(body.map_err(Into::into))).await;
    let code = response.status();
    if code.is_success() {
        return Ok(());
    }
    let body = response.into_body().collect().await.map_err(|error| ApiError::internal(error.to_string()))?.to_bytes();
    let status: Value = serde_json::from_slice(&body).unwrap_or_default();
    Err(ApiError::new(code, "", status["message"].as_str().unwrap_or("unknown error")))
}
