//! Changes that commands make to a project.

mod deployment;
mod fields;

pub use fields::FieldEdits;

use windlass_schema::sorting;

use crate::{
    Field, License, Origin, Project, Resource, ScaffoldError, Source, Version, Webhooks, builtin::Builtin, names,
};

/// Options of `create api`.
#[derive(Clone, Debug)]
pub struct ApiOptions {
    /// API group without the domain.
    pub group: String,
    /// API version.
    pub version: String,
    /// Kind.
    pub kind: String,
    /// Plural, if it is irregular.
    pub plural: Option<String>,
    /// Whether objects are namespaced.
    pub namespaced: bool,
    /// Whether to scaffold a controller.
    pub controller: bool,
    /// Fields of the spec.
    pub fields: Vec<Field>,
    /// Fields of the status.
    pub status_fields: Vec<Field>,
}

/// Options of `create version`.
#[derive(Clone, Debug)]
pub struct VersionOptions {
    /// API group, if several groups have the kind.
    pub group: Option<String>,
    /// New API version.
    pub version: String,
    /// Kind.
    pub kind: String,
    /// Version to copy, if it is not the storage version.
    pub from: Option<String>,
    /// Whether the new version becomes the storage version.
    pub storage: bool,
    /// Additional fields of the spec.
    pub fields: Vec<Field>,
    /// Additional fields of the status.
    pub status_fields: Vec<Field>,
}

/// Options of `create webhook`.
#[derive(Clone, Debug)]
pub struct WebhookOptions {
    /// API group, if several groups have the kind.
    pub group: Option<String>,
    /// Kind.
    pub kind: String,
    /// Webhooks to add.
    pub webhooks: Webhooks,
}

/// Options of `create controller`.
#[derive(Clone, Debug)]
pub struct ControllerOptions {
    /// API group: defined by the project, built in or foreign.
    pub group: Option<String>,
    /// API version.
    pub version: Option<String>,
    /// Kind.
    pub kind: String,
    /// Name of the controller, if the kind has several.
    pub name: Option<String>,
    /// Plural of a foreign kind, if it is irregular.
    pub plural: Option<String>,
    /// Whether objects of a foreign kind are namespaced.
    pub namespaced: bool,
    /// Fields of a foreign kind that the controller reads.
    pub fields: Vec<Field>,
}

/// Changes made by `edit`; `None` leaves a value unchanged.
#[derive(Clone, Debug, Default)]
pub struct Edits {
    /// One-sentence description of the project.
    pub description: Option<String>,
    /// License.
    pub license: Option<License>,
    /// Copyright holder.
    pub owner: Option<String>,
    /// Source of Windlass for the project.
    pub windlass: Option<Source>,
}

impl ApiOptions {
    /// A namespaced kind with a controller and without fields.
    pub fn new(group: impl Into<String>, version: impl Into<String>, kind: impl Into<String>) -> Self {
        Self {
            group: group.into(),
            version: version.into(),
            kind: kind.into(),
            plural: None,
            namespaced: true,
            controller: true,
            fields: Vec::new(),
            status_fields: Vec::new(),
        }
    }

    /// Adds a field of the spec in command-line syntax.
    pub fn field(mut self, text: &str) -> Result<Self, ScaffoldError> {
        self.fields.push(text.parse()?);
        Ok(self)
    }

    /// Adds a field of the status in command-line syntax.
    pub fn status_field(mut self, text: &str) -> Result<Self, ScaffoldError> {
        self.status_fields.push(text.parse::<Field>()?.into_status()?);
        Ok(self)
    }
}

impl VersionOptions {
    /// A copy of the storage version.
    pub fn new(version: impl Into<String>, kind: impl Into<String>) -> Self {
        Self {
            group: None,
            version: version.into(),
            kind: kind.into(),
            from: None,
            storage: false,
            fields: Vec::new(),
            status_fields: Vec::new(),
        }
    }
}

impl Project {
    /// Adds a resource that the project defines.
    pub fn create_api(&mut self, options: ApiOptions) -> Result<(), ScaffoldError> {
        if !options.group.is_empty() {
            names::check_group(&options.group)?;
        }
        self.add(self.own_group(&options.group), options, Origin::Own)
    }

