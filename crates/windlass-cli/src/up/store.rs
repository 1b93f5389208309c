//! Flags for the store.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::{Args, ValueEnum};
use windlass_plane::{ETCD_PREFIX, EtcdOptions, PlaneError, StoreKind};

use crate::failure::ErrorWithHint;

/// Options of the store.
#[derive(Debug, Args)]
#[command(next_help_heading = "Store")]
pub(super) struct StoreArgs {
    /// Storage of objects
    #[arg(long, value_enum, default_value_t = StoreArg::Embedded)]
    store: StoreArg,
    /// Maximum size of all objects and their history, in bytes, with the embedded store; 0 for no limit
    #[arg(long, value_name = "BYTES", default_value_t = 8 << 30)]
    quota_backend_bytes: u64,
    /// URLs of the members of the etcd cluster, for `--store etcd`
    #[arg(long, value_name = "URL", value_delimiter = ',', required_if_eq("store", "etcd"))]
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

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum StoreArg {
    /// In memory; lost when the server stops
    Memory,
    /// In a file in the data directory
    Embedded,
    /// In an external etcd v3 cluster
    Etcd,
}

impl StoreArgs {
    /// The maximum size of the embedded store.
    pub(super) fn quota_bytes(&self) -> Option<u64> {
        (self.quota_backend_bytes > 0).then_some(self.quota_backend_bytes)
    }

    /// The store that the options describe.
    pub(super) fn kind(self) -> anyhow::Result<StoreKind> {
        if self.store == StoreArg::Etcd {
            return Ok(StoreKind::Etcd(self.etcd()?));
        }
        let given = [
            ("--etcd-servers", !self.etcd_servers.is_empty()),
            ("--etcd-cafile", self.etcd_cafile.is_some()),
            ("--etcd-certfile", self.etcd_certfile.is_some()),
            ("--etcd-keyfile", self.etcd_keyfile.is_some()),
            ("--etcd-prefix", self.etcd_prefix.is_some()),
        ];
        if let Some((flag, _)) = given.iter().find(|(_, given)| *given) {
            bail!(ErrorWithHint {
                message: format!("{flag} has no effect, because objects are not stored in etcd"),
                hint: "add --store etcd, or remove the flag".into(),
            });
        }
        Ok(match self.store {
            StoreArg::Memory => StoreKind::Memory,
            StoreArg::Embedded | StoreArg::Etcd => StoreKind::Embedded,
        })
    }

    fn etcd(self) -> anyhow::Result<EtcdOptions> {
        // The process in the background has another working directory.
        let file = |path: Option<PathBuf>| path.as_deref().map(absolute).transpose();
        let options = EtcdOptions {
            prefix: self.etcd_prefix.unwrap_or_else(|| ETCD_PREFIX.to_owned()),
            ca_file: file(self.etcd_cafile)?,
            cert_file: file(self.etcd_certfile)?,
            key_file: file(self.etcd_keyfile)?,
            ..EtcdOptions::new(self.etcd_servers)
        };
        options.validate().map_err(PlaneError::Etcd)?;
        Ok(options)
    }
}

fn absolute(path: &Path) -> anyhow::Result<PathBuf> {
    std::path::absolute(path).with_context(|| format!("cannot use {}", path.display()))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::failure::hint;

    #[derive(Parser)]
    struct Flags {
        #[command(flatten)]
        store: StoreArgs,
    }

    fn kind(flags: &[&str]) -> anyhow::Result<StoreKind> {
        Flags::try_parse_from([&["up"][..], flags].concat())?.store.kind()
    }

    #[test]
    fn the_store_is_a_file_unless_another_is_chosen() {
        assert_eq!(kind(&[]).unwrap(), StoreKind::Embedded);
        assert_eq!(kind(&["--store", "memory"]).unwrap(), StoreKind::Memory);
        let flags = ["--store", "etcd", "--etcd-servers", "https://a:1,https://b", "--etcd-cafile", "/ca.pem"];
        let expected =
            EtcdOptions { ca_file: Some("/ca.pem".into()), ..EtcdOptions::new(["https://a:1", "https://b"]) };
        assert_eq!(kind(&flags).unwrap(), StoreKind::Etcd(expected));
        assert_eq!(ETCD_PREFIX, "/windlass", "the help names it");
    }

    #[test]
    fn flags_that_do_not_fit_are_errors_with_hints() {
        let missing = kind(&["--store", "etcd"]).unwrap_err().to_string();
        assert!(missing.contains("--etcd-servers <URL>"), "{missing}");
        for (flags, expected) in [
            (
                &["--etcd-servers", "http://a"][..],
                "--etcd-servers has no effect, because objects are not stored in etcd",
            ),
            (
                &["--store", "memory", "--etcd-prefix", "/a"][..],
                "--etcd-prefix has no effect, because objects are not stored in etcd",
            ),
            (
                &["--store", "etcd", "--etcd-servers", "a:2379"][..],
                "cannot use etcd server \"a:2379\": it must begin with http:// or https://",
            ),
            (
                &["--store", "etcd", "--etcd-servers", "https://a", "--etcd-certfile", "c"][..],
                "a client certificate of etcd and its key belong together",
            ),
        ] {
            let error = kind(flags).unwrap_err();
            assert!(format!("{error:#}").ends_with(expected), "{error:#}");
            assert!(hint(&error).is_some(), "{error:#}");
        }
    }
}
