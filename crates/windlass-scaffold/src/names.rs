//! Names that are valid in Kubernetes and Rust.

use crate::ScaffoldError;

/// Maximum length of a project name: the namespace `NAME-system` and the Service `NAME-webhook` must fit into 63
/// characters.
const LONGEST_PROJECT: usize = 54;

/// Keywords, which cannot name a module or a field.
const KEYWORDS: &[&str] = &[
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "crate", "do", "dyn", "else",
    "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let", "loop", "macro", "match", "mod",
    "move", "mut", "override", "priv", "pub", "ref", "return", "self", "static", "struct", "super", "trait", "true",
    "try", "type", "typeof", "unsafe", "unsized", "use", "virtual", "where", "while", "yield",
];

/// Crates that the generated project depends on, and built-in crates.
const CRATES: &str = "alloc core proc_macro std test k8s_openapi kube schemars serde serde_json tokio windlass \
                      windlass_testing";

/// Directories that cargo creates next to the binaries it builds.
const FOLDERS: &[&str] = &["build", "deps", "examples", "incremental"];

/// Maximum length of a suggested name.
const LONGEST_SUGGESTION: usize = 40;

/// Types used in generated code, and names of the Rust prelude.
const TYPES: &str = "Action Api Arc BTreeMap Box Clone Condition Conditions Context Controller Conversion Copy \
                     CustomResource Debug Default Denied Desired Deserialize Drop Duration Eq Err Error Fn From Into \
                     Iterator JsonSchema None ObjectKey Ok Operator Option Ord PartialEq PartialOrd Quantity \
                     Reconciler Request ResourceExt Result Schema SchemaGenerator Scope Self Send Serialize Sized Some \
                     String Sync TestPlane Time ToOwned ToString Trigger TryFrom TryInto Vec Warnings Watch Webhook";

/// Variables and functions in generated code.
const VARIABLES: &str = "api back controller conversion ctx default denied error example labels message new old \
                         operator plane ready reconcile request spec status validate webhook";

/// Returns whether a word is a Rust keyword.
pub fn is_keyword(word: &str) -> bool {
    KEYWORDS.contains(&word)
}

fn is_crate(name: &str) -> bool {
    CRATES.split(' ').any(|word| word == name)
}

fn is_type(name: &str) -> bool {
    TYPES.split(' ').any(|word| word == name)
}

/// Returns whether generated code uses a variable of this name.
pub(crate) fn is_variable(word: &str) -> bool {
    VARIABLES.split(' ').any(|variable| variable == word)
}

/// Returns whether a resource module cannot have this name because a generated module or a crate has it.
pub fn is_reserved_module(word: &str) -> bool {
    is_keyword(word) || is_crate(word) || ["api", "main", "manifests"].contains(&word)
}

/// Returns whether a name is a DNS-1123 label, as used for namespaces.
pub fn is_dns_label(name: &str) -> bool {
    name.len() <= 63 && is_like_label(name)
}

/// Returns whether a name is a label of any length.
fn is_like_label(name: &str) -> bool {
    let edge = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = name.as_bytes();
    bytes.iter().all(|byte| edge(*byte) || *byte == b'-')
        && bytes.first().is_some_and(|byte| edge(*byte))
        && bytes.last().is_some_and(|byte| edge(*byte))
}

/// Returns whether a name is a DNS-1035 label, which starts with a letter, as used for Services and resources.
pub fn is_dns_1035_label(name: &str) -> bool {
    name.len() <= 63 && is_like_dns_1035_label(name)
}

/// Returns whether a name is such a label of any length.
fn is_like_dns_1035_label(name: &str) -> bool {
    is_like_label(name) && name.starts_with(|letter: char| letter.is_ascii_lowercase())
}

/// Checks the name of a project, which is also the name of its crate, Deployment and Lease.
pub fn check_project(name: &str) -> Result<(), ScaffoldError> {
    let crate_name = name.replace('-', "_");
    let why = if !is_like_dns_1035_label(name) {
        "must consist of lower-case letters, digits and '-', start with a letter and not end with '-'"
    } else if name.len() > LONGEST_PROJECT {
        "must be no more than 54 characters: Services and a namespace are named after it"
    } else if is_keyword(&crate_name) {
        "is a Rust keyword"
    } else if is_crate(&crate_name) {
        "is the name of a crate that the project depends on"
    } else if FOLDERS.contains(&name) {
        "is the name of a cargo build directory, so cargo cannot build a binary of that name"
    } else {
        return Ok(());
    };
    Err(wrong("the project's name", name, why, format!("try {:?}", suggestion(name))))
}

/// Checks the domain of the project's API groups.
pub fn check_domain(domain: &str) -> Result<(), ScaffoldError> {
    if domain.len() <= 200 && domain.contains('.') && domain.split('.').all(is_dns_label) {
        return Ok(());
    }
    let why = "must be a lower-case DNS name with at least one dot";
    Err(wrong("the domain", domain, why, "use a domain that you own, for example example.com".to_owned()))
}

