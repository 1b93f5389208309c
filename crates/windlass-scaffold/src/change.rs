//! What commands do to a project.

use crate::{
    Field, License, Origin, Project, Resource, ScaffoldError, Source, Version, Webhooks, builtin::Builtin, names,
};

/// What `create api` makes.
#[derive(Clone, Debug)]
pub struct ApiOptions {
    /// The group, without the domain.
    pub group: String,
    /// The version.
    pub version: String,
    /// The kind.
    pub kind: String,
    /// The plural, if it is not the usual one.
    pub plural: Option<String>,
    /// Whether objects are in namespaces.
    pub namespaced: bool,
    /// Whether there is a controller.
    pub controller: bool,
    /// Fields of the spec.
    pub fields: Vec<Field>,
}

/// What `create version` makes.
#[derive(Clone, Debug)]
pub struct VersionOptions {
    /// The group, if several have the kind.
    pub group: Option<String>,
    /// The new version.
    pub version: String,
    /// The kind.
    pub kind: String,
    /// The version it begins as, if not the one that is stored.
    pub from: Option<String>,
    /// Whether it is stored from now on.
    pub storage: bool,
    /// More fields.
    pub fields: Vec<Field>,
}

/// What `create webhook` makes.
#[derive(Clone, Debug)]
pub struct WebhookOptions {
    /// The group, if several have the kind.
    pub group: Option<String>,
    /// The kind.
    pub kind: String,
    /// What is asked.
    pub webhooks: Webhooks,
}

/// What `create controller` makes.
#[derive(Clone, Debug)]
pub struct ControllerOptions {
    /// The group: of the project, of Kubernetes or a foreign one.
    pub group: Option<String>,
    /// The version.
    pub version: Option<String>,
    /// The kind.
    pub kind: String,
    /// The plural of a foreign kind, if it is not the usual one.
    pub plural: Option<String>,
    /// Whether objects of a foreign kind are in namespaces.
    pub namespaced: bool,
    /// Fields of a foreign kind that the controller looks at.
    pub fields: Vec<Field>,
}

/// What `edit` changes; what is `None` stays.
#[derive(Clone, Debug, Default)]
pub struct Edits {
    /// A sentence about the project.
    pub description: Option<String>,
    /// The terms.
    pub license: Option<License>,
    /// Whose it is.
    pub owner: Option<String>,
    /// Where Windlass comes from.
    pub windlass: Option<Source>,
}

impl ApiOptions {
    /// A kind in namespaces, with a controller and no fields.
    pub fn new(group: impl Into<String>, version: impl Into<String>, kind: impl Into<String>) -> Self {
        Self {
            group: group.into(),
            version: version.into(),
            kind: kind.into(),
            plural: None,
            namespaced: true,
            controller: true,
            fields: Vec::new(),
        }
    }

    /// With a field, as on the command line.
    pub fn field(mut self, text: &str) -> Result<Self, ScaffoldError> {
        self.fields.push(text.parse()?);
        Ok(self)
    }
}

impl VersionOptions {
    /// Another version of a kind, as the one that is stored.
    pub fn new(version: impl Into<String>, kind: impl Into<String>) -> Self {
        Self { group: None, version: version.into(), kind: kind.into(), from: None, storage: false, fields: Vec::new() }
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

    pub(crate) fn add(&mut self, group: String, options: ApiOptions, origin: Origin) -> Result<(), ScaffoldError> {
        let ApiOptions { version, kind, plural, namespaced, controller, fields, .. } = options;
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
            let why = format!("{plural}.{group} is longer than the name of a definition may be");
            return Err(ScaffoldError::Contradiction { why, hint: "choose a shorter --group".to_owned() });
        }
        check_fields(&fields)?;
        let module = self.module(&group, &kind);
        self.resources.push(Resource {
            group,
            kind,
            plural,
            module,
            namespaced,
            origin,
            storage_version: version.clone(),
            versions: vec![Version { name: version, fields }],
            controller,
            webhooks: Webhooks::default(),
        });
        Ok(())
    }

