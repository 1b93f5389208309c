//! The options that servers over one store should have in common.

use std::collections::BTreeSet;

use super::ServerBuilder;
use crate::{
    authorization::AuthorizerOptions,
    bootstrap::agreement::{self, Agreement},
    tokens::Issuers,
};

impl ServerBuilder {
    /// Returns the options that other servers over the same store must have, too.
    pub(super) fn agreement(&self) -> Agreement {
        let mut agreement = Agreement::default();
        agreement.accept("--service-account-issuer", Issuers::new(&self.authentication).names());
        agreement.require("--service-cluster-ip-range", self.service_network);
        if let Some(key) = &self.token_key {
            let others = key.public_keys().map(|(id, _)| id).filter(|id| *id != key.id());
            agreement.accept("the key of service account tokens", std::iter::once(key.id()).chain(others));
        }
        if let Some(pem) = &self.authentication.client_ca {
            agreement.require("the certificate authority of clients", agreement::authority(pem));
        }
        if let Some(options) = &self.authentication.request_header {
            agreement.expect("the certificate authority of front proxies", agreement::authority(&options.client_ca));
        }
        let sorted = |names: &[String]| {
            BTreeSet::from_iter(names.iter().map(String::as_str)).into_iter().collect::<Vec<_>>().join(",")
        };
        let authorizers = self.authorization.authorizers.iter().map(AuthorizerOptions::type_name);
        agreement.expect("the range of node ports", self.node_ports);
        agreement.expect("--runtime-config", &self.runtime_config);
        agreement.expect("--enable-admission-plugins", sorted(&self.enabled_admission_plugins));
        agreement.expect("--disable-admission-plugins", sorted(&self.disabled_admission_plugins));
        agreement.expect("--authorization-mode", authorizers.collect::<Vec<_>>().join(","));
        agreement.expect("--api-audiences", self.authentication.api_audiences.join(","));
        agreement.expect("--no-v1beta1-crds", !self.old_definitions);
        agreement
    }
}
