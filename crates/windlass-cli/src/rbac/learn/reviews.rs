//! Access reviews: whether roles allow what was recorded, decided by an API server.

use anyhow::Context as _;
use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::{Api, Client, api::PostParams};

use crate::{
    rbac::needs::{Need, Needs},
    service_account::AccountName,
};

/// Asks a server for the permissions of an account. Returns the needed ones that it lacks.
pub(super) async fn denied(client: &Client, account: &AccountName, needs: &Needs) -> anyhow::Result<Vec<String>> {
    let reviews: Api<SubjectAccessReview> = Api::all(client.clone());
    let mut denied = Vec::new();
    let resources = needs.resources.iter().map(|need| (of_resource(need), in_words(need)));
    let paths = needs.paths.iter().map(|(verb, path)| (of_path(verb, path), format!("{verb} {path}")));
    for (mut spec, words) in resources.chain(paths) {
        spec.user = Some(account.user());
        spec.groups = Some(account.groups());
        let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
        let answer = reviews.create(&PostParams::default(), &review).await;
        let answer = answer.with_context(|| format!("failed to review the permission to {words}"))?;
        if !answer.status.is_some_and(|status| status.allowed) {
            denied.push(words);
        }
    }
    Ok(denied)
}

fn of_resource(need: &Need) -> SubjectAccessReviewSpec {
    let (resource, subresource) = need.resource.split_once('/').unwrap_or((&need.resource, ""));
    let attributes = ResourceAttributes {
        group: Some(need.group.clone()),
        resource: Some(resource.to_owned()),
        subresource: Some(subresource.to_owned()).filter(|sub| !sub.is_empty()),
        verb: Some(need.verb.to_string()),
        namespace: need.namespace.clone(),
        name: need.name.clone(),
        ..ResourceAttributes::default()
    };
    SubjectAccessReviewSpec { resource_attributes: Some(attributes), ..SubjectAccessReviewSpec::default() }
}

fn of_path(verb: &str, path: &str) -> SubjectAccessReviewSpec {
    let attributes = NonResourceAttributes { path: Some(path.to_owned()), verb: Some(verb.to_owned()) };
    SubjectAccessReviewSpec { non_resource_attributes: Some(attributes), ..SubjectAccessReviewSpec::default() }
}

fn in_words(need: &Need) -> String {
    let group = if need.group.is_empty() { String::new() } else { format!(" of {}", need.group) };
    let place = need.namespace.as_ref().map(|place| format!(" in {place}")).unwrap_or_default();
    format!("{} {}{group}{place}", need.verb, need.resource)
}
