//! The control loops against a server.

mod apiserver_lease_expiry;
mod bootstrap_tokens;
mod certificatesigningrequest;
mod clusterrole_aggregation;
mod cronjob;
mod daemonset;
mod deployment;
mod disruption;
mod endpointslice;
mod event_expiry;
mod garbage_collector;
mod horizontal_pod_autoscaler;
mod interrupted;
mod job;
mod namespace;
mod node_lifecycle;
mod persistentvolume_binder;
mod persistentvolume_protection;
pub(crate) mod persistentvolumeclaim_protection;
mod replicaset;
mod resourcequota;
mod root_ca_certificate_publisher;
mod serviceaccount;
mod serviceaccount_token;
mod statefulset;
mod ttl_after_finished;
mod volumeattributesclass_protection;
