//! Certificate v1.
//!
//! Imported from the CustomResourceDefinition of `certs.example.org`, including names and descriptions.

#![allow(clippy::all, rustdoc::all)]

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is asked for.
#[derive(CustomResource, Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "certs.example.org",
    version = "v1",
    kind = "Certificate",
    plural = "certificates",
    doc = "A certificate that is kept up to date.",
    shortname = "cert",
    shortname = "certs",
    category = "security",
    namespaced,
    status = "CertificateStatus",
    printcolumn = r#"{"jsonPath":".status.conditions[?(@.type==\"Ready\")].status","name":"Ready","type":"string"}"#,
    printcolumn = r#"{"description":"Where the key pair is kept","jsonPath":".spec.secretName","name":"Secret","priority":1,"type":"string"}"#,
    printcolumn = r#"{"jsonPath":".metadata.creationTimestamp","name":"Age","type":"date"}"#,
    selectable = ".spec.secretName",
    validation = Rule::new("self.metadata.name.size() <= 63").message("names of certificates are labels"),
    validation = Rule::new("self.spec.secretName != self.metadata.name").message(Message::Expression(r#""the secret must not be called " + self.metadata.name"#.to_owned())).reason(Reason::FieldValueForbidden).field_path(".spec.secretName"),
)]
#[serde(rename_all = "camelCase")]
#[schemars(
    extend(
        "x-kubernetes-validations" = [{"message": "a certificate is for someone", "rule": "has(self.dnsNames) || has(self.commonName)"}]
    )
)]
pub struct CertificateSpec {
    /// The common name.
    /// For example:
    ///
    /// www.example.org
    ///
    /// ```text
    /// commonName: www.example.org
    /// ```
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("maxLength" = 64))]
    pub common_name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        with = "Vec<String>",
        extend(
            "items" = {"maxLength": 253, "pattern": r"^(\*\.)?[a-z0-9]([-a-z0-9.]*[a-z0-9])?$", "type": "string"},
            "maxItems" = 100,
            "minItems" = 1,
            "x-kubernetes-list-type" = "set"
        )
    )]
    pub dns_names: Option<Vec<String>>,
    /// How long it is good, as "2160h".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("format" = "duration"))]
    pub duration: Option<String>,
    #[serde(rename = "isCA", default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "bool")]
    pub is_ca: Option<bool>,
    /// Who signs it.
    pub issuer_ref: CertificateIssuerRef,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "CertificateKeystores")]
    pub keystores: Option<CertificateKeystores>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "CertificatePrivateKey")]
    pub private_key: Option<CertificatePrivateKey>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i32", extend("exclusiveMinimum" = true, "minimum" = 0))]
    pub renew_before_percentage: Option<i32>,
    #[serde(default = "default_certificate_revision_history_limit")]
    #[schemars(extend("minimum" = 1))]
    pub revision_history_limit: i32,
    #[schemars(extend("x-kubernetes-validations" = [{"message": "is immutable", "rule": "self == oldSelf"}]))]
    pub secret_name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "CertificateSecretTemplate")]
    pub secret_template: Option<CertificateSecretTemplate>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Vec<CertificateUsages>")]
    pub usages: Option<Vec<CertificateUsages>>,
}

/// Who signs it.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CertificateIssuerRef {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub group: Option<String>,
    #[serde(default = "default_certificate_issuer_ref_kind")]
    pub kind: CertificateIssuerRefKind,
    #[schemars(extend("minLength" = 1))]
    pub name: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum CertificateIssuerRefKind {
    Issuer,
    ClusterIssuer,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1, "oneOf" = [{"required": ["jks"]}, {"required": ["pkcs12"]}]))]
pub struct CertificateKeystores {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "CertificateKeystoresJks")]
    pub jks: Option<CertificateKeystoresJks>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "CertificateKeystoresPkcs12")]
    pub pkcs12: Option<CertificateKeystoresPkcs12>,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CertificateKeystoresJks {
    pub create: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("format" = "byte"))]
    pub password: Option<ByteString>,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CertificateKeystoresPkcs12 {
    pub create: bool,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("default" = {}))]
pub struct CertificatePrivateKey {
    #[serde(default = "default_certificate_private_key_algorithm")]
    pub algorithm: CertificatePrivateKeyAlgorithm,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "CertificatePrivateKeyEncoding")]
    pub encoding: Option<CertificatePrivateKeyEncoding>,
    #[serde(default = "default_certificate_private_key_size")]
    #[schemars(extend("maximum" = 8192, "minimum" = 256))]
    pub size: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum CertificatePrivateKeyAlgorithm {
    #[serde(rename = "RSA")]
    Rsa,
    #[serde(rename = "ECDSA")]
    Ecdsa,
    Ed25519,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum CertificatePrivateKeyEncoding {
    #[serde(rename = "PKCS1")]
    Pkcs1,
    #[serde(rename = "PKCS8")]
    Pkcs8,
    #[serde(rename = "")]
    Empty,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CertificateSecretTemplate {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "BTreeMap<String, String>")]
    pub annotations: Option<BTreeMap<String, String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        with = "BTreeMap<String, String>",
        extend(
            "additionalProperties" = {"maxLength": 63, "type": "string"},
            "maxProperties" = 16
        )
    )]
    pub labels: Option<BTreeMap<String, String>>,
}

/// What a key is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum CertificateUsages {
    #[serde(rename = "signing")]
    Signing,
    #[serde(rename = "digital signature")]
    DigitalSignature,
    #[serde(rename = "server auth")]
    ServerAuth,
    #[serde(rename = "client auth")]
    ClientAuth,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CertificateStatus {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        with = "Vec<CertificateStatusConditions>",
        extend(
            "x-kubernetes-list-map-keys" = ["type"],
            "x-kubernetes-list-type" = "map"
        )
    )]
    pub conditions: Option<Vec<CertificateStatusConditions>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i64")]
    pub failed_issuance_attempts: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("nullable" = true))]
    pub next_private_key_secret_name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub not_after: Option<Time>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub renewal_time: Option<Time>,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CertificateStatusConditions {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub last_transition_time: Option<Time>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub message: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i64")]
    pub observed_generation: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub reason: Option<String>,
    pub status: CertificateStatusConditionsStatus,
    pub r#type: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum CertificateStatusConditionsStatus {
    True,
    False,
    Unknown,
}

fn default_certificate_issuer_ref_kind() -> CertificateIssuerRefKind {
    CertificateIssuerRefKind::Issuer
}

fn default_certificate_private_key_algorithm() -> CertificatePrivateKeyAlgorithm {
    CertificatePrivateKeyAlgorithm::Rsa
}

fn default_certificate_private_key_size() -> i64 {
    2048
}

fn default_certificate_revision_history_limit() -> i32 {
    3
}
