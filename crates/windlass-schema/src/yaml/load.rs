//! Builds a tree, with aliases not yet expanded, from parser events.

use std::collections::HashMap;

use granit_parser::{Event, Marker, Options, Parser, ScalarStyle, Tag};

use super::errors;
use crate::json::MAX_DEPTH;

/// The index of a node in its tree.
pub(super) type NodeId = usize;

/// The nodes of a document; the last completed one is the root.
pub(super) struct Tree {
    pub(super) nodes: Vec<Node>,
    pub(super) root: Option<NodeId>,
}

/// A node and the line in which it starts, counted from one.
pub(super) struct Node {
    pub(super) line: usize,
    pub(super) kind: Kind,
}

pub(super) enum Kind {
    Scalar {
        text: String,
        plain: bool,
        tag: Option<String>,
    },
    Sequence(Vec<NodeId>),
    /// Alternating keys and values.
    Mapping(Vec<NodeId>),
    Alias {
        target: NodeId,
        at: Marker,
    },
}

impl Node {
    /// Returns the length of a scalar's text; zero for other nodes.
    pub(super) fn text_length(&self) -> usize {
        match &self.kind {
            Kind::Scalar { text, .. } => text.len(),
            _ => 0,
        }
    }
}

fn tag_name(tag: &Tag) -> String {
    let handle = if tag.handle() == "tag:yaml.org,2002:" { "!!" } else { tag.handle() };
    format!("{handle}{}", tag.suffix())
}

/// Reason why there is no tree.
pub(super) enum Failure {
    /// The string is invalid.
    Fatal(String),
    /// The string may be valid YAML 1.1.
    Strict(String),
}

pub(super) fn load(text: &str) -> Result<Tree, Failure> {
    let mut nodes: Vec<Node> = Vec::new();
    let mut anchors = HashMap::new();
    let mut open: Vec<NodeId> = Vec::new();
    let mut root = None;
    let mut options = Options::default();
    options.set_emit_comments(false);
    // Deeper than the limit here, so that the error below is the one reported.
    options.flow_nesting_limit = MAX_DEPTH + 1;
    options.block_nesting_limit = MAX_DEPTH + 1;
    for event in Parser::new_from_str_with_options(text, options) {
        let (event, span) = event.map_err(|error| errors::failure(&error, text))?;
        let line = span.start.line();
        let (kind, anchor, opens) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                let tag = tag.map(|tag| tag_name(&tag));
                let kind = Kind::Scalar { text: text.into_owned(), plain: style == ScalarStyle::Plain, tag };
                (kind, anchor, false)
            }
            Event::SequenceStart(_, anchor, _) => (Kind::Sequence(Vec::new()), anchor, true),
            Event::MappingStart(_, anchor, _) => (Kind::Mapping(Vec::new()), anchor, true),
            Event::Alias(anchor) => {
                let target = anchors.get(&anchor).copied().ok_or_else(|| {
                    Failure::Fatal(format!(
                        "yaml: unknown anchor '{}' referenced",
                        errors::alias_name(&span.start, text)
                    ))
                })?;
                (Kind::Alias { target, at: span.start }, 0, false)
            }
            Event::SequenceEnd | Event::MappingEnd => {
                open.pop();
                continue;
            }
            Event::DocumentEnd | Event::StreamEnd => break,
            // Comments and anchor definitions, among others, are not nodes.
            _ => continue,
        };
        let id = nodes.len();
        nodes.push(Node { line, kind });
        if anchor != 0 {
            anchors.insert(anchor, id);
        }
        match open.last().map(|parent| &mut nodes[*parent].kind) {
            Some(Kind::Sequence(children) | Kind::Mapping(children)) => children.push(id),
            _ => root = Some(id),
        }
        if opens {
            if open.len() == MAX_DEPTH {
                return Err(Failure::Fatal(format!("yaml: exceeded max depth of {MAX_DEPTH}")));
            }
            open.push(id);
        }
    }
    Ok(Tree { nodes, root })
}
