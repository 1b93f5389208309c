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
        match organizations(object) {
            None => Err(write.forbidden(object, "failed to parse CSR")),
            Some(groups) if groups.iter().any(|group| group == MASTERS) => {
                Err(write.forbidden(object, &format!("use of {SIGNER} signer with {MASTERS} group is not allowed")))
            }
            Some(_) => Ok(()),
        }
    }
}

/// Returns the organizations of the requested subject, which become groups; `None` if the request cannot be parsed.
fn organizations(object: &Value) -> Option<Vec<String>> {
    let pem = STANDARD.decode(object["spec"]["request"].as_str()?).ok()?;
    let der = CertificateSigningRequestDer::from_pem_slice(&pem).ok()?;
    let (_, request) = X509CertificationRequest::from_der(&der).ok()?;
    let names = request.certification_request_info.subject.iter_organization();
    Some(names.map(|name| String::from_utf8_lossy(name.attr_value().data).into_owned()).collect())
}