/// Checks an API group, including the domain.
pub fn check_group(group: &str) -> Result<(), ScaffoldError> {
    if group.len() <= 253 && group.split('.').all(is_dns_label) {
        return Ok(());
    }
    let why = "must consist of lower-case letters, digits and '-', separated by dots";
    Err(wrong("the group", group, why, "use a short word, for example apps or batch".to_owned()))
}

/// Checks an API version: `v1`, `v1beta1`, `v2alpha3`.
pub fn check_version(version: &str) -> Result<(), ScaffoldError> {
    let number = |text: &str| text.starts_with(|digit: char| digit != '0') && text.bytes().all(|b| b.is_ascii_digit());
    let rest = version.strip_prefix('v').unwrap_or_default();
    let (major, stage) = rest.split_at(rest.bytes().take_while(u8::is_ascii_digit).count());
    let minor = stage.strip_prefix("alpha").or_else(|| stage.strip_prefix("beta"));
    let fits = match minor {
        Some(minor) => number(minor) && !minor.is_empty(),
        None => stage.is_empty(),
    };
    if !major.is_empty() && number(major) && fits && version.len() <= 20 {
        return Ok(());
    }
    let why = "must look like v1, v1beta1 or v2alpha1";
    Err(wrong("the version", version, why, "start with v1alpha1 while the API may change".to_owned()))
}

/// Checks a kind in CamelCase.
pub fn check_kind(kind: &str) -> Result<(), ScaffoldError> {
    let camel = kind.starts_with(|letter: char| letter.is_ascii_uppercase())
        && kind.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let why = if !camel {
        "must consist of letters and digits in CamelCase"
    } else if kind.len() > 63 {
        "must be no more than 63 characters"
    } else if kind.ends_with("List") || is_type(kind) {
        "is a name that generated code uses for something else"
    } else {
        return Ok(());
    };
    Err(wrong("the kind", kind, why, format!("try {:?}", camel_suggestion(kind))))
}

/// Checks a foreign kind: any name that Kubernetes accepts.
pub fn check_foreign_kind(kind: &str) -> Result<(), ScaffoldError> {
    if is_dns_1035_label(&kind.to_ascii_lowercase()) {
        return Ok(());
    }
    let why = "must consist of at most 63 letters, digits and '-', and start with a letter";
    Err(wrong(
        "the kind",
        kind,
        why,
        "use the kind of its CustomResourceDefinition, for example Certificate".to_owned(),
    ))
}

/// Checks a foreign version: any name that Kubernetes accepts.
pub fn check_foreign_version(version: &str) -> Result<(), ScaffoldError> {
    if is_dns_1035_label(version) {
        return Ok(());
    }
    let why = "must consist of at most 63 lower-case letters, digits and '-', and start with a letter";
    Err(wrong("the version", version, why, "use a version of its CustomResourceDefinition, for example v1".to_owned()))
}

/// Returns the Rust type of a kind: the kind itself, unless that is not an identifier or is used in generated code.
pub fn type_name(kind: &str) -> String {
    let camel = match kind.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        true => upper_first(kind),
        false => upper_camel(&snake(kind)),
    };
    if is_type(&camel) { camel + "Object" } else { camel }
}

/// Returns the module of a version: its name, unless that is a keyword or a crate.
pub fn version_module(version: &str) -> String {
    match version.replace('-', "_") {
        // No DNS label ends with `_`, so the name is unique.
        word if is_reserved_module(&word) => word + "_",
        word => word,
    }
}

/// Checks the plural of a kind.
pub fn check_plural(plural: &str) -> Result<(), ScaffoldError> {
    if is_dns_1035_label(plural) {
        return Ok(());
    }
    let why = match is_like_dns_1035_label(plural) {
        true => "must be no more than 63 characters",
        false => "must consist of lower-case letters, digits and '-', start with a letter and not end with '-'",
    };
    Err(wrong("the plural", plural, why, format!("try {:?}", suggestion(plural))))
}

/// Checks the name of a further controller of a kind, which is part of a module and of a field manager.
pub fn check_controller(name: &str) -> Result<(), ScaffoldError> {
    let why = if !is_like_dns_1035_label(name) || name.contains("--") {
        "must consist of lower-case letters, digits and single '-', start with a letter and not end with '-'"
    } else if name.len() > 40 {
        "must be no more than 40 characters"
    } else {
        return Ok(());
    };
    Err(wrong("the controller's name", name, why, "name it after its task, for example backup".to_owned()))
}

/// Checks the name of a spec field.
pub fn check_field(name: &str) -> Result<(), ScaffoldError> {
    let camel = name.starts_with(|letter: char| letter.is_ascii_lowercase())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let why = if !camel {
        "must consist of letters and digits in camelCase, and start with a letter"
    } else if name.len() > 63 {
        "must be no more than 63 characters"
    } else {
        return Ok(());
    };
    Err(wrong("the field", name, why, format!("try {:?}", field_suggestion(name))))
}

fn wrong(what: &'static str, name: &str, why: &str, hint: String) -> ScaffoldError {
    ScaffoldError::Name { what, name: name.to_owned(), why: why.to_owned(), hint }
}

