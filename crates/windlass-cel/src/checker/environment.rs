//! What names mean: variables, functions, types and the fields of objects.

use std::sync::{Arc, OnceLock};

use crate::declarations::Declarations;
use crate::types::Type;

/// Answers what object types there are and what fields they have.
pub trait TypeProvider: Send + Sync {
    /// The type a name stands for in an expression (`Object(name)` for a struct), or `None` if it is not a type's.
    fn find_type(&self, name: &str) -> Option<Type>;
    /// The type of a field of an object type; `None` if it has no such field.
    fn find_field(&self, object: &str, field: &str) -> Option<Type>;
}

/// What an expression may refer to. Cheap to clone and to extend.
#[derive(Clone)]
pub struct Environment {
    pub(crate) declarations: Arc<Declarations>,
    pub(crate) variables: Vec<(Arc<str>, Type)>,
    pub(crate) provider: Option<Arc<dyn TypeProvider>>,
}

impl Environment {
    /// An environment of functions and types, with no variables.
    pub fn new(declarations: Arc<Declarations>) -> Environment {
        Environment { declarations, variables: Vec::new(), provider: None }
    }

    /// What Kubernetes has in the rules of custom resources, but for the variables.
    pub fn standard_kubernetes() -> &'static Environment {
        static ENVIRONMENT: OnceLock<Environment> = OnceLock::new();
        ENVIRONMENT.get_or_init(|| Environment::new(Arc::new(Declarations::kubernetes())))
    }

    /// This environment with one more variable; a variable of the same name is replaced.
    #[must_use]
    pub fn with_variable(mut self, name: &str, variable: Type) -> Environment {
        self.variables.retain(|(other, _)| &**other != name);
        self.variables.push((name.into(), variable));
        self
    }

    /// This environment with object types.
    #[must_use]
    pub fn with_provider(mut self, provider: Arc<dyn TypeProvider>) -> Environment {
        self.provider = Some(provider);
        self
    }

    /// The variables.
    pub fn variables(&self) -> impl Iterator<Item = (&str, &Type)> {
        self.variables.iter().map(|(name, variable)| (&**name, variable))
    }
}

impl std::fmt::Debug for Environment {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Environment").field("variables", &self.variables).finish_non_exhaustive()
    }
}
