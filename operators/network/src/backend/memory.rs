//! Networks that are only remembered: for tests, and to try the operator out.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;
use windlass::prelude::ObjectKey;

use super::{Backend, BackendError};
use crate::plan::Plan;

/// Remembers networks. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Memory(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    networks: BTreeMap<ObjectKey, Plan>,
    broken: Option<String>,
}

impl Memory {
    /// What there is of a network.
    pub fn get(&self, network: &ObjectKey) -> Option<Plan> {
        self.state(|state| state.networks.get(network).copied())
    }

    /// Makes every operation fail from now on, with a message, or work again.
    pub fn fail_with(&self, message: Option<&str>) {
        self.state(|state| state.broken = message.map(str::to_owned));
    }

    fn state<T>(&self, call: impl FnOnce(&mut State) -> T) -> T {
        // Nothing that is done under the lock leaves it half done.
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
        self.change("make", network, |networks| {
            networks.insert(network.clone(), *plan);
        })
    }

    async fn release(&self, network: &ObjectKey) -> Result<(), BackendError> {
        self.change("release", network, |networks| {
            networks.remove(network);
        })
    }
}
