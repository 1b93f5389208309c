//! Certificates for servers that do not create their own: a CA, a serving and an administrator certificate, and those by
//! which an aggregated API server knows the server.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::Context as _;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use rustls::{
    ClientConfig, RootCertStore, ServerConfig,
    crypto::{CryptoProvider, ring},
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    server::WebPkiClientVerifier,
};

/// The client certificate for aggregated API servers: its common name, and its file without the extension.
pub(crate) const FRONT_PROXY: &str = "front-proxy-client";

/// A directory with `{ca,server,admin,front-proxy-ca,front-proxy-client}.{crt,key}`, laid out as in the data directory of `windlass up`.
#[derive(Debug, Clone)]
pub(crate) struct Pki(PathBuf);

impl Pki {
    /// Uses the certificates that a server has created.
    pub(crate) fn at(folder: impl Into<PathBuf>) -> Self {
        Self(folder.into())
    }

    /// Creates all certificates for a server on 127.0.0.1, and `accounts.{key,pub}`, which sign service account tokens.
    pub(crate) fn make(folder: impl Into<PathBuf>) -> anyhow::Result<Self> {
        let pki = Self(folder.into());
        fs::create_dir_all(&pki.0).with_context(|| format!("cannot create {}", pki.0.display()))?;

        let issuer = pki.make_authority("ca", "bench-ca")?;
        let mut server = CertificateParams::new(["127.0.0.1".to_owned(), "localhost".to_owned()])?;
        server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let mut admin = named("admin", Some("system:masters"));
        admin.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let proxy_issuer = pki.make_authority("front-proxy-ca", "bench-front-proxy-ca")?;
        let mut proxy = named(FRONT_PROXY, None);
        proxy.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        for (name, params, issuer) in
            [("server", server, &issuer), ("admin", admin, &issuer), (FRONT_PROXY, proxy, &proxy_issuer)]
        {
            let key = KeyPair::generate()?;
            pki.write(name, &params.signed_by(&key, issuer)?.pem(), &key.serialize_pem())?;
        }
        let accounts = KeyPair::generate()?;
        fs::write(pki.path("accounts.key"), accounts.serialize_pem())?;
        fs::write(pki.path("accounts.pub"), accounts.public_key_pem())?;
        Ok(pki)
    }

    /// Creates a certificate authority.
    fn make_authority(&self, name: &str, common_name: &str) -> anyhow::Result<Issuer<'static, KeyPair>> {
        let key = KeyPair::generate()?;
        let mut params = named(common_name, None);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        self.write(name, &params.self_signed(&key)?.pem(), &key.serialize_pem())?;
        Ok(Issuer::new(params, key))
    }

    /// Returns the path of one of the files.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Returns the directory.
    pub(crate) fn folder(&self) -> &Path {
        &self.0
    }

    /// Returns the TLS configuration of a client that speaks HTTP/2 as the administrator.
    pub(crate) fn client_config(&self) -> anyhow::Result<Arc<ClientConfig>> {
        self.client_config_with(self.certificates("admin.crt")?, self.key("admin.key")?)
    }

    /// Issues a certificate for a user without groups, and returns the TLS configuration of its client.
    pub(crate) fn client_config_of(&self, user: &str) -> anyhow::Result<Arc<ClientConfig>> {
        let ca = KeyPair::from_pem(&String::from_utf8(self.read("ca.key")?)?)?;
        let issuer = Issuer::from_ca_cert_pem(&String::from_utf8(self.read("ca.crt")?)?, ca)?;
        let mut params = named(user, None);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &issuer)?.der().clone();
        self.client_config_with(vec![certificate], PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes())?)
    }

    fn client_config_with(
        &self,
        certificates: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
    ) -> anyhow::Result<Arc<ClientConfig>> {
        let mut config = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()?
            .with_root_certificates(self.roots()?)
            .with_client_auth_cert(certificates, key)?;
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(Arc::new(config))
    }

    /// Returns the TLS configuration of a server that requires the administrator's certificate and speaks HTTP/2.
    pub(crate) fn server_config(&self) -> anyhow::Result<Arc<ServerConfig>> {
        let clients = WebPkiClientVerifier::builder_with_provider(Arc::new(self.roots()?), provider()).build()?;
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()?
            .with_client_cert_verifier(clients)
            .with_single_cert(self.certificates("server.crt")?, self.key("server.key")?)?;
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(Arc::new(config))
    }

    /// Returns a kubeconfig for the administrator.
    pub(crate) fn kubeconfig(&self, url: &str) -> anyhow::Result<String> {
        let encoded = |name| anyhow::Ok(STANDARD.encode(self.read(name)?));
        let (ca, certificate, key) = (encoded("ca.crt")?, encoded("admin.crt")?, encoded("admin.key")?);
        Ok(format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: bench\n\
             clusters:\n- name: bench\n  cluster:\n    server: {url}\n    certificate-authority-data: {ca}\n\
             users:\n- name: admin\n  user:\n    client-certificate-data: {certificate}\n    client-key-data: {key}\n\
             contexts:\n- name: bench\n  context:\n    cluster: bench\n    user: admin\n"
        ))
    }

    fn write(&self, name: &str, certificate: &str, key: &str) -> anyhow::Result<()> {
        fs::write(self.path(&format!("{name}.crt")), certificate)?;
        fs::write(self.path(&format!("{name}.key")), key)?;
        Ok(())
    }

    fn read(&self, name: &str) -> anyhow::Result<Vec<u8>> {
        let path = self.path(name);
        fs::read(&path).with_context(|| format!("cannot read {}", path.display()))
    }

    fn roots(&self) -> anyhow::Result<RootCertStore> {
        let mut roots = RootCertStore::empty();
        for certificate in self.certificates("ca.crt")? {
            roots.add(certificate)?;
        }
        Ok(roots)
    }

    fn certificates(&self, name: &str) -> anyhow::Result<Vec<CertificateDer<'static>>> {
        Ok(CertificateDer::pem_slice_iter(&self.read(name)?).collect::<Result<_, _>>()?)
    }

    fn key(&self, name: &str) -> anyhow::Result<PrivateKeyDer<'static>> {
        Ok(PrivateKeyDer::from_pem_slice(&self.read(name)?)?)
    }
}

fn named(common_name: &str, organization: Option<&str>) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, common_name);
    if let Some(organization) = organization {
        params.distinguished_name.push(DnType::OrganizationName, organization);
    }
    params
}

/// ring, with the cipher suite that Go prefers first, so that all servers encrypt in the same way.
fn provider() -> Arc<CryptoProvider> {
    let mut provider = ring::default_provider();
    provider.cipher_suites.sort_by_key(|suite| suite.suite() != rustls::CipherSuite::TLS13_AES_128_GCM_SHA256);
    Arc::new(provider)
}
