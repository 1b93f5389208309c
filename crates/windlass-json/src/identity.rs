//! The parts of an object that identify and select it.

use std::{borrow::Cow, collections::BTreeMap};

use serde::Deserialize;

/// The name, namespace, uid and labels of an object.
#[derive(Debug, Deserialize)]
pub struct Identity<'a> {
    /// The name.
    #[serde(borrow)]
    pub name: Cow<'a, str>,
    /// The namespace; empty for cluster-scoped objects.
    #[serde(borrow, default)]
    pub namespace: Cow<'a, str>,
    /// The uid.
    #[serde(borrow, default)]
    pub uid: Cow<'a, str>,
    /// The labels.
    #[serde(borrow, default)]
    pub labels: Option<BTreeMap<Cow<'a, str>, Cow<'a, str>>>,
}

impl<'a> Identity<'a> {
    /// Reads the metadata of an object. The rest of the object must be JSON.
    ///
    /// # Errors
    /// Returns an error if the text is not an object with metadata.
    pub fn read(object: &'a str) -> serde_json::Result<Self> {
        #[derive(Deserialize)]
        struct Envelope<'a> {
            #[serde(borrow)]
            metadata: Identity<'a>,
        }
        Ok(serde_json::from_str::<Envelope<'_>>(object)?.metadata)
    }
}
