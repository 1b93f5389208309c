//! The entry `etcd`: owns a data directory, and answers health checks as long as it runs.

mod flags;
mod serve;

use std::{
    io::Write as _,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    process::ExitCode,
};

use http::Uri;
use serde_json::json;
use windlass_schema::go_format::parse_bool;

use self::{
    flags::{Flags, Parsed},
    serve::Endpoints,
};
use super::handover::Storage;
use crate::{logging, threads};

/// The release whose flags and responses are understood.
const VERSION: &str = "3.6.0";
/// Directory of the API server in the data directory.
const OWN: &str = "windlass";

/// Acts as etcd.
pub(super) fn run(arguments: &[String]) -> ExitCode {
    let flags = match flags::parse(arguments) {
        Ok(Parsed::Flags(flags)) => flags,
        Ok(Parsed::Help) => return print(&flags::help()),
        Ok(Parsed::Version) => return print(&format!("etcd Version: {VERSION} (windlass)\n")),
        Err(message) => {
            eprintln!("{message}\n{}", flags::help());
            return ExitCode::from(2);
        }
    };
    logging::start(0);
    let ignored = flags.ignored();
    if !ignored.is_empty() {
        log("warn", "these flags have no effect in windlass", &ignored.join(", "));
    }
    let serving = Configuration::of(&flags, &|name| std::env::var(name).ok());
    match serving.and_then(|configuration| serve(configuration).map_err(|error| format!("{error:#}"))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            log("fatal", "failed to start etcd", &error);
            ExitCode::FAILURE
        }
    }
}

fn print(text: &str) -> ExitCode {
    // The reader has closed the pipe.
    let _ = std::io::stdout().write_all(text.as_bytes());
    ExitCode::SUCCESS
}

/// Logs a line of JSON, as etcd does.
fn log(level: &str, message: &str, detail: &str) {
    let time = windlass_clock::now();
    let detail_name = if level == "info" { "address" } else { "error" };
    eprintln!("{}", json!({"level": level, "ts": time.to_string(), "msg": message, detail_name: detail}));
}

/// Settings from flags and environment variables.
#[derive(Debug, PartialEq, Eq)]
struct Configuration {
    data_dir: PathBuf,
    clients: Vec<SocketAddr>,
    peers: Vec<SocketAddr>,
    fsync: bool,
    quota_bytes: Option<u64>,
}

impl Configuration {
    /// Flags take precedence over variables. Errors are those of etcd.
    fn of(flags: &Flags, variable: &dyn Fn(&str) -> Option<String>) -> Result<Self, String> {
        let value = |name: &str| {
            let variable_name = format!("ETCD_{}", name.replace('-', "_").to_uppercase());
            flags.last(name).map(str::to_owned).or_else(|| variable(&variable_name))
        };
        if let Some(extra) = flags.extra() {
            return Err(format!("{extra:?} is not a valid flag"));
        }
        let name = value("name").unwrap_or_else(|| "default".to_owned());
        let data_dir = value("data-dir").filter(|path| !path.is_empty()).unwrap_or_else(|| format!("{name}.etcd"));
        let data_dir = std::path::absolute(&data_dir).map_err(|error| format!("cannot use {data_dir}: {error}"))?;
        let urls = |name: &str, default: &str| addresses(&value(name).unwrap_or_else(|| default.to_owned()));
        Ok(Self {
            data_dir,
            clients: urls("listen-client-urls", "http://localhost:2379")?,
            peers: urls("listen-peer-urls", "http://localhost:2380")?,
            fsync: value("unsafe-no-fsync").is_none_or(|value| parse_bool(&value) != Some(true)),
            quota_bytes: value("quota-backend-bytes").and_then(|value| value.parse().ok()).filter(|bytes| *bytes > 0),
        })
    }
}

/// Parses a list of URLs to listen on.
fn addresses(urls: &str) -> Result<Vec<SocketAddr>, String> {
    urls.split(',').map(str::trim).map(address).collect()
}

