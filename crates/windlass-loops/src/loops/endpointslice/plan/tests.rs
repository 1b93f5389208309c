use serde_json::json;

use super::*;

fn service() -> Service {
    let service = json!({ "metadata": { "name": "web", "namespace": "ns", "uid": "s", "labels": { "a": "b" } },
        "spec": { "clusterIP": "10.0.0.1" } });
    serde_json::from_value(service).unwrap()
}

fn reached(port: i32, number: usize, ready: bool) -> Reached {
    let endpoint = json!({ "addresses": [format!("10.0.{}.{}", number / 250, number % 250)],
        "conditions": { "ready": ready }, "targetRef": { "kind": "Pod", "name": format!("p{number}") } });
    let ports = vec![serde_json::from_value(json!({ "name": "", "port": port, "protocol": "TCP" })).unwrap()];
    Reached { ports, endpoint: Some(serde_json::from_value(endpoint).unwrap()) }
}

fn all(port: i32, numbers: std::ops::Range<usize>) -> Vec<Reached> {
    numbers.map(|number| reached(port, number, true)).collect()
}

/// The slices after the changes, as a server would store them, and the number of writes.
fn after(existing: &[Arc<EndpointSlice>], reached: Vec<Reached>) -> (Vec<Arc<EndpointSlice>>, usize) {
    let Changes { create, update, delete } = plan(&service(), "IPv4", existing, reached).unwrap();
    let writes = create.len() + update.len() + delete.len();
    let name = |slice: &EndpointSlice| slice.metadata.name.clone();
    let gone: Vec<_> = delete.iter().map(|slice| name(slice)).chain(update.iter().map(name)).collect();
    let mut left: Vec<_> = existing.iter().filter(|slice| !gone.contains(&name(slice))).cloned().collect();
    left.extend(update.into_iter().map(Arc::new));
    for mut slice in create {
        slice.metadata.name = Some(format!("new-{}", left.len()));
        left.push(Arc::new(slice));
    }
    (left, writes)
}

fn sizes(slices: &[Arc<EndpointSlice>]) -> Vec<usize> {
    let mut sizes: Vec<usize> = slices.iter().map(|slice| held(slice).len()).collect();
    sizes.sort_unstable();
    sizes
}

#[test]
fn a_service_without_pods_has_an_empty_slice_that_becomes_a_full_one() {
    let (slices, writes) = after(&[], Vec::new());
    assert_eq!((sizes(&slices), writes), (vec![0], 1));
    let labels = json!({ "a": "b", "kubernetes.io/service-name": "web",
        "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io" });
    assert_eq!(serde_json::to_value(&slices[0].metadata.labels).unwrap(), labels);
    assert_eq!(slices[0].metadata.generate_name.as_deref(), Some("web-"));
    assert_eq!(after(&slices, Vec::new()).1, 0, "nothing to do");
    let (filled, writes) = after(&slices, all(80, 0..3));
    assert_eq!((sizes(&filled), writes), (vec![3], 1));
    assert_eq!(filled[0].metadata.name, slices[0].metadata.name, "the same object");
    assert_eq!(after(&filled, all(80, 0..3)).1, 0, "nothing to do");
    let (emptied, writes) = after(&filled, Vec::new());
    assert_eq!((sizes(&emptied), writes), (vec![0], 1));
    assert_eq!(emptied[0].ports, None);
}

#[test]
fn a_slice_holds_a_hundred() {
    let (slices, _) = after(&[], all(80, 0..250));
    assert_eq!(sizes(&slices), [50, 100, 100]);
    let (more, writes) = after(&slices, all(80, 0..260));
    assert_eq!((sizes(&more), writes), (vec![60, 100, 100], 1), "one with room is filled");
    let gone: Vec<Endpoint> = held(&more[0]).iter().take(5).cloned().collect();
    let left = all(80, 0..260).into_iter().filter(|one| !one.endpoint.as_ref().is_some_and(|one| gone.contains(one)));
    let (fewer, writes) = after(&more, left.collect());
    assert_eq!(writes, 1, "only the slice that they were in");
    assert_eq!(sizes(&fewer).iter().sum::<usize>(), 255);
}

#[test]
fn a_changed_endpoint_stays_in_its_slice() {
    let (slices, _) = after(&[], all(80, 0..3));
    let mut changed = all(80, 0..2);
    changed.push(reached(80, 2, false));
    let (slices, writes) = after(&slices, changed);
    assert_eq!((sizes(&slices), writes), (vec![3], 1));
    let ready: Vec<_> = held(&slices[0]).iter().map(|endpoint| endpoint.conditions.as_ref().unwrap().ready).collect();
    assert_eq!(ready, [Some(true), Some(true), Some(false)]);
}

#[test]
fn pods_with_other_ports_are_in_other_slices() {
    let both: Vec<_> = all(80, 0..2).into_iter().chain(all(81, 2..5)).collect();
    let (slices, _) = after(&[], both);
    assert_eq!(sizes(&slices), [2, 3]);
    let (slices, writes) = after(&slices, all(81, 0..5));
    assert_eq!((sizes(&slices), writes), (vec![5], 2), "one is filled, one deleted");
}

#[test]
fn labels_follow_the_service_and_surplus_slices_are_deleted() {
    let (slices, _) = after(&[], all(80, 0..1));
    let mut relabelled = EndpointSlice::clone(&slices[0]);
    relabelled.metadata.labels.as_mut().unwrap().insert("x".into(), "y".into());
    let (repaired, writes) = after(&[Arc::new(relabelled)], all(80, 0..1));
    assert_eq!(writes, 1);
    assert_eq!(repaired[0].metadata.labels, slices[0].metadata.labels);
    let mut foreign = EndpointSlice::clone(&slices[0]);
    foreign.metadata.owner_references = None;
    let changes = plan(&service(), "IPv4", &[Arc::new(foreign)], all(80, 0..1)).unwrap();
    assert_eq!((changes.create.len(), changes.update.len(), changes.delete.len()), (1, 0, 1));
}
