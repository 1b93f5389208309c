//! Which admission plugins run.

use std::path::PathBuf;

use anyhow::bail;
use clap::Args;
use windlass_plane::{AdmissionConfiguration, DISABLEABLE_PLUGINS};

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
    /// Admission plugins to enable in addition to the default ones
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    enable_admission_plugins: Vec<String>,
    /// Default admission plugins to disable
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    disable_admission_plugins: Vec<String>,
    /// AdmissionConfiguration file that configures PodSecurity: defaults for namespaces without labels, and exemptions
    #[arg(long, value_name = "FILE")]
    admission_control_config_file: Option<PathBuf>,
}

impl AdmissionArgs {
    /// Returns the configuration of plugins, which may name plugins that have none here.
    pub(crate) fn configuration(&self) -> anyhow::Result<AdmissionConfiguration> {
        let read = self.admission_control_config_file.as_deref().map(AdmissionConfiguration::read).transpose();
        read.map(Option::unwrap_or_default).map_err(anyhow::Error::msg)
    }

    /// Returns the plugins to disable.
    pub(crate) fn disabled(self) -> anyhow::Result<Vec<String>> {
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
        let exists = |name: &&str| WITHOUT_EFFECT.contains(name) || DISABLEABLE_PLUGINS.contains(name);
        if let Some(name) = enabled.iter().map(String::as_str).find(|name| !exists(name)) {
            bail!(ErrorWithHint {
                message: format!("cannot enable the admission plugin {name}: not supported by Windlass"),
                hint: "remove it from --enable-admission-plugins".into(),
            });
        }
        Ok(disabled)
    }
}

/// Returns all plugins of Kubernetes.
pub(crate) fn known() -> impl Iterator<Item = &'static str> {
    KNOWN.into_iter()
}

/// Returns whether Kubernetes has a plugin of this name.
pub(crate) fn is_known(name: &str) -> bool {
    KNOWN.contains(&name)
}

/// Returns whether a plugin runs by default.
pub(crate) fn is_default(name: &str) -> bool {
    DISABLEABLE_PLUGINS.contains(&name)
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

    fn disabled(flags: &[&str]) -> Result<Vec<String>, String> {
        let parsed = Command::try_parse_from(["up"].iter().chain(flags)).map_err(|error| error.to_string())?;
        parsed.admission.disabled().map_err(|error| error.to_string())
    }

    #[test]
    fn plugins_are_disabled_by_name() {
        assert_eq!(disabled(&[]).unwrap(), Vec::<String>::new());
        let found = disabled(&["--disable-admission-plugins=ServiceAccount,PodSecurity"]).unwrap();
        assert_eq!(found, ["ServiceAccount", "PodSecurity"]);
        assert!(disabled(&["--enable-admission-plugins=NodeRestriction,PodSecurity"]).unwrap().is_empty());
        for name in WITHOUT_EFFECT {
            assert!(disabled(&["--enable-admission-plugins", name]).unwrap().is_empty());
        }
        for name in DISABLEABLE_PLUGINS.into_iter().chain(["AlwaysPullImages"]) {
            assert_eq!(disabled(&["--disable-admission-plugins", name]).unwrap(), [name]);
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
            assert_eq!(disabled(flags).unwrap_err(), why);
        }
        let missing = disabled(&["--enable-admission-plugins=AlwaysPullImages"]).unwrap_err();
        assert!(missing.starts_with("cannot enable the admission plugin AlwaysPullImages"), "{missing}");
    }
}
