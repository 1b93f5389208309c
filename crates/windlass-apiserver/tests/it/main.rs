//! Requests to a server in this process, without a socket.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod access;
mod access_reviews;
mod apply;
mod audit;
mod authentication;
mod authorization_modes;
mod client;
mod connections;
mod conversions;
mod custom_resources;
mod damaged;
mod definitions;
mod deletion;
mod dropped;
mod every_kind;
mod evictions;
mod flow_control;
mod hostile;
mod hostile_definitions;
mod in_process;
mod limits;
mod lists;
mod node_authorizer;
mod node_restriction;
mod numbers;
mod oidc;
mod old_definitions;
mod plugins;
mod protocol;
mod publication;
mod quotas;
mod rbac;
mod repair;
mod resets;
mod service_accounts;
mod slow_readers;
mod storage;
mod subresources;
mod tls_server;
mod token_webhook;
mod watches;
mod webhook_server;
mod webhooks;
mod writes;
