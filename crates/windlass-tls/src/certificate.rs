//! Parameters of certificates.

use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, Error, IsCa, KeyUsagePurpose, date_time_ymd,
};

/// Certificates are valid from this long before now, as the clocks of clients differ.
pub const CLOCK_SKEW: Duration = Duration::from_hours(1);

/// Returns the parameters of a CA certificate that is valid from `now` to `until`, both since the Unix epoch.
pub fn ca_params(
    common_name: &str,
    constraints: BasicConstraints,
    now: Duration,
    until: Duration,
) -> Result<CertificateParams, Error> {
    let mut params = params(common_name, &[], now, until)?;
    params.is_ca = IsCa::Ca(constraints);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    Ok(params)
}

/// Returns the parameters of a certificate for these DNS names and IP addresses that is valid from `now` to `until`,
/// both since the Unix epoch. Its extended key usages are empty.
pub fn leaf_params(
    common_name: &str,
    names: &[String],
    now: Duration,
    until: Duration,
) -> Result<CertificateParams, Error> {
    let mut params = params(common_name, names, now, until)?;
    // Strict verifiers, such as Python's since 3.13, require the constraint and the key identifier.
    params.is_ca = IsCa::ExplicitNoCa;
    params.use_authority_key_identifier_extension = true;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    Ok(params)
}

fn params(common_name: &str, names: &[String], now: Duration, until: Duration) -> Result<CertificateParams, Error> {
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, common_name);
    let epoch = date_time_ymd(1970, 1, 1);
    params.not_before = epoch + now.saturating_sub(CLOCK_SKEW);
    params.not_after = epoch + until;
    Ok(params)
}