    /// Adds a resource that an API server of the project serves. The first one adds the server.
    pub fn create_extension(&mut self, options: ApiOptions) -> Result<(), ScaffoldError> {
        if !options.group.is_empty() {
            names::check_group(&options.group)?;
        }
        if !names::is_dns_label(&self.extension_name()) {
            let why = format!("{} is too long for the name of a Service", self.extension_name());
            return Err(ScaffoldError::Contradiction { why, hint: "choose a shorter project name".to_owned() });
        }
        let group = self.own_group(&options.group);
        // A group version has one server.
        let taken = |one: &&Resource| {
            one.origin == Origin::Own && one.group == group && one.version(&options.version).is_some()
        };
        if let Some(other) = self.resources.iter().find(taken) {
            let why = format!("{group}/{} has custom resources: {}", options.version, other.kind);
            let hint = "choose another --group or --version: a group version is served by one API server".to_owned();
            return Err(ScaffoldError::Contradiction { why, hint });
        }
        self.add(group, options, Origin::Served)
    }

    pub(crate) fn add(&mut self, group: String, options: ApiOptions, origin: Origin) -> Result<(), ScaffoldError> {
        let ApiOptions { version, kind, plural, namespaced, controller, fields, status_fields, .. } = options;
        names::check_group(&group)?;
        origin.check_version(&version)?;
        origin.check_kind(&kind)?;
        if let Some(resource) = self.resources.iter().find(|one| one.group == group && one.kind == kind) {
            let hint = match resource.version(&version) {
                Some(_) => "change it with `windlass edit`, or remove it with `windlass delete api`",
                None => "add a version with `windlass create version`",
            };
            return Err(ScaffoldError::Exists { what: format!("{kind} of {group}"), hint: hint.to_owned() });
        }
        let plural = plural.unwrap_or_else(|| names::plural(&kind));
        names::check_plural(&plural)?;
        if self.resources.iter().any(|one| one.group == group && one.plural == plural) {
            let hint = "choose another with --plural".to_owned();
            return Err(ScaffoldError::Exists { what: format!("the plural {plural} in {group}"), hint });
        }
        if plural.len() + group.len() > 252 {
            let why = format!("{plural}.{group} is too long for the name of a CustomResourceDefinition");
            return Err(ScaffoldError::Contradiction { why, hint: "choose a shorter --group".to_owned() });
        }
        let resource = Resource {
            module: self.module(&group, &kind),
            group,
            kind,
            plural,
            namespaced,
            origin,
            storage_version: version.clone(),
            versions: vec![Version { name: version, fields, status_fields }],
            controller,
            controllers: Vec::new(),
            webhooks: Webhooks::default(),
        };
        resource.versions.iter().try_for_each(|version| resource.check_fields(version))?;
        self.resources.push(resource);
        Ok(())
    }

    /// Returns the module name of a kind: its snake-case name, unless that is in use or reserved.
    fn module(&self, group: &str, kind: &str) -> String {
        // The tests of an API server are in a module called `apiserver`.
        let free = |name: &str| name != "apiserver" && !names::is_reserved_module(name) && !self.has_module(name);
        let short = names::snake(kind);
        let group = names::snake(group.split('.').next().unwrap_or_default());
        let long = match group.starts_with(|letter: char| letter.is_ascii_lowercase()) {
            true => format!("{group}_{short}"),
            false => format!("the_{short}"),
        };
        let numbered = (2..).map(|number| format!("{long}_{number}"));
        let mut candidates = [short.clone(), long.clone()].into_iter().chain(numbered);
        candidates.find(|name| free(name)).unwrap_or(long)
    }

    /// Returns whether a resource or a controller has this module.
    fn has_module(&self, name: &str) -> bool {
        let is_of = |one: &Resource| one.module == name || one.controller_modules().any(|module| module == name);
        self.resources.iter().any(is_of)
    }

