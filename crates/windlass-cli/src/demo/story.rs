//! The story: its text, its commands, and the outcomes that are verified.

use super::until::Until;

/// A chapter of the story.
pub(super) struct Chapter {
    pub(super) title: &'static str,
    pub(super) steps: &'static [StoryStep],
}

/// A step of a chapter.
pub(super) enum StoryStep {
    /// Shows text.
    Say(&'static str),
    /// Shows a file that a command will use.
    Show(&'static str),
    /// Runs a command that succeeds.
    Do(&'static str),
    /// Runs a command that the server rejects.
    Rejected(&'static str),
    /// Runs a watching command until a condition is met.
    Watch(&'static str, Until),
    /// Waits for a condition after the last command.
    Await(&'static str, Until),
    /// Verifies that a condition is met and stays so.
    Stays(&'static str, Until),
    /// Waits until something broken has recovered. It is listed in the summary.
    Recovers(&'static str, Until),
    /// Starts the operators.
    StartOperators,
    /// Breaks the switch with an error message, or repairs it.
    Switch(Option<&'static str>),
    /// Verifies that the switch has or does not have the network.
    InSwitch { network: &'static str, exists: bool },
}

impl StoryStep {
    /// Returns whether the step only verifies something, without a command or text.
    pub(super) fn is_check(&self) -> bool {
        matches!(self, Await(..) | Stays(..) | Recovers(..) | StartOperators | InSwitch { .. })
    }
}

/// Files that commands use.
pub(super) const FILES: &[(&str, &str)] = &[
    ("network.yaml", include_str!("files/network.yaml")),
    ("guestbook.yaml", include_str!("files/guestbook.yaml")),
    ("crowd.yaml", include_str!("files/crowd.yaml")),
    ("no-gateway.yaml", include_str!("files/no-gateway.yaml")),
    ("annex.yaml", include_str!("files/annex.yaml")),
];

/// Label of all resources of a guestbook.
const VISITORS: &str = "webapp.tutorial.kubebuilder.io/guestbook=visitors";

use StoryStep::{Await, Do, InSwitch, Recovers, Rejected, Say, Show, StartOperators, Stays, Switch, Watch};

/// The whole story.
pub(super) const CHAPTERS: &[Chapter] = &[
    Chapter {
        title: "A cluster in this process",
        steps: &[
            // Before the text: reading it takes longer than starting the nodes, and would be measured.
            Await("two nodes are ready", Until::NodesReady(2)),
            Say("This process runs an API server, the control loops of a cluster and two simulated nodes. Any \
                 Kubernetes client can connect to them. The lines after $ are what you would type, followed by the \
                 output of this server."),
            Do("kubectl get nodes"),
        ],
    },
    Chapter {
        title: "Two custom resources",
        steps: &[
            Say("A CustomResourceDefinition adds a kind to the API server. Its objects are served, validated and \
                 printed as soon as the command returns."),
            Do("kubectl apply -f crds.yaml"),
            Do("kubectl get networks,guestbooks"),
            Say("So far they are only data. Now two operators start in this process: one provisions networks, the \
                 other runs guestbooks. In a cluster they would be pods."),
            StartOperators,
        ],
    },
    Chapter {
        title: "Declare the desired state",
        steps: &[
            Say("A network with an address range, and a guestbook with four replicas:"),
            Show("network.yaml"),
            Do("kubectl apply -f network.yaml"),
            Await("the network is ready", Until::Ready { kind: "networks", name: "office", is: "True" }),
            Do("kubectl apply -f guestbook.yaml"),
            Watch("kubectl get deployments -w", Until::Ready { kind: "guestbooks", name: "visitors", is: "True" }),
            Await("four pods are ready on both nodes", Until::Pods { count: 4, nodes: &["node-1", "node-2"] }),
            Do("kubectl get guestbooks"),
            Do("kubectl get pods -o custom-columns=POD:.metadata.name,NODE:.spec.nodeName"),
        ],
    },
    Chapter {
        title: "Break it: delete every pod",
        steps: &[
            Say("The ReplicaSet desires four pods and observes none."),
            Do("kubectl delete pods --all"),
            Recovers("four new pods are ready", Until::NewPods(4)),
        ],
    },
    Chapter {
        title: "Break it: behind the operator's back",
        steps: &[
            Say("Someone scales the Deployment to zero. The Guestbook still specifies four replicas, so the \
                 operator restores them."),
            Do("kubectl scale deployment visitors --replicas=0"),
            Recovers("the Deployment has four replicas again", Until::Replicas { name: "visitors", count: 4 }),
            Await("the guestbook is ready", Until::Ready { kind: "guestbooks", name: "visitors", is: "True" }),
        ],
    },
    Chapter {
        title: "Break it: a node fails",
        steps: &[
            Say("A taint evicts all pods from node-1. Their replacements are scheduled to node-2."),
            Do("kubectl taint nodes node-1 demo=broken:NoExecute"),
            Recovers("all four pods are ready on node-2", Until::Pods { count: 4, nodes: &["node-2"] }),
            Do("kubectl get pods -o custom-columns=POD:.metadata.name,NODE:.spec.nodeName"),
            Do("kubectl taint nodes node-1 demo-"),
        ],
    },
    Chapter {
        title: "Invalid requests",
        steps: &[
            Say("The API server rejects objects that violate the schema, such as a guestbook with 400 replicas or a \
                 network without a gateway:"),
            Rejected("kubectl apply -f crowd.yaml"),
            Rejected("kubectl apply -f no-gateway.yaml"),
            Say("Only the operator can know that an address range is already in use. It reports the conflict in the \
                 status and in an event, and retries until the range is free."),
            Show("annex.yaml"),
            Do("kubectl apply -f annex.yaml"),
            Await("the operator reports the conflict", Until::Ready { kind: "networks", name: "annex", is: "False" }),
            Do("kubectl get networks"),
            Do("kubectl get network annex -o jsonpath='{.status.conditions[0].message}'"),
            Do("kubectl get events --field-selector involvedObject.kind=Network"),
        ],
    },
    Chapter {
        title: "A finalizer at work",
        steps: &[
            Say("A network must be released before it is deleted: its finalizer blocks the deletion. The switch that \
                 provides the networks is failing right now."),
            Switch(Some("the switch does not respond")),
            Do("kubectl delete networks office --wait=false"),
            Stays("the network is terminating, but not deleted", Until::Leaving { kind: "networks", name: "office" }),
            InSwitch { network: "office", exists: true },
            Do("kubectl get network office -o jsonpath='{.metadata.finalizers}'"),
            Say("The switch responds again, and the operator retries."),
            Switch(None),
            Recovers("the network is released and deleted", Until::Gone { kind: "networks", name: "office" }),
            InSwitch { network: "office", exists: false },
            Recovers("the annex gets its address range", Until::Ready { kind: "networks", name: "annex", is: "True" }),
            Do("kubectl get networks"),
        ],
    },
    Chapter {
        title: "Garbage collection",
        steps: &[
            Say("The Deployment, its ReplicaSet, the pods and the Service are owned by the guestbook: the garbage \
                 collector deletes them with it."),
            Do("kubectl get deployments,replicasets,pods,services"),
            Do("kubectl delete guestbook visitors"),
            Await(
                "all owned resources are deleted",
                Until::NoneLeft { kinds: &["deployments", "replicasets", "pods", "services"], labels: VISITORS },
            ),
            Do("kubectl get deployments,replicasets,pods,services"),
        ],
    },
];

#[cfg(test)]
mod tests {
    use super::{super::kubectl::Line, *};

    #[test]
    fn every_command_parses_fits_and_has_its_file() {
        for step in CHAPTERS.iter().flat_map(|chapter| chapter.steps) {
            let (Do(line) | Rejected(line) | Watch(line, _)) = step else { continue };
            let parsed = Line::parse(line).unwrap();
            assert!(line.len() + 5 <= 80, "{line}");
            if let Line::Apply { file } = parsed {
                assert!(file == "crds.yaml" || FILES.iter().any(|(name, _)| *name == file), "{file}");
            }
        }
    }

    #[test]
    fn conditions_are_about_known_kinds() {
        for step in CHAPTERS.iter().flat_map(|chapter| chapter.steps) {
            let (Watch(_, until) | Await(_, until) | Stays(_, until) | Recovers(_, until)) = step else { continue };
            let kinds = until.about().kinds.len();
            let expected = if let Until::NoneLeft { kinds, .. } = until { kinds.len() } else { 1 };
            assert_eq!(kinds, expected, "{until:?}");
        }
    }

    #[test]
    fn sentences_have_single_spaces() {
        for step in CHAPTERS.iter().flat_map(|chapter| chapter.steps) {
            if let Say(text) = step {
                assert!(!text.contains("  ") && text.len() < 400, "{text}");
            }
        }
    }
}
