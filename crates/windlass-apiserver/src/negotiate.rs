//! Content negotiation: the representation that a client accepts, and the media type of the body that it sent.
//!
//! As in kube-apiserver, two parties decide. The router compares plain media types (no `application/*`) and answers
//! `406: Not Acceptable`; the handlers then consider parameters and transformations and answer with the media types
//! that they accept.

mod accept;
mod content_type;

use http::{HeaderMap, HeaderValue, header};
use serde_json::Map;
use windlass_schema::go_format;

use self::accept::Clause;
use crate::{
    query::Query,
    status::{ApiError, Result},
};

/// An encoding of objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Media {
    /// `application/json`
    Json,
    /// `application/yaml`
    Yaml,
    /// `application/vnd.kubernetes.protobuf`
    Protobuf,
}

/// The form in which a client requests an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transform {
    /// The object itself.
    None,
    /// Rows and columns.
    Table,
    /// The metadata of an object.
    PartialObjectMetadata,
    /// The metadata of the objects of a list.
    PartialObjectMetadataList,
}

/// The representation of a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Representation {
    /// The encoding.
    pub(crate) media: Media,
    /// The form.
    pub(crate) transform: Transform,
    /// Whether JSON is indented for human readers.
    pub(crate) pretty: bool,
    /// Whether the form is requested in its old version, `meta.k8s.io/v1beta1`.
    pub(crate) old_form: bool,
    /// Whether the client prefers protobuf, but gets JSON. In protobuf, items of lists have neither kind nor apiVersion.
    pub(crate) replaces_protobuf: bool,
}

impl Media {
    /// All encodings, the preferred one first.
    const ALL: [Self; 3] = [Self::Json, Self::Yaml, Self::Protobuf];

    /// The media type.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Yaml => "application/yaml",
            Self::Protobuf => "application/vnd.kubernetes.protobuf",
        }
    }

    /// The media type of a watch in this encoding; `None` for YAML, which has none.
    fn stream_name(self) -> Option<&'static str> {
        match self {
            Self::Json => Some("application/json;stream=watch"),
            Self::Yaml => None,
            Self::Protobuf => Some("application/vnd.kubernetes.protobuf;stream=watch"),
        }
    }
}

impl Representation {
    /// Untransformed JSON, without indentation.
    pub(crate) fn plain() -> Self {
        Self {
            media: Media::Json,
            transform: Transform::None,
            pretty: false,
            old_form: false,
            replaces_protobuf: false,
        }
    }

    /// Returns whether stored bytes can be sent unchanged.
    pub(crate) fn is_plain_json(&self) -> bool {
        self.media == Media::Json && self.transform == Transform::None && !self.pretty
    }
}

/// The representations that a resource has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Offer {
    /// Whether it is a custom resource: these have no route of their own, and only their metadata has a protobuf form.
    pub(crate) custom: bool,
    /// Whether it has tables. Resources that are not stored, such as reviews, have none.
    pub(crate) tables: bool,
    /// Whether the route of the request also serves watches.
    pub(crate) streams: bool,
}

/// Returns the representation of the response to a request for a resource.
pub(crate) fn accept(headers: &HeaderMap, watch: bool, query: Option<&str>, offer: Offer) -> Result<Representation> {
    let header = accept_header(headers);
    if header == Media::Json.name() {
        // The result of the rules below for the header of most clients.
        return Ok(Representation { pretty: wants_pretty(headers, query), ..Representation::plain() });
    }
    if !offer.custom {
        route(header, watch || offer.streams)?;
    }
    let transform_of = |clause: &Clause<'_>, media| {
        transform_of(clause, media).filter(|form| match form {
            Transform::None => !offer.custom || media != Media::Protobuf,
            Transform::Table => offer.tables,
            _ => true,
        })
    };
    // Objects are stored as JSON: a client that accepts JSON, even as second choice, gets the stored bytes.
    let json = |clause: &Clause<'_>, media| (media == Media::Json).then(|| transform_of(clause, media)).flatten();
    let mut replaces_protobuf = false;
    let (media, transform, pretty) = match choose(header, transform_of) {
        Some((Media::Protobuf, transform, _)) => match choose(header, json) {
            Some((Media::Json, also, pretty)) if also == transform => {
                replaces_protobuf = true;
                (Media::Json, transform, pretty)
            }
            _ => (Media::Protobuf, transform, false),
        },
        Some(chosen) => chosen,
        None => return Err(not_acceptable(Media::ALL.into_iter().map(Media::name))),
    };
    if watch && media.stream_name().is_none() {
        return Err(not_acceptable(Media::ALL.into_iter().filter_map(Media::stream_name)));
    }
    let pretty = media == Media::Json && (pretty || wants_pretty(headers, query));
    let old_form = transform != Transform::None && choose(header, is_old_form).is_some_and(|(_, old, _)| old);
    Ok(Representation { media, transform, pretty, old_form, replaces_protobuf })
}

