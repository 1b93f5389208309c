//! Conversions that are wanted where nobody can wait for them.
//!
//! Who owns which field is decided over the versions in which fields were set, by code that cannot wait for a webhook. It
//! says what it wants instead, and what it decides is thrown away; what it wanted is converted, and it begins anew.

use parking_lot::Mutex;
use serde_json::Value;

use crate::{call::Call, status::Result};

/// An object, the version it is wanted in, and, once it was converted, what it is there.
type Conversion = (Value, String, Option<Value>);

/// The conversions of a request.
#[derive(Default)]
pub(crate) struct Memory(Mutex<Vec<Conversion>>);

impl Call<'_> {
    /// An object in another version, if that takes no webhook, or the webhook was asked before.
    ///
    /// # Errors
    /// If it is to be asked.
    pub(crate) fn remembered(&self, object: &Value, to: &str) -> Result<Value, String> {
        if object["apiVersion"] == to {
            return Ok(object.clone());
        }
        if !self.needs_converter() {
            let mut object = object.clone();
            object["apiVersion"] = to.into();
            return Ok(object);
        }
        let mut memory = self.memory.0.lock();
        let known = memory.iter().find(|(from, version, _)| version == to && from == object);
        match known {
            Some((_, _, Some(converted))) => return Ok(converted.clone()),
            Some(_) => {}
            None => memory.push((object.clone(), to.to_owned(), None)),
        }
        Err("the object is to be converted first".to_owned())
    }

    /// Converts what is wanted; false if nothing is.
    pub(crate) async fn convert_wanted(&self) -> Result<bool> {
        let Some(custom) = self.endpoint.custom().filter(|custom| custom.converter.is_some()) else { return Ok(false) };
        let wanted: Vec<(usize, Value, String)> = {
            let memory = self.memory.0.lock();
            let open = memory.iter().enumerate().filter(|(_, (_, _, converted))| converted.is_none());
            open.map(|(at, (object, to, _))| (at, object.clone(), to.clone())).collect()
        };
        let any = !wanted.is_empty();
        for (at, object, to) in wanted {
            let mut converted = Box::pin(custom.converted(self.server, vec![object], &to)).await?;
            self.memory.0.lock()[at].2 = Some(converted.swap_remove(0));
        }
        Ok(any)
    }
}
