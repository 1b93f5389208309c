//! Fischers, which ban names of Flunders.

use kube::{
    Api,
    api::{DynamicObject, PostParams},
    core::{ApiResource, GroupVersionKind},
};
use serde_json::json;
use wardle_apiserver::api::{
    GROUP,
    flunder::{Flunder, FlunderSpec, v1alpha1},
};

use crate::start;

fn old(name: &str) -> v1alpha1::Flunder {
    v1alpha1::Flunder::new(name, v1alpha1::FlunderSpec::default())
}

#[tokio::test]
async fn a_fischer_bans_names_of_flunders_in_all_versions() {
    let wardle = start().await;
    let fischers = ApiResource::from_gvk(&GroupVersionKind::gvk(GROUP, "v1alpha1", "Fischer"));
    let fischers: Api<DynamicObject> = Api::all_with(wardle.client(), &fischers);
    let fischer = json!({"apiVersion": format!("{GROUP}/v1alpha1"), "kind": "Fischer", "metadata": {"name": "f"},
        "disallowedFlunders": ["bad"]});
    fischers.create(&PostParams::default(), &serde_json::from_value(fischer).unwrap()).await.unwrap();
    let flunders: Api<v1alpha1::Flunder> = Api::namespaced(wardle.client(), "any");
    flunders.create(&PostParams::default(), &old("good")).await.unwrap();
    let banned = flunders.create(&PostParams::default(), &old("bad")).await.unwrap_err();
    let flunders: Api<Flunder> = Api::namespaced(wardle.client(), "any");
    let bad = Flunder::new("bad", FlunderSpec::default());
    let also_banned = flunders.create(&PostParams::default(), &bad).await.unwrap_err();
    let expected = "flunders.wardle.example.com \"bad\" is forbidden: this name may not be used, please change the \
                    resource name";
    for error in [banned, also_banned] {
        assert!(error.to_string().contains(expected), "{error}");
    }
}
