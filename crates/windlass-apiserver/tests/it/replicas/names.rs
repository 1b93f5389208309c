//! Names of CRDs that conflict, and that several servers decide on.

use super::{in_effect::definition, *};

/// A CRD of a kind.
fn of_kind(plural: &str, kind: &str) -> Value {
    let mut definition = definition(plural);
    definition["spec"]["names"]["kind"] = kind.into();
    definition
}

/// Returns whether the names of a CRD are accepted, once that is decided.
async fn is_accepted(server: &Client, plural: &str) -> bool {
    let path = format!("{DEFINITIONS}/{plural}.example.com");
    eventually("the names must be decided on", async || {
        let shown = server.get(&path).await.expect(200);
        let mut conditions = shown["status"]["conditions"].as_array().cloned().unwrap_or_default().into_iter();
        conditions.find(|condition| condition["type"] == "NamesAccepted").map(|accepted| accepted["status"] == "True")
    })
    .await
}

/// Waits until a server has handled all CRDs that were written so far: it responds to the write of one when it has.
async fn handled(server: &Client, number: usize) {
    server.post(DEFINITIONS, &of_kind(&format!("marks{number}s"), &format!("Mark{number}"))).await.expect(201);
}

#[tokio::test]
async fn a_server_that_is_behind_does_not_accept_names_that_another_one_has_accepted() {
    let store = Arc::new(MemoryStore::new());
    let connection = Shared::new(&store);
    let (stop, go_on) = connection.delay();
    let (a, b) = (replica(&store).await, Client::of(Server::builder(Arc::new(connection)).build().await.unwrap()));
    stop().await;
    a.post(DEFINITIONS, &of_kind("rafts", "Boat")).await.expect(201);
    let server = b.server.clone();
    let creating =
        tokio::spawn(async move { Client::of(server).post(DEFINITIONS, &of_kind("boats", "Boat")).await.expect(201) });
    let key = "/apiextensions.k8s.io/customresourcedefinitions/boats.example.com";
    eventually("the definition must be stored", async || store.get(key).await.unwrap()).await;
    go_on();
    creating.await.unwrap();
    assert!(is_accepted(&b, "rafts").await && !is_accepted(&b, "boats").await);
    handled(&a, 0).await;
    assert!(is_accepted(&a, "rafts").await && !is_accepted(&a, "boats").await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_two_definitions_created_through_two_servers_at_once_one_gets_the_name() {
    let store = Arc::new(MemoryStore::new());
    let servers = [replica(&store).await, replica(&store).await];
    let pairs = 30;
    // The later one in the alphabet is often the earlier one in the store.
    let names = |number: usize| [format!("zebras{number}s"), format!("apes{number}s")];
    let creations = (0..pairs).flat_map(|number| {
        let servers = &servers;
        names(number).into_iter().enumerate().map(move |(index, plural)| {
            let server = servers[(number + index) % 2].server.clone();
            let created = of_kind(&plural, &format!("Animal{number}"));
            tokio::spawn(async move { Client::of(server).post(DEFINITIONS, &created).await.expect(201) })
        })
    });
    for created in join_all(creations).await {
        created.unwrap();
    }
    for (number, server) in servers.iter().enumerate() {
        handled(server, number).await;
    }
    for number in 0..pairs {
        let mut accepted = Vec::new();
        for plural in names(number) {
            accepted.push(is_accepted(&servers[0], &plural).await);
        }
        assert_eq!(accepted.iter().filter(|accepted| **accepted).count(), 1, "pair {number}: {accepted:?}");
    }
}
