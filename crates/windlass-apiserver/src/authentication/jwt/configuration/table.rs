//! The types of the file, for strict decoding with Go's messages.

use std::sync::LazyLock;

use windlass_schema::types::{Field, Scalar, Struct, StructId, Type, TypeTable};

/// The AuthenticationConfiguration.
pub(super) const ROOT: StructId = StructId(0);
const JWT: u32 = 1;
const ISSUER: u32 = 2;
const CLAIM_RULE: u32 = 3;
const MAPPINGS: u32 = 4;
const PREFIXED: u32 = 5;
const PLAIN: u32 = 6;
const EXTRA: u32 = 7;
const USER_RULE: u32 = 8;
const ANONYMOUS: u32 = 9;
const CONDITION: u32 = 10;

/// All types, by their numbers above.
pub(super) static TABLE: LazyLock<TypeTable> = LazyLock::new(|| TypeTable {
    structs: vec![
        structure(
            "AuthenticationConfiguration",
            vec![
                text("kind"),
                text("apiVersion"),
                list("jwt", JWT, "[]v1.JWTAuthenticator"),
                Field { pointer: true, ..one("anonymous", ANONYMOUS, "v1.AnonymousAuthConfig") },
            ],
        ),
        structure(
            "JWTAuthenticator",
            vec![
                one("issuer", ISSUER, "v1.Issuer"),
                list("claimValidationRules", CLAIM_RULE, "[]v1.ClaimValidationRule"),
                one("claimMappings", MAPPINGS, "v1.ClaimMappings"),
                list("userValidationRules", USER_RULE, "[]v1.UserValidationRule"),
            ],
        ),
        structure(
            "Issuer",
            vec![
                text("url"),
                Field { pointer: true, ..text("discoveryURL") },
                text("certificateAuthority"),
                Field {
                    go_type: "[]string".into(),
                    ..Field::new("audiences", Type::List(Box::new(Type::Scalar(Scalar::String))))
                },
                Field { go_type: "v1.AudienceMatchPolicyType".into(), ..text("audienceMatchPolicy") },
                Field { go_type: "v1.EgressSelectorType".into(), ..text("egressSelectorType") },
            ],
        ),
        structure("ClaimValidationRule", ["claim", "requiredValue", "expression", "message"].map(text).into()),
        structure(
            "ClaimMappings",
            vec![
                one("username", PREFIXED, "v1.PrefixedClaimOrExpression"),
                one("groups", PREFIXED, "v1.PrefixedClaimOrExpression"),
                one("uid", PLAIN, "v1.ClaimOrExpression"),
                list("extra", EXTRA, "[]v1.ExtraMapping"),
            ],
        ),
        structure(
            "PrefixedClaimOrExpression",
            vec![text("claim"), Field { pointer: true, ..text("prefix") }, text("expression")],
        ),
        structure("ClaimOrExpression", ["claim", "expression"].map(text).into()),
        structure("ExtraMapping", ["key", "valueExpression"].map(text).into()),
        structure("UserValidationRule", ["expression", "message"].map(text).into()),
        structure(
            "AnonymousAuthConfig",
            vec![
                Field { go_type: "bool".into(), ..Field::new("enabled", Type::Scalar(Scalar::Bool)) },
                list("conditions", CONDITION, "[]v1.AnonymousAuthCondition"),
            ],
        ),
        structure("AnonymousAuthCondition", vec![text("path")]),
    ],
});

fn structure(go_name: &'static str, fields: Vec<Field>) -> Struct {
    Struct { name: go_name.into(), go_name: go_name.into(), fields, atomic: false, inlines: Vec::new() }
}

fn text(name: &'static str) -> Field {
    Field { go_type: "string".into(), ..Field::new(name, Type::Scalar(Scalar::String)) }
}

fn one(name: &'static str, of: u32, go_type: &'static str) -> Field {
    Field { go_type: go_type.into(), ..Field::new(name, Type::Struct(StructId(of))) }
}

fn list(name: &'static str, of: u32, go_type: &'static str) -> Field {
    Field { go_type: go_type.into(), ..Field::new(name, Type::List(Box::new(Type::Struct(StructId(of))))) }
}