/// Returns the encoding of an error, or of a response that has no other form: JSON unless the client accepts another
/// one.
pub(crate) fn error_media(headers: &HeaderMap, _query: Option<&str>) -> Media {
    choose(accept_header(headers), untransformed).map_or(Media::Json, |(media, ..)| media)
}

/// Returns whether a client requests `/api` or `/apis` in the aggregated form.
pub(crate) fn wants_aggregated_discovery(headers: &HeaderMap) -> Result<bool> {
    let header = accept_header(headers);
    route(header, false)?;
    let aggregated = |clause: &Clause<'_>, _| {
        let asked = (clause.param("g"), clause.param("v"), clause.param("as"));
        let wanted = (Some("apidiscovery.k8s.io"), Some("v2"), Some("APIGroupDiscoveryList"));
        (asked == wanted && clause.param("sv").unwrap_or_default().is_empty()).then_some(())
    };
    if !header.is_empty() && choose(header, aggregated).is_some() {
        return Ok(true);
    }
    match choose(header, untransformed) {
        Some(_) => Ok(false),
        None => Err(not_acceptable(Media::ALL.into_iter().map(Media::name))),
    }
}

/// Returns the media type of a document that a client prefers; `None` if it accepts none of them.
pub(crate) fn preferred<'a>(headers: &HeaderMap, media_types: &[&'a str]) -> Option<&'a str> {
    let header = accept_header(headers);
    let clauses = if header.is_empty() { vec![Clause::any()] } else { accept::parse(header) };
    clauses.iter().find_map(|clause| media_types.iter().find(|media_type| clause.names(media_type)).copied())
}

