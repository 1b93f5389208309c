//! Networks that exist only in memory: for tests, and to try out the operator.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;
use windlass::prelude::ObjectKey;

use super::{Backend, BackendError};
use crate::plan::Plan;

/// Networks in memory. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Memory(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    networks: BTreeMap<ObjectKey, Plan>,
    broken: Option<String>,
}

impl Memory {
    /// Returns the addresses of a network, or `None` if it does not exist.
    pub fn get(&self, network: &ObjectKey) -> Option<Plan> {
        self.state(|state| state.networks.get(network).copied())
    }

    /// Makes every operation fail with a message from now on, or succeed again.
    pub fn fail_with(&self, message: Option<&str>) {
        self.state(|state| state.broken = message.map(str::to_owned));
    }

    fn state<T>(&self, call: impl FnOnce(&mut State) -> T) -> T {
        // No change under the lock can be left incomplete.
        call(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn change(
        &self,
        operation: &'static str,
        network: &ObjectKey,
        change: impl FnOnce(&mut BTreeMap<ObjectKey, Plan>),
    ) -> Result<(), BackendError> {
        self.state(|state| match &state.broken {
            Some(message) => Err(BackendError { operation, network: network.clone(), message: message.clone() }),
            None => {
                change(&mut state.networks);
                Ok(())
            }
        })
    }
}

#[async_trait]
impl Backend for Memory {
    async fn ensure(&self, network: &ObjectKey, plan: &Plan) -> Result<(), BackendError> {
        self.change("create", network, |networks| {
            networks.insert(network.clone(), *plan);
        })
    }

    async fn release(&self, network: &ObjectKey) -> Result<(), BackendError> {
        self.change("release", network, |networks| {
            networks.remove(network);
        })
    }
}
