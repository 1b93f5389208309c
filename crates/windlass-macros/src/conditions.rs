//! `#[derive(Conditions)]`.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Data, DeriveInput, Error, Field, Fields, Ident, Meta, Path, Result, spanned::Spanned};

/// Attribute of a field.
#[derive(PartialEq)]
enum Role {
    Conditions,
    ObservedGeneration,
}

pub(crate) fn derive(input: &DeriveInput) -> Result<TokenStream> {
    let Data::Struct(data) = &input.data else {
        return Err(Error::new(input.ident.span(), "`Conditions` can be derived only for structs"));
    };
    let Fields::Named(fields) = &data.fields else {
        return Err(Error::new(input.ident.span(), "`Conditions` can be derived only for structs with named fields"));
    };
    let (mut conditions, mut observed_generation) = (None, None);
    for field in &fields.named {
        let slot = match role(field)? {
            Some(Role::Conditions) => &mut conditions,
            Some(Role::ObservedGeneration) => &mut observed_generation,
            None => continue,
        };
        if slot.replace(field).is_some() {
            return Err(Error::new(field.span(), "another field already has this attribute"));
        }
    }
    let named = |name: &str| fields.named.iter().find(|field| field.ident.as_ref().is_some_and(|ident| ident == name));
    let Some(conditions) = conditions.or_else(|| named("conditions")) else {
        return Err(Error::new(
            input.ident.span(),
            "no field `conditions: Vec<Condition>`; mark a field with #[conditions]",
        ));
    };
    expect_type(conditions, "Vec", "the conditions must be a `Vec<Condition>`")?;
    let observed_generation = observed_generation.or_else(|| named("observed_generation"));
    if let Some(field) = observed_generation {
        expect_type(field, "Option", "the observed generation must be an `Option<i64>`")?;
    }

    let root = root(input)?;
    let name = &input.ident;
    let (impl_generics, type_generics, where_clause) = input.generics.split_for_impl();
    let conditions = ident(conditions);
    let observed_generation = observed_generation.map(ident).map(|field| {
        quote! {
            fn observed_generation_mut(&mut self) -> ::core::option::Option<&mut ::core::option::Option<i64>> {
                ::core::option::Option::Some(&mut self.#field)
            }
        }
    });
    Ok(quote! {
        #[automatically_derived]
        impl #impl_generics #root::objects::conditions::Conditions for #name #type_generics #where_clause {
            fn conditions(&self) -> &::std::vec::Vec<#root::objects::conditions::Condition> {
                &self.#conditions
            }

            fn conditions_mut(&mut self) -> &mut ::std::vec::Vec<#root::objects::conditions::Condition> {
                &mut self.#conditions
            }

            #observed_generation
        }
    })
}

fn role(field: &Field) -> Result<Option<Role>> {
    let mut role = None;
    for attribute in field.attrs.iter().filter(|attribute| attribute.path().is_ident("conditions")) {
        let this = match &attribute.meta {
            Meta::Path(_) => Role::Conditions,
            Meta::List(list) => {
                let word: Ident = list.parse_args()?;
                if word != "observed_generation" {
                    return Err(Error::new(
                        word.span(),
                        "expected #[conditions] or #[conditions(observed_generation)]",
                    ));
                }
                Role::ObservedGeneration
            }
            Meta::NameValue(pair) => {
                return Err(Error::new(pair.span(), "expected #[conditions] or #[conditions(observed_generation)]"));
            }
        };
        if role.replace(this).is_some() {
            return Err(Error::new(attribute.span(), "marked twice"));
        }
    }
    Ok(role)
}

/// Returns the path of the runtime.
fn root(input: &DeriveInput) -> Result<TokenStream> {
    let mut root = quote!(::windlass);
    for attribute in input.attrs.iter().filter(|attribute| attribute.path().is_ident("conditions")) {
        attribute.parse_nested_meta(|meta| {
            if !meta.path.is_ident("crate") {
                return Err(meta.error("expected #[conditions(crate = path)]"));
            }
            let path: Path = meta.value()?.parse()?;
            root = quote!(#path);
            Ok(())
        })?;
    }
    Ok(root)
}

/// A better message than the compiler's for generated code.
fn expect_type(field: &Field, outer: &str, message: &str) -> Result<()> {
    let fits = match &field.ty {
        syn::Type::Path(path) => path.path.segments.last().is_some_and(|last| last.ident == outer),
        _ => false,
    };
    if fits { Ok(()) } else { Err(Error::new(field.ty.span(), message)) }
}

fn ident(field: &Field) -> &Ident {
    field.ident.as_ref().expect("a named field has a name")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(source: &str) -> String {
        let input = syn::parse_str(source).unwrap();
        derive(&input).map_or_else(|error| error.to_string(), |_| "accepted".to_owned())
    }

    #[test]
    fn errors_say_what_is_wrong() {
        let table = [
            ("enum A { B }", "`Conditions` can be derived only for structs"),
            ("struct A(u8);", "only for structs with named fields"),
            ("struct A { other: u8 }", "no field `conditions"),
            ("struct A { conditions: Option<u8> }", "must be a `Vec<Condition>`"),
            ("struct A { conditions: Vec<Condition>, observed_generation: i64 }", "must be an `Option<i64>`"),
            (
                "struct A { #[conditions] a: Vec<C>, #[conditions] b: Vec<C> }",
                "another field already has this attribute",
            ),
            ("struct A { #[conditions] #[conditions] a: Vec<C> }", "marked twice"),
            ("struct A { #[conditions(generation)] a: Vec<C> }", "expected #[conditions]"),
            ("struct A { #[conditions = 1] a: Vec<C> }", "expected #[conditions]"),
            ("#[conditions(root = x)] struct A { conditions: Vec<C> }", "expected #[conditions(crate = path)]"),
        ];
        for (source, message) in table {
            let found = error(source);
            assert!(found.contains(message), "{source}: {found}");
        }
    }

    #[test]
    fn generics_and_marked_fields_are_taken_over() {
        let input = syn::parse_str(
            "#[conditions(crate = my::runtime)] struct A<T: Copy> { #[conditions] all: Vec<C>, \
             #[conditions(observed_generation)] seen: Option<i64>, t: T }",
        );
        let output = derive(&input.unwrap()).unwrap().to_string();
        for part in ["impl < T : Copy >", "my :: runtime :: objects", "for A < T >", "self . all", "self . seen"] {
            assert!(output.contains(part), "{part}: {output}");
        }
    }
}
