//! The configuration of admission plugins, as kube-apiserver reads it from `--admission-control-config-file`.

use std::{fs, io, path::Path};

use serde_json::Value;
use windlass_builtins::{kinds::pod::admission::TolerationSeconds, pod_security};
use windlass_schema::yaml;

const VERSIONS: [&str; 2] = ["apiserver.config.k8s.io/v1", "apiserver.k8s.io/v1alpha1"];
const KIND: &str = "AdmissionConfiguration";

/// The configuration of admission plugins.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AdmissionConfiguration {
    /// The configuration of the plugin PodSecurity.
    pub pod_security: pod_security::Configuration,
    /// The configuration of the plugin DefaultTolerationSeconds, which is not in the file.
    pub tolerations: TolerationSeconds,
    /// Other plugins that the file configures, without effect.
    pub ignored: Vec<String>,
}

impl AdmissionConfiguration {
    /// Reads a file, and the files that it names.
    ///
    /// # Errors
    /// Returns the errors of kube-apiserver.
    pub fn read(file: &Path) -> Result<Self, String> {
        let failed = |why: String| format!("failed to read plugin config: {why}");
        let text = open(file)
            .map_err(|why| failed(format!("unable to read admission control configuration from {file:?} [{why}]")))?;
        let directory = file.parent().unwrap_or(Path::new(""));
        let open_other = |path: &str| {
            let path = directory.join(path);
            open(&path).map_err(|why| format!("Couldn't open admission plugin configuration {}: {why}", path.display()))
        };
        Self::decode(&text, open_other).map_err(|error| match error {
            DecodeError::File(why) => failed(why),
            DecodeError::Plugin(why) => why,
        })
    }

    /// Decodes a file; `open` reads the others that it names.
    fn decode(text: &[u8], open: impl Fn(&str) -> Result<Vec<u8>, String>) -> Result<Self, DecodeError> {
        let object = parse(text).map_err(DecodeError::File)?;
        let field = |field: &str| object[field].as_str().unwrap_or_default();
        let (api_version, kind) = (field("apiVersion"), field("kind"));
        if !VERSIONS.contains(&api_version) || kind != KIND {
            let why = format!("no kind {kind:?} is registered for version {api_version:?}");
            return Err(DecodeError::File(why));
        }
        let mut unknown = unknown_fields(&object, &["apiVersion", "kind", "plugins"], "");
        let plugins = object["plugins"].as_array().map_or(&[][..], Vec::as_slice);
        for (at, plugin) in plugins.iter().enumerate() {
            unknown.extend(unknown_fields(plugin, &["name", "path", "configuration"], &format!("plugins[{at}].")));
        }
        if !unknown.is_empty() {
            let unknown: Vec<_> = unknown.iter().map(|field| format!("unknown field {field:?}")).collect();
            return Err(DecodeError::File(format!("strict decoding error: {}", unknown.join(", "))));
        }
        let mut found = Self::default();
        let mut is_configured = false;
        for plugin in plugins {
            let name = plugin["name"].as_str().unwrap_or_default();
            if name != "PodSecurity" {
                found.ignored.push(name.to_owned());
            } else if !is_configured {
                is_configured = true;
                let failed =
                    |why: String| DecodeError::Plugin(format!("couldn't init admission plugin {name:?}: {why}"));
                let configuration = match (&plugin["configuration"], plugin["path"].as_str().unwrap_or_default()) {
                    (Value::Null, "") => continue,
                    (Value::Null, path) => parse(&open(path).map_err(DecodeError::Plugin)?).map_err(failed)?,
                    (configuration, _) => configuration.clone(),
                };
                found.pod_security = pod_security::Configuration::read(&configuration).map_err(failed)?;
            }
        }
        Ok(found)
    }
}

/// Reads a file; errors are those of Go.
fn open(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| {
        let reason = match error.kind() {
            io::ErrorKind::NotFound => "no such file or directory".to_owned(),
            io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
            _ => error.to_string(),
        };
        format!("open {}: {reason}", path.display())
    })
}

/// Why a file is rejected.
#[derive(Debug)]
enum DecodeError {
    /// The file itself.
    File(String),
    /// The configuration of a plugin.
    Plugin(String),
}

fn parse(text: &[u8]) -> Result<Value, String> {
    let document = yaml::parse(text).map_err(|error| format!("error converting YAML to JSON: {error}"))?;
    Ok(document.value)
}

fn unknown_fields(object: &Value, known: &[&str], place: &str) -> Vec<String> {
    let fields = object.as_object().into_iter().flatten().map(|(field, _)| field);
    fields.filter(|field| !known.contains(&field.as_str())).map(|field| format!("{place}{field}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\n";
    const POD_SECURITY: &str = "apiVersion: pod-security.admission.config.k8s.io/v1\nkind: PodSecurityConfiguration\n\
                                exemptions: {namespaces: [kube-system]}\n";

    fn decode(body: &str) -> Result<AdmissionConfiguration, String> {
        let open = |path: &str| match path {
            "pods.yaml" => Ok(POD_SECURITY.as_bytes().to_vec()),
            _ => Err("not found".to_owned()),
        };
        AdmissionConfiguration::decode(format!("{HEAD}{body}").as_bytes(), open).map_err(|error| match error {
            DecodeError::File(why) | DecodeError::Plugin(why) => why,
        })
    }

    #[test]
    fn the_configuration_of_a_plugin_is_inline_or_in_another_file() {
        assert_eq!(decode(""), Ok(AdmissionConfiguration::default()));
        let inline = POD_SECURITY.replace('\n', "\n    ");
        let inline = decode(&format!("plugins:\n- name: PodSecurity\n  configuration:\n    {inline}")).unwrap();
        assert_eq!(inline.pod_security.namespaces, ["kube-system"]);
        let other =
            decode("plugins:\n- {name: PodSecurity, path: pods.yaml}\n- {name: EventRateLimit, path: x}").unwrap();
        assert_eq!((other.pod_security, other.ignored), (inline.pod_security, vec!["EventRateLimit".to_owned()]));
    }

    #[test]
    fn wrong_files_are_rejected_as_kube_apiserver_does() {
        for (body, expected) in [
            ("plugins:\n- {name: PodSecurity, file: x}\n", "strict decoding error: unknown field \"plugins[0].file\""),
            ("plugins:\n- {name: PodSecurity, path: other.yaml}\n", "not found"),
            (
                "plugins:\n- {name: PodSecurity, configuration: {kind: PodSecurityConfiguration}}\n",
                "couldn't init admission plugin \"PodSecurity\": no kind \"PodSecurityConfiguration\" is registered \
                 for version \"\"",
            ),
        ] {
            assert_eq!(decode(body).unwrap_err(), expected, "{body}");
        }
        let other = AdmissionConfiguration::decode(b"kind: Pod\napiVersion: v1\n", |_| Ok(Vec::new()));
        assert!(
            matches!(other, Err(DecodeError::File(why)) if why == "no kind \"Pod\" is registered for version \"v1\"")
        );
    }
}
