//! Plans: one pass over all objects in which nothing is written.
//!
//! The client of a plan turns every write into a server-side dry run ([`client`]), and records the result ([`state`]),
//! which later reads of the pass see. [`Plan`] is what remains: the changes per object, and what could not be planned.

use std::{sync::Arc, time::Duration};

use kube::Client;
use serde_json::{Value, json};

use super::{Operator, OperatorError, Options, definitions::install};
use crate::{
    access::Denials,
    cache::Caches,
    context::SharedHandles,
    controller::PassReport,
    events::{EventMetrics, Recorder},
    lease::{Leadership, Shard},
    metrics::Metrics,
};

mod answer;
mod client;
mod current;
mod diff;
mod new_kind;
mod overlay;
mod path;
mod print;
mod state;

pub use diff::FieldChange;
use state::PlannedState;

/// Everything that a pass over all objects would change. See [`Operator::plan`].
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Plan {
    /// Changes of objects, in the order of their first write.
    pub changes: Vec<PlannedChange>,
    /// Objects whose reconcile failed, and objects and kinds that could not be read.
    pub problems: Vec<PlanProblem>,
    /// Omissions of the plan, such as objects that are being deleted.
    pub notes: Vec<String>,
    /// Number of objects that were reconciled.
    pub reconciled: usize,
}

/// A change of one object.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct PlannedChange {
    /// Planned effect on the object.
    pub action: PlannedAction,
    /// API version of the object.
    pub api_version: String,
    /// Kind of the object.
    pub kind: String,
    /// Namespace of the object, if it has one.
    pub namespace: Option<String>,
    /// Name of the object.
    pub name: String,
    /// Controller that would write it first.
    pub controller: Option<String>,
    /// Fields that would change; all of a new object.
    pub fields: Vec<FieldChange>,
}

/// Planned effect on an object.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PlannedAction {
    /// It would be created.
    Create,
    /// It would be changed.
    Update,
    /// It would be deleted. Objects that the garbage collector would delete with it are not planned.
    Delete,
    /// A subresource such as `eviction` or `scale` would be called. Later reads do not see its effect.
    Call(String),
}

/// A reconcile that failed, or an object that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PlanProblem {
    /// The controller.
    pub controller: String,
    /// The object; `None` if the controller could not read its kind.
    pub object: Option<String>,
    /// The operation that failed.
    pub message: String,
}

/// Time that caches get to sync.
const SYNC_LIMIT: Duration = Duration::from_secs(300);

impl Operator {
    /// Reconciles every object of every controller once, with each write as a server-side dry run, and returns what
    /// would change: what a new version of the operator would do to a cluster. Nothing is stored.
    ///
    /// - Controllers run one after the other, in the order in which they were added, each with the objects that those
    ///   before it would have created. Reads of single objects, cached or live, see the writes of the pass; live lists do
    ///   not. The effects of control loops (a Deployment's pods, garbage collection) are not part of it.
    /// - With [`Options::install_crds`], the CRDs are part of the plan. A kind whose CRD does not exist yet has no
    ///   objects but those of the plan.
    /// - Only the home cluster is planned, not [others](Operator::clusters).
    /// - Objects that are being deleted are not cleaned up, [daemons](crate::controller::Daemon), tasks, webhooks and
    ///   leader election do not run, and events are dropped.
    /// - A reconciler that calls other systems does so in a plan, too, unless it checks
    ///   [`Context::is_plan`](crate::context::Context::is_plan).
    ///
    /// The client needs the permissions of the operator: the API server authorizes a dry run like a write. Objects that it may
    /// write but not get are compared with what a patch without content returns, or listed with all of their fields.
    pub async fn plan(self, client: Client, options: Options) -> Result<Plan, OperatorError> {
        let mut plan = Plan::default();
        if !self.clusters.is_empty() {
            plan.notes
                .push("only the home cluster is planned, not the clusters that the operator also works in".into());
        }
        let wanted = self.manifests(&options.webhooks.namespace, "");
        let denials = Denials::new(wanted.all_permissions());
        let state = Arc::new(PlannedState::default());
        let client = client::planning(client, state.clone());
        let caches = Caches::new(client.clone());
        self.configure.into_iter().for_each(|configure| configure(&caches));
        if options.install_crds {
            install(&client, &wanted).await?;
        }
        let metrics = Metrics::new();
        let counted = metrics.shared(EventMetrics::register);
        let handles = SharedHandles {
            events: Recorder::with_metrics(client.clone(), &self.name, &options.instance, counted),
            caches,
            client,
            metrics,
            leadership: Leadership::always(),
            shard: Shard::whole(),
            field_manager: self.name.into(),
            controller: None,
            denials,
            planning: true,
            request_timeout: self.request_timeout,
        };
        let mut controllers = self.controllers;
        for controller in &mut controllers {
            controller.plan_with(|client| client::planning(client, state.clone()));
            controller.restrict_to(&options.namespaces);
            controller.prepare(&handles);
        }
        let mut absent = Vec::new();
        for controller in controllers {
            let name = controller.name().to_owned();
            let report = controller.pass(&handles, SYNC_LIMIT).await;
            absent.extend(report.absent.clone().map(|resource| (name.clone(), resource)));
            plan.add(&name, report);
        }
        plan.changes = state.changes();
        for (controller, resource) in absent {
            plan.explain_absent(controller, &resource);
        }
        plan.explain_new_kinds();
        plan.explain_unknown(&state.unknown());
        Ok(plan)
    }
}

