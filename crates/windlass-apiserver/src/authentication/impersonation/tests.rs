use std::collections::BTreeMap;

use http::HeaderMap;

use super::*;
use crate::authorization::{Attributes, Authorization, Decision};

/// Allows what is listed, as `verb group/resource/subresource namespace/name`.
struct Listed(Vec<&'static str>);

impl Authorizer for Listed {
    fn authorize<'a>(&'a self, request: &'a Attributes<'a>) -> Authorization<'a> {
        let text = match &request.action {
            Action::Path { verb, path } => format!("{verb} {path}"),
            Action::Resource(action) => format!(
                "{} {}/{}/{} {}/{}",
                action.verb, action.group, action.resource, action.subresource, action.namespace, action.name
            ),
        };
        if self.0.contains(&&*text) { Decision::allow("") } else { Decision::no_opinion("") }.into()
    }
}

fn user(name: &str) -> User {
    User { name: name.to_owned(), ..User::default() }
}

fn list_pods() -> Action<'static> {
    Action::Resource(crate::authorization::ResourceAction {
        verb: "list",
        resource: "pods",
        version: "v1",
        ..Default::default()
    })
}

async fn act(allowed: &[&'static str], requester: &User, wanted: &User) -> Result<Impersonated> {
    Modes::default().impersonate(&Listed(allowed.to_vec()), requester, wanted, &list_pods()).await
}

#[tokio::test]
async fn a_constrained_mode_authorizes_the_request_and_the_user() {
    let on = "impersonate-on:user-info:list /pods/ /";
    let alice = "impersonate:user-info authentication.k8s.io/users/ /alice";
    let error = act(&[], &user("bob"), &user("alice")).await.unwrap_err();
    assert_eq!(
        error.message,
        "pods is forbidden: User \"bob\" cannot impersonate-on:user-info:list resource \"pods\" in API group \"\" at the \
         cluster scope"
    );
    let error = act(&[on], &user("bob"), &user("alice")).await.unwrap_err();
    assert_eq!(
        error.message,
        "users.authentication.k8s.io \"alice\" is forbidden: User \"bob\" cannot impersonate:user-info resource \"users\" \
         in API group \"authentication.k8s.io\" at the cluster scope"
    );
    let impersonated = act(&[on, alice], &user("bob"), &user("alice")).await.unwrap();
    assert_eq!(impersonated.constraint, "impersonate:user-info");
    assert_eq!(impersonated.user.groups, ["system:authenticated"]);
}

#[tokio::test]
async fn the_legacy_mode_applies_to_everybody() {
    let wanted = User {
        uid: "u".to_owned(),
        groups: vec!["system:masters".to_owned()],
        extra: BTreeMap::from([("scopes".to_owned(), vec!["view".to_owned()])]),
        ..user("alice")
    };
    let mut allowed = vec![
        "impersonate /users/ /alice",
        "impersonate authentication.k8s.io/uids/ /u",
        "impersonate /groups/ /system:masters",
        "impersonate authentication.k8s.io/userextras/scopes /view",
    ];
    let impersonated = act(&allowed, &user("bob"), &wanted).await.unwrap();
    assert_eq!(impersonated.constraint, "");
    assert_eq!(impersonated.user.groups, ["system:masters", "system:authenticated"]);
    for _ in 0..4 {
        allowed.rotate_left(1);
        let without = &allowed[1..];
        assert!(act(without, &user("bob"), &wanted).await.is_err(), "without {}", allowed[0]);
    }
}

#[tokio::test]
async fn the_mode_that_succeeded_last_is_tried_first() {
    let modes = Modes::default();
    let legacy = Listed(vec!["impersonate /users/ /alice"]);
    modes.impersonate(&legacy, &user("bob"), &user("alice"), &list_pods()).await.unwrap();
    let error = modes.impersonate(&legacy, &user("bob"), &user("eve"), &list_pods()).await.unwrap_err();
    assert_eq!(
        error.message,
        "users \"eve\" is forbidden: User \"bob\" cannot impersonate resource \"users\" in API group \"\" at the cluster \
         scope"
    );
}

#[tokio::test]
async fn nodes_and_service_accounts_have_their_own_modes_and_groups() {
    let on = "impersonate-on:arbitrary-node:list /pods/ /";
    let node = "impersonate:arbitrary-node authentication.k8s.io/nodes/ /n1";
    let found = act(&[on, node], &user("bob"), &user("system:node:n1")).await.unwrap();
    assert_eq!(found.user.groups, ["system:nodes", "system:authenticated"]);

    let on = "impersonate-on:associated-node:list /pods/ /";
    let any = "impersonate:associated-node authentication.k8s.io/nodes/ /*";
    let mut agent = user("system:serviceaccount:ns:agent");
    let name = || user("system:node:n1");
    assert!(act(&[on, any], &agent, &name()).await.is_err(), "the agent is on no node");
    agent.extra.insert("authentication.kubernetes.io/node-name".to_owned(), vec!["n1".to_owned()]);
    assert_eq!(act(&[on, any], &agent, &name()).await.unwrap().constraint, "impersonate:associated-node");
    assert!(act(&[on, any], &agent, &user("system:node:n2")).await.is_err());
    let error = act(&[on], &agent, &name()).await.unwrap_err();
    assert!(error.message.starts_with("nodes.authentication.k8s.io \"*\" is forbidden"), "{error}");

    let on = "impersonate-on:serviceaccount:list /pods/ /";
    let account = "impersonate:serviceaccount authentication.k8s.io/serviceaccounts/ ns/builder";
    let wanted = user("system:serviceaccount:ns:builder");
    let found = act(&[on, account], &user("bob"), &wanted).await.unwrap();
    assert_eq!(found.user.groups, ["system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"]);
}

#[tokio::test]
async fn constrained_modes_are_strict() {
    let on = "impersonate-on:user-info:list /pods/ /";
    let alice = "impersonate:user-info authentication.k8s.io/users/ /alice";
    let all = "impersonate:user-info authentication.k8s.io/groups/ /*";
    let groups =
        |groups: &[&str]| User { groups: groups.iter().map(|name| (*name).to_owned()).collect(), ..user("alice") };
    let message = async |allowed: &[&'static str], wanted: &User| match act(allowed, &user("bob"), wanted).await {
        Ok(_) => String::new(),
        Err(error) => error.message,
    };
    let allowed = [on, alice, all];
    assert_eq!(message(&allowed, &groups(&["a", "b", "c", "d"])).await, "", "all groups are authorized at once");
    let few = message(&allowed, &groups(&["a"])).await;
    assert!(few.starts_with("groups.authentication.k8s.io \"a\" is forbidden"), "{few}");
    assert_eq!(
        message(&allowed, &groups(&["system:masters"])).await,
        "groups.authentication.k8s.io \"system:masters\" is forbidden: User \"bob\" cannot impersonate:user-info resource \
         \"groups\" in API group \"authentication.k8s.io\" at the cluster scope: impersonating the system:masters group is \
         not allowed"
    );
    let extra = User { extra: BTreeMap::from([("scopes".to_owned(), vec!["x".to_owned()])]), ..user("alice") };
    assert_eq!(
        message(&allowed, &extra).await,
        "userextras.authentication.k8s.io is forbidden: User \"bob\" cannot impersonate:user-info resource \"userextras\" \
         in API group \"authentication.k8s.io\" at the cluster scope: impersonating an invalid key in extra is not \
         allowed: extra.key: Invalid value: \"scopes\": must be a domain-prefixed path (such as \"acme.io/foo\")"
    );
}

#[tokio::test]
async fn anonymous_users_stay_unauthenticated() {
    let found = act(&["impersonate /users/ /system:anonymous"], &user("bob"), &user("system:anonymous")).await.unwrap();
    assert_eq!(found.user.groups, ["system:unauthenticated"]);
}

#[test]
fn attributes_without_a_name_are_rejected() {
    let mut headers = HeaderMap::new();
    assert_eq!(wanted(&headers).unwrap(), None);
    headers.insert("impersonate-unknown", "x".parse().unwrap());
    assert_eq!(wanted(&headers).unwrap(), None);
    headers.insert("impersonate-uid", "u".parse().unwrap());
    headers.append("impersonate-group", "a".parse().unwrap());
    headers.append("impersonate-group", "b".parse().unwrap());
    headers.append("impersonate-extra-acme.com%2fscope", "v".parse().unwrap());
    assert_eq!(
        wanted(&headers).unwrap_err().message,
        "requested &user.DefaultInfo{Name:\"\", UID:\"u\", Groups:[]string{\"a\", \"b\"}, \
         Extra:map[string][]string{\"acme.com/scope\":[]string{\"v\"}}} without impersonating a user name"
    );
    headers.insert("impersonate-user", "eve".parse().unwrap());
    let user = wanted(&headers).unwrap().unwrap();
    assert_eq!((user.name.as_str(), user.uid.as_str()), ("eve", "u"));
}
