use std::sync::Arc;

use rustls::{
    RootCertStore,
    client::{WebPkiServerVerifier, danger::ServerCertVerifier as _},
    pki_types::{ServerName, UnixTime},
};

use super::*;

const DAY: Duration = Duration::from_hours(24);
const NAMES: [&str; 2] = ["web.default.svc", "127.0.0.1"];

fn names() -> Vec<String> {
    NAMES.map(str::to_owned).to_vec()
}

fn policy() -> Lifetimes {
    Lifetimes { authority_lifetime: 90 * DAY, serving_lifetime: 9 * DAY, overlap: DAY }
}

fn now() -> Duration {
    Duration::from_secs(1_800_000_000)
}

/// Returns whether a client with this bundle accepts the certificate.
fn trusts(bundle: &str, serving: &CertificateAndKey, at: Duration) -> bool {
    let mut roots = RootCertStore::empty();
    for authority in CertificateDer::pem_slice_iter(bundle.as_bytes()) {
        roots.add(authority.unwrap()).unwrap();
    }
    let provider = Arc::new(super::super::provider());
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
    let certificate = CertificateDer::from_pem_slice(serving.certificate.as_bytes()).unwrap();
    NAMES.iter().all(|name| {
        let name = ServerName::try_from(*name).unwrap();
        verifier.verify_server_cert(&certificate, &[], &name, &[], UnixTime::since_unix_epoch(at)).is_ok()
    })
}

#[test]
fn the_first_certificate_is_created_and_stored() {
    let first = renew(None, &names(), &policy(), now()).unwrap();
    assert!(trusts(&first.bundle(), &first.serving, now()));
    let again = renew(Some(&first), &names(), &policy(), now() + DAY).unwrap();
    assert_eq!(again, first);
}

#[test]
fn stored_certificates_survive_a_round_trip() {
    let first = renew(None, &names(), &policy(), now()).unwrap();
    let later = renew(Some(&first), &names(), &policy(), now() + 61 * DAY).unwrap();
    assert_eq!(later.authorities.len(), 2);
    assert_eq!(StoredCertificates::from_parts(&later.bundle(), &later.authority_keys(), later.serving.clone()), later);
}

#[test]
fn over_years_every_certificate_is_one_that_a_client_of_the_day_before_trusts() {
    let mut kept = renew(None, &names(), &policy(), now()).unwrap();
    let (mut servings, mut signers) = (1, 1);
    for day in 1..800 {
        let at = now() + day * DAY;
        let next = renew(Some(&kept), &names(), &policy(), at).unwrap();
        assert!(trusts(&kept.bundle(), &next.serving, at), "day {day}: an old bundle and the new certificate");
        assert!(trusts(&next.bundle(), &kept.serving, at), "day {day}: a new bundle and the old certificate");
        servings += usize::from(next.serving != kept.serving);
        signers += usize::from(next.authorities[0] != kept.authorities[0]);
        assert!(next.authorities.len() <= 2, "day {day}");
        kept = next;
    }
    assert!(servings > 100 && signers > 10, "{servings} certificates of {signers} authorities");
}

#[test]
fn other_names_make_another_certificate_of_the_same_authority() {
    let first = renew(None, &names()[..1], &policy(), now()).unwrap();
    let more = renew(Some(&first), &names(), &policy(), now() + DAY).unwrap();
    assert_ne!(more.serving, first.serving);
    assert_eq!(more.authorities, first.authorities);
    assert!(trusts(&first.bundle(), &more.serving, now() + DAY));
}

#[test]
fn broken_certificates_are_replaced() {
    let good = renew(None, &names(), &policy(), now()).unwrap();
    let mut foreign = good.clone();
    foreign.serving = renew(None, &names(), &policy(), now()).unwrap().serving;
    let mut torn = good.clone();
    torn.serving.key = foreign.serving.key.clone();
    let mut empty = good.clone();
    empty.authorities[0].key = "nothing".to_owned();
    for broken in [foreign, torn, empty] {
        let mended = renew(Some(&broken), &names(), &policy(), now()).unwrap();
        assert_ne!(mended.serving, broken.serving);
        assert!(trusts(&mended.bundle(), &mended.serving, now()));
    }
}

#[test]
fn authorities_of_a_lost_secret_are_trusted_for_an_overlap() {
    let lost = renew(None, &names(), &policy(), now()).unwrap();
    let over = now() + 90 * DAY;
    assert_eq!(valid(&format!("text\n{0}{0}", lost.bundle()), now()).matches("BEGIN").count(), 1);
    assert_eq!(valid(&lost.bundle(), over), "");

    let mut found = renew(None, &names(), &policy(), now()).unwrap();
    assert!(!found.continues(None) && !found.continues(Some(&lost)) && found.continues(Some(&found)));
    found.former = valid(&lost.bundle(), now());
    assert!(!may_replace(&lost.serving, &found.serving, now()));
    assert!(may_replace(&lost.serving, &found.serving, over));
    let soon = renew(Some(&found), &names(), &policy(), now() + DAY / 2).unwrap();
    assert_eq!(soon, found);
    assert!([&lost, &found].iter().all(|kept| trusts(&soon.trusted(), &kept.serving, now())));
    let later = renew(Some(&found), &names(), &policy(), now() + DAY).unwrap();
    assert_eq!(later.trusted(), later.bundle());
    assert_eq!(later.serving, found.serving);
}

#[test]
fn keys_are_not_shown() {
    let kept = renew(None, &names(), &policy(), now()).unwrap();
    assert!(!format!("{kept:?}").contains("PRIVATE"));
}
