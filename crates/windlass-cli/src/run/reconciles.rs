//! The last reconciles of an operator and their causes, read from `/debug/state`.

use anyhow::Context as _;
use serde::Deserialize;

use super::event::Reconcile;

/// The part of the page that is needed. Operators of older versions have no reconciles.
#[derive(Deserialize)]
struct Page {
    #[serde(default)]
    controllers: Vec<ControllerState>,
    #[serde(default)]
    clusters: Vec<ClusterState>,
}

#[derive(Deserialize)]
struct ControllerState {
    name: String,
    #[serde(default)]
    reconciles: Vec<Reconcile>,
}

/// A cluster of an operator of several clusters.
#[derive(Deserialize)]
struct ClusterState {
    name: String,
    operator: Option<Page>,
}

/// Returns the reconciles of the page by the name of their controller, in the order in which they ended.
pub(crate) fn reconciles(page: &str) -> anyhow::Result<Vec<Reconcile>> {
    let page: Page = serde_json::from_str(page).context("failed to parse /debug/state")?;
    let mut all = Vec::new();
    page.collect("", &mut all);
    all.sort_by_key(|reconcile| reconcile.ended);
    Ok(all)
}

impl Page {
    fn collect(self, prefix: &str, all: &mut Vec<Reconcile>) {
        for ControllerState { name, reconciles } in self.controllers {
            let name = format!("{prefix}{name}");
            all.extend(reconciles.into_iter().map(|one| Reconcile { controller: name.clone(), ..one }));
        }
        for ClusterState { name, operator } in self.clusters {
            if let Some(operator) = operator {
                operator.collect(&format!("{prefix}{name}/"), all);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn reconciles_of_all_controllers_and_clusters_are_in_the_order_of_their_ends() {
        let reconcile = |number: u64, second: u64| {
            json!({
                "number": number, "object": "default/first", "causes": ["object 4->7"],
                "ended": format!("2026-05-06T07:08:0{second}Z"), "seconds": 0.5, "result": "success",
            })
        };
        let page = json!({
            "informers": [],
            "controllers": [
                { "name": "book", "reconciles": [reconcile(1, 1), reconcile(2, 4)] },
                { "name": "pages", "reconciles": [reconcile(1, 3)] },
                { "name": "old" },
            ],
            "clusters": [
                { "name": "east", "state": "failed" },
                { "name": "west", "operator": { "controllers": [{ "name": "book", "reconciles": [reconcile(1, 2)] }] } },
            ],
        });
        let found = reconciles(&page.to_string()).unwrap();
        let names: Vec<_> = found.iter().map(|one| (one.controller.as_str(), one.number)).collect();
        assert_eq!(names, [("book", 1), ("west/book", 1), ("pages", 1), ("book", 2)]);
        assert_eq!(
            (found[0].object.as_str(), &found[0].causes[..]),
            ("default/first", &["object 4->7".to_owned()][..])
        );
        assert!(reconciles("404 page not found").is_err());
    }
}
