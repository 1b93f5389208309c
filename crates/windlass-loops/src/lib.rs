//! The control loops of kube-controller-manager, as Windlass controllers.
//!
//! [`operator`] returns an [`Operator`](windlass::operator::Operator) that runs the loops of a [`Selection`] against any
//! Kubernetes API server. The crate depends neither on the Windlass API server nor on the simulated nodes.
//!
//! | module | contents |
//! |---|---|
//! | `loops` | one file per control loop, named after the controller |
//! | `pods` | facts about pods; creating, deleting, adopting and ranking them |
//! | `replicas` | replica sets and replication controllers, which share their implementation |
//! | `revisions` | controller revisions of stateful sets and daemon sets |
//! | `services` | services and the pods behind them |
//! | `volumes` | persistent volumes and claims |
//! | `scheduling` | node selectors, taints and tolerations |
//! | `bootstrap_tokens` | the Secrets of bootstrap tokens |
//! | `certificates` | certificate signing requests: rules, parsing, signing |
//! | `json_text` | conversion between Kubernetes types and JSON values |
//! | `discovery` | the resources that a server serves |
//! | `errors` | errors of the API server |
//!
//! `json_text`, `pods`, `scheduling` and `volumes` are public for windlass-nodes, and not part of the API.

mod bootstrap_tokens;
mod certificates;
mod discovery;
mod errors;
#[doc(hidden)]
pub mod json_text;
mod loops;
#[doc(hidden)]
pub mod pods;
mod replicas;
mod revisions;
#[doc(hidden)]
pub mod scheduling;
mod services;
#[doc(hidden)]
pub mod volumes;

pub use self::{
    certificates::CertificateAndKey,
    loops::{ClusterCertificates, LoopIdentity, SecretToken, Selection, TokenSigner, UnknownLoop, operator},
};
