//! Flags for etcd.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use windlass_plane::{ETCD_PREFIX, EtcdOptions, PlaneError};

/// Addresses of etcd, and the files for TLS.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct EtcdArgs {
    /// URLs of the members of the etcd cluster
    #[arg(long, value_name = "URL", value_delimiter = ',')]
    etcd_servers: Vec<String>,
    /// File with the certificate authorities of etcd [default: those of the system]
    #[arg(long, value_name = "FILE")]
    etcd_cafile: Option<PathBuf>,
    /// File with the client certificate for etcd
    #[arg(long, value_name = "FILE")]
    etcd_certfile: Option<PathBuf>,
    /// File with the key of the client certificate for etcd
    #[arg(long, value_name = "FILE")]
    etcd_keyfile: Option<PathBuf>,
    /// Prefix of all keys in etcd [default: /windlass]
    #[arg(long, value_name = "PREFIX")]
    etcd_prefix: Option<String>,
}

impl EtcdArgs {
    /// The first flag that was given, if any.
    pub(crate) fn given(&self) -> Option<&'static str> {
        let given = [
            ("--etcd-servers", !self.etcd_servers.is_empty()),
            ("--etcd-cafile", self.etcd_cafile.is_some()),
            ("--etcd-certfile", self.etcd_certfile.is_some()),
            ("--etcd-keyfile", self.etcd_keyfile.is_some()),
            ("--etcd-prefix", self.etcd_prefix.is_some()),
        ];
        given.iter().find(|(_, given)| *given).map(|(flag, _)| *flag)
    }

    /// The options, checked without connecting.
    pub(crate) fn options(&self) -> anyhow::Result<EtcdOptions> {
        // The process in the background has another working directory.
        let file = |path: &Option<PathBuf>| path.as_deref().map(absolute).transpose();
        let options = EtcdOptions {
            prefix: self.etcd_prefix.clone().unwrap_or_else(|| ETCD_PREFIX.to_owned()),
            ca_file: file(&self.etcd_cafile)?,
            cert_file: file(&self.etcd_certfile)?,
            key_file: file(&self.etcd_keyfile)?,
            ..EtcdOptions::new(&self.etcd_servers)
        };
        options.validate().map_err(PlaneError::Etcd)?;
        Ok(options)
    }
}

fn absolute(path: &Path) -> anyhow::Result<PathBuf> {
    std::path::absolute(path).with_context(|| format!("cannot use {}", path.display()))
}