/// The form of a page for debugging.
pub(crate) enum Page {
    /// Text for human readers.
    Text,
    /// An object of a version of `config.k8s.io`.
    Object { version: &'static str, is_yaml: bool },
}

/// Returns the form of a page, whose objects have the given kind: text unless the client names a version of the object.
pub(crate) fn page(headers: &HeaderMap, kind: &str) -> Result<Page> {
    let header = accept_header(headers);
    if header.trim().is_empty() {
        return Ok(Page::Text);
    }
    for clause in accept::parse(header) {
        let is_kind = clause.param("g") == Some("config.k8s.io") && clause.param("as") == Some(kind);
        let version = ["v1beta1", "v1alpha1"].into_iter().find(|version| clause.param("v") == Some(*version));
        for (media, is_yaml) in [(Media::Json, false), (Media::Yaml, true)] {
            if let Some(version) = version.filter(|_| is_kind && clause.names(media.name())) {
                return Ok(Page::Object { version, is_yaml });
            }
        }
        if clause.names("text/plain") && !clause.transforms() {
            return Ok(Page::Text);
        }
    }
    Err(not_acceptable(["application/json", "application/yaml", "text/plain"].into_iter()))
}

/// Rejects a request for discovery of a group or version that accepts none of its forms.
pub(crate) fn accept_untransformed(headers: &HeaderMap) -> Result<()> {
    let header = accept_header(headers);
    route(header, false)?;
    let all = Media::ALL.into_iter().map(Media::name);
    choose(header, untransformed).map(|_| ()).ok_or_else(|| not_acceptable(all))
}

/// Returns the encoding of a body; without a header it is JSON.
pub(crate) fn content_type(header: Option<&HeaderValue>) -> Result<Media> {
    let Some(header) = header.filter(|header| !header.is_empty()) else { return Ok(Media::Json) };
    let given = header.to_str().ok().and_then(content_type::media_type);
    let media = given.and_then(|given| Media::ALL.into_iter().find(|media| media.name() == given));
    media.ok_or_else(|| {
        let names = join(Media::ALL.into_iter().map(Media::name));
        let text = "the body of the request was in an unknown format - accepted media types include";
        ApiError::unsupported_media_type(format!("{text}: {names}"))
    })
}

/// Returns the first `Accept` header; later ones are ignored.
fn accept_header(headers: &HeaderMap) -> &str {
    headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// Decides as the router does: one plain media type must be among those of the route.
fn route(header: &str, streams: bool) -> Result<()> {
    let fits = |part: &str| {
        let name = part.split(';').next().unwrap_or_default().trim_matches(' ');
        name == "*/*" || Media::ALL.iter().any(|media| media.name() == name)
    };
    if header.is_empty() || header.split(',').any(fits) {
        return Ok(());
    }
    let streams = Media::ALL.into_iter().filter_map(Media::stream_name).filter(|_| streams);
    let names = join(Media::ALL.into_iter().map(Media::name).chain(streams));
    let message = format!("406: Not Acceptable\n\nAvailable representations: {names}");
    Err(ApiError::not_acceptable(message).with_details(Map::new()))
}

/// Returns the first encoding that a clause of the header names and `allowed` admits, with the result of `allowed` and
/// whether the clause requests indented output. Without a header it is the first encoding, untransformed.
fn choose<T>(header: &str, allowed: impl Fn(&Clause<'_>, Media) -> Option<T>) -> Option<(Media, T, bool)> {
    if header.is_empty() {
        let any = Clause::any();
        return allowed(&any, Media::Json).map(|form| (Media::Json, form, false));
    }
    for clause in accept::parse(header) {
        for media in Media::ALL.into_iter().filter(|media| clause.names(media.name())) {
            // A stream must be a known one, of an encoding that has streams.
            let stream = clause.param("stream").unwrap_or_default();
            if !stream.is_empty() && (stream != "watch" || media.stream_name().is_none()) {
                continue;
            }
            if let Some(form) = allowed(&clause, media) {
                return Some((media, form, clause.param("pretty") == Some("1")));
            }
        }
    }
    None
}

/// Returns the transformation that a clause requests; `None` if resources do not have it in that encoding.
fn transform_of(clause: &Clause<'_>, media: Media) -> Option<Transform> {
    if !matches!(clause.param("sv"), None | Some("" | "v1")) {
        return None;
    }
    if !clause.transforms() {
        return Some(Transform::None);
    }
    if clause.param("g") != Some("meta.k8s.io") || !matches!(clause.param("v"), Some("v1" | "v1beta1")) {
        return None;
    }
    match clause.param("as")? {
        "Table" => (media != Media::Protobuf).then_some(Transform::Table),
        "PartialObjectMetadata" => Some(Transform::PartialObjectMetadata),
        "PartialObjectMetadataList" => Some(Transform::PartialObjectMetadataList),
        _ => None,
    }
}

/// Returns whether a clause that resources satisfy requests a transformation in its old version.
fn is_old_form(clause: &Clause<'_>, media: Media) -> Option<bool> {
    transform_of(clause, media).map(|_| clause.param("v") == Some("v1beta1"))
}

/// Admits clauses that request no transformation.
fn untransformed(clause: &Clause<'_>, _: Media) -> Option<()> {
    (!clause.transforms() && clause.param("sv").unwrap_or_default().is_empty()).then_some(())
}

/// Returns whether output is indented: as the query requests, else for browsers and command-line tools.
fn wants_pretty(headers: &HeaderMap, query: Option<&str>) -> bool {
    if query.is_some_and(|query| query.contains("pretty"))
        && let Some(value) = Query::parse(query).get("pretty").filter(|value| !value.is_empty())
    {
        return go_format::parse_bool(value) == Some(true);
    }
    let agent = headers.get(header::USER_AGENT).map(HeaderValue::as_bytes).unwrap_or_default();
    [&b"curl"[..], b"Wget", b"Mozilla/5.0"].iter().any(|prefix| agent.starts_with(prefix))
}

fn not_acceptable(names: impl Iterator<Item = &'static str>) -> ApiError {
    ApiError::not_acceptable(format!("only the following media types are accepted: {}", join(names)))
}

fn join(names: impl Iterator<Item = &'static str>) -> String {
    names.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests;
