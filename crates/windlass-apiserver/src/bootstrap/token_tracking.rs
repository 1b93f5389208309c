//! The ConfigMap with the date since which uses of service account tokens in Secrets are recorded.

use std::sync::Arc;

use http::{Method, StatusCode};
use jiff::civil::Date;
use serde_json::{Value, json};

use super::request;
use crate::{server::Inner, status::ApiError};

const NAMESPACE: &str = "kube-system";
const NAME: &str = "kube-apiserver-legacy-service-account-token-tracking";
/// The key of the ConfigMap in its cache.
pub(super) const KEY: &str = "kube-system/kube-apiserver-legacy-service-account-token-tracking";

/// Writes the ConfigMap, unless it names a day.
pub(super) async fn write(server: &Arc<Inner>) -> Result<(), ApiError> {
    let present = server.storage.cache("/core/configmaps/").get(KEY).map(|object| object.to_value());
    let today = server.now().strftime("%Y-%m-%d").to_string();
    let collection = format!("/api/v1/namespaces/{NAMESPACE}/configmaps");
    let written = match present {
        None => {
            let object = json!({
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": NAME, "namespace": NAMESPACE},
                "data": {"since": today},
            });
            request(server, Method::POST, &collection, &object).await
        }
        Some(object) if names_a_day(&object) => return Ok(()),
        Some(mut object) => {
            match object["data"].as_object_mut() {
                Some(data) => drop(data.insert("since".to_owned(), today.into())),
                None => object["data"] = json!({"since": today}),
            }
            request(server, Method::PUT, &format!("{collection}/{NAME}"), &object).await
        }
    };
    match written {
        // Another writer came first; its event triggers the next attempt.
        Err(error) if error.code == StatusCode::CONFLICT => Ok(()),
        written => written,
    }
}

fn names_a_day(object: &Value) -> bool {
    object["data"]["since"].as_str().is_some_and(|since| since.len() == 10 && since.parse::<Date>().is_ok())
}