    /// The name of the modules of a kind: that of the kind, unless another has it or Rust does.
    fn module(&self, group: &str, kind: &str) -> String {
        let free = |name: &str| {
            !names::is_reserved_module(name) && self.resources.iter().all(|resource| resource.module != name)
        };
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

    /// Adds a version of a resource, with a conversion. It begins with the fields of another.
    pub fn create_version(&mut self, options: VersionOptions) -> Result<(), ScaffoldError> {
        names::check_version(&options.version)?;
        let position = self.position(options.group.as_deref(), &options.kind)?;
        let resource = &mut self.resources[position];
        if resource.origin != Origin::Own {
            let why = format!("{} is not defined by this project", resource.kind);
            return Err(ScaffoldError::Contradiction { why, hint: "its versions are made where it is".to_owned() });
        }
        if resource.version(&options.version).is_some() {
            let what = format!("{} {}", resource.kind, options.version);
            return Err(ScaffoldError::Exists { what, hint: "choose another --version".to_owned() });
        }
        let from = options.from.as_deref().unwrap_or(&resource.storage_version);
        let Some(from) = resource.version(from) else {
            let there: Vec<&str> = resource.versions.iter().map(|version| version.name.as_str()).collect();
            return Err(ScaffoldError::Missing {
                what: format!("{} {from}", resource.kind),
                hint: format!("there are {}", there.join(", ")),
            });
        };
        let fields: Vec<Field> = from.fields.iter().cloned().chain(options.fields).collect();
        check_fields(&fields)?;
        resource.versions.push(Version { name: options.version.clone(), fields });
        resource.versions.sort_by_key(|version| names::version_order(&version.name));
        resource.webhooks.conversion = true;
        if options.storage {
            resource.storage_version = options.version;
        }
        Ok(())
    }

    /// Adds webhooks to a resource of the project, or to one of Kubernetes.
    pub fn create_webhook(&mut self, options: WebhookOptions) -> Result<(), ScaffoldError> {
        let Webhooks { defaulting, validating, conversion } = options.webhooks;
        if !(defaulting || validating || conversion) {
            let why = "a webhook has to do something".to_owned();
            let hint = "give --defaulting, --validating or --conversion".to_owned();
            return Err(ScaffoldError::Contradiction { why, hint });
        }
        let position = match self.position(options.group.as_deref(), &options.kind) {
            Err(error @ ScaffoldError::Missing { .. }) => {
                let (group, kind) = (options.group.as_deref(), options.kind.as_str());
                let hint = format!("{}; one of others is imported first, with `windlass import crd`", error.hint());
                let unknown = || Builtin::unknown(group, None, kind, &hint);
                let found = Builtin::of_kind(group, None, kind).ok_or_else(unknown)?;
                self.add_builtin(found, false);
                self.resources.len() - 1
            }
            found => found?,
        };
        let resource = &mut self.resources[position];
        if conversion && resource.versions.len() < 2 {
            let why = format!("{} has one version, and nothing to convert it to", resource.kind);
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
            let what = format!("this webhook of {}", resource.kind);
            return Err(ScaffoldError::Exists { what, hint: "there is nothing to do".to_owned() });
        }
        resource.webhooks = wanted;
        Ok(())
    }

    /// Adds a controller: for a resource of the project that has none, for a kind of Kubernetes, or for a foreign one.
    pub fn create_controller(&mut self, options: ControllerOptions) -> Result<(), ScaffoldError> {
        match self.position(options.group.as_deref(), &options.kind) {
            Ok(position) if self.resources[position].controller => {
                let what = format!("a controller of {}", options.kind);
                return Err(ScaffoldError::Exists { what, hint: "edit it".to_owned() });
            }
            Ok(position) => {
                self.resources[position].controller = true;
                return Ok(());
            }
            Err(ScaffoldError::Missing { .. }) => {}
            Err(error) => return Err(error),
        }
        if let Some(builtin) = Builtin::of_kind(options.group.as_deref(), options.version.as_deref(), &options.kind) {
            if !options.fields.is_empty() {
                let why = format!("{} is a kind of Kubernetes, whose fields are known", options.kind);
                return Err(ScaffoldError::Contradiction { why, hint: "leave out --field".to_owned() });
            }
            self.add_builtin(builtin, true);
            return Ok(());
        }
        let unknown =
            |hint: &str| Builtin::unknown(options.group.as_deref(), options.version.as_deref(), &options.kind, hint);
        let (Some(group), Some(version)) = (&options.group, &options.version) else {
            return Err(unknown("for a foreign one, give its whole --group and its --version"));
        };
        if !group.contains('.') || Builtin::has_group(group) {
            return Err(unknown("give the whole group of a foreign kind, as cert-manager.io"));
        }
        let (group, version) = (group.clone(), version.clone());
        let api = ApiOptions {
            plural: options.plural,
            namespaced: options.namespaced,
            fields: options.fields,
            ..ApiOptions::new("", version, options.kind)
        };
        self.add(group, api, Origin::Foreign)
    }

    fn add_builtin(&mut self, builtin: &Builtin, controller: bool) {
        let version = Version { name: builtin.version.to_owned(), fields: Vec::new() };
        self.resources.push(Resource {
            group: builtin.group.to_owned(),
            kind: builtin.kind.to_owned(),
            plural: builtin.plural.to_owned(),
            module: self.module(builtin.group, builtin.kind),
            namespaced: builtin.namespaced,
            origin: Origin::Builtin,
            storage_version: version.name.clone(),
            versions: vec![version],
            controller,
            webhooks: Webhooks::default(),
        });
    }

    /// Removes a resource with everything about it, or one of its versions.
    pub fn delete_api(&mut self, group: Option<&str>, kind: &str, version: Option<&str>) -> Result<(), ScaffoldError> {
        let position = self.position(group, kind)?;
        let Some(version) = version else {
            self.resources.remove(position);
            return Ok(());
        };
        let resource = &mut self.resources[position];
        if resource.version(version).is_none() {
            let what = format!("{kind} {version}");
            return Err(ScaffoldError::Missing { what, hint: "look into PROJECT".to_owned() });
        }
        if resource.versions.len() == 1 {
            self.resources.remove(position);
            return Ok(());
        }
        if resource.storage_version == version {
            let why = format!("{kind} is stored as {version}");
            let hint = "store another first: `windlass edit --kind KIND --storage-version VERSION`".to_owned();
            return Err(ScaffoldError::Contradiction { why, hint });
        }
        resource.versions.retain(|one| one.name != version);
        if resource.versions.len() == 1 {
            resource.webhooks.conversion = false;
        }
        Ok(())
    }

    /// Changes what concerns the whole project.
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

    /// Adds fields to a version of a resource, in place of those of the same names, and removes others.
    pub fn edit_fields(
        &mut self,
        group: Option<&str>,
        kind: &str,
        version: Option<&str>,
        add: Vec<Field>,
        remove: &[String],
    ) -> Result<(), ScaffoldError> {
        let position = self.position(group, kind)?;
        let resource = &mut self.resources[position];
        let whose = match resource.origin {
            Origin::Builtin => Some(("a kind of Kubernetes", "its fields cannot be changed")),
            Origin::Imported => Some(("imported", "its types are yours: edit them, or import a newer definition")),
            Origin::Own | Origin::Foreign => None,
        };
        if let Some((what, hint)) = whose {
            let why = format!("{kind} is {what}");
            return Err(ScaffoldError::Contradiction { why, hint: hint.to_owned() });
        }
        check_fields(&add)?;
        let version = version.unwrap_or(&resource.storage_version).to_owned();
        let Some(version) = resource.versions.iter_mut().find(|one| one.name == version) else {
            let what = format!("{kind} {version}");
            return Err(ScaffoldError::Missing { what, hint: "look into PROJECT".to_owned() });
        };
        for name in remove {
            if !version.fields.iter().any(|field| field.name == *name) {
                let there: Vec<&str> = version.fields.iter().map(|field| field.name.as_str()).collect();
                let hint = format!("fields that windlass knows are {}", there.join(", "));
                return Err(ScaffoldError::Missing { what: format!("field {name} of {kind}"), hint });
            }
            version.fields.retain(|field| field.name != *name);
        }
        for field in add {
            match version.fields.iter_mut().find(|one| one.name == field.name) {
                Some(there) => *there = field,
                None => version.fields.push(field),
            }
        }
        check_fields(&version.fields)
    }

    /// Makes another version the one that is stored and that the program works with.
    pub fn set_storage(&mut self, group: Option<&str>, kind: &str, version: &str) -> Result<(), ScaffoldError> {
        let position = self.position(group, kind)?;
        let resource = &mut self.resources[position];
        if resource.version(version).is_none() {
            let hint = "make it with `windlass create version`".to_owned();
            return Err(ScaffoldError::Missing { what: format!("{kind} {version}"), hint });
        }
        resource.storage_version = version.to_owned();
        Ok(())
    }
}

/// Fields must not have the same name, not even in Rust.
fn check_fields(fields: &[Field]) -> Result<(), ScaffoldError> {
    for (place, field) in fields.iter().enumerate() {
        if fields[..place].iter().any(|other| other.ident() == field.ident()) {
            let hint = "give each field another name".to_owned();
            return Err(ScaffoldError::Exists { what: format!("the field {}", field.name), hint });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
