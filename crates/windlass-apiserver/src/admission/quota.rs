//! Writes are charged to the quotas of their namespace before they are stored.
//!
//! A charge is a compare-and-swap of the quota's status, so that no two writes spend the same rest. What was paid for and
//! did not come to be is given back; what is deleted is given back by the control loop that counts.

use std::{collections::HashMap, future::Future, pin::Pin, sync::Arc};

use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::OwnedMutexGuard;
use windlass_builtins::quota::{self, Evaluator, Usage, Write};

use super::Operation;
use crate::{
    call::Call,
    endpoint::Endpoint,
    options::WriteOptions,
    request_info::ResourceRequest,
    status::{ApiError, Result},
    user::User,
    verbs::update::{Owners, Race, update_object},
    webhooks::{Options, Subject},
};

/// What writes of the server's own are attributed to.
pub(crate) const MANAGER: &str = "kube-apiserver";

/// Who may charge the quotas of a namespace. Writes to it take turns, so that they do not lose races among themselves.
#[derive(Debug, Default)]
pub(crate) struct Turns(Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>);

impl Turns {
    /// Waits for the turn.
    async fn take(&self, namespace: &str) -> OwnedMutexGuard<()> {
        let queue = {
            let mut queues = self.0.lock();
            // Whoever waits or has the turn holds a second reference.
            queues.retain(|_, queue| Arc::strong_count(queue) > 1);
            queues.entry(namespace.to_owned()).or_default().clone()
        };
        queue.lock_owned().await
    }
}

/// What was charged, by the name of the quota.
#[derive(Debug, Default)]
#[must_use = "what did not come to be is to be given back"]
pub(crate) struct Charges(Vec<(String, Usage)>);

impl Call<'_> {
    /// Charges a write to the quotas that it concerns, or refuses it.
    pub(crate) async fn charge(
        &self,
        operation: Operation,
        object: &Value,
        old: Option<&Value>,
        dry_run: bool,
    ) -> Result<Charges> {
        let resource = &*self.endpoint.resource;
        if operation == Operation::Delete || !resource.namespaced || self.target.namespace.is_empty() {
            return Ok(Charges::default());
        }
        let write = Write { subresource: self.target.subresource, object, old };
        match Evaluator::of(&resource.group, &resource.plural).filter(|evaluator| evaluator.handles(&write)) {
            Some(evaluator) => Box::pin(self.charge_quotas(evaluator, write, dry_run)).await,
            None => Ok(Charges::default()),
        }
    }

    async fn charge_quotas(&self, evaluator: Evaluator, write: Write<'_>, dry_run: bool) -> Result<Charges> {
        let quotas = self.quotas()?;
        let prefix = format!("{}/", self.target.namespace);
        if quotas.cache.snapshot().range(&prefix, None).next().is_none() {
            return Ok(Charges::default());
        }
        let _turn = self.server.quota_turns.take(self.target.namespace).await;
        self.server.storage.fresh().await?;
        let costs = self.costs(&quotas, &evaluator, write)?;
        let mut charges = Charges::default();
        if dry_run {
            return Ok(charges);
        }
        for (name, cost) in costs {
            let paid = self.write_quota(&quotas, &name, |quota| {
                let charged = quota::charged(quota, &cost, &write).map_err(|why| self.over_quota(write, &why))?;
                Ok(charged.unwrap_or_else(|| quota.clone()))
            });
            match paid.await {
                Ok(()) => charges.0.push((name, cost)),
                // It was deleted meanwhile, and limits nothing any more.
                Err(error) if error.reason == "NotFound" => {}
                Err(error) => {
                    self.give_back(charges).await;
                    return Err(error);
                }
            }
        }
        Ok(charges)
    }

    /// What a write costs each quota, all of which can pay.
    fn costs(&self, quotas: &Endpoint, evaluator: &Evaluator, write: Write<'_>) -> Result<Vec<(String, Usage)>> {
        let refuse = |why: String| self.over_quota(write, &why);
        let prefix = format!("{}/", self.target.namespace);
        let snapshot = quotas.cache.snapshot();
        let mut concerned = Vec::new();
        for (_, cached) in snapshot.range(&prefix, None) {
            let quota = cached.object.to_value();
            if quota::concerns(&quota, evaluator, &write).map_err(refuse)? {
                concerned.push((cached.object.header.name.to_string(), quota));
            }
        }
        let mut costs = Vec::new();
        for (name, quota) in concerned {
            let cost = quota::cost(&quota, evaluator, &write, self.server.now()).map_err(refuse)?;
            if quota::charged(&quota, &cost, &write).map_err(refuse)?.is_some() {
                costs.push((name, cost));
            }
        }
        Ok(costs)
    }

    /// Gives back what was charged for something that did not come to be.
    pub(crate) async fn give_back(&self, charges: Charges) {
        let Ok(quotas) = self.quotas() else { return };
        for (name, cost) in charges.0 {
            let given = self.write_quota(&quotas, &name, |quota| Ok(quota::given_back(quota, &cost)));
            if let Err(error) = given.await {
                // The control loop counts it again sooner or later.
                tracing::debug!(%error, quota = name, "could not give back a charge");
            }
        }
    }

    fn quotas(&self) -> Result<Arc<Endpoint>> {
        let registry = self.server.registry.load_full();
        registry.endpoint("", "v1", "resourcequotas").cloned().ok_or_else(ApiError::no_such_resource)
    }

    /// Boxed, because whoever writes may be charged, as far as types can tell.
    fn write_quota<'b>(
        &'b self,
        quotas: &'b Arc<Endpoint>,
        name: &'b str,
        change: impl FnMut(&Value) -> Result<Value> + Send + 'b,
    ) -> Pin<Box<dyn Future<Output = Result<()>> + Send + 'b>> {
        Box::pin(async move {
            let target = ResourceRequest {
                version: "v1",
                namespace: self.target.namespace,
                resource: "resourcequotas",
                name,
                subresource: "status",
                ..ResourceRequest::default()
            };
            let user = User::apiserver();
            let call = Call::internal(self.server, quotas, target, &user, self.headers);
            let options = WriteOptions { field_manager: MANAGER.to_owned(), ..WriteOptions::internal() };
            update_object(&call, &options, Race::Retry, Owners::Track, change).await.map(drop)
        })
    }

    fn over_quota(&self, write: Write<'_>, why: &str) -> ApiError {
        let name = crate::meta::text(write.object, "name");
        let options = WriteOptions::internal();
        let subject = Subject { operation: Operation::Create, name, options: Options::Write(&options) };
        self.attributes(&subject, name, None).forbidden(write.object, why)
    }
}
