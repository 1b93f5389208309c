//! The names that expressions of policies can use, and their types.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::Returns;
use super::request_types::RequestTypes;
use crate::checker::{Environment, TypeProvider};
use crate::interpreter::VARIABLES;
use crate::types::Type;
use crate::value::{PATCH, is_struct};

/// The type of an object, for type checking.
#[derive(Clone)]
pub struct ObjectTypes {
    /// The type.
    pub root: Type,
    /// The types within it.
    pub provider: Arc<dyn TypeProvider>,
}

impl fmt::Debug for ObjectTypes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ObjectTypes").field("root", &self.root).finish_non_exhaustive()
    }
}

/// The names that expressions can use.
#[derive(Debug, Clone)]
pub(super) struct Names {
    pub(super) has_params: bool,
    /// The types of variables; `None` if there is no `variables`.
    pub(super) variables: Option<BTreeMap<String, Type>>,
    /// The type of `object` and `oldObject`, if it is known.
    pub(super) object: Option<ObjectTypes>,
    /// The type of `params`, if it is known.
    pub(super) params: Option<ObjectTypes>,
}

impl Names {
    /// Returns the environment of an expression.
    pub(super) fn environment(&self, returns: Returns, authorizer: bool) -> Environment {
        let patches = matches!(returns, Returns::ApplyConfiguration | Returns::JsonPatch);
        let types = PolicyTypes {
            variables: self.variables.clone(),
            patches,
            objects: [&self.object, &self.params].into_iter().flatten().map(|types| types.provider.clone()).collect(),
        };
        let base = if patches { Environment::kubernetes_patches() } else { Environment::standard_kubernetes() };
        let root = |types: &Option<ObjectTypes>| types.as_ref().map_or(Type::Dyn, |types| types.root.clone());
        let mut environment = base
            .clone()
            .with_provider(Arc::new(types))
            .with_variable("object", root(&self.object))
            .with_variable("oldObject", root(&self.object))
            .with_variable("request", Type::object("kubernetes.AdmissionRequest"))
            .with_variable("namespaceObject", Type::object("kubernetes.Namespace"));
        if self.has_params {
            environment = environment.with_variable("params", root(&self.params));
        }
        if self.variables.is_some() {
            environment = environment.with_variable("variables", Type::object(VARIABLES));
        }
        if authorizer {
            environment = environment.with_variable("authorizer", Type::object("kubernetes.authorization.Authorizer"));
        }
        // Type checking does not know it, as in kube-controller-manager.
        if authorizer && self.object.is_none() {
            let check = Type::object("kubernetes.authorization.ResourceCheck");
            environment = environment.with_variable("authorizer.requestResource", check);
        }
        environment
    }
}

/// The types of a policy's expressions.
struct PolicyTypes {
    variables: Option<BTreeMap<String, Type>>,
    patches: bool,
    objects: Vec<Arc<dyn TypeProvider>>,
}

impl TypeProvider for PolicyTypes {
    fn find_type(&self, name: &str) -> Option<Type> {
        if name == VARIABLES && self.variables.is_some() || self.patches && is_struct(name) {
            return Some(Type::object(name));
        }
        RequestTypes.find_type(name).or_else(|| self.objects.iter().find_map(|types| types.find_type(name)))
    }

    fn find_field(&self, object: &str, field: &str) -> Option<Type> {
        if object == VARIABLES {
            return self.variables.as_ref()?.get(field).cloned();
        }
        if self.patches && is_struct(object) {
            return match (object == PATCH, field) {
                (true, "op" | "path" | "from") => Some(Type::String),
                (true, "value") | (false, _) => Some(Type::Dyn),
                // A type that no value has, as in kube-apiserver.
                (true, _) => Some(Type::object("")),
            };
        }
        let of_object = || self.objects.iter().find_map(|types| types.find_field(object, field));
        RequestTypes.find_field(object, field).or_else(of_object)
    }
}