    /// Adds a version with a conversion to a resource. It starts with the fields of another version.
    pub fn create_version(&mut self, options: VersionOptions) -> Result<(), ScaffoldError> {
        names::check_version(&options.version)?;
        let position = self.position(options.group.as_deref(), &options.kind)?;
        let resource = &mut self.resources[position];
        if resource.origin != Origin::Own {
            let (why, hint) = match resource.origin {
                Origin::Served => ("is not a custom resource", "create another kind with `windlass create extension`"),
                _ => ("is not defined by this project", "add the version in the project that defines it"),
            };
            let why = format!("{} {why}", resource.kind);
            return Err(ScaffoldError::Contradiction { why, hint: hint.to_owned() });
        }
        if resource.version(&options.version).is_some() {
            let what = format!("{} {}", resource.kind, options.version);
            return Err(ScaffoldError::Exists { what, hint: "choose another --version".to_owned() });
        }
        let from = options.from.as_deref().unwrap_or(&resource.storage_version);
        let Some(from) = resource.version(from) else {
            let existing: Vec<&str> = resource.versions.iter().map(|version| version.name.as_str()).collect();
            return Err(ScaffoldError::Missing {
                what: format!("{} {from}", resource.kind),
                hint: format!("versions: {}", existing.join(", ")),
            });
        };
        let version = Version {
            name: options.version.clone(),
            fields: from.fields.iter().cloned().chain(options.fields).collect(),
            status_fields: from.status_fields.iter().cloned().chain(options.status_fields).collect(),
        };
        resource.check_fields(&version)?;
        resource.versions.push(version);
        sorting::sort_by_key(&mut resource.versions, |version| names::version_order(&version.name));
        resource.webhooks.conversion = true;
        if options.storage {
            resource.storage_version = options.version;
        }
        Ok(())
    }

    /// Adds webhooks to a resource of the project or to a built-in kind.
    pub fn create_webhook(&mut self, options: WebhookOptions) -> Result<(), ScaffoldError> {
        let Webhooks { defaulting, validating, conversion } = options.webhooks;
        if !(defaulting || validating || conversion) {
            let why = "no webhook is selected".to_owned();
            let hint = "specify --defaulting, --validating or --conversion".to_owned();
            return Err(ScaffoldError::Contradiction { why, hint });
        }
        let position = match self.position(options.group.as_deref(), &options.kind) {
            Err(error @ ScaffoldError::Missing { .. }) => {
                let (group, kind) = (options.group.as_deref(), options.kind.as_str());
                let hint = format!("{}; import a foreign kind first with `windlass import crd`", error.hint());
                let unknown = || Builtin::unknown(group, None, kind, &hint);
                let found = Builtin::of_kind(group, None, kind).ok_or_else(unknown)?;
                self.add_builtin(found);
                self.resources.len() - 1
            }
            found => found?,
        };
        let resource = &mut self.resources[position];
        if resource.origin == Origin::Served {
            let why = format!("webhooks of the cluster do not receive requests for {}", resource.kind);
            let hint = "add a rule to the API server in src/extension.rs".to_owned();
            return Err(ScaffoldError::Contradiction { why, hint });
        }
        if conversion && resource.versions.len() < 2 {
            let why = format!("{} has only one version, so there is nothing to convert", resource.kind);
            let hint = "add another with `windlass create version`".to_owned();
            return Err(ScaffoldError::Contradiction { why, hint });
        }
        let has = resource.webhooks;
        let wanted = Webhooks {
            defaulting: has.defaulting || defaulting,
            validating: has.validating || validating,
            conversion: has.conversion || conversion,
        };
        if wanted == has {
            let what = format!("the webhook of {}", resource.kind);
            return Err(ScaffoldError::Exists { what, hint: "nothing to do".to_owned() });
        }
        resource.webhooks = wanted;
        Ok(())
    }

    /// Adds a controller for a resource of the project, for a built-in kind, or for a foreign kind. Without a name, it is
    /// the only one of its kind; further ones have names.
    pub fn create_controller(&mut self, options: ControllerOptions) -> Result<(), ScaffoldError> {
        let name = options.name.clone();
        name.as_deref().map(names::check_controller).transpose()?;
        let kind = options.kind.clone();
        let position = self.controlled(options)?;
        let resource = &self.resources[position];
        let Some(name) = name else {
            if resource.controller {
                let what = format!("the controller of {kind}");
                let hint = "edit it, or add another one with --name".to_owned();
                return Err(ScaffoldError::Exists { what, hint });
            }
            self.resources[position].controller = true;
            return Ok(());
        };
        let module = resource.controller_module(&name);
        if self.has_module(&module) {
            let what = format!("src/controller/{module}.rs");
            return Err(ScaffoldError::Exists { what, hint: "choose another --name".to_owned() });
        }
        self.resources[position].controllers.push(name);
        Ok(())
    }

