//! The authorizer as expressions see it.
//!
//! Expressions are evaluated without waiting. A check that only a webhook can decide is noted and leaves the evaluation
//! without a result; [`Checks::resolve`] then waits for the webhook, within the time limit of the request, and the
//! expressions are evaluated again with its decision. No thread is blocked meanwhile.

use std::{collections::HashMap, fmt, sync::Arc};

use parking_lot::Mutex;
use windlass_cel::authorizer::{Authorizer, Check, Decision, Target};

use super::{Action, Attributes, Authorization, ResourceAction};
use crate::{server::Inner, user::User};

/// The checks of the expressions about one request.
pub(crate) struct Checks {
    server: Arc<Inner>,
    user: User,
    known: Mutex<HashMap<Check, Decision>>,
    open: Mutex<Vec<Check>>,
}

impl Checks {
    /// Returns checks about a user.
    pub(crate) fn new(server: &Arc<Inner>, user: &User) -> Arc<Self> {
        let (known, open) = Default::default();
        Arc::new(Self { server: server.clone(), user: user.clone(), known, open })
    }

    /// Waits for the decisions that the last evaluation lacked; returns whether there were any, so that the expressions
    /// have to be evaluated again.
    pub(crate) async fn resolve(&self) -> bool {
        let open = std::mem::take(&mut *self.open.lock());
        for check in &open {
            let user = self.user_of(check);
            let request = Attributes { user: &user, action: action(check) };
            let decision = self.server.authorizer.authorize(&request).decide().await;
            self.known.lock().insert(check.clone(), answer(decision));
        }
        !open.is_empty()
    }

    fn user_of(&self, check: &Check) -> User {
        match &check.account {
            // Without the group of authenticated users, as in kube-apiserver.
            Some((namespace, name)) => {
                let mut user = User::service_account(namespace, name);
                user.groups.retain(|group| group != "system:authenticated");
                user
            }
            None => self.user.clone(),
        }
    }
}

impl Authorizer for Checks {
    fn decide(&self, check: &Check) -> Option<Decision> {
        if let Some(known) = self.known.lock().get(check) {
            return Some(known.clone());
        }
        let user = self.user_of(check);
        let request = Attributes { user: &user, action: action(check) };
        match self.server.authorizer.authorize(&request) {
            Authorization::Decided(decision) => Some(answer(decision)),
            Authorization::Pending(_) => {
                self.open.lock().push(check.clone());
                None
            }
        }
    }
}

impl fmt::Debug for Checks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Checks").field("user", &self.user).finish_non_exhaustive()
    }
}

fn action(check: &Check) -> Action<'_> {
    match &check.target {
        Target::Path(path) => Action::Path { verb: &check.verb, path },
        Target::Resource(resource) => Action::Resource(ResourceAction {
            verb: &check.verb,
            group: &resource.group,
            version: "*",
            resource: &resource.resource,
            subresource: &resource.subresource,
            namespace: &resource.namespace,
            name: &resource.name,
            field_selector: &resource.field_selector,
            label_selector: &resource.label_selector,
        }),
    }
}

fn answer(decision: super::Decision) -> Decision {
    Decision { allowed: decision.is_allowed(), reason: decision.reason.to_string(), error: decision.error }
}
