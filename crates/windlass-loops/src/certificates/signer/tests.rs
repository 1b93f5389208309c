use rcgen::{
    CertificateParams, DnType, IsCa, KeyPair, KeyUsagePurpose, PKCS_ECDSA_P384_SHA384, PKCS_ED25519, PublicKeyData as _,
};
use rustls::{
    RootCertStore,
    pki_types::{CertificateDer, UnixTime},
    server::WebPkiClientVerifier,
};

use super::*;

const NOW: &str = "2026-06-01T00:00:00Z";

fn authority() -> CertificateAndKey {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name.push(DnType::CommonName, "ca");
    params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    params.not_before = rcgen::date_time_ymd(2026, 1, 1);
    params.not_after = rcgen::date_time_ymd(2036, 1, 1);
    let certificate = params.self_signed(&key).unwrap().pem();
    CertificateAndKey { certificate, key: key.serialize_pem() }
}

fn roots(pem: &str) -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()).unwrap();
    roots
}

fn request(key: &KeyPair) -> String {
    let names = ["web.example".to_owned(), "10.0.0.1".to_owned()];
    let mut params = CertificateParams::new(names).unwrap();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, "dev");
    params.distinguished_name.push(DnType::CommonName, "jane");
    // These are ignored.
    params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    params.serialize_request(key).unwrap().pem().unwrap()
}

fn usages(usages: &[&str]) -> Vec<String> {
    usages.iter().map(|usage| (*usage).to_owned()).collect()
}

/// A textual summary of a certificate.
fn words(pem: &str) -> String {
    let der = CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
    let (rest, certificate) = X509Certificate::from_der(&der).unwrap();
    assert!(rest.is_empty());
    let usage = certificate.key_usage().unwrap().map(|usage| usage.value.to_string());
    let extended = certificate
        .extended_key_usage()
        .unwrap()
        .map(|usage| (usage.value.client_auth, usage.value.server_auth, usage.value.other.len()));
    let names = certificate.subject_alternative_name().unwrap().map(|names| names.value.general_names.len());
    let authority = certificate.basic_constraints().unwrap().map(|constraints| constraints.value.ca);
    let validity = certificate.validity();
    format!(
        "{}, {usage:?}, {extended:?}, {names:?} names, ca {authority:?}, {} to {}",
        certificate.subject(),
        Timestamp::from_second(validity.not_before.timestamp()).unwrap(),
        Timestamp::from_second(validity.not_after.timestamp()).unwrap(),
    )
}

#[test]
fn a_certificate_contains_what_was_requested_and_allowed() {
    let (authority, key) = (authority(), KeyPair::generate().unwrap());
    let signer = Signer::new(&authority).unwrap();
    let request = Request::parse(request(&key).as_bytes()).unwrap();
    assert_eq!((request.common_name.as_str(), request.organizations.as_slice()), ("jane", &["dev".to_owned()][..]));
    assert_eq!((request.dns_names.len(), request.ip_addresses.len()), (1, 1));
    let now = NOW.parse().unwrap();
    let usages = usages(&["digital signature", "key encipherment", "client auth", "microsoft sgc"]);
    let hour = signer.sign(&request, &usages, Duration::from_hours(1), now).unwrap();
    assert_eq!(
        words(&hour),
        "O=dev, CN=jane, Some(\"Digital Signature, Key Encipherment\"), Some((true, false, 1)), Some(2) names, \
         ca Some(false), 2026-05-31T23:55:00Z to 2026-06-01T01:00:00Z"
    );
    let year = signer.sign(&request, &usages, Duration::from_hours(365 * 24), now).unwrap();
    assert!(words(&year).ends_with("2026-05-31T23:55:00Z to 2027-05-31T23:55:00Z"), "{}", words(&year));
    let forever = signer.sign(&request, &usages, Duration::from_hours(100 * 365 * 24), now).unwrap();
    assert!(words(&forever).ends_with(&signer.not_after.to_string()), "it does not outlive the authority");
    assert!(matches!(signer.sign(&request, &usages, SHORT, signer.not_after), Err(SignError::Expired)));
}

#[test]
fn servers_accept_certificates_for_every_type_of_key() {
    let authority = authority();
    let signer = Signer::new(&authority).unwrap();
    for algorithm in [&rcgen::PKCS_ECDSA_P256_SHA256, &PKCS_ECDSA_P384_SHA384, &PKCS_ED25519] {
        let key = KeyPair::generate_for(algorithm).unwrap();
        let request = Request::parse(request(&key).as_bytes()).unwrap();
        let now: Timestamp = NOW.parse().unwrap();
        let pem = signer.sign(&request, &usages(&["client auth"]), Duration::from_hours(1), now).unwrap();
        let der = CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
        let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
        let roots = std::sync::Arc::new(roots(&authority.certificate));
        let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider).build().unwrap();
        let at = UnixTime::since_unix_epoch(Duration::from_secs(now.as_second() as u64));
        verifier.verify_client_cert(&der, &[], at).unwrap();
    }
}

#[test]
fn an_invalid_request_is_rejected() {
    let key = KeyPair::generate().unwrap();
    let good = request(&key);
    let certificate = authority().certificate;
    let mut der = rustls::pki_types::CertificateSigningRequestDer::from_pem_slice(good.as_bytes()).unwrap().to_vec();
    let place = der.windows(4).position(|bytes| bytes == b"jane").unwrap();
    der[place] = b'J';
    let forged = der::pem("CERTIFICATE REQUEST", &der);
    for (text, expected) in [
        ("nothing", "PEM block type must be"),
        (certificate.as_str(), "PEM block type must be"),
        (forged.as_str(), "unable to verify"),
        ("-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n", "unable to parse"),
    ] {
        let error = Request::parse(text.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    let signer = Signer::new(&authority()).unwrap();
    let request = Request::parse(good.as_bytes()).unwrap();
    let rejected = signer.sign(&request, &usages(&["flying"]), SHORT, NOW.parse().unwrap()).unwrap_err();
    assert_eq!(rejected.to_string(), "unrecognized usage values: [\"flying\"]");
}

#[test]
fn a_subject_keeps_all_its_organizations() {
    // O=dev, O=ops and CN=jane, each on its own.
    let attribute = |oid: u8, text: &str| {
        let pair = der::sequence(&[der::tagged(0x06, &[0x55, 4, oid]), der::tagged(0x0c, text.as_bytes())]);
        der::tagged(0x31, &pair)
    };
    let subject = der::sequence(&[attribute(10, "dev"), attribute(10, "ops"), attribute(3, "jane")]);
    let key = KeyPair::generate().unwrap();
    let info = der::sequence(&[&[2, 1, 0][..], &subject, &key.subject_public_key_info(), &[0xa0, 0]]);
    let signer = Signer::new(&authority()).unwrap();
    let signature = der::bit_string(&key.sign(&info).unwrap(), 0);
    let encoded = der::sequence(&[&info, &signer.algorithm().unwrap(), &signature]);
    let request = Request::parse(der::pem("CERTIFICATE REQUEST", &encoded).as_bytes()).unwrap();
    assert_eq!(request.organizations, ["dev", "ops"]);
    let pem = signer.sign(&request, &usages(&["client auth"]), SHORT, NOW.parse().unwrap()).unwrap();
    assert!(words(&pem).starts_with("O=dev, O=ops, CN=jane"), "{}", words(&pem));
}
