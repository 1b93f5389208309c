//! The backend for the Linux kernel.

use network_operator::backend::{Backend as _, linux::Linux};
use windlass_testing::TestCluster;

use crate::network::Setup;

#[tokio::test]
#[ignore = "needs iproute2 and permission to create network namespaces: cargo test -p network-operator -- --ignored"]
async fn a_network_is_a_namespace_with_a_bridge() {
    let backend = Linux { prefix: TestCluster::unique("windlass") };
    let setup = Setup::start(backend.clone()).await;
    let key = setup.key("blue");
    let gateway = async || backend.gateway(&key).await.unwrap().map(|address| address.to_string());
    setup.create("blue", "10.123.0.0/16", "10.123.0.1").await;
    setup.reason("blue", "Synced").await;
    assert_eq!(gateway().await.as_deref(), Some("10.123.0.1/16"));
    setup.change("blue", "10.123.4.0/24", "10.123.4.9").await;
    setup.reason("blue", "Synced").await;
    assert_eq!(gateway().await.as_deref(), Some("10.123.4.9/24"));
    setup.change("blue", "fd00:1234::/64", "fd00:1234::1").await;
    setup.reason("blue", "Synced").await;
    assert_eq!(gateway().await.as_deref(), Some("fd00:1234::1/64"));
    setup.delete("blue").await;
    setup.gone("blue").await;
    assert_eq!(gateway().await, None);
    // Both operations are idempotent.
    backend.release(&key).await.unwrap();
}
