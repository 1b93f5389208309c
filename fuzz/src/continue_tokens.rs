//! Continue tokens of paged lists.

use windlass_apiserver::fuzzing::{decode_continue_token, encode_continue_token};

/// Decodes a token, given as it is sent; or encodes one from a revision and a key, one per line. A token that is
/// accepted is a position within the list, and survives the round trip.
pub fn continue_token(data: &[u8]) {
    let Some(text) = super::text(data) else { return };
    check(text);
    if let Some((revision, key)) = text.split_once('\n')
        && let Ok(revision) = revision.parse()
    {
        check(&encode_continue_token(revision, key));
    }
}

fn check(token: &str) {
    match decode_continue_token(token) {
        Ok((revision, after)) => {
            assert_ne!(revision, 0);
            let start = format!("{after}\0");
            assert!(!start.split('/').any(|part| matches!(part, "" | "." | "..")), "{after:?} leaves its prefix");
            assert_eq!(decode_continue_token(&encode_continue_token(revision, &after)).ok(), Some((revision, after)));
        }
        Err(error) => assert_eq!(error.to_status()["code"], 400),
    }
}
