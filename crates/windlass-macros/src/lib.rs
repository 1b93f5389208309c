//! Derive macros for Kubernetes operators, in addition to those of kube-derive.
//!
//! Used through the `windlass` crate.

mod conditions;

use proc_macro::TokenStream;

/// Implements `Conditions` for a status struct with a field `conditions: Vec<Condition>` and, optionally, a field
/// `observed_generation: Option<i64>`.
///
/// ```ignore
/// #[derive(Conditions)]
/// struct FooStatus {
///     conditions: Vec<Condition>,
///     observed_generation: Option<i64>,
/// }
/// ```
///
/// Fields of other names are marked with `#[conditions]` and `#[conditions(observed_generation)]`. Programs that do not
/// depend on the `windlass` crate set the path of the runtime with `#[conditions(crate = windlass_runtime)]` on the
/// struct.
#[proc_macro_derive(Conditions, attributes(conditions))]
pub fn derive_conditions(input: TokenStream) -> TokenStream {
    let input = syn::parse_macro_input!(input as syn::DeriveInput);
    conditions::derive(&input).unwrap_or_else(|error| error.to_compile_error()).into()
}
