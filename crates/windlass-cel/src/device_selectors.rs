//! CEL selectors of devices, in the requests and classes of dynamic resource allocation.
//!
//! An expression sees one variable, `device`. It evaluates to a bool, or to an attribute, whose type is only known when
//! it is evaluated.

use std::sync::{Arc, LazyLock};

use windlass_schema::sorting::Gather as _;

use crate::checker::{self, Environment, TypeProvider};
use crate::cost;
use crate::declared::{DeclType, Shape};
use crate::parser;
use crate::types::Type;

/// Maximum cost of an expression.
const MAX_COST: u64 = 1_000_000;
/// Maximum number of attributes and capacities of a device.
const PROPERTIES: i64 = 32;
const DEVICE: &str = "kubernetes.DRADevice";

/// Reasons why a selector is not accepted.
#[derive(Debug, PartialEq, Eq)]
pub enum SelectorError {
    /// It does not compile, or its result is not a bool.
    Invalid(String),
    /// It may cost too much.
    TooComplex,
}

/// Checks an expression.
///
/// # Errors
/// Returns why kube-apiserver rejects it.
pub fn check(text: &str) -> Result<(), SelectorError> {
    let failed = |issues: crate::source::Errors| SelectorError::Invalid(format!("compilation failed: {issues}"));
    let options = parser::Options { bindings: true, ..parser::Options::KUBERNETES };
    let parsed = parser::parse(text, options).map_err(failed)?;
    let checked = checker::check(&parsed, &ENVIRONMENT).map_err(failed)?;
    let result = checked.result_type();
    if !matches!(result, Type::Bool | Type::Dyn) {
        return Err(SelectorError::Invalid(format!("must evaluate to bool or the unknown type, not {result}")));
    }
    if cost::estimate(&checked, Some(&DECLARED)).max > MAX_COST {
        return Err(SelectorError::TooComplex);
    }
    Ok(())
}

static ENVIRONMENT: LazyLock<Environment> = LazyLock::new(|| {
    let environment = Environment::standard_kubernetes().clone().with_provider(Arc::new(DeviceType));
    environment.with_variable("device", Type::object(DEVICE))
});

/// The sizes of the parts of a device.
static DECLARED: LazyLock<DeclType> = LazyLock::new(|| {
    let simple = |kind, max| DeclType { shape: Shape::Simple(kind), max_elements: max, min_serialized_size: 0 };
    let map =
        |values| DeclType { shape: Shape::Map(Arc::new(values)), max_elements: PROPERTIES, min_serialized_size: 2 };
    let fields = [
        ("driver", simple(Type::String, 63)),
        ("attributes", map(map(simple(Type::Dyn, 64)))),
        ("capacity", map(map(simple(Type::object("kubernetes.Quantity"), 0)))),
        ("allowMultipleAllocations", simple(Type::Bool, 1)),
    ];
    let fields = fields.into_iter().map(|(name, declared)| (name.to_owned(), Arc::new(declared)));
    DeclType { shape: Shape::Object(fields.gather()), max_elements: 0, min_serialized_size: 2 }
});

/// The type of `device`.
struct DeviceType;

impl TypeProvider for DeviceType {
    fn find_type(&self, name: &str) -> Option<Type> {
        (name == DEVICE).then(|| Type::object(name))
    }

    fn find_field(&self, object: &str, field: &str) -> Option<Type> {
        let by_domain = |value| Type::map(Type::String, Type::map(Type::String, value));
        match (object, field) {
            (DEVICE, "driver") => Some(Type::String),
            (DEVICE, "attributes") => Some(by_domain(Type::Dyn)),
            (DEVICE, "capacity") => Some(by_domain(Type::object("kubernetes.Quantity"))),
            (DEVICE, "allowMultipleAllocations") => Some(Type::Bool),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_are_conditions_on_a_device() {
        for accepted in [
            "device.driver == 'gpu.example.com'",
            "device.attributes['gpu.example.com'].model == 'a100'",
            "device.attributes['gpu.example.com'].healthy",
            "device.capacity['gpu.example.com'].memory.compareTo(quantity('10Gi')) >= 0",
            "cel.bind(gpu, device.attributes['gpu.example.com'], gpu.healthy && gpu.index < 4)",
            "device.allowMultipleAllocations == true",
            "'gpu.example.com' in device.attributes",
        ] {
            assert_eq!(check(accepted), Ok(()), "{accepted}");
        }
        let rejected = |text| match check(text) {
            Err(SelectorError::Invalid(why)) => why,
            other => panic!("{text}: {other:?}"),
        };
        assert_eq!(rejected("device.driver"), "must evaluate to bool or the unknown type, not string");
        assert!(
            rejected("device.name == 'x'").contains("undefined field 'name'"),
            "{}",
            rejected("device.name == 'x'")
        );
        assert!(rejected("nothing").contains("undeclared reference to 'nothing'"));
    }

    #[test]
    fn selectors_that_may_run_for_long_are_rejected() {
        let nested = "device.attributes.all(a, device.attributes.all(b, device.attributes.all(c, \
                      device.attributes.all(d, true))))";
        assert_eq!(check(nested), Err(SelectorError::TooComplex));
        assert_eq!(check("device.attributes.all(a, a != '')"), Ok(()));
    }
}
