//! Limits on requests without API Priority and Fairness.

use std::time::Duration;

use http::header;
use windlass_apiserver::Limits;

use crate::{
    client::{CONFIG_MAPS, Client, config_map},
    flow_control::{SCHEMA_UID, create, limited_server, read},
};

/// Lets all requests get as far as they can.
async fn settle() {
    tokio::time::sleep(Duration::from_secs(1)).await;
}

#[tokio::test(start_paused = true)]
async fn without_priority_levels_reading_and_writing_requests_have_a_limit_each() {
    let limits = Limits {
        max_requests_inflight: 1,
        max_mutating_requests_inflight: 2,
        priority_and_fairness: false,
        ..Limits::default()
    };
    let (server, permits) = limited_server(limits).await;
    // The server's own writes, of the objects that every cluster has, are counted as well.
    settle().await;
    let mut writing = tokio::task::JoinSet::new();
    for n in 0..2 {
        writing.spawn(create(&server, "eve", &format!("eve-{n}")));
    }
    settle().await;
    let rejected = create(&server, "bob", "bob").await;
    assert_eq!(rejected.status(), 429);
    assert_eq!(rejected.headers()[header::RETRY_AFTER], "1");
    assert!(!rejected.headers().contains_key(SCHEMA_UID));
    assert_eq!(
        read(&server, "bob", CONFIG_MAPS, &[]).await.status(),
        200,
        "reading requests have a limit of their own"
    );
    let watch = read(&server, "bob", &format!("{CONFIG_MAPS}?watch=1"), &[]).await;
    assert_eq!(watch.status(), 200);
    assert_eq!(read(&server, "bob", CONFIG_MAPS, &[]).await.status(), 200, "a watch is not counted");
    let (admin, object) = (Client::of(server.clone()), config_map("admin"));
    let (created, ()) = tokio::join!(admin.post(CONFIG_MAPS, &object), async {
        settle().await;
        permits.add_permits(10);
    });
    created.expect(201);
    while let Some(created) = writing.join_next().await {
        assert_eq!(created.unwrap().status(), 201);
    }
    assert_eq!(create(&server, "bob", "bob").await.status(), 201);
}

#[tokio::test(start_paused = true)]
async fn a_limit_of_zero_is_none_without_priority_levels() {
    let limits = Limits {
        max_requests_inflight: 0,
        max_mutating_requests_inflight: 0,
        priority_and_fairness: false,
        ..Limits::default()
    };
    let (server, permits) = limited_server(limits).await;
    let mut writing = tokio::task::JoinSet::new();
    for n in 0..50 {
        writing.spawn(create(&server, "eve", &format!("eve-{n}")));
    }
    settle().await;
    permits.add_permits(50);
    while let Some(created) = writing.join_next().await {
        assert_eq!(created.unwrap().status(), 201);
    }
}
