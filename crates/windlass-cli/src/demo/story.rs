//! The story: what is said, what is typed, and what must come true.

use super::until::Until;

/// A part of the story, with a title.
pub(super) struct Chapter {
    pub(super) title: &'static str,
    pub(super) steps: &'static [Step],
}

/// What happens next.
pub(super) enum Step {
    /// A few sentences.
    Say(&'static str),
    /// A file that a command will use.
    Show(&'static str),
    /// A line that the server does.
    Do(&'static str),
    /// A line that it refuses.
    Refused(&'static str),
    /// A line that shows changes, until something is true.
    Watch(&'static str, Until),
    /// Something that becomes true by itself after the last line.
    Comes(&'static str, Until),
    /// Something that is true, and does not change.
    Stays(&'static str, Until),
    /// Something that was broken, and becomes true by itself. It is told again in the end.
    Heals(&'static str, Until),
    /// The operators begin to work.
    StartOperators,
    /// What networks are made with breaks, with these words, or works again.
    Switch(Option<&'static str>),
    /// The network is or is not there, in the switch itself.
    InSwitch { network: &'static str, there: bool },
}

impl Step {
    /// Whether it looks for something, without anything that is typed or said.
    pub(super) fn is_promise(&self) -> bool {
        matches!(self, Comes(..) | Stays(..) | Heals(..) | StartOperators | InSwitch { .. })
    }
}

/// The files that commands use.
pub(super) const FILES: &[(&str, &str)] = &[
    ("network.yaml", include_str!("files/network.yaml")),
    ("guestbook.yaml", include_str!("files/guestbook.yaml")),
    ("crowd.yaml", include_str!("files/crowd.yaml")),
    ("no-gateway.yaml", include_str!("files/no-gateway.yaml")),
    ("annex.yaml", include_str!("files/annex.yaml")),
];

/// The label of everything that a guestbook is made of.
const VISITORS: &str = "webapp.tutorial.kubebuilder.io/guestbook=visitors";

use Step::{Comes, Do, Heals, InSwitch, Refused, Say, Show, StartOperators, Stays, Switch, Watch};

/// All of it.
pub(super) const CHAPTERS: &[Chapter] = &[
    Chapter {
        title: "A cluster, in this process",
        steps: &[
            Say("An API server, the control loops of a cluster and two simulated nodes run in this process. Every \
                 client of Kubernetes can talk to them. The lines after $ are what you would type; what is below them \
                 is what this server answers."),
            Comes("two nodes are ready", Until::NodesReady(2)),
            Do("kubectl get nodes"),
        ],
    },
    Chapter {
        title: "Two new kinds of objects",
        steps: &[
            Say("A definition teaches the API server a new kind. Its objects are served, checked and printed as soon \
                 as the command returns."),
            Do("kubectl apply -f definitions.yaml"),
            Do("kubectl get networks,guestbooks"),
            Say(
                "So far they are only words. Two operators start, here in this process: one makes networks, the other \
                 runs guestbooks. In a cluster they would be pods.",
            ),
            StartOperators,
        ],
    },
    Chapter {
        title: "Say what you want",
        steps: &[
            Say("A network with addresses, and a guestbook that four pods serve:"),
            Show("network.yaml"),
            Do("kubectl apply -f network.yaml"),
            Comes("the network is there", Until::Ready { kind: "networks", name: "office", is: "True" }),
            Do("kubectl apply -f guestbook.yaml"),
            Watch("kubectl get deployments -w", Until::Ready { kind: "guestbooks", name: "visitors", is: "True" }),
            Comes("four pods serve, on both nodes", Until::Pods { count: 4, nodes: &["node-1", "node-2"] }),
            Do("kubectl get guestbooks"),
            Do("kubectl get pods -o custom-columns=POD:.metadata.name,NODE:.spec.nodeName"),
        ],
    },
    Chapter {
        title: "Break it: delete every pod",
        steps: &[
            Say("The ReplicaSet wants four pods and sees none."),
            Do("kubectl delete pods --all"),
            Heals("four new pods serve", Until::NewPods(4)),
        ],
    },
    Chapter {
        title: "Break it: behind the operator's back",
        steps: &[
            Say("Somebody scales the Deployment to nothing. The Guestbook still says four, and the operator sees to \
                 it."),
            Do("kubectl scale deployment visitors --replicas=0"),
            Heals("the Deployment has its four pods again", Until::Replicas { name: "visitors", count: 4 }),
            Comes("the guestbook is ready", Until::Ready { kind: "guestbooks", name: "visitors", is: "True" }),
        ],
    },
    Chapter {
        title: "Break it: a node fails",
        steps: &[
            Say("Nothing may stay on node-1. Its pods are evicted, and others take their place on node-2."),
            Do("kubectl taint nodes node-1 demo=broken:NoExecute"),
            Heals("all four pods serve from node-2", Until::Pods { count: 4, nodes: &["node-2"] }),
            Do("kubectl get pods -o custom-columns=POD:.metadata.name,NODE:.spec.nodeName"),
            Do("kubectl taint nodes node-1 demo-"),
        ],
    },
    Chapter {
        title: "Wishes that cannot be",
        steps: &[
            Say(
                "What the schema of a definition forbids, the API server refuses. Here is a guestbook of 400 pods, and \
                 a network that has no gateway:",
            ),
            Refused("kubectl apply -f crowd.yaml"),
            Refused("kubectl apply -f no-gateway.yaml"),
            Say(
                "Only the operator can know that the addresses of a network are taken. It says so in the status and in \
                 an event, and waits for them.",
            ),
            Show("annex.yaml"),
            Do("kubectl apply -f annex.yaml"),
            Comes("the operator refuses", Until::Ready { kind: "networks", name: "annex", is: "False" }),
            Do("kubectl get networks"),
            Do("kubectl get network annex -o jsonpath='{.status.conditions[0].message}'"),
            Do("kubectl get events --field-selector involvedObject.kind=Network"),
        ],
    },
    Chapter {
        title: "A goodbye that takes its time",
        steps: &[
            Say(
                "A network must be released before it goes: its finalizer keeps it. What it is made with, the switch, \
                 fails just now.",
            ),
            Switch(Some("the switch does not answer")),
            Do("kubectl delete networks office --wait=false"),
            Stays("it is to go, and stays", Until::Leaving { kind: "networks", name: "office" }),
            InSwitch { network: "office", there: true },
            Do("kubectl get network office -o jsonpath='{.metadata.finalizers}'"),
            Say("The switch answers again. The operator has not given up."),
            Switch(None),
            Heals("the network is released and gone", Until::Gone { kind: "networks", name: "office" }),
            InSwitch { network: "office", there: false },
            Heals("the annex has its addresses", Until::Ready { kind: "networks", name: "annex", is: "True" }),
            Do("kubectl get networks"),
        ],
    },
    Chapter {
        title: "Nothing is left behind",
        steps: &[
            Say(
                "The Deployment, its ReplicaSet, the pods and the Service belong to the guestbook, and go with it: the \
                 garbage collector sees to that.",
            ),
            Do("kubectl get deployments,replicasets,pods,services"),
            Do("kubectl delete guestbook visitors"),
            Comes(
                "all of it is gone",
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
    fn every_line_is_understood_fits_and_has_its_file() {
        for step in CHAPTERS.iter().flat_map(|chapter| chapter.steps) {
            let (Do(line) | Refused(line) | Watch(line, _)) = step else { continue };
            let parsed = Line::parse(line).unwrap();
            assert!(line.len() + 5 <= 80, "{line}");
            if let Line::Apply { file } = parsed {
                assert!(file == "definitions.yaml" || FILES.iter().any(|(name, _)| *name == file), "{file}");
            }
        }
    }

    #[test]
    fn everything_that_must_come_true_is_about_kinds_that_there_are() {
        for step in CHAPTERS.iter().flat_map(|chapter| chapter.steps) {
            let (Watch(_, until) | Comes(_, until) | Stays(_, until) | Heals(_, until)) = step else { continue };
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
