//! Names as Kubernetes and Rust want them.

use crate::ScaffoldError;

/// The longest name of a project: its namespace is `NAME-system`, its service `NAME-webhook`, and both have to fit 63.
const LONGEST_PROJECT: usize = 54;

/// Words that cannot be the name of a module or a field.
const KEYWORDS: &[&str] = &[
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "crate", "do", "dyn", "else",
    "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let", "loop", "macro", "match", "mod",
    "move", "mut", "override", "priv", "pub", "ref", "return", "self", "static", "struct", "super", "trait", "true",
    "try", "type", "typeof", "unsafe", "unsized", "use", "virtual", "where", "while", "yield",
];

/// Crates that the generated project depends on, and those that are always there.
const CRATES: &str = "alloc core proc_macro std test k8s_openapi kube schemars serde serde_json tokio windlass \
                      windlass_testing";

/// Folders of cargo's own, beside which it puts the programs that it builds.
const FOLDERS: &[&str] = &["build", "deps", "examples", "incremental"];

/// The longest name that is suggested.
const LONGEST_SUGGESTION: usize = 40;

/// Types that the generated code uses by these names, and names that every Rust program has.
const TYPES: &str = "Action Api Arc BTreeMap Box Clone Condition Conditions Context Controller Conversion Copy \
                     CustomResource Debug Default Denied Desired Deserialize Drop Duration Eq Err Error Fn From Into \
                     Iterator JsonSchema None ObjectKey Ok Operator Option Ord PartialEq PartialOrd Quantity \
                     Reconciler Request ResourceExt Result Schema SchemaGenerator Scope Self Send Serialize Sized Some \
                     String Sync TestPlane Time ToOwned ToString Trigger TryFrom TryInto Vec Warnings Watch Webhook";

/// Variables and functions of the generated code.
const VARIABLES: &str = "api back controller conversion ctx default denied error example labels message new old \
                         operator plane ready reconcile request spec status validate webhook";

/// Whether Rust has the word for itself.
pub fn is_keyword(word: &str) -> bool {
    KEYWORDS.contains(&word)
}

fn is_crate(name: &str) -> bool {
    CRATES.split(' ').any(|word| word == name)
}

fn is_type(name: &str) -> bool {
    TYPES.split(' ').any(|word| word == name)
}

/// Whether generated code has a variable of the name.
pub(crate) fn is_variable(word: &str) -> bool {
    VARIABLES.split(' ').any(|variable| variable == word)
}

/// Whether a module of a resource cannot be called so: generated modules and crates are.
pub fn is_reserved_module(word: &str) -> bool {
    is_keyword(word) || is_crate(word) || ["api", "main", "manifests"].contains(&word)
}

/// A label of DNS-1123: what namespaces are named by.
pub fn is_dns_label(name: &str) -> bool {
    name.len() <= 63 && is_like_label(name)
}

/// A label, however long.
fn is_like_label(name: &str) -> bool {
    let edge = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = name.as_bytes();
    bytes.iter().all(|byte| edge(*byte) || *byte == b'-')
        && bytes.first().is_some_and(|byte| edge(*byte))
        && bytes.last().is_some_and(|byte| edge(*byte))
}

/// A label of DNS-1035, which begins with a letter: what services and resources are named by.
pub fn is_dns_1035_label(name: &str) -> bool {
    name.len() <= 63 && is_like_dns_1035_label(name)
}

/// Such a label, however long.
fn is_like_dns_1035_label(name: &str) -> bool {
    is_like_label(name) && name.starts_with(|letter: char| letter.is_ascii_lowercase())
}

/// The name of a project: of its crate, its Deployment and its lease.
pub fn check_project(name: &str) -> Result<(), ScaffoldError> {
    let crate_name = name.replace('-', "_");
    let why = if !is_like_dns_1035_label(name) {
        "must be lower case letters, digits and '-', begin with a letter and not end with '-'"
    } else if name.len() > LONGEST_PROJECT {
        "must be no more than 54 characters: services and a namespace are named after it"
    } else if is_keyword(&crate_name) {
        "is a word of Rust"
    } else if is_crate(&crate_name) {
        "is the name of a crate that the project depends on"
    } else if FOLDERS.contains(&name) {
        "is a folder of cargo's own, and cargo builds no program that is called so"
    } else {
        return Ok(());
    };
    Err(wrong("the project's name", name, why, format!("try {:?}", suggestion(name))))
}

/// The domain that groups of the project end with.
pub fn check_domain(domain: &str) -> Result<(), ScaffoldError> {
    if domain.len() <= 200 && domain.contains('.') && domain.split('.').all(is_dns_label) {
        return Ok(());
    }
    let why = "must be a DNS name with a dot in it, in lower case";
    Err(wrong("the domain", domain, why, "give one that is yours, as example.com".to_owned()))
}

