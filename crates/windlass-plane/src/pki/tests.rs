use std::{net::IpAddr, os::unix::fs::PermissionsExt as _, process::Command, sync::Arc, time::SystemTime};

use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConnection, pki_types::ServerName};

use super::*;

const FILES: [&str; 10] = [
    "ca.crt",
    "ca.key",
    "server.crt",
    "server.key",
    "admin.crt",
    "admin.key",
    "front-proxy-ca.crt",
    "front-proxy-ca.key",
    "front-proxy-client.crt",
    "front-proxy-client.key",
];
const DAY: Duration = Duration::from_hours(24);

fn folder() -> (tempfile::TempDir, PathBuf) {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("data/pki");
    (parent, path)
}

fn contents(folder: &Path) -> Vec<String> {
    FILES.iter().map(|name| fs::read_to_string(folder.join(name)).unwrap()).collect()
}

/// Names of the files that differ.
fn changed(before: &[String], after: &[String]) -> Vec<&'static str> {
    FILES.iter().enumerate().filter(|(index, _)| before[*index] != after[*index]).map(|(_, name)| *name).collect()
}

fn since_epoch() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap()
}

fn load(folder: &Path) -> Result<Pki, PkiError> {
    Pki::load_or_create(folder, &[])
}

/// Performs an in-memory handshake between the server and a client that trusts the authority. Returns the number of
/// client certificates that the server saw.
fn handshake(pki: &Pki, trusted: &Pki, name: &str, client: Option<&CertificateAndKey>) -> Result<usize, rustls::Error> {
    let mut roots = RootCertStore::empty();
    for certificate in check::certificates(&trusted.ca().certificate).unwrap() {
        roots.add(certificate).unwrap();
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let mut config = match client {
        None => builder.with_no_client_auth(),
        Some(pair) => builder
            .with_client_auth_cert(check::certificates(&pair.certificate).unwrap(), check::key(&pair.key).unwrap())
            .unwrap(),
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let mut client = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut server = ServerConnection::new(Arc::new(pki.server_config().unwrap())).unwrap();
    while client.is_handshaking() || server.is_handshaking() {
        let mut bytes = Vec::new();
        client.write_tls(&mut bytes).unwrap();
        server.read_tls(&mut bytes.as_slice()).unwrap();
        server.process_new_packets()?;
        bytes.clear();
        server.write_tls(&mut bytes).unwrap();
        client.read_tls(&mut bytes.as_slice()).unwrap();
        client.process_new_packets()?;
    }
    assert_eq!(client.alpn_protocol(), Some(&b"h2"[..]));
    Ok(server.peer_certificates().map_or(0, <[_]>::len))
}

#[test]
fn keys_are_readable_by_the_owner_only() {
    let (_parent, folder) = folder();
    load(&folder).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode(&folder), 0o700);
    assert_eq!(mode(folder.parent().unwrap()), 0o700);
    for name in FILES {
        let expected = if name.ends_with(".key") { 0o600 } else { 0o644 };
        assert_eq!(mode(&folder.join(name)), expected, "{name}");
    }
    let mut found: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    found.sort();
    let mut expected = FILES;
    expected.sort_unstable();
    assert_eq!(found, expected, "no temporary file may be left");

    fs::set_permissions(folder.join("ca.key"), fs::Permissions::from_mode(0o644)).unwrap();
    load(&folder).unwrap();
    assert_eq!(mode(&folder.join("ca.key")), 0o600);
}

#[test]
fn a_second_load_reuses_the_certificates() {
    let (_parent, folder) = folder();
    load(&folder).unwrap();
    let first = contents(&folder);
    let again = load(&folder).unwrap();
    assert_eq!(changed(&first, &contents(&folder)), Vec::<&str>::new());
    assert_eq!([&again.ca().certificate, &again.server().key, &again.admin().key], [&first[0], &first[3], &first[5]]);
}

#[test]
fn every_name_of_the_server_is_trusted_with_and_without_a_client_certificate() {
    let (_parent, folder) = folder();
    let pki = Pki::load_or_create(&folder, &["192.0.2.7".into(), "plane.example".into()]).unwrap();
    for name in [
        "localhost",
        "kubernetes",
        "kubernetes.default",
        "kubernetes.default.svc",
        "kubernetes.default.svc.cluster.local",
        "127.0.0.1",
        "::1",
        "10.96.0.1",
        "192.0.2.7",
        "plane.example",
    ] {
        assert_eq!(handshake(&pki, &pki, name, Some(pki.admin())).unwrap(), 1, "{name}");
        assert_eq!(handshake(&pki, &pki, name, None).unwrap(), 0, "{name}");
    }
    assert!(handshake(&pki, &pki, "192.0.2.8", None).is_err());
}

#[test]
fn certificates_of_another_plane_are_not_trusted() {
    let ((_one, folder), (_other, other_folder)) = (folder(), folder());
    let (pki, other) = (load(&folder).unwrap(), load(&other_folder).unwrap());
    assert!(handshake(&pki, &other, "localhost", None).is_err(), "the client must reject the server");
    assert!(handshake(&pki, &pki, "localhost", Some(other.admin())).is_err(), "the server must reject the client");
    assert!(
        handshake(&pki, &pki, "localhost", Some(pki.server())).is_err(),
        "a serving certificate is not a client certificate"
    );
}

#[test]
fn the_admin_certificate_names_the_user_and_the_group() {
    let (_parent, folder) = folder();
    let pki = load(&folder).unwrap();
    let der = check::certificates(&pki.admin().certificate).unwrap().remove(0);
    let (_, certificate) = x509_parser::parse_x509_certificate(&der).unwrap();
    assert_eq!(certificate.subject().to_string(), "CN=admin, O=system:masters");
}

#[test]
fn a_new_address_gets_a_new_serving_certificate_and_nothing_else() {
    let (_parent, folder) = folder();
    load(&folder).unwrap();
    let first = contents(&folder);
    let address: IpAddr = "192.0.2.7".parse().unwrap();
    let pki = Pki::load_or_create(&folder, &[address.to_string()]).unwrap();
    let second = contents(&folder);
    assert_eq!(changed(&first, &second), ["server.crt", "server.key"]);
    assert_eq!(handshake(&pki, &pki, "192.0.2.7", Some(pki.admin())).unwrap(), 1);
    Pki::load_or_create(&folder, &[address.to_string()]).unwrap();
    assert_eq!(changed(&second, &contents(&folder)), Vec::<&str>::new());
}

#[test]
fn a_certificate_about_to_expire_is_reissued() {
    let (_parent, folder) = folder();
    let start = since_epoch();
    Pki::load_or_create_at(&folder, &[], start).unwrap();
    let first = contents(&folder);
    Pki::load_or_create_at(&folder, &[], start + 334 * DAY).unwrap();
    assert_eq!(changed(&first, &contents(&folder)), Vec::<&str>::new());
    Pki::load_or_create_at(&folder, &[], start + 336 * DAY).unwrap();
    let second = contents(&folder);
    let issued =
        ["server.crt", "server.key", "admin.crt", "admin.key", "front-proxy-client.crt", "front-proxy-client.key"];
    assert_eq!(changed(&first, &second), issued);
    Pki::load_or_create_at(&folder, &[], start + 3640 * DAY).unwrap();
    assert_eq!(changed(&second, &contents(&folder)), FILES);
}

#[test]
fn no_certificate_outlives_the_authority() {
    let (_parent, folder) = folder();
    let start = since_epoch();
    Pki::load_or_create_at(&folder, &[], start).unwrap();
    let pki = Pki::load_or_create_at(&folder, &[], start + 3600 * DAY).unwrap();
    let end = |pem: &str| {
        let der = check::certificates(pem).unwrap().remove(0);
        x509_parser::parse_x509_certificate(&der).unwrap().1.validity().not_after.timestamp()
    };
    assert_eq!(end(&pki.server().certificate), end(&pki.ca().certificate));
}

#[test]
fn a_damaged_or_foreign_file_is_named_and_left_alone() {
    let (_other_parent, other) = folder();
    load(&other).unwrap();
    let foreign = |name: &str| fs::read_to_string(other.join(name)).unwrap();
    let cases = [
        ("ca.crt", "hello".to_owned(), "ca.crt is not a certificate in PEM"),
        ("ca.key", "hello".to_owned(), "ca.key is not a private key in PEM"),
        ("ca.key", "\n".to_owned(), "ca.key is not a private key in PEM"),
        ("server.key", "hello".to_owned(), "server.key is not a private key in PEM"),
        ("admin.crt", " ".to_owned(), "admin.crt is not a certificate in PEM"),
        ("ca.key", foreign("ca.key"), "ca.key does not belong to"),
        ("ca.crt", foreign("ca.crt"), "ca.key does not belong to"),
        (
            "server.crt",
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n".into(),
            "server.crt is not a certificate",
        ),
        ("server.crt", foreign("server.crt"), "server.key does not belong to"),
        ("admin.key", foreign("admin.key"), "admin.key does not belong to"),
    ];
    for (name, text, expected) in cases {
        let (_parent, folder) = folder();
        load(&folder).unwrap();
        fs::write(folder.join(name), &text).unwrap();
        let before = contents(&folder);
        let error = load(&folder).unwrap_err().to_string();
        assert!(error.contains(expected) && error.starts_with(folder.to_str().unwrap()), "{name}: {error}");
        assert_eq!(changed(&before, &contents(&folder)), Vec::<&str>::new(), "{name}");
    }

    for pair in ["server", "admin"] {
        let (_parent, folder) = folder();
        load(&folder).unwrap();
        for end in ["crt", "key"] {
            fs::copy(other.join(format!("{pair}.{end}")), folder.join(format!("{pair}.{end}"))).unwrap();
        }
        // A missing name must not hide that another authority issued the certificate.
        let error = Pki::load_or_create(&folder, &["192.0.2.7".into()]).unwrap_err().to_string();
        assert!(
            error.ends_with(&format!("{pair}.crt was not issued by the certificate authority in ca.crt")),
            "{error}"
        );
    }

    let (_parent, folder) = folder();
    load(&folder).unwrap();
    for end in ["crt", "key"] {
        fs::copy(folder.join(format!("server.{end}")), folder.join(format!("ca.{end}"))).unwrap();
    }
    let error = load(&folder).unwrap_err().to_string();
    assert!(error.ends_with("ca.crt is not a CA certificate"), "{error}");
}

#[test]
fn files_that_can_be_reissued_without_loss_are_recreated() {
    let cases: [(&[&str], &[&str], &[bool]); 8] = [
        (&["server.crt"], &["server.crt", "server.key"], &[false, true]),
        (&["admin.key"], &["admin.crt", "admin.key"], &[false, true]),
        (&["admin.key", "admin.crt"], &["admin.crt", "admin.key"], &[false, true]),
        (&["ca.crt"], &["ca.crt"], &[false, true]),
        (&["ca.crt", "ca.key"], &FILES[..6], &[false]),
        (&["front-proxy-client.key"], &FILES[8..], &[false, true]),
        (&["front-proxy-ca.crt", "front-proxy-ca.key"], &FILES[6..], &[false]),
        (&FILES, &FILES, &[false, true]),
    ];
    for (lost, expected, ways) in cases {
        for empty in ways {
            let (_parent, folder) = folder();
            let start = since_epoch();
            Pki::load_or_create_at(&folder, &[], start - DAY).unwrap();
            let before = contents(&folder);
            for name in lost {
                if *empty {
                    fs::write(folder.join(name), "").unwrap()
                } else {
                    fs::remove_file(folder.join(name)).unwrap()
                }
            }
            let pki = Pki::load_or_create_at(&folder, &[], start).unwrap();
            assert_eq!(changed(&before, &contents(&folder)), expected, "lost {lost:?}");
            assert_eq!(handshake(&pki, &pki, "localhost", Some(pki.admin())).unwrap(), 1, "lost {lost:?}");
        }
    }
}

#[test]
fn an_authority_that_is_lost_or_empty_is_not_replaced_if_it_has_issued_anything() {
    let cases: [(&[&str], &[&str], &str); 4] = [
        (&["ca.key"], &[], "ca.key is missing, but its certificate exists"),
        (&[], &["ca.key"], "ca.key is empty"),
        (&[], &["ca.key", "ca.crt"], "ca.key is empty"),
        (&["ca.key"], &["ca.crt"], "ca.crt is empty"),
    ];
    for (missing, empty, expected) in cases {
        let (_parent, folder) = folder();
        load(&folder).unwrap();
        let before = fs::read_to_string(folder.join("server.crt")).unwrap();
        missing.iter().for_each(|name| fs::remove_file(folder.join(name)).unwrap());
        empty.iter().for_each(|name| fs::write(folder.join(name), "").unwrap());
        let error = load(&folder).unwrap_err();
        assert!(error.to_string().ends_with(expected), "{error}");
        assert!(error.hint().is_some_and(|hint| hint.contains("new kubeconfig")), "{:?}", error.hint());
        assert_eq!(fs::read_to_string(folder.join("server.crt")).unwrap(), before);
        assert!(empty.iter().all(|name| fs::read(folder.join(name)).unwrap().is_empty()));
    }
    // Only a certificate of the user, or only the kubeconfig, is left.
    for issued in ["jane.crt", "../kubeconfig"] {
        let (_parent, folder) = folder();
        fs::create_dir_all(&folder).unwrap();
        for name in ["ca.crt", "ca.key", "server.crt", "sa.key"] {
            fs::write(folder.join(name), "").unwrap();
        }
        fs::write(folder.join(issued), "something").unwrap();
        let error = load(&folder).unwrap_err().to_string();
        assert!(error.ends_with("ca.key is empty"), "{error}");
        fs::remove_file(folder.join(issued)).unwrap();
        load(&folder).unwrap();
    }
}

#[test]
fn the_certificate_of_a_foreign_authority_is_not_recreated_from_its_key() {
    for empty in [false, true] {
        let (_parent, folder) = folder();
        fs::create_dir_all(&folder).unwrap();
        let key = rcgen::KeyPair::generate().unwrap();
        let now = since_epoch();
        let params =
            windlass_tls::ca_params("their-ca", rcgen::BasicConstraints::Unconstrained, now, now + 400 * DAY).unwrap();
        fs::write(folder.join("ca.crt"), params.self_signed(&key).unwrap().pem()).unwrap();
        fs::write(folder.join("ca.key"), key.serialize_pem()).unwrap();
        let pki = load(&folder).unwrap();
        assert_eq!(handshake(&pki, &pki, "localhost", Some(pki.admin())).unwrap(), 1);
        fs::remove_file(folder.join("ca.crt")).unwrap();
        if empty {
            fs::write(folder.join("ca.crt"), "").unwrap();
        }
        let error = load(&folder).unwrap_err().to_string();
        assert!(error.ends_with(if empty { "ca.crt is empty" } else { "ca.crt is missing" }), "{error}");
    }
}

#[test]
fn an_invalid_name_is_rejected() {
    let (_parent, folder) = folder();
    let error = Pki::load_or_create(&folder, &["not a name".into()]).unwrap_err();
    assert_eq!(error.to_string(), "\"not a name\" is neither a DNS name nor an IP address");
    assert!(!folder.exists());
}

#[test]
#[ignore = "needs the program openssl"]
fn openssl_verifies_the_chain_strictly_and_issues_users_from_it() {
    let (_parent, folder) = folder();
    let pki = load(&folder).unwrap();
    let openssl = |arguments: &[&str]| {
        let output = Command::new("openssl").args(arguments).current_dir(&folder).output();
        let output = output.expect("openssl must run");
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    for name in ["server.crt", "admin.crt"] {
        openssl(&["verify", "-x509_strict", "-CAfile", "ca.crt", name]);
    }
    fs::write(folder.join("extensions"), "extendedKeyUsage=clientAuth\n").unwrap();
    openssl(&["req", "-newkey", "rsa:2048", "-nodes", "-keyout", "u.key", "-out", "u.csr", "-subj", "/O=team/CN=jane"]);
    openssl(&[
        "x509",
        "-req",
        "-in",
        "u.csr",
        "-CA",
        "ca.crt",
        "-CAkey",
        "ca.key",
        "-CAcreateserial",
        "-extfile",
        "extensions",
        "-out",
        "u.crt",
        "-days",
        "2",
    ]);
    let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
    let user = CertificateAndKey { certificate: read("u.crt"), key: read("u.key") };
    assert_eq!(handshake(&pki, &pki, "localhost", Some(&user)).unwrap(), 1);
}
