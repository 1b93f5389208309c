use clap::Parser;

use super::*;

#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    flags: Flags,
}

fn parse(arguments: &[&str]) -> Result<Flags, String> {
    let arguments = ["foo-operator"].iter().chain(arguments);
    Arguments::try_parse_from(arguments).map(|parsed| parsed.flags).map_err(|error| error.to_string())
}

#[test]
fn defaults_of_flags_are_those_of_controller_runtime() {
    let flags = parse(&[]).unwrap();
    assert_eq!(flags.metrics_bind_address.to_string(), ":8080");
    assert_eq!(flags.health_probe_bind_address.to_string(), ":8081");
    assert_eq!(flags.webhook_port, 9443);
    assert_eq!(flags.graceful_timeout, Duration::from_secs(30));
    assert_eq!(flags.leader_election_lease_duration, Duration::from_secs(15));
    assert_eq!(flags.leader_election_renew_deadline, Duration::from_secs(10));
    assert_eq!(flags.leader_election_retry_period, Duration::from_secs(2));
    assert_eq!(flags.rate(), None);
    assert_eq!(flags.target(), Target::default());
}

#[test]
fn a_leader_is_elected_in_clusters_unless_disabled_or_sharded() {
    for (arguments, in_cluster, elects) in [
        (&[][..], true, true),
        (&[], false, false),
        (&["--leader-elect"], false, true),
        (&["--leader-elect=true"], false, true),
        (&["--leader-elect=false"], true, false),
        (&["--shards"], true, false),
        (&["--shards=on"], true, false),
        (&["--shards=off"], true, true),
    ] {
        let flags = parse(arguments).unwrap();
        assert_eq!(flags.elects_leader(in_cluster), elects, "{arguments:?} {in_cluster}");
    }
}

#[test]
fn metrics_are_secure_and_profiles_are_served_if_asked_to() {
    for (arguments, secure) in [
        (&[][..], false),
        (&["--metrics-secure"], true),
        (&["--metrics-secure=true"], true),
        (&["--metrics-secure=false"], false),
    ] {
        assert_eq!(parse(arguments).unwrap().metrics_secure, secure, "{arguments:?}");
    }
    for (arguments, profiling) in [(&[][..], false), (&["--profiling"], true)] {
        assert_eq!(parse(arguments).unwrap().profiling, profiling, "{arguments:?}");
    }
    assert_eq!(parse(&["--metrics-cert-dir=/c"]).unwrap().metrics_cert_dir, Some("/c".into()));
}

#[test]
fn values_are_read() {
    let flags = parse(&["--namespace=a,b", "--namespaces=c", "--kube-api-qps=20", "--graceful-timeout=1m30s"]).unwrap();
    assert_eq!(flags.namespaces, ["a", "b", "c"]);
    assert_eq!(flags.rate(), Some(Rate { per_second: 20.0, burst: 100 }));
    assert_eq!(flags.graceful_timeout, Duration::from_secs(90));
    let flags = parse(&["--log-format=json", "--metrics-bind-address=0", "--debug-state"]).unwrap();
    assert_eq!(
        (flags.log_format, flags.metrics_bind_address, flags.debug_state),
        (LogFormat::Json, BindAddress::Off, true)
    );
}

#[test]
fn invalid_values_are_reported() {
    for (argument, expected) in [
        ("--graceful-timeout=soon", "invalid duration"),
        ("--graceful-timeout=-5s", "invalid duration"),
        ("--kube-api-qps=-1", "invalid rate"),
        ("--kube-api-qps=NaN", "invalid rate"),
        ("--metrics-bind-address=8080", "invalid address"),
        ("--shards=maybe", "expected on or off"),
        ("--webhook-port=70000", "70000"),
        ("--log-format=xml", "xml"),
    ] {
        let error = parse(&[argument]).unwrap_err();
        assert!(error.contains(expected), "{argument}: {error}");
    }
}

/// Every flag can be set by an environment variable of its own.
#[test]
fn every_flag_has_a_variable() {
    use clap::CommandFactory as _;

    let mut seen = std::collections::BTreeMap::new();
    for argument in Arguments::command().get_arguments().filter(|argument| argument.get_id() != "help") {
        let variable = argument.get_env().unwrap_or_else(|| panic!("{} has no variable", argument.get_id()));
        let variable = variable.to_str().unwrap().to_owned();
        let usual = ["WATCH_NAMESPACE", "RUST_LOG", "POD_NAME", "POD_NAMESPACE"].contains(&variable.as_str());
        let expected = format!("WINDLASS_{}", argument.get_id().as_str().to_uppercase());
        assert!(usual || variable == expected, "{variable}");
        assert_eq!(seen.insert(variable, argument.get_id().clone()), None);
    }
    assert!(seen.len() > 20);
}