fn address(url: &str) -> Result<SocketAddr, String> {
    let uri: Uri = url.parse().map_err(|_| format!("invalid URL {url}"))?;
    match uri.scheme_str() {
        Some("http") => {}
        Some("https" | "unix" | "unixs") => return Err(format!("windlass serves etcd only over http, not at {url}")),
        _ => return Err(format!("URL scheme must be http, https, unix, or unixs: {url}")),
    }
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
    let ip = match host {
        "localhost" => IpAddr::V4(Ipv4Addr::LOCALHOST),
        host => host.parse().map_err(|_| format!("expected IP in URL for binding ({url})"))?,
    };
    let port = uri.port_u16().ok_or_else(|| format!("URL address does not have the form \"host:port\": {url}"))?;
    Ok(SocketAddr::new(ip, port))
}

fn serve(configuration: Configuration) -> anyhow::Result<()> {
    let Configuration { data_dir, clients, peers, fsync, quota_bytes } = configuration;
    create(&data_dir)?;
    let storage = Storage { directory: data_dir.join(OWN), fsync, quota_bytes };
    threads::block_on(async {
        let endpoints = Endpoints::bind(&clients, &peers).await?;
        for address in endpoints.clients() {
            log("info", "ready to serve client requests", &address.to_string());
        }
        endpoints.serve(storage).await
    })
}

fn create(directory: &Path) -> anyhow::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    let created = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory);
    created.map_err(|error| anyhow::anyhow!("cannot create data directory {}: {error}", directory.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn configuration(line: &str) -> Result<Configuration, String> {
        let arguments: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        match flags::parse(&arguments)? {
            Parsed::Flags(flags) => {
                let variable = |name: &str| (name == "ETCD_UNSAFE_NO_FSYNC").then(|| "true".to_owned());
                Configuration::of(&flags, &variable)
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn command_lines_of_test_frameworks_are_understood() {
        let ports = |ports: [u16; 2]| ports.map(|port| vec![SocketAddr::from(([127, 0, 0, 1], port))]);
        let [clients, peers] = ports([2, 3]);
        let envtest = "--advertise-client-urls=http://127.0.0.1:2 --data-dir=/tmp/a --listen-client-urls=http://127.0.0.1:2 \
                       --listen-peer-urls=http://127.0.0.1:3 --unsafe-no-fsync=true";
        let expected = Configuration { data_dir: "/tmp/a".into(), clients, peers, fsync: false, quota_bytes: None };
        assert_eq!(configuration(envtest), Ok(expected));
        let fabric8 = "-data-dir /tmp/a -wal-dir /tmp/b --listen-client-urls http://0.0.0.0:2 --advertise-client-urls \
                       http://0.0.0.0:2 --initial-cluster default=http://localhost:3 --initial-advertise-peer-urls \
                       http://localhost:3 --listen-peer-urls http://localhost:3 --unsafe-no-fsync=false";
        let [_, peers] = ports([2, 3]);
        let clients = vec![SocketAddr::from(([0, 0, 0, 0], 2))];
        let expected = Configuration { data_dir: "/tmp/a".into(), clients, peers, fsync: true, quota_bytes: None };
        assert_eq!(configuration(fabric8), Ok(expected));
        let defaults = configuration("--quota-backend-bytes=5000").unwrap();
        assert!(defaults.data_dir.ends_with("default.etcd"), "{defaults:?}");
        assert_eq!((defaults.quota_bytes, defaults.fsync), (Some(5000), false), "from a variable");
        let [clients, peers] = ports([2379, 2380]);
        assert_eq!((defaults.clients, defaults.peers), (clients, peers));
    }

    #[test]
    fn wrong_values_are_errors_of_etcd() {
        for (line, expected) in [
            ("--foo", "flag provided but not defined: -foo"),
            ("-foo=1", "flag provided but not defined: -foo"),
            ("--data-dir", "flag needs an argument: -data-dir"),
            ("--unsafe-no-fsync=x", "invalid boolean value \"x\" for -unsafe-no-fsync: parse error"),
            ("extra", "\"extra\" is not a valid flag"),
            ("--listen-client-urls=http://foo:1", "expected IP in URL for binding (http://foo:1)"),
            (
                "--listen-client-urls=http://127.0.0.1",
                "URL address does not have the form \"host:port\": http://127.0.0.1",
            ),
            (
                "--listen-client-urls=ftp://127.0.0.1:1",
                "URL scheme must be http, https, unix, or unixs: ftp://127.0.0.1:1",
            ),
            (
                "--listen-client-urls=https://127.0.0.1:1",
                "windlass serves etcd only over http, not at https://127.0.0.1:1",
            ),
        ] {
            assert_eq!(configuration(line), Err(expected.to_owned()), "{line}");
        }
    }
}
