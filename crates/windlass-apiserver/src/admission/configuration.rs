//! The configuration of admission plugins, as kube-apiserver reads it from `--admission-control-config-file`.

use std::{collections::BTreeMap, fs, io};

use serde_json::Value;
use windlass_builtins::{kinds::pod::admission::TolerationSeconds, pod_security};
use windlass_schema::{
    field::{ErrorList, FieldError, Path},
    sorting::Gather as _,
    yaml,
};

const VERSIONS: [&str; 2] = ["apiserver.config.k8s.io/v1", "apiserver.k8s.io/v1alpha1"];
const KIND: &str = "AdmissionConfiguration";

/// The configuration of admission plugins.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AdmissionConfiguration {
    /// The configuration of the plugin PodSecurity.
    pub pod_security: pod_security::Configuration,
    /// The configuration of the plugin DefaultTolerationSeconds, which is not in the file.
    pub tolerations: TolerationSeconds,
    /// The configuration of the plugin PodNodeSelector: what pods may select, by namespace, and the default selector.
    pub node_selectors: BTreeMap<String, String>,
    /// The configuration of the plugin PodTolerationRestriction.
    pub pod_tolerations: Tolerations,
    /// The configuration of the plugin EventRateLimit.
    pub event_limits: Vec<EventLimit>,
    /// Other plugins that the file configures, without effect.
    pub ignored: Vec<String>,
}

/// Tolerations of pods in namespaces that do not state their own.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tolerations {
    /// Added to new pods.
    pub default: Vec<Value>,
    /// Tolerations that pods may have; any if empty.
    pub allowed: Vec<Value>,
}

/// A limit for events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventLimit {
    /// Scope of the limit: the events that share it.
    pub kind: EventLimitType,
    /// Events per second.
    pub qps: u32,
    /// Events that may come at once.
    pub burst: u32,
    /// Number of namespaces, users or sources with a limit of their own.
    pub cache_size: usize,
}

/// Scope of a limit: the events that share it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventLimitType {
    /// All events of the server.
    Server,
    /// Events of a namespace.
    Namespace,
    /// Events of a user.
    User,
    /// Events from one source about one object.
    SourceAndObject,
}

impl EventLimitType {
    const ALL: [Self; 4] = [Self::Server, Self::Namespace, Self::User, Self::SourceAndObject];

    /// Returns the name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Server => "Server",
            Self::Namespace => "Namespace",
            Self::User => "User",
            Self::SourceAndObject => "SourceAndObject",
        }
    }
}

impl AdmissionConfiguration {
    /// Reads a file, and the files that it names.
    ///
    /// # Errors
    /// Returns the errors of kube-apiserver.
    pub fn read(file: &std::path::Path) -> Result<Self, String> {
        let failed = |why: String| format!("failed to read plugin config: {why}");
        let text = open(file)
            .map_err(|why| failed(format!("unable to read admission control configuration from {file:?} [{why}]")))?;
        let directory = file.parent().unwrap_or(std::path::Path::new(""));
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
        let mut configured: Vec<&str> = Vec::new();
        for plugin in plugins {
            let name = plugin["name"].as_str().unwrap_or_default();
            if !CONFIGURABLE.contains(&name) {
                found.ignored.push(name.to_owned());
                continue;
            }
            // The first one counts.
            if configured.contains(&name) {
                continue;
            }
            configured.push(name);
            let failed = |why: String| DecodeError::Plugin(format!("couldn't init admission plugin {name:?}: {why}"));
            let configuration = match (&plugin["configuration"], plugin["path"].as_str().unwrap_or_default()) {
                (Value::Null, "") => continue,
                (Value::Null, path) => parse(&open(path).map_err(DecodeError::Plugin)?).map_err(failed)?,
                (configuration, _) => configuration.clone(),
            };
            found.configure(name, &configuration).map_err(failed)?;
        }
        Ok(found)
    }

    fn configure(&mut self, name: &str, configuration: &Value) -> Result<(), String> {
        match name {
            "EventRateLimit" => self.event_limits = event_limits(configuration)?,
            "PodNodeSelector" => {
                let selectors = configuration["podNodeSelectorPluginConfig"].as_object();
                let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                let selectors = selectors.into_iter().flatten().map(|(name, value)| (name.clone(), text(value)));
                self.node_selectors = selectors.gather();
            }
            "PodTolerationRestriction" => {
                check_version(configuration, "podtolerationrestriction.admission.k8s.io/v1alpha1")?;
                let list = |field: &str| configuration[field].as_array().cloned().unwrap_or_default();
                self.pod_tolerations = Tolerations { default: list("default"), allowed: list("whitelist") };
            }
            _ => self.pod_security = pod_security::Configuration::read(configuration)?,
        }
        Ok(())
    }
}

/// The plugins whose configuration has an effect.
const CONFIGURABLE: [&str; 4] = ["EventRateLimit", "PodNodeSelector", "PodSecurity", "PodTolerationRestriction"];

/// Default number of namespaces, users or sources with a limit of their own.
const CACHE_SIZE: i64 = 4096;

/// The error of a configuration of EventRateLimit without limits.
pub const NO_EVENT_LIMITS: &str = "limits: Invalid value: null: must not be empty";

