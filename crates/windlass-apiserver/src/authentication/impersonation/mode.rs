//! The modes of impersonation: which users they apply to, and what they authorize.

use serde_json::json;
use windlass_schema::{
    field::{ErrorList, FieldError, Path},
    go_format::quote,
    names as syntax,
};

use crate::{
    authentication::names::{self, NODE_NAME},
    authorization::{self, Action, Attributes, Authorizer, ResourceAction},
    status::{self, Result},
    user::User,
};

const GROUP: &str = "authentication.k8s.io";
/// Number of groups or extra attributes for which a constrained mode first checks access to all names with one request.
const MANY: usize = 4;
/// The characters of a path, as in the messages of kube-apiserver.
const PATH: &str = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+";

/// All modes, in the order in which they are tried.
pub(super) static MODES: [Mode; 5] = [
    Mode::constrained(Scope::AssociatedNode, "associated-node", "impersonate:associated-node"),
    Mode::constrained(Scope::ArbitraryNode, "arbitrary-node", "impersonate:arbitrary-node"),
    Mode::constrained(Scope::ServiceAccount, "serviceaccount", "impersonate:serviceaccount"),
    Mode::constrained(Scope::UserInfo, "user-info", "impersonate:user-info"),
    Mode { scope: Scope::Legacy, name: "", verb: "impersonate", constraint: "" },
];

/// A mode of impersonation.
pub(super) struct Mode {
    scope: Scope,
    name: &'static str,
    /// The verb under which the attributes of the wanted user are authorized.
    verb: &'static str,
    /// The verb, if the mode is constrained.
    pub(super) constraint: &'static str,
}

/// The users that a mode applies to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    AssociatedNode,
    ArbitraryNode,
    ServiceAccount,
    UserInfo,
    Legacy,
}

impl Mode {
    const fn constrained(scope: Scope, name: &'static str, verb: &'static str) -> Self {
        Self { scope, name, verb, constraint: verb }
    }

    fn is_constrained(&self) -> bool {
        self.scope != Scope::Legacy
    }

    /// Returns whether the mode is for this requester and this wanted user.
    pub(super) fn applies(&self, requester: &User, wanted: &User) -> bool {
        let only_name = wanted.uid.is_empty() && wanted.groups.is_empty() && wanted.extra.is_empty();
        let (node, account) = (names::node(&wanted.name), names::service_account(&wanted.name));
        match self.scope {
            Scope::AssociatedNode => only_name && node.is_some_and(|node| is_on_node(requester, node)),
            Scope::ArbitraryNode => only_name && node.is_some(),
            Scope::ServiceAccount => only_name && account.is_some(),
            Scope::UserInfo => node.is_none() && account.is_none(),
            Scope::Legacy => true,
        }
    }

    /// Returns the wanted user with all of its groups, if the requester may act as that user.
    pub(super) async fn check(
        &self,
        authorizer: &dyn Authorizer,
        requester: &User,
        wanted: &User,
        action: &Action<'_>,
    ) -> Result<User> {
        let associated;
        let mut check = Check { mode: self, authorizer, requester };
        if self.scope == Scope::AssociatedNode {
            // The authorizer does not depend on the name of the node, so it is not passed.
            let keys = requester.extra.keys().cloned().collect();
            let extra = [("authentication.kubernetes.io/associated-node-keys".to_owned(), keys)].into();
            associated = User { extra, ..requester.clone() };
            check.requester = &associated;
        }
        if self.is_constrained() {
            check.request(action).await?;
        }
        let mut user = wanted.clone();
        check.name(wanted, &mut user).await?;
        if !wanted.uid.is_empty() {
            check.identity(ResourceAction { resource: "uids", name: &wanted.uid, ..check.of_group(GROUP) }).await?;
        }
        check.groups(&wanted.groups).await?;
        check.extra(wanted).await?;
        if user.is_anonymous() {
            ensure(&mut user, "system:unauthenticated");
        } else if !user.groups.iter().any(|group| group == "system:unauthenticated") {
            ensure(&mut user, "system:authenticated");
        }
        Ok(user)
    }
}

/// The authorization of one request in one mode.
struct Check<'a> {
    mode: &'a Mode,
    authorizer: &'a dyn Authorizer,
    requester: &'a User,
}

impl<'a> Check<'a> {
    fn of_group(&self, group: &'static str) -> ResourceAction<'a> {
        ResourceAction { verb: self.mode.verb, group, version: "v1", ..ResourceAction::default() }
    }

    /// The group of users and groups.
    fn group(&self) -> &'static str {
        if self.mode.is_constrained() { GROUP } else { "" }
    }

    async fn authorize(&self, action: Action<'_>) -> Result<()> {
        let request = Attributes { user: self.requester, action };
        let decision = self.authorizer.authorize(&request).decide().await;
        if decision.is_allowed() {
            return Ok(());
        }
        let reason = match (&decision.error, &*decision.reason) {
            (Some(error), "") => error.clone(),
            (Some(error), reason) => format!("{error}: {reason}"),
            (None, reason) => reason.to_owned(),
        };
        Err(authorization::forbidden(&request, &reason))
    }

    async fn identity(&self, action: ResourceAction<'_>) -> Result<()> {
        self.authorize(Action::Resource(action)).await
    }

