//! Whole requests: a short sequence of them, by the administrator and by a user without permissions.

mod answer;
mod input;
mod removal;

use std::cell::RefCell;

use serde_json::json;

use crate::shared_server::{self, SharedServer};

/// Text in an object that only the administrator may read.
const SECRET: &str = "only-for-the-administrator";

thread_local! {
    static SERVER: RefCell<Option<SharedServer>> = const { RefCell::new(None) };
}

/// Sends [requests](input) to a server. No request makes it panic; every response is a Status or an object in the
/// format that it announces; a user without permissions gets no objects and changes none; and everything that was
/// stored can be read and deleted again.
pub fn requests(data: &[u8]) {
    let requests: Vec<_> = input::parse(data).collect();
    if requests.is_empty() {
        return;
    }
    // A binding may give permissions to the user.
    let is_powerless = !data.windows(4).any(|window| window.eq_ignore_ascii_case(b"rbac"));
    shared_server::with(&SERVER, create_secret, async |shared| {
        for request in requests {
            let before = shared.revision().await;
            let (user, method, uri) = (request.user, request.method.clone(), request.uri.clone());
            let answer = shared.send(request.into_http()).await;
            answer::check(&answer, &method, &uri);
            if user != input::UserKind::Administrator && is_powerless {
                answer::check_no_data(&answer, &uri);
                assert_eq!(shared.revision().await, before, "{method} {uri} by {user:?} must not write");
            }
        }
        if !shared.is_untouched().await {
            removal::remove_new_objects(shared).await;
        }
    });
}

async fn create_secret(shared: &SharedServer) {
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "canary", "labels": {"text": SECRET}},
        "stringData": {"text": SECRET},
    });
    let created = shared.send(shared_server::post("/api/v1/namespaces/default/secrets", &secret)).await;
    assert_eq!(created.code, 201, "{:?}", String::from_utf8_lossy(&created.body));
}
