//! Flags for admission plugins.

use std::path::PathBuf;

use anyhow::bail;
use clap::Args;
use windlass_plane::{AdmissionConfiguration, DISABLEABLE_PLUGINS, NO_EVENT_LIMITS, OPTIONAL_PLUGINS};

use crate::failure::ErrorWithHint;

/// All plugins of Kubernetes 1.36.
const KNOWN: [&str; 41] = [
    "AlwaysAdmit",
    "AlwaysDeny",
    "AlwaysPullImages",
    "CertificateApproval",
    "CertificateSigning",
    "CertificateSubjectRestriction",
    "ClusterTrustBundleAttest",
    "DefaultIngressClass",
    "DefaultStorageClass",
    "DefaultTolerationSeconds",
    "DenyServiceExternalIPs",
    "EventRateLimit",
    "ExtendedResourceToleration",
    "ImagePolicyWebhook",
    "JobValidation",
    "LimitPodHardAntiAffinityTopology",
    "LimitRanger",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionWebhook",
    "NamespaceAutoProvision",
    "NamespaceExists",
    "NamespaceLifecycle",
    "NodeDeclaredFeatureValidator",
    "NodeRestriction",
    "OwnerReferencesPermissionEnforcement",
    "PersistentVolumeClaimResize",
    "PodGroupProtection",
    "PodGroupWorkloadExists",
    "PodNodeSelector",
    "PodResizeValidator",
    "PodSecurity",
    "PodTolerationRestriction",
    "PodTopologyLabels",
    "Priority",
    "ResourceQuota",
    "RuntimeClass",
    "ServiceAccount",
    "StorageObjectInUseProtection",
    "TaintNodesByCondition",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionWebhook",
];

/// Plugins for features that are disabled by default, so that they do nothing.
const WITHOUT_EFFECT: [&str; 3] = ["JobValidation", "PodGroupProtection", "PodGroupWorkloadExists"];

/// Options for admission.
#[derive(Debug, Args)]
#[command(next_help_heading = "Admission")]
pub(crate) struct AdmissionArgs {
    /// Additional admission plugins to enable; all plugins of Kubernetes are supported except AlwaysDeny and
    /// ImagePolicyWebhook
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    enable_admission_plugins: Vec<String>,
    /// Default admission plugins to disable
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    disable_admission_plugins: Vec<String>,
    /// AdmissionConfiguration file with the configuration of EventRateLimit, PodNodeSelector, PodSecurity and
    /// PodTolerationRestriction
    #[arg(long, value_name = "FILE")]
    admission_control_config_file: Option<PathBuf>,
}

impl AdmissionArgs {
    /// Returns the configuration of plugins, which may name plugins that have none here.
    pub(crate) fn configuration(&self) -> anyhow::Result<AdmissionConfiguration> {
        let read = self.admission_control_config_file.as_deref().map(AdmissionConfiguration::read).transpose();
        read.map(Option::unwrap_or_default).map_err(anyhow::Error::msg)
    }

    /// Returns the plugins to enable and those to disable.
    pub(crate) fn plugins(self, configuration: &AdmissionConfiguration) -> anyhow::Result<Plugins> {
        let Self { enable_admission_plugins: enabled, disable_admission_plugins: disabled, .. } = self;
        for (flag, names) in [("enable-admission-plugins", &enabled), ("disable-admission-plugins", &disabled)] {
            if let Some(unknown) = names.iter().find(|name| !KNOWN.contains(&name.as_str())) {
                bail!(ErrorWithHint {
                    message: format!("{flag} plugin {unknown:?} is unknown"),
                    hint: "see https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/".into(),
                });
            }
        }
        let mut both: Vec<&str> = enabled.iter().filter(|name| disabled.contains(name)).map(String::as_str).collect();
        both.sort_unstable();
        both.dedup();
        if !both.is_empty() {
            bail!("[{}] in enable-admission-plugins and disable-admission-plugins overlapped", both.join(" "));
        }
        if let Some(name) = enabled.iter().map(String::as_str).find(|name| !exists(name)) {
            let others: Vec<_> = known().filter(|name| exists(name)).collect();
            bail!(ErrorWithHint {
                message: format!("cannot enable the admission plugin {name}: Kubernetes has it, but Windlass does not"),
                hint: format!("remove it from --enable-admission-plugins; supported are {}", others.join(", ")).into(),
            });
        }
        if enabled.iter().any(|name| name == "EventRateLimit") && configuration.event_limits.is_empty() {
            bail!(ErrorWithHint {
                message: format!("couldn't init admission plugin \"EventRateLimit\": {NO_EVENT_LIMITS}"),
                hint: "configure its limits in the file of --admission-control-config-file".into(),
            });
        }
        Ok(Plugins { enabled, disabled })
    }
}

