//! Derive macros for Kubernetes operators that kube-derive does not give.
//!
//! Used through the `windlass` crate.

mod conditions;

use proc_macro::TokenStream;

/// Gives a status its conditions: implements `Conditions` for a struct with a field `conditions: Vec<Condition>`, and,
/// if it has a field `observed_generation: Option<i64>`, that too.
///
/// ```ignore
/// #[derive(Conditions)]
/// struct FooStatus {
///     conditions: Vec<Condition>,
///     observed_generation: Option<i64>,
/// }
/// ```
///
/// Fields of other names are marked `#[conditions]` and `#[conditions(observed_generation)]`. Programs that do not
/// depend on the `windlass` crate say where the runtime is: `#[conditions(crate = windlass_runtime)]` on the struct.
#[proc_macro_derive(Conditions, attributes(conditions))]
pub fn derive_conditions(input: TokenStream) -> TokenStream {
    let input = syn::parse_macro_input!(input as syn::DeriveInput);
    conditions::derive(&input).unwrap_or_else(|error| error.to_compile_error()).into()
}
