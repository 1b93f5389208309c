//! Records the requests of an operator, for `windlass rbac learn`.

use std::{
    env,
    ffi::OsString,
    fs::{File, OpenOptions},
    io::Write as _,
    path::Path,
    sync::Arc,
};

use http::{Request, Response};
use kube::{Client, client::Body};
use serde_json::json;
use tower::service_fn;

/// Environment variable with the file that requests are appended to, one line each.
const RECORD_REQUESTS: &str = "WINDLASS_RECORD_REQUESTS";

/// Returns the client, or one that records its requests if `WINDLASS_RECORD_REQUESTS` is set.
///
/// The recording names the test's namespace, which stands for any namespace that a deployed operator watches, and the
/// operator's own.
pub(crate) fn recorded(client: Client, namespace: &str, own: &str) -> Client {
    let Some(path) = path() else { return client };
    let file = OpenOptions::new().append(true).create(true).open(&path);
    let file = file.unwrap_or_else(|error| {
        panic!("failed to open {} for recording requests: {error}", Path::new(&path).display())
    });
    into(client, namespace, own, file)
}

/// Returns whether requests are recorded. Operators then run as administrators: a request that is denied today would not
/// be followed by requests that depend on it.
pub(crate) fn is_recording() -> bool {
    path().is_some()
}

fn path() -> Option<OsString> {
    env::var_os(RECORD_REQUESTS).filter(|path| !path.is_empty())
}

fn into(client: Client, namespace: &str, own: &str, file: File) -> Client {
    let (file, places) = (Arc::new(file), Arc::new((namespace.to_owned(), own.to_owned())));
    let default_namespace = client.default_namespace().to_owned();
    let service = service_fn(move |request: Request<Body>| {
        let (client, file, places) = (client.clone(), file.clone(), places.clone());
        let method = request.method().to_string();
        let uri = request.uri().path_and_query().map(ToString::to_string).unwrap_or_default();
        async move {
            let answer: Result<Response<Body>, kube::Error> = client.send(request).await;
            if let Ok(answer) = &answer {
                let status = answer.status().as_u16();
                let (place, own) = &*places;
                let line = json!({"method": method, "uri": uri, "status": status, "namespace": place, "own": own});
                // In a single write, because other tests append to the same file.
                (&*file).write_all(format!("{line}\n").as_bytes()).expect("recording a request must succeed");
            }
            answer
        }
    });
    Client::new(service, default_namespace)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::{Api, api::ListParams};

    use super::*;
    use crate::TestCluster;

    #[tokio::test]
    async fn requests_are_recorded_one_per_line() {
        let cluster = TestCluster::start().await;
        let path = env::temp_dir().join(TestCluster::unique("requests"));
        let client = into(cluster.client(), cluster.namespace(), "me-system", File::create(&path).unwrap());
        let maps: Api<ConfigMap> = Api::namespaced(client, cluster.namespace());
        maps.list(&ListParams::default()).await.unwrap();
        maps.get("nothing").await.unwrap_err();
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let lines: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), 2, "{text}");
        assert_eq!((&lines[0]["method"], &lines[0]["status"]), (&json!("GET"), &json!(200)));
        assert_eq!(lines[0]["namespace"], cluster.namespace());
        assert_eq!(lines[0]["own"], "me-system");
        assert!(lines[1]["uri"].as_str().unwrap().ends_with("/configmaps/nothing"), "{text}");
        assert_eq!(lines[1]["status"], 404);
    }
}