/// Plugins that differ from the default.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Plugins {
    pub(crate) enabled: Vec<String>,
    pub(crate) disabled: Vec<String>,
}

/// Returns whether this server has a plugin.
pub(crate) fn exists(name: &str) -> bool {
    WITHOUT_EFFECT.contains(&name) || DISABLEABLE_PLUGINS.contains(&name) || OPTIONAL_PLUGINS.contains(&name)
}

/// Returns all plugins of Kubernetes.
pub(crate) fn known() -> impl Iterator<Item = &'static str> {
    KNOWN.into_iter()
}

/// Returns whether Kubernetes has a plugin of this name.
pub(crate) fn is_known(name: &str) -> bool {
    KNOWN.contains(&name)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        admission: AdmissionArgs,
    }

    fn plugins(flags: &[&str]) -> Result<Plugins, String> {
        let parsed = Command::try_parse_from(["up"].iter().chain(flags)).map_err(|error| error.to_string())?;
        parsed.admission.plugins(&AdmissionConfiguration::default()).map_err(|error| error.to_string())
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn plugins_are_enabled_and_disabled_by_name() {
        assert_eq!(plugins(&[]).unwrap(), Plugins::default());
        let found = plugins(&["--disable-admission-plugins=ServiceAccount,PodSecurity"]).unwrap();
        assert_eq!(found, Plugins { disabled: names(&["ServiceAccount", "PodSecurity"]), enabled: Vec::new() });
        for name in known().filter(|name| !["AlwaysDeny", "ImagePolicyWebhook", "EventRateLimit"].contains(name)) {
            let found = plugins(&["--enable-admission-plugins", name]).unwrap();
            assert_eq!(found, Plugins { enabled: names(&[name]), disabled: Vec::new() });
            let found = plugins(&["--disable-admission-plugins", name]).unwrap();
            assert_eq!(found, Plugins { disabled: names(&[name]), enabled: Vec::new() });
        }
    }

    #[test]
    fn wrong_names_are_rejected_as_kube_apiserver_does() {
        for (flags, why) in [
            (&["--enable-admission-plugins=Foo"][..], "enable-admission-plugins plugin \"Foo\" is unknown"),
            (&["--disable-admission-plugins=foo"], "disable-admission-plugins plugin \"foo\" is unknown"),
            (
                &[
                    "--disable-admission-plugins=LimitRanger,Priority",
                    "--enable-admission-plugins=Priority,LimitRanger",
                ],
                "[LimitRanger Priority] in enable-admission-plugins and disable-admission-plugins overlapped",
            ),
        ] {
            assert_eq!(plugins(flags).unwrap_err(), why);
        }
        let missing = plugins(&["--enable-admission-plugins=ImagePolicyWebhook"]).unwrap_err();
        let expected =
            "cannot enable the admission plugin ImagePolicyWebhook: Kubernetes has it, but Windlass does not";
        assert_eq!(missing, expected);
        let unlimited = plugins(&["--enable-admission-plugins=EventRateLimit"]).unwrap_err();
        let expected =
            "couldn't init admission plugin \"EventRateLimit\": limits: Invalid value: null: must not be empty";
        assert_eq!(unlimited, expected);
    }
}