    /// Returns the position of the resource that a controller is for. A built-in or foreign kind is added.
    fn controlled(&mut self, options: ControllerOptions) -> Result<usize, ScaffoldError> {
        match self.position(options.group.as_deref(), &options.kind) {
            Err(ScaffoldError::Missing { .. }) => {}
            found => return found,
        }
        if let Some(builtin) = Builtin::of_kind(options.group.as_deref(), options.version.as_deref(), &options.kind) {
            if !options.fields.is_empty() {
                let why = format!("{} is a built-in kind, so its fields are known", options.kind);
                return Err(ScaffoldError::Contradiction { why, hint: "omit --field".to_owned() });
            }
            self.add_builtin(builtin);
            return Ok(self.resources.len() - 1);
        }
        let unknown =
            |hint: &str| Builtin::unknown(options.group.as_deref(), options.version.as_deref(), &options.kind, hint);
        let (Some(group), Some(version)) = (&options.group, &options.version) else {
            return Err(unknown("for a foreign kind, give its full --group and its --version"));
        };
        if !group.contains('.') || Builtin::has_group(group) {
            return Err(unknown("give the full group of a foreign kind, for example cert-manager.io"));
        }
        let (group, version) = (group.clone(), version.clone());
        let api = ApiOptions {
            plural: options.plural,
            namespaced: options.namespaced,
            controller: false,
            fields: options.fields,
            ..ApiOptions::new("", version, options.kind)
        };
        self.add(group, api, Origin::Foreign)?;
        Ok(self.resources.len() - 1)
    }

    fn add_builtin(&mut self, builtin: &Builtin) {
        let version = Version { name: builtin.version.to_owned(), fields: Vec::new(), status_fields: Vec::new() };
        self.resources.push(Resource {
            group: builtin.group.to_owned(),
            kind: builtin.kind.to_owned(),
            plural: builtin.plural.to_owned(),
            module: self.module(builtin.group, builtin.kind),
            namespaced: builtin.namespaced,
            origin: Origin::Builtin,
            storage_version: version.name.clone(),
            versions: vec![version],
            controller: false,
            controllers: Vec::new(),
            webhooks: Webhooks::default(),
        });
    }

    /// Removes a resource with all its files, or one of its versions.
    pub fn delete_api(&mut self, group: Option<&str>, kind: &str, version: Option<&str>) -> Result<(), ScaffoldError> {
        let position = self.position(group, kind)?;
        let Some(version) = version else {
            self.resources.remove(position);
            return Ok(());
        };
        let resource = &mut self.resources[position];
        if resource.version(version).is_none() {
            let what = format!("{kind} {version}");
            return Err(ScaffoldError::Missing { what, hint: "see the PROJECT file".to_owned() });
        }
        if resource.versions.len() == 1 {
            self.resources.remove(position);
            return Ok(());
        }
        if resource.storage_version == version {
            let why = format!("{version} is the storage version of {kind}");
            let hint =
                "change the storage version first: `windlass edit --kind KIND --storage-version VERSION`".to_owned();
            return Err(ScaffoldError::Contradiction { why, hint });
        }
        resource.versions.retain(|one| one.name != version);
        if resource.versions.len() == 1 {
            resource.webhooks.conversion = false;
        }
        Ok(())
    }

    /// Changes properties of the project.
    pub fn edit(&mut self, edits: Edits) -> Result<(), ScaffoldError> {
        if let Some(description) = edits.description {
            self.description = description;
        }
        if let Some(license) = edits.license {
            self.license = license;
        }
        if let Some(owner) = edits.owner {
            self.owner = Some(owner).filter(|owner| !owner.is_empty());
        }
        if let Some(windlass) = edits.windlass {
            windlass.check()?;
            self.windlass = windlass;
        }
        self.check_texts()
    }

    /// Makes another version the storage version, which the operator uses.
    pub fn set_storage(&mut self, group: Option<&str>, kind: &str, version: &str) -> Result<(), ScaffoldError> {
        let position = self.position(group, kind)?;
        let resource = &mut self.resources[position];
        if resource.version(version).is_none() {
            let hint = "create it with `windlass create version`".to_owned();
            return Err(ScaffoldError::Missing { what: format!("{kind} {version}"), hint });
        }
        resource.storage_version = version.to_owned();
        Ok(())
    }
}

#[cfg(test)]
mod tests;
