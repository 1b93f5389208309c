//! The requests of a level, by identity.

use super::Request;

/// The identity of a request: a place in a table, which a later request gets when this one has ended.
pub(in super::super) type Id = usize;

/// A table of requests. Requests come and go all the time, so places are reused and nothing is hashed.
#[derive(Debug, Default)]
pub(super) struct Requests {
    places: Vec<Option<Request>>,
    free: Vec<Id>,
}

impl Requests {
    pub(super) fn insert(&mut self, request: Request) -> Id {
        match self.free.pop() {
            Some(id) => {
                self.places[id] = Some(request);
                id
            }
            None => {
                self.places.push(Some(request));
                self.places.len() - 1
            }
        }
    }

    pub(super) fn get(&self, id: Id) -> Option<&Request> {
        self.places.get(id)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, id: Id) -> Option<&mut Request> {
        self.places.get_mut(id)?.as_mut()
    }

    pub(super) fn remove(&mut self, id: Id) -> Option<Request> {
        let request = self.places.get_mut(id)?.take()?;
        self.free.push(id);
        Some(request)
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.free.len() == self.places.len()
    }
}
