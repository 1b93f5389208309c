//! Values of stored services that could not have been allocated: shared, or out of range.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use super::{ServiceAllocator, pool::Pool};

/// A problem of a stored service, worded as in kube-apiserver's repair controllers.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// The service: `namespace/name`.
    pub service: String,
    /// The controller that reports it.
    pub controller: &'static str,
    /// The reason of the event.
    pub reason: &'static str,
    /// The message of the event.
    pub message: String,
}

const ADDRESSES: &str = "ipallocator-repair-controller";
const PORTS: &str = "portallocator-repair-controller";

impl ServiceAllocator {
    /// Returns the problems of the observed services. Of services that share a value, the first one has no problem.
    pub fn problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        let (mut addresses, mut ports) = (BTreeSet::new(), BTreeSet::new());
        for (key, values) in &self.stored {
            let mut report = |controller, reason, message| {
                problems.push(Problem { service: key.to_string(), controller, reason, message });
            };
            if let Some(address) = values.address {
                let shown = Ipv4Addr::from_bits(address);
                match judge(&self.addresses, &mut addresses, address) {
                    Verdict::Fine => {}
                    Verdict::Shared => report(
                        ADDRESSES,
                        "ClusterIPAlreadyAllocated",
                        format!("Cluster IP [IPv4]:{shown} was assigned to multiple services; please recreate service"),
                    ),
                    Verdict::OutOfRange => report(
                        ADDRESSES,
                        "ClusterIPOutOfRange",
                        format!(
                            "Cluster IP [IPv4]: {shown} is not within any configured Service CIDR; please recreate service"
                        ),
                    ),
                }
            }
            for port in &values.ports {
                match judge(&self.ports, &mut ports, *port) {
                    Verdict::Fine => {}
                    Verdict::Shared => report(
                        PORTS,
                        "PortAlreadyAllocated",
                        format!("Port {port} was assigned to multiple services; please recreate service"),
                    ),
                    Verdict::OutOfRange => report(
                        PORTS,
                        "PortOutOfRange",
                        format!(
                            "Port {port} is not within the port range {}; please recreate service",
                            self.node_ports
                        ),
                    ),
                }
            }
        }
        problems
    }
}

enum Verdict {
    Fine,
    Shared,
    OutOfRange,
}

/// Checks a value of a service; `seen` has the shared values of earlier services.
fn judge(pool: &Pool, seen: &mut BTreeSet<u32>, number: u32) -> Verdict {
    if !pool.contains(number) {
        return Verdict::OutOfRange;
    }
    match pool.is_shared(number) && !seen.insert(number) {
        true => Verdict::Shared,
        false => Verdict::Fine,
    }
}
