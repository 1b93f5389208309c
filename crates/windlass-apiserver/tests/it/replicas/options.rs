//! Servers over one store with different options.

use windlass_apiserver::BuildError;

use super::*;

/// Starts a server with a network of cluster IPs.
async fn with_network(store: &Arc<MemoryStore>, host: u8, network: &str) -> Result<Client, BuildError> {
    let builder = Server::builder(Arc::new(Shared::new(store)))
        .service_network(network.parse().unwrap())
        .listening_on(SocketAddr::new([10, 1, 0, host].into(), 6443));
    Ok(Client::of(builder.build().await?))
}

async fn published(store: &MemoryStore) -> Vec<String> {
    stored(store, "/apiservers/endpoints/").await
}

#[tokio::test(start_paused = true)]
async fn a_server_with_another_service_network_than_one_that_runs_does_not_start() {
    let store = Arc::new(MemoryStore::new());
    let first = with_network(&store, 1, "10.0.0.0/24").await.unwrap();
    let before = published(&store).await;
    let start = Instant::now();
    let error = with_network(&store, 2, "10.8.0.0/22").await.err().expect("it must not start");
    assert_eq!(
        error.to_string(),
        "the API server at 10.1.0.1:6443 uses the same store with other options: --service-cluster-ip-range is \
         10.8.0.0/22 here and 10.0.0.0/24 there"
    );
    // The other server has shown in time that it runs.
    assert!(start.elapsed() < Duration::from_secs(12), "{:?}", start.elapsed());
    assert_eq!(published(&store).await, before);
    assert_eq!(addresses_of(&first.get(ENDPOINTS).await.expect(200)), ["10.1.0.1:6443"]);
    with_network(&store, 2, "10.0.0.0/24").await.expect("with the same options, it must start");
}

#[tokio::test(start_paused = true)]
async fn the_options_of_a_server_that_died_do_not_matter() {
    let store = Arc::new(MemoryStore::new());
    drop(with_network(&store, 1, "10.0.0.0/24").await.unwrap());
    let start = Instant::now();
    let second = with_network(&store, 2, "10.8.0.0/22").await.expect("it must start");
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    eventually("the endpoint of the other one must go", async || {
        (addresses_of(&second.get(ENDPOINTS).await.expect(200)) == ["10.1.0.2:6443"]).then_some(())
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn of_servers_with_different_options_that_start_together_at_most_one_runs() {
    let store = Arc::new(MemoryStore::new());
    // The caches of both have no other server when they start.
    let one = with_network(&store, 1, "10.0.0.0/24");
    let other = with_network(&store, 2, "10.8.0.0/22");
    let (one, other) = tokio::join!(one, other);
    assert!(one.is_err() || other.is_err(), "both have started");
    let running = one.is_ok() as usize + other.is_ok() as usize;
    assert!(published(&store).await.len() <= running.max(1), "{:?}", published(&store).await);
}
