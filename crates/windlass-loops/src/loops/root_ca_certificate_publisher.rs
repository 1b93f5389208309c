//! Publishes the root certificate to every namespace.
//!
//! Pods verify the server with the ConfigMap `kube-root-ca.crt` of their namespace. It is restored when it is changed
//! or deleted. Without a certificate, the loop does not run.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::core::ObjectMeta;
use windlass::{
    Result,
    context::Context,
    controller::{Action, Watch},
    key::ObjectKey,
    operator::Operator,
    scope::Scope,
};

use super::{ClusterCertificates, is_active_namespace};

const NAME: &str = "kube-root-ca.crt";
const DESCRIPTION_KEY: &str = "kubernetes.io/description";
/// Verbatim, because clients compare it.
const DESCRIPTION: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters.";

pub(super) fn add(operator: Operator, certificates: &ClusterCertificates) -> Operator {
    let Some(certificate) = certificates.root_ca.clone() else { return operator };
    let maps = Watch::<ConfigMap>::new().scope(Scope::all().fields(format!("metadata.name={NAME}")));
    let namespace_of = |map: &ConfigMap, _: &Context| {
        map.metadata.namespace.iter().map(|namespace| ObjectKey::cluster(namespace)).collect()
    };
    let reconciler = move |namespace, ctx| reconcile(Arc::clone(&certificate), namespace, ctx);
    operator.controller(
        super::controller::<Namespace>("root-ca-certificate-publisher-controller", reconciler)
            .source(maps.map(namespace_of))
            .concurrency(4),
    )
}

async fn reconcile(certificate: Arc<str>, namespace: Arc<Namespace>, ctx: Context) -> Result<Action> {
    if !is_active_namespace(&namespace) {
        return Ok(Action::done());
    }
    let name = namespace.metadata.name.as_deref().unwrap_or_default();
    let Some(present) = ctx.get::<ConfigMap>(&ObjectKey::namespaced(name, NAME))? else {
        return match ctx.create(repaired(None, name, &certificate)).await {
            Err(error) if !error.is_not_found() && !error.is_namespace_terminating() => Err(error.into()),
            _ => Ok(Action::done()),
        };
    };
    if !is_sound(&present, &certificate) {
        ctx.update(repaired(Some(&present), name, &certificate)).await?;
    }
    Ok(Action::done())
}

/// Returns whether a config map is up to date. Its description may have other wording.
fn is_sound(map: &ConfigMap, certificate: &str) -> bool {
    let described = map.metadata.annotations.as_ref().and_then(|annotations| annotations.get(DESCRIPTION_KEY));
    map.data.as_ref().is_some_and(|data| *data == data_of(certificate))
        && described.is_some_and(|text| !text.is_empty())
}

fn repaired(present: Option<&ConfigMap>, namespace: &str, certificate: &str) -> ConfigMap {
    let mut map = present.cloned().unwrap_or_else(|| ConfigMap {
        metadata: ObjectMeta {
            name: Some(NAME.to_owned()),
            namespace: Some(namespace.to_owned()),
            ..ObjectMeta::default()
        },
        ..ConfigMap::default()
    });
    map.data = Some(data_of(certificate));
    map.metadata.annotations.get_or_insert_default().insert(DESCRIPTION_KEY.to_owned(), DESCRIPTION.to_owned());
    map
}

fn data_of(certificate: &str) -> BTreeMap<String, String> {
    [("ca.crt".to_owned(), certificate.to_owned())].into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_config_map_is_restored_and_keeps_its_other_metadata() {
        let fresh = repaired(None, "default", "pem");
        assert!(is_sound(&fresh, "pem"));
        assert!(!is_sound(&fresh, "another"));
        let mut touched = fresh.clone();
        touched.data.get_or_insert_default().insert("more".into(), "text".into());
        touched.metadata.annotations = Some([("mine".to_owned(), "1".to_owned())].into());
        assert!(!is_sound(&touched, "pem"));
        let repaired = repaired(Some(&touched), "default", "pem");
        assert!(is_sound(&repaired, "pem"));
        assert!(repaired.metadata.annotations.unwrap().contains_key("mine"));
        let mut described = fresh;
        described.metadata.annotations = Some([(DESCRIPTION_KEY.to_owned(), "in my words".to_owned())].into());
        assert!(is_sound(&described, "pem"));
    }
}
