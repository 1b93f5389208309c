//! Parsing of PEM blocks.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// A PEM block.
#[derive(Debug)]
pub(crate) struct Block {
    /// Type: `CERTIFICATE`, for example.
    pub(crate) kind: String,
    /// Whether there are headers before the content.
    pub(crate) has_headers: bool,
    /// The content in DER.
    pub(crate) content: Vec<u8>,
}

/// Returns the types of the PEM blocks in a string.
pub(crate) fn blocks(bytes: &[u8]) -> Vec<String> {
    decoded(bytes).into_iter().map(|block| block.kind).collect()
}

/// Returns the PEM blocks in a string.
pub(crate) fn decoded(bytes: &[u8]) -> Vec<Block> {
    let text = String::from_utf8_lossy(bytes);
    let mut rest = &*text;
    let mut found = Vec::new();
    while let Some((_, after)) = rest.split_once("-----BEGIN ") {
        rest = after;
        let Some((kind, body)) = after.split_once("-----") else { break };
        let Some((body, after)) = body.split_once(&format!("-----END {kind}-----")) else { continue };
        let (headers, encoded) = body.split_once("\n\n").unwrap_or(("", body));
        let has_headers = headers.contains(':');
        let encoded = if has_headers { encoded } else { body };
        let encoded: String = encoded.chars().filter(|c| !c.is_whitespace()).collect();
        if let Ok(content) = STANDARD.decode(encoded) {
            found.push(Block { kind: kind.to_owned(), has_headers, content });
            rest = after;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_found_between_other_text() {
        let text =
            "junk\n-----BEGIN A-----\nYWJj\n-----END A-----\n-----BEGIN B C-----\nH: 1\n\nYWJj\n-----END B C-----\n";
        assert_eq!(blocks(text.as_bytes()), ["A", "B C"]);
        let headers: Vec<bool> = decoded(text.as_bytes()).iter().map(|block| block.has_headers).collect();
        assert_eq!(headers, [false, true]);
        for broken in [
            "",
            "-----BEGIN A-----",
            "-----BEGIN A-----\n!\n-----END A-----",
            "-----BEGIN A-----\nYWJj\n-----END B-----",
        ] {
            assert!(blocks(broken.as_bytes()).is_empty(), "{broken}");
        }
    }
}
