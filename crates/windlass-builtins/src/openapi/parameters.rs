//! Path and query parameters.

use windlass_schema::types::{Scalar, StructId, Type};

use super::Descriptions;
use super::operations::META;
use crate::resource::Table;

/// A parameter; ordered by name, then by place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Parameter<'a> {
    pub(super) name: &'a str,
    /// `path` or `query`.
    pub(super) place: &'static str,
    /// `string`, `boolean` or `integer`.
    pub(super) ty: &'static str,
}

impl Parameter<'_> {
    /// Returns the description; options of deletes are described by `DeleteOptions`.
    pub(super) fn description<'d>(&self, descriptions: &'d dyn Descriptions) -> Option<&'d str> {
        let is_option = self.place == "query" && DELETE.iter().any(|option| option.name == self.name);
        if is_option { descriptions.property(&format!("{META}DeleteOptions"), self.name) } else { None }
    }
}

const fn query<'a>(name: &'a str, ty: &'static str) -> Parameter<'a> {
    Parameter { name, place: "query", ty }
}

/// Returns a path parameter.
pub(super) const fn path(name: &str) -> Parameter<'_> {
    Parameter { name, place: "path", ty: "string" }
}

pub(super) const PRETTY: Parameter<'_> = query("pretty", "string");

/// Parameter of reads of custom resources.
pub(super) const RESOURCE_VERSION: Parameter<'_> = query("resourceVersion", "string");

/// Parameters of create and update.
pub(super) const WRITE: [Parameter<'_>; 3] =
    [query("dryRun", "string"), query("fieldManager", "string"), query("fieldValidation", "string")];

/// Parameter of patches, in addition to [`WRITE`].
pub(super) const FORCE: Parameter<'_> = query("force", "boolean");

pub(super) const DELETE: [Parameter<'_>; 5] = [
    query("dryRun", "string"),
    query("gracePeriodSeconds", "integer"),
    query("ignoreStoreReadErrorWithClusterBreakingPotential", "boolean"),
    query("orphanDependents", "boolean"),
    query("propagationPolicy", "string"),
];

/// Parameters that select the objects of a list or delete-collection request.
pub(super) const SELECT: [Parameter<'_>; 9] = [
    query("continue", "string"),
    query("fieldSelector", "string"),
    query("labelSelector", "string"),
    query("limit", "integer"),
    query("resourceVersion", "string"),
    query("resourceVersionMatch", "string"),
    query("sendInitialEvents", "boolean"),
    query("shardSelector", "string"),
    query("timeoutSeconds", "integer"),
];

/// Parameters of lists and watches, in addition to [`SELECT`].
pub(super) const WATCH: [Parameter<'_>; 2] = [query("allowWatchBookmarks", "boolean"), query("watch", "boolean")];

/// Returns the fields of an options struct, such as `PodExecOptions`, as parameters.
pub(super) fn options(id: StructId, table: &Table) -> impl Iterator<Item = Parameter<'_>> {
    let fields = table.types.get(id).fields.iter().filter(|field| field.proto > 0);
    fields.filter(|field| field.name != "sinceTime").map(|field| {
        let ty = match &field.ty {
            Type::Scalar(Scalar::Bool) => "boolean",
            Type::Scalar(Scalar::Int32 | Scalar::Int64) => "integer",
            Type::List(element) if **element == Type::Scalar(Scalar::Int32) => "integer",
            _ => "string",
        };
        query(&field.name, ty)
    })
}
