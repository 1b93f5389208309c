//! Flags for the store.

use anyhow::bail;
use clap::{Args, ValueEnum};
use windlass_plane::StoreKind;

use crate::{etcd::EtcdArgs, failure::ErrorWithHint};

/// Options of the store.
#[derive(Debug, Args)]
#[command(next_help_heading = "Store", mut_arg("etcd_servers", |servers| servers.required_if_eq("store", "etcd")))]
pub(super) struct StoreArgs {
    /// Storage of objects
    #[arg(long, value_enum, default_value_t = StoreArg::Embedded)]
    store: StoreArg,
    /// Maximum size of all objects and their history, in bytes, with the embedded store; 0 for no limit
    #[arg(long, value_name = "BYTES", default_value_t = 8 << 30)]
    quota_backend_bytes: u64,
    #[command(flatten)]
    etcd: EtcdArgs,
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
            return Ok(StoreKind::Etcd(self.etcd.options()?));
        }
        if let Some(flag) = self.etcd.given() {
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
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use windlass_plane::{ETCD_PREFIX, EtcdOptions};

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