    /// Authorizes the request itself: whether it may be made in this mode.
    async fn request(&self, action: &Action<'_>) -> Result<()> {
        let verb = match action {
            Action::Resource(action) => action.verb,
            Action::Path { verb, .. } => verb,
        };
        let verb = format!("impersonate-on:{}:{verb}", self.mode.name);
        let action = match action {
            Action::Resource(action) => Action::Resource(ResourceAction { verb: &verb, ..action.clone() }),
            Action::Path { path, .. } => Action::Path { verb: &verb, path },
        };
        self.authorize(action).await
    }

    /// Authorizes the name, and sets the groups that follow from it.
    async fn name(&self, wanted: &User, user: &mut User) -> Result<()> {
        let mut action = ResourceAction { resource: "users", name: &wanted.name, ..self.of_group(self.group()) };
        if let Some(node) = names::node(&wanted.name).filter(|_| self.mode.is_constrained()) {
            action.resource = "nodes";
            action.name = if self.mode.scope == Scope::AssociatedNode { "*" } else { node };
            user.groups = vec!["system:nodes".to_owned()];
        } else if let Some((namespace, name)) = names::service_account(&wanted.name) {
            action = ResourceAction { resource: "serviceaccounts", namespace, name, ..action };
            if wanted.groups.is_empty() {
                user.groups = vec!["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")];
            }
        }
        self.identity(action).await
    }

    async fn groups(&self, groups: &[String]) -> Result<()> {
        let action = ResourceAction { resource: "groups", ..self.of_group(self.group()) };
        if self.mode.is_constrained() {
            let reject = |name, why| {
                let action = Action::Resource(ResourceAction { name, ..action.clone() });
                Err(authorization::forbidden(&Attributes { user: self.requester, action }, why))
            };
            if groups.iter().any(String::is_empty) {
                return reject("", "impersonating the empty string group is not allowed");
            }
            if groups.iter().any(|group| group == "system:masters") {
                return reject("system:masters", "impersonating the system:masters group is not allowed");
            }
            if groups.len() >= MANY && self.identity(ResourceAction { name: "*", ..action.clone() }).await.is_ok() {
                return Ok(());
            }
        }
        for group in groups {
            self.identity(ResourceAction { name: group, ..action.clone() }).await?;
        }
        Ok(())
    }

    async fn extra(&self, wanted: &User) -> Result<()> {
        let action = ResourceAction { resource: "userextras", ..self.of_group(GROUP) };
        if self.mode.is_constrained() {
            if let Err(why) = check_extra(wanted) {
                let action = Action::Resource(action);
                return Err(authorization::forbidden(&Attributes { user: self.requester, action }, &why));
            }
            let values: usize = wanted.extra.values().map(Vec::len).sum();
            if wanted.extra.len() >= MANY || values >= MANY {
                let all = ResourceAction { subresource: "*", name: "*", ..action.clone() };
                if self.identity(all).await.is_ok() {
                    return Ok(());
                }
            }
        }
        for (key, values) in &wanted.extra {
            for value in values {
                self.identity(ResourceAction { subresource: key, name: value, ..action.clone() }).await?;
            }
        }
        Ok(())
    }
}

/// Returns whether a user is a service account whose pod is on this node.
fn is_on_node(user: &User, node: &str) -> bool {
    let on = user.extra.get(NODE_NAME).map(Vec::as_slice);
    names::service_account(&user.name).is_some() && matches!(on, Some([on]) if on == node)
}

fn ensure(user: &mut User, group: &str) {
    if !user.groups.iter().any(|have| have == group) {
        user.groups.push(group.to_owned());
    }
}

/// Checks extra attributes more strictly than the legacy mode does.
fn check_extra(wanted: &User) -> std::result::Result<(), String> {
    for (key, values) in &wanted.extra {
        if key.is_empty() {
            return Err("impersonating the empty string key in extra is not allowed".to_owned());
        }
        let errors = check_key(key);
        if !errors.is_empty() {
            let errors = status::aggregate(&errors);
            return Err(format!("impersonating an invalid key in extra is not allowed: {errors}"));
        }
        if *key != key.to_lowercase() {
            return Err(format!("impersonating a non-lowercase key in extra is not allowed: {}", quote(key)));
        }
        if values.is_empty() {
            return Err("impersonating empty values in extra is not allowed".to_owned());
        }
        if values.iter().any(String::is_empty) {
            return Err("impersonating the empty string value in extra is not allowed".to_owned());
        }
    }
    Ok(())
}

/// Checks a key of extra attributes, which is a path that starts with a domain.
fn check_key(key: &str) -> ErrorList {
    let path = Path::new("extra").child("key");
    let mut errors = ErrorList::new();
    let mut invalid = |value: &str, why: &str| errors.push(FieldError::invalid(&path, &json!(value), why));
    let Some((host, rest)) = key.split_once('/').filter(|(host, rest)| !host.is_empty() && !rest.is_empty()) else {
        invalid(key, "must be a domain-prefixed path (such as \"acme.io/foo\")");
        return errors;
    };
    for error in syntax::is_dns1123_subdomain(host) {
        invalid(host, &error);
    }
    if !rest.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&byte)) {
        invalid(rest, &syntax::regex_error("Invalid path", PATH, &[]));
    }
    errors
}
