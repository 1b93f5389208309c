//! CertificateSubjectRestriction: client certificates for the group `system:masters` cannot be requested.

use async_trait::async_trait;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use rustls::pki_types::{CertificateSigningRequestDer, pem::PemObject as _};
use serde_json::Value;
use x509_parser::{certification_request::X509CertificationRequest, prelude::FromDer as _};

use super::{Admission, Attributes, Operation};
use crate::status::Result;

/// The signer of client certificates, which the server trusts.
const SIGNER: &str = "kubernetes.io/kube-apiserver-client";
/// The group that may do everything.
const MASTERS: &str = "system:masters";

pub(crate) struct CertificateSubject;

#[async_trait]
impl Admission for CertificateSubject {
    async fn validate(&self, write: &Attributes<'_>, object: &Value) -> Result<()> {
        let concerned = write.operation == Operation::Create
            && write.subresource.is_empty()
            && write.is("certificates.k8s.io", "certificatesigningrequests")
            && object["spec"]["signerName"] == SIGNER;
        if !concerned {
            return Ok(());
        }
        match Subject::of(object) {
            Err(error) => Err(write.forbidden(object, &format!("failed to parse CSR: {error}"))),
            Ok(subject) if subject.organizations.iter().any(|group| group == MASTERS) => {
                Err(write.forbidden(object, &format!("use of {SIGNER} signer with {MASTERS} group is not allowed")))
            }
            Ok(_) => Ok(()),
        }
    }
}

/// The requested subject of a certificate.
pub(super) struct Subject {
    /// The common name, which becomes the name of a user.
    pub(super) common_name: String,
    /// The organizations, which become groups.
    pub(super) organizations: Vec<String>,
}

impl Subject {
    /// Returns the subject of a CertificateSigningRequest.
    ///
    /// # Errors
    /// Returns kube-apiserver's error if the request cannot be parsed.
    pub(super) fn of(object: &Value) -> std::result::Result<Self, String> {
        let malformed = || "PEM block type must be CERTIFICATE REQUEST".to_owned();
        let pem = object["spec"]["request"].as_str().and_then(|text| STANDARD.decode(text).ok()).unwrap_or_default();
        let der = CertificateSigningRequestDer::from_pem_slice(&pem).map_err(|_| malformed())?;
        let (_, request) = X509CertificationRequest::from_der(&der).map_err(|error| error.to_string())?;
        let subject = &request.certification_request_info.subject;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok(Self {
            // The last one counts, as in Go.
            common_name: subject.iter_common_name().last().map(|name| text(name.attr_value().data)).unwrap_or_default(),
            organizations: subject.iter_organization().map(|name| text(name.attr_value().data)).collect(),
        })
    }
}
