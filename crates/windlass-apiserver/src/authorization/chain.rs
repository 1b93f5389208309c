//! The authorizers of a server, in the order of its configuration, which may change while it runs.

use std::{
    path::Path,
    sync::{Arc, Weak},
    time::Duration,
};

use arc_swap::ArcSwap;
use tracing::{info, warn};

use super::{
    Attributes, Authorization, Authorizer, Decision, Opinions, PolicyRule, UserRules, all_rules,
    node::NodeAuthorizer,
    options::{AuthorizationOptions, AuthorizerOptions},
    webhook::WebhookAuthorizer,
};
use crate::{reloads::Reloads, storage::Storage, user::User};

/// Interval at which the configuration file is checked for changes.
const CHECK: Duration = Duration::from_secs(2);

type Authorizers = Vec<Arc<dyn Authorizer>>;

/// Consults the authorizers in order; members of `system:masters` are always allowed.
pub(crate) struct Chain {
    node: Arc<dyn Authorizer>,
    rbac: Arc<dyn Authorizer>,
    current: ArcSwap<Authorizers>,
    reloads: Reloads,
}

impl Chain {
    /// Returns the authorizers of a configuration.
    ///
    /// # Errors
    /// Returns an error if a webhook's kubeconfig cannot be used.
    pub(crate) fn new(
        options: &AuthorizationOptions,
        storage: &Storage,
        rbac: Arc<dyn Authorizer>,
    ) -> Result<Self, String> {
        let node: Arc<dyn Authorizer> = Arc::new(NodeAuthorizer::new(storage));
        let chain = Self { node, rbac, current: ArcSwap::default(), reloads: Reloads::default() };
        chain.current.store(Arc::new(chain.authorizers(options)?));
        Ok(chain)
    }

    fn authorizers(&self, options: &AuthorizationOptions) -> Result<Authorizers, String> {
        let build = |authorizer: &AuthorizerOptions| -> Result<Arc<dyn Authorizer>, String> {
            Ok(match authorizer {
                AuthorizerOptions::Node => self.node.clone(),
                AuthorizerOptions::Rbac => self.rbac.clone(),
                AuthorizerOptions::AlwaysAllow => Arc::new(Always(Decision::allow(""))),
                AuthorizerOptions::AlwaysDeny => Arc::new(Always(Decision::no_opinion("Everything is forbidden."))),
                AuthorizerOptions::Webhook(webhook) => Arc::new(WebhookAuthorizer::new(webhook)?),
            })
        };
        options.authorizers.iter().map(build).collect()
    }

    /// Replaces the authorizers by those of another configuration, unless it lacks a type that the first one has.
    fn reload(&self, before: &AuthorizationOptions, file: &Path) -> Result<AuthorizationOptions, String> {
        let options = AuthorizationOptions::from_file(file)?;
        let has = |options: &AuthorizationOptions, name| options.authorizers.iter().any(|it| it.type_name() == name);
        for name in ["AlwaysAllow", "AlwaysDeny", "Node", "RBAC"] {
            match (has(before, name), has(&options, name)) {
                (true, false) => return Err(format!("missing required types: [{name}]")),
                (false, true) if matches!(name, "Node" | "RBAC") => {
                    let why = "is not allowed if it was not enabled at initial server startup";
                    return Err(format!("authorizer type {name} {why}"));
                }
                _ => {}
            }
        }
        if options.authorizers != before.authorizers {
            self.current.store(Arc::new(self.authorizers(&options)?));
            self.reloads.succeeded();
            info!(file = %file.display(), "reloaded the authorization configuration");
        }
        Ok(options)
    }

    /// Writes the metrics.
    pub(crate) fn render(&self, out: &mut String) {
        self.reloads.render("authorization", out);
    }
}

impl Authorizer for Chain {
    fn authorize<'a>(&'a self, request: &'a Attributes<'a>) -> Authorization<'a> {
        if request.user.is_master() {
            return Decision::allow(Arc::default()).into();
        }
        let current = self.current.load();
        let mut opinions = Opinions::default();
        for authorizer in current.iter() {
            match authorizer.authorize(request) {
                Authorization::Decided(decision) => {
                    if let Some(decision) = opinions.add(decision) {
                        return decision.into();
                    }
                }
                // Begins again, with authorizers that live as long as the future.
                Authorization::Pending(_) => {
                    let authorizers = self.current.load_full();
                    return Authorization::Pending(Box::pin(async move {
                        let mut opinions = Opinions::default();
                        for authorizer in authorizers.iter() {
                            if let Some(decision) = opinions.add(authorizer.authorize(request).decide().await) {
                                return decision;
                            }
                        }
                        opinions.none()
                    }));
                }
            }
        }
        opinions.none().into()
    }

    fn rules_for(&self, user: &User, namespace: &str) -> UserRules {
        all_rules(self.current.load().iter().map(|authorizer| authorizer.rules_for(user, namespace)))
    }
}

impl Authorizer for Arc<Chain> {
    fn authorize<'a>(&'a self, request: &'a Attributes<'a>) -> Authorization<'a> {
        Chain::authorize(self, request)
    }

    fn rules_for(&self, user: &User, namespace: &str) -> UserRules {
        Chain::rules_for(self, user, namespace)
    }
}

/// An authorizer with the same decision for all requests.
struct Always(Decision);

impl Authorizer for Always {
    fn authorize<'a>(&'a self, _: &'a Attributes<'a>) -> Authorization<'a> {
        self.0.clone().into()
    }

    fn rules_for(&self, _: &User, _: &str) -> UserRules {
        let any = || vec!["*".into()];
        let everything = PolicyRule { verbs: any(), api_groups: any(), resources: any(), ..PolicyRule::default() };
        let paths = PolicyRule { verbs: any(), non_resource_urls: any(), ..PolicyRule::default() };
        let rules = if self.0.is_allowed() { vec![everything, paths] } else { Vec::new() };
        UserRules { rules, ..UserRules::default() }
    }
}

/// Follows the configuration file of a chain for as long as the chain exists. A file that cannot be used changes
/// nothing.
pub(crate) async fn follow(chain: Weak<Chain>, mut options: AuthorizationOptions) {
    let Some(file) = options.file.clone() else { return };
    // The contents that were handled last, or why the file could not be read. Unknown at first, because the file may
    // have changed since it was loaded.
    let mut seen = None;
    loop {
        tokio::time::sleep(CHECK).await;
        let now = tokio::fs::read(&file).await.map_err(|error| error.to_string());
        if seen.as_ref() == Some(&now) {
            continue;
        }
        let Some(chain) = chain.upgrade() else { return };
        let loaded = match &now {
            Ok(_) => chain.reload(&options, &file),
            Err(error) => Err(error.clone()),
        };
        seen = Some(now);
        match loaded {
            Ok(loaded) => options = loaded,
            Err(error) => {
                chain.reloads.failed();
                warn!(file = %file.display(), error, "kept the previous authorization configuration");
            }
        }
    }
}