/// Reads the configuration of EventRateLimit.
fn event_limits(configuration: &Value) -> Result<Vec<EventLimit>, String> {
    check_version(configuration, "eventratelimit.admission.k8s.io/v1alpha1")?;
    let limits = configuration["limits"].as_array().filter(|limits| !limits.is_empty()).ok_or(NO_EVENT_LIMITS)?;
    let mut errors = ErrorList::new();
    let mut read = Vec::new();
    for (index, limit) in limits.iter().enumerate() {
        let path = Path::new("limits").index(index);
        let name = limit["type"].as_str().unwrap_or_default();
        let kind = EventLimitType::ALL.into_iter().find(|kind| kind.name() == name);
        if kind.is_none() {
            let names = EventLimitType::ALL.map(EventLimitType::name);
            errors.push(FieldError::not_supported(&path.child("type"), &name.into(), &names));
        }
        let mut number = |field: &str, least: i64, why: &str| {
            let value = limit[field].as_i64().unwrap_or_default();
            if value < least {
                errors.push(FieldError::invalid(&path.child(field), &value.into(), why));
            }
            value
        };
        let burst = number("burst", 1, "must be positive");
        let qps = number("qps", 1, "must be positive");
        let size = match kind {
            Some(EventLimitType::Server) => 1,
            _ => number("cacheSize", 0, "must not be negative"),
        };
        let positive = |number: i64| u32::try_from(number).unwrap_or(u32::MAX);
        read.extend(kind.map(|kind| EventLimit {
            kind,
            qps: positive(qps),
            burst: positive(burst),
            cache_size: usize::try_from(if size == 0 { CACHE_SIZE } else { size }).unwrap_or(1),
        }));
    }
    let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
    match errors.as_slice() {
        [] => Ok(read),
        [one] => Err(one.clone()),
        all => Err(format!("[{}]", all.join(", "))),
    }
}

/// Checks that a configuration is of the only version that there is.
fn check_version(configuration: &Value, version: &str) -> Result<(), String> {
    let field = |field: &str| configuration[field].as_str().unwrap_or_default();
    let (given, kind) = (field("apiVersion"), field("kind"));
    if (given, kind) == (version, "Configuration") {
        return Ok(());
    }
    Err(format!("no kind {kind:?} is registered for version {given:?}"))
}

/// Reads a file; errors are those of Go.
fn open(path: &std::path::Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| {
        let reason = match error.kind() {
            io::ErrorKind::NotFound => "no such file or directory".to_owned(),
            io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
            _ => error.to_string(),
        };
        format!("open {}: {reason}", path.display())
    })
}

/// Reasons why a file is rejected.
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
            decode("plugins:\n- {name: PodSecurity, path: pods.yaml}\n- {name: ImagePolicyWebhook, path: x}").unwrap();
        assert_eq!((other.pod_security, other.ignored), (inline.pod_security, vec!["ImagePolicyWebhook".to_owned()]));
    }

    #[test]
    fn optional_plugins_are_configured() {
        let limits = "{type: Namespace, qps: 5, burst: 9}, {type: Server, qps: 1, burst: 2, cacheSize: 7}";
        let found = decode(&format!(
            "plugins:\n- name: EventRateLimit\n  configuration: {{apiVersion: \
             eventratelimit.admission.k8s.io/v1alpha1, kind: Configuration, limits: [{limits}]}}\n\
             - name: PodNodeSelector\n  configuration: {{podNodeSelectorPluginConfig: {{clusterDefaultNodeSelector: \
             a=b, team: c=d}}}}\n\
             - name: PodTolerationRestriction\n  configuration: {{apiVersion: \
             podtolerationrestriction.admission.k8s.io/v1alpha1, kind: Configuration, whitelist: [{{key: k}}]}}\n"
        ))
        .unwrap();
        let limit = |kind, qps, burst, cache_size| EventLimit { kind, qps, burst, cache_size };
        let expected = [limit(EventLimitType::Namespace, 5, 9, 4096), limit(EventLimitType::Server, 1, 2, 1)];
        assert_eq!(found.event_limits, expected);
        assert_eq!(found.node_selectors["team"], "c=d");
        assert_eq!(found.pod_tolerations.allowed, [serde_json::json!({"key": "k"})]);
        assert!(found.pod_tolerations.default.is_empty() && found.ignored.is_empty());
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
            (
                "plugins:\n- name: EventRateLimit\n  configuration: {kind: Configuration, apiVersion: \
                 eventratelimit.admission.k8s.io/v1alpha1, limits: [{type: X, qps: 1}]}",
                "couldn't init admission plugin \"EventRateLimit\": [limits[0].type: Unsupported value: \"X\": supported \
                 values: \"Server\", \"Namespace\", \"User\", \"SourceAndObject\", limits[0].burst: Invalid value: 0: must \
                 be positive]",
            ),
            (
                "plugins:\n- {name: PodTolerationRestriction, configuration: {kind: Configuration}}",
                "couldn't init admission plugin \"PodTolerationRestriction\": no kind \"Configuration\" is registered for \
                 version \"\"",
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