/// Returns a similar valid name.
fn suggestion(name: &str) -> String {
    let words = snake(name).replace('_', "-");
    let words = shortened(&words).trim_matches('-').to_owned();
    let crate_name = words.replace('-', "_");
    if words.is_empty() || !words.starts_with(|letter: char| letter.is_ascii_lowercase()) {
        format!("my-{words}").trim_end_matches('-').to_owned()
    } else if is_keyword(&crate_name) || is_crate(&crate_name) || FOLDERS.contains(&words.as_str()) {
        format!("{words}-operator")
    } else {
        words
    }
}

fn camel_suggestion(kind: &str) -> String {
    let camel = upper_camel(&snake(kind));
    let camel = shortened(camel.trim_start_matches(|letter: char| letter.is_ascii_digit()));
    let camel = camel.strip_suffix("List").unwrap_or(camel);
    if camel.is_empty() || is_type(camel) {
        return format!("My{camel}");
    }
    camel.to_owned()
}

fn field_suggestion(name: &str) -> String {
    let camel = lower_camel(&snake(name));
    let begun = camel.trim_start_matches(|letter: char| letter.is_ascii_digit());
    match begun.is_empty() {
        true => shortened(&format!("field{camel}")).to_owned(),
        false => lower_camel(shortened(begun)),
    }
}

/// Returns the start of an ASCII name.
fn shortened(name: &str) -> &str {
    name.get(..LONGEST_SUGGESTION).unwrap_or(name)
}

/// Converts `CronTab` to `cron_tab`, `HTTPRoute` to `http_route`, `podCIDR` to `pod_cidr`.
pub fn snake(name: &str) -> String {
    let letters: Vec<char> = name.chars().collect();
    let mut text = String::new();
    for (position, letter) in letters.iter().enumerate() {
        if !letter.is_ascii_alphanumeric() {
            if !text.is_empty() && !text.ends_with('_') {
                text.push('_');
            }
            continue;
        }
        let before = position.checked_sub(1).and_then(|before| letters.get(before));
        let after = letters.get(position + 1);
        let begins = letter.is_ascii_uppercase()
            && before.is_some_and(|before| {
                before.is_ascii_lowercase()
                    || before.is_ascii_digit()
                    || (before.is_ascii_uppercase() && after.is_some_and(char::is_ascii_lowercase))
            });
        if begins && !text.ends_with('_') {
            text.push('_');
        }
        text.push(letter.to_ascii_lowercase());
    }
    text.trim_end_matches('_').to_owned()
}

/// Converts `cron_tab` to `CronTab`.
pub fn upper_camel(snake: &str) -> String {
    let words = snake.split('_').filter(|word| !word.is_empty());
    words.map(upper_first).collect()
}

fn upper_first(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map(|letter| letter.to_ascii_uppercase()).into_iter().chain(letters).collect()
}

/// Converts `cron_tab` to `cronTab`, as serde does.
pub fn lower_camel(snake: &str) -> String {
    let camel = upper_camel(snake);
    match camel.is_empty() {
        true => camel,
        false => camel[..1].to_ascii_lowercase() + &camel[1..],
    }
}

/// Returns enum variants for values; values that are not identifiers get invented names.
pub(crate) fn variants(words: &[String]) -> Vec<String> {
    let variant = |(place, word): (usize, &String)| match upper_camel(&snake(word)) {
        camel if camel.is_empty() => format!("Value{}", place + 1),
        camel if camel == "Self" => "SelfValue".to_owned(),
        camel if camel.starts_with(|letter: char| letter.is_ascii_digit()) => format!("N{camel}"),
        camel => camel,
    };
    words.iter().enumerate().map(variant).collect()
}

/// Returns the lower-case plural of a kind by the usual rules of English.
pub fn plural(kind: &str) -> String {
    let word = kind.to_ascii_lowercase();
    let before_y = word.len().checked_sub(2).and_then(|place| word.as_bytes().get(place)).copied();
    let vowel = before_y.is_some_and(|letter| b"aeiou".contains(&letter));
    if word.ends_with('y') && !vowel {
        format!("{}ies", &word[..word.len() - 1])
    } else if ["s", "x", "z", "ch", "sh"].iter().any(|end| word.ends_with(end)) {
        format!("{word}es")
    } else {
        format!("{word}s")
    }
}

/// Sort key of versions in Kubernetes' order: v2 after v1, v1 after v1beta1, v1beta1 after v1alpha1, and all of these
/// after any other name.
pub fn version_order(version: &str) -> (u8, u64, u64) {
    if check_version(version).is_err() {
        return (0, 0, 0);
    }
    let rest = version.strip_prefix('v').unwrap_or_default();
    let (major, stage) = rest.split_at(rest.bytes().take_while(u8::is_ascii_digit).count());
    let (stage, minor) = match (stage.strip_prefix("alpha"), stage.strip_prefix("beta")) {
        (Some(minor), _) => (1, minor),
        (_, Some(minor)) => (2, minor),
        _ => (3, ""),
    };
    (stage, major.parse().unwrap_or(0), minor.parse().unwrap_or(0))
}

#[cfg(test)]
mod tests;
