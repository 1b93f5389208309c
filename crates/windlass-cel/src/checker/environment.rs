//! The environment of an expression: variables, functions, types and fields of objects.

use std::sync::{Arc, OnceLock};

use crate::declarations::Declarations;
use crate::types::Type;

/// Provides object types and their fields.
pub trait TypeProvider: Send + Sync {
    /// Returns the type for a name in an expression (`Object(name)` for a struct), or `None` if the name is not a type.
    fn find_type(&self, name: &str) -> Option<Type>;
    /// Returns the type of a field of an object type; `None` if there is no such field.
    fn find_field(&self, object: &str, field: &str) -> Option<Type>;
}

/// The names that an expression may refer to. Cheap to clone and to extend.
#[derive(Clone)]
pub struct Environment {
    pub(crate) declarations: Arc<Declarations>,
    pub(crate) variables: Vec<(Arc<str>, Type)>,
    pub(crate) provider: Option<Arc<dyn TypeProvider>>,
}

impl Environment {
    /// Returns an environment of functions and types, without variables.
    pub fn new(declarations: Arc<Declarations>) -> Environment {
        Environment { declarations, variables: Vec::new(), provider: None }
    }

    /// Returns the environment of custom resource rules in Kubernetes, without the variables.
    pub fn standard_kubernetes() -> &'static Environment {
        static ENVIRONMENT: OnceLock<Environment> = OnceLock::new();
        ENVIRONMENT.get_or_init(|| Environment::new(Arc::new(Declarations::kubernetes())))
    }

    /// Returns the environment of expressions that patch objects, without the variables.
    pub fn kubernetes_patches() -> &'static Environment {
        static ENVIRONMENT: OnceLock<Environment> = OnceLock::new();
        ENVIRONMENT.get_or_init(|| Environment::new(Arc::new(Declarations::kubernetes_patches())))
    }

    /// Returns this environment with an additional variable, which replaces one of the same name.
    #[must_use]
    pub fn with_variable(mut self, name: &str, variable: Type) -> Environment {
        self.variables.retain(|(other, _)| &**other != name);
        self.variables.push((name.into(), variable));
        self
    }

    /// Returns this environment with object types.
    #[must_use]
    pub fn with_provider(mut self, provider: Arc<dyn TypeProvider>) -> Environment {
        self.provider = Some(provider);
        self
    }

    /// Returns the variables.
    pub fn variables(&self) -> impl Iterator<Item = (&str, &Type)> {
        self.variables.iter().map(|(name, variable)| (&**name, variable))
    }
}

impl std::fmt::Debug for Environment {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Environment").field("variables", &self.variables).finish_non_exhaustive()
    }
}
