//! Networks of the Linux kernel: a network namespace each, with a bridge that has the gateway's address.
//!
//! Uses the `ip` command of iproute2, and needs permission to administer networks (root, or `CAP_NET_ADMIN` and
//! `CAP_SYS_ADMIN`).

use std::{io, net::IpAddr};

use async_trait::async_trait;
use ipnet::IpNet;
use serde::Deserialize;
use tokio::process::Command;
use windlass::prelude::ObjectKey;

use super::{Backend, BackendError};
use crate::plan::Plan;

/// Name of the bridge in each namespace.
const BRIDGE: &str = "br0";

/// Creates network namespaces on this machine.
#[derive(Clone, Debug)]
pub struct Linux {
    /// Prefix of their names, which keeps those of several operators apart.
    pub prefix: String,
}

#[derive(Deserialize)]
struct Link {
    #[serde(default)]
    addr_info: Vec<Address>,
}

#[derive(Deserialize)]
struct Address {
    local: IpAddr,
    prefixlen: u8,
    scope: String,
}

impl Linux {
    /// Returns the network namespace of a network, as in `ip netns list`. It is unique, because the first part cannot
    /// contain a dot.
    pub fn namespace(&self, network: &ObjectKey) -> String {
        format!("{}-{}.{}", self.prefix, network.namespace().unwrap_or_default(), network.name())
    }

    /// Returns the gateway's address in a network's namespace, or `None` if there is none.
    pub async fn gateway(&self, network: &ObjectKey) -> Result<Option<IpNet>, BackendError> {
        let namespace = self.namespace(network);
        if !self.exists(network, &namespace).await? {
            return Ok(None);
        }
        let ip = Ip { operation: "look at", network };
        let addresses = ip.addresses(&namespace).await?;
        Ok(addresses.into_iter().next())
    }

    async fn exists(&self, network: &ObjectKey, namespace: &str) -> Result<bool, BackendError> {
        let listed = Ip { operation: "look for", network }.run(&["netns", "list"]).await?;
        Ok(listed.lines().any(|line| line.split_whitespace().next() == Some(namespace)))
    }
}

#[async_trait]
impl Backend for Linux {
    async fn ensure(&self, network: &ObjectKey, plan: &Plan) -> Result<(), BackendError> {
        let namespace = self.namespace(network);
        let ip = Ip { operation: "create", network };
        if !self.exists(network, &namespace).await? {
            ip.run(&["netns", "add", &namespace]).await?;
        }
        if !ip.has_bridge(&namespace).await? {
            ip.run(&["-n", &namespace, "link", "add", BRIDGE, "type", "bridge"]).await?;
        }
        let wanted = IpNet::new(plan.gateway, plan.cidr.prefix_len()).map_err(|error| ip.error(&error.to_string()))?;
        let mut there = false;
        for address in ip.addresses(&namespace).await? {
            if address == wanted {
                there = true;
            } else {
                ip.run(&["-n", &namespace, "address", "del", &address.to_string(), "dev", BRIDGE]).await?;
            }
        }
        if !there {
            ip.run(&["-n", &namespace, "address", "add", &wanted.to_string(), "dev", BRIDGE]).await?;
        }
        ip.run(&["-n", &namespace, "link", "set", BRIDGE, "up"]).await?;
        ip.run(&["-n", &namespace, "link", "set", "lo", "up"]).await.map(drop)
    }

    async fn release(&self, network: &ObjectKey) -> Result<(), BackendError> {
        let namespace = self.namespace(network);
        if self.exists(network, &namespace).await? {
            Ip { operation: "release", network }.run(&["netns", "delete", &namespace]).await?;
        }
        Ok(())
    }
}

/// The `ip` command, run for a network.
struct Ip<'a> {
    operation: &'static str,
    network: &'a ObjectKey,
}

impl Ip<'_> {
    async fn run(&self, args: &[&str]) -> Result<String, BackendError> {
        tracing::debug!(?args, "ip");
        let output = match Command::new("ip").args(args).output().await {
            Ok(output) => output,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(self.error("the `ip` command was not found; install iproute2"));
            }
            Err(error) => return Err(self.error(&error.to_string())),
        };
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        Err(self.error(&format!("ip {}: {}", args.join(" "), said.trim())))
    }

    async fn has_bridge(&self, namespace: &str) -> Result<bool, BackendError> {
        let links = self.run(&["-n", namespace, "-o", "link", "show", "type", "bridge"]).await?;
        Ok(links.lines().any(|line| line.split(':').nth(1).is_some_and(|name| name.trim() == BRIDGE)))
    }

    /// Returns the addresses of the bridge, except for addresses that the kernel assigns.
    async fn addresses(&self, namespace: &str) -> Result<Vec<IpNet>, BackendError> {
        let text = self.run(&["-n", namespace, "-json", "address", "show", "dev", BRIDGE]).await?;
        let links: Vec<Link> = serde_json::from_str(&text).map_err(|error| self.error(&error.to_string()))?;
        let addresses = links.into_iter().flat_map(|link| link.addr_info).filter(|address| address.scope == "global");
        addresses
            .map(|address| IpNet::new(address.local, address.prefixlen).map_err(|error| self.error(&error.to_string())))
            .collect()
    }

    fn error(&self, message: &str) -> BackendError {
        BackendError { operation: self.operation, network: self.network.clone(), message: message.to_owned() }
    }
}