impl Plan {
    /// Returns whether nothing would change.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Returns the exit code of `OPERATOR plan`: 0 if nothing would change, 2 if something would, 1 if something
    /// failed.
    pub fn exit_code(&self) -> u8 {
        match (self.problems.is_empty(), self.changes.is_empty()) {
            (false, _) => 1,
            (true, false) => 2,
            (true, true) => 0,
        }
    }

    /// Returns the plan as text, with one line per changed field. Values of Secrets are not shown.
    pub fn to_text(&self) -> String {
        print::text(self)
    }

    /// Returns the plan as JSON. Values of Secrets are not shown.
    pub fn to_json(&self) -> Value {
        let change = |change: &PlannedChange| {
            let fields: Vec<_> = change.fields.iter().map(FieldChange::to_json).collect();
            json!({
                "action": change.action.name(),
                "apiVersion": change.api_version,
                "kind": change.kind,
                "namespace": change.namespace,
                "name": change.name,
                "controller": change.controller,
                "fields": fields,
            })
        };
        let problem = |problem: &PlanProblem| json!({ "controller": problem.controller, "object": problem.object, "message": problem.message });
        json!({
            "reconciled": self.reconciled,
            "changes": self.changes.iter().map(change).collect::<Vec<_>>(),
            "problems": self.problems.iter().map(problem).collect::<Vec<_>>(),
            "notes": self.notes,
        })
    }

    /// Says why a controller reconciled nothing. It is no problem if the plan adds the version to the CRD.
    fn explain_absent(&mut self, controller: String, resource: &str) {
        if self.changes.iter().any(|change| change.is_of_crd() && change.name == resource) {
            self.notes.push(format!("controller {controller}: its version of {resource} is not served yet"));
            return;
        }
        let message = format!("the resource {resource} is not served (hint: --install-crds plans its CRD as well)");
        self.problems.push(PlanProblem { controller, object: None, message });
    }

    /// Says what the plan cannot know about objects whose CRD does not exist.
    fn explain_new_kinds(&mut self) {
        let is_new = |change: &&PlannedChange| change.is_of_crd() && change.action == PlannedAction::Create;
        let note = |change: &PlannedChange| {
            format!(
                "{} does not exist yet: its objects are planned without the defaults and the validation of the API server",
                change.name
            )
        };
        self.notes.extend(self.changes.iter().filter(is_new).map(note));
    }

    /// Says which fields are not compared with a stored state.
    fn explain_unknown(&mut self, changes: &[PlannedChange]) {
        let note = |change: &PlannedChange| {
            let name = change.namespace.iter().chain([&change.name]).map(String::as_str).collect::<Vec<_>>().join("/");
            format!("{} {name}: its stored state may not be read, so that all of its fields are shown", change.kind)
        };
        self.notes.extend(changes.iter().filter(|change| change.action == PlannedAction::Update).map(note));
    }

    /// Adds the report of a controller.
    fn add(&mut self, controller: &str, report: PassReport) {
        self.reconciled += report.reconciled;
        self.problems.extend(report.failures.into_iter().map(|(object, message)| PlanProblem {
            controller: controller.to_owned(),
            object: object.map(|key| key.to_string()),
            message,
        }));
        if report.terminating > 0 {
            let objects = if report.terminating == 1 { "object is" } else { "objects are" };
            self.notes.push(format!(
                "controller {controller}: {} {objects} being deleted; a plan does not clean up",
                report.terminating
            ));
        }
        if report.has_daemon {
            self.notes.push(format!("controller {controller}: its daemons do not run in a plan"));
        }
    }
}

impl PlannedChange {
    fn is_of_crd(&self) -> bool {
        self.kind == "CustomResourceDefinition"
    }
}

impl PlannedAction {
    /// Returns the name, as in JSON: `create`, `update`, `delete`, or the subresource.
    pub fn name(&self) -> &str {
        match self {
            Self::Create => "create",
            Self::Update => "update",
            Self::Delete => "delete",
            Self::Call(subresource) => subresource,
        }
    }
}
