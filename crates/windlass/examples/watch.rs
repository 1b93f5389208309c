//! Informers without a controller: prints the pods of each node, and then every change.
//!
//! ```text
//! cargo run -p windlass --example watch
//! ```
#![allow(clippy::print_stdout)]

use windlass::{
    cache::{Caches, Event},
    client::{self, ClientOptions, Target},
    k8s_openapi::api::core::v1::Pod,
    prelude::*,
    shutdown::Shutdown,
};

fn node(pod: &Pod) -> Option<String> {
    pod.spec.as_ref()?.node_name.clone()
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // The kubeconfig, or the service account of the pod that this program runs in.
    let config = client::configuration(&Target::default()).await?;
    let client = client::connect(&config, ClientOptions::new("windlass-example"))?;

    // All informers of a process share their watches and objects.
    let caches = Caches::new(client);
    let pods = caches.informer::<Pod>(&Scope::all());

    // An index answers without a look at every object. An object may have several values, or none.
    let by_node = pods.index("node", |pod: &Pod| node(pod).into_iter().collect())?;

    // Resolves when the first list is complete. Reads never wait for the API server.
    pods.synced().await;
    let mut nodes: Vec<String> = pods.list().iter().filter_map(|pod| node(pod)).collect();
    nodes.sort();
    nodes.dedup();
    for node in nodes {
        let names: Vec<String> = by_node.get(&node).iter().map(|pod| ObjectKey::of(&**pod).to_string()).collect();
        println!("{node}: {}", names.join(", "));
    }

    // Handlers run on the watch, so they must be quick. Dropping the subscription ends them.
    let _subscription = pods.subscribe(|event| match event {
        Event::Added { initial: true, .. } => {}
        Event::Added { object, .. } => println!("added {}", ObjectKey::of(&*object)),
        Event::Updated { new, .. } => println!("updated {}", ObjectKey::of(&*new)),
        Event::Deleted { object } => println!("deleted {}", ObjectKey::of(&*object)),
    });
    Shutdown::on_signals()?.draining().await;
    Ok(())
}