/// A group: with the domain, if it is one of the project.
pub fn check_group(group: &str) -> Result<(), ScaffoldError> {
    if group.len() <= 253 && group.split('.').all(is_dns_label) {
        return Ok(());
    }
    let why = "must be lower case letters, digits and '-', with dots between them";
    Err(wrong("the group", group, why, "use a short word, as apps or batch".to_owned()))
}

/// A version of an API: `v1`, `v1beta1`, `v2alpha3`.
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
    let why = "must be as v1, v1beta1 or v2alpha1";
    Err(wrong("the version", version, why, "begin with v1alpha1 while the API may change".to_owned()))
}

/// A kind: in CamelCase.
pub fn check_kind(kind: &str) -> Result<(), ScaffoldError> {
    let camel = kind.starts_with(|letter: char| letter.is_ascii_uppercase())
        && kind.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let why = if !camel {
        "must be letters and digits in CamelCase"
    } else if kind.len() > 63 {
        "must be no more than 63 characters"
    } else if kind.ends_with("List") || is_type(kind) {
        "is a name that generated code has another meaning for"
    } else {
        return Ok(());
    };
    Err(wrong("the kind", kind, why, format!("try {:?}", camel_suggestion(kind))))
}

/// A kind of somebody else: whatever Kubernetes takes.
pub fn check_foreign_kind(kind: &str) -> Result<(), ScaffoldError> {
    if is_dns_1035_label(&kind.to_ascii_lowercase()) {
        return Ok(());
    }
    let why = "must be letters, digits and '-', begin with a letter and be no more than 63";
    Err(wrong("the kind", kind, why, "write it as its definition does, as Certificate".to_owned()))
}

/// A version of somebody else: whatever Kubernetes takes.
pub fn check_foreign_version(version: &str) -> Result<(), ScaffoldError> {
    if is_dns_1035_label(version) {
        return Ok(());
    }
    let why = "must be lower case letters, digits and '-', begin with a letter and be no more than 63";
    Err(wrong("the version", version, why, "write it as its definition does, as v1".to_owned()))
}

/// The type of a kind: its name, unless that cannot be one or generated code has another meaning for it.
pub fn type_name(kind: &str) -> String {
    let camel = match kind.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        true => upper_first(kind),
        false => upper_camel(&snake(kind)),
    };
    if is_type(&camel) { camel + "Object" } else { camel }
}

/// The module of a version: its name, unless that is a word of Rust or a crate.
pub fn version_module(version: &str) -> String {
    match version.replace('-', "_") {
        // No label ends with a sign, so nothing else is called so.
        word if is_reserved_module(&word) => word + "_",
        word => word,
    }
}

/// The plural of a kind, as it is in paths.
pub fn check_plural(plural: &str) -> Result<(), ScaffoldError> {
    if is_dns_1035_label(plural) {
        return Ok(());
    }
    let why = match is_like_dns_1035_label(plural) {
        true => "must be no more than 63 characters",
        false => "must be lower case letters, digits and '-', begin with a letter and not end with '-'",
    };
    Err(wrong("the plural", plural, why, format!("try {:?}", suggestion(plural))))
}

/// A field of a spec, as it is in manifests.
pub fn check_field(name: &str) -> Result<(), ScaffoldError> {
    let camel = name.starts_with(|letter: char| letter.is_ascii_lowercase())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let why = if !camel {
        "must be letters and digits in camelCase, and begin with a letter"
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

/// Something like it that is a name.
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

/// The beginning of a name of ASCII.
fn shortened(name: &str) -> &str {
    name.get(..LONGEST_SUGGESTION).unwrap_or(name)
}

/// `CronTab` as `cron_tab`, `HTTPRoute` as `http_route`, `podCIDR` as `pod_cidr`.
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

/// `cron_tab` as `CronTab`.
pub fn upper_camel(snake: &str) -> String {
    let words = snake.split('_').filter(|word| !word.is_empty());
    words.map(upper_first).collect()
}

fn upper_first(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map(|letter| letter.to_ascii_uppercase()).into_iter().chain(letters).collect()
}

/// `cron_tab` as `cronTab`, as serde does it.
pub fn lower_camel(snake: &str) -> String {
    let camel = upper_camel(snake);
    match camel.is_empty() {
        true => camel,
        false => camel[..1].to_ascii_lowercase() + &camel[1..],
    }
}

/// The variants of an enumeration for its words, with names made up for those that are none in Rust.
pub(crate) fn variants(words: &[String]) -> Vec<String> {
    let variant = |(place, word): (usize, &String)| match upper_camel(&snake(word)) {
        camel if camel.is_empty() => format!("Value{}", place + 1),
        camel if camel == "Self" => "SelfValue".to_owned(),
        camel if camel.starts_with(|letter: char| letter.is_ascii_digit()) => format!("N{camel}"),
        camel => camel,
    };
    words.iter().enumerate().map(variant).collect()
}

/// The plural of a kind in lower case, by the rules of English that kinds usually follow.
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

/// Whether a version comes after another, as Kubernetes orders them: v2 after v1, v1 after v1beta1, that after v1alpha1,
/// and all of these after any other.
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
