//! Tokens of service accounts.

use std::sync::LazyLock;

use windlass_apiserver::{
    fuzzing::{sign_token, verify_token},
    tokens::TokenKey,
};

/// A key that no input knows.
static KEY: LazyLock<TokenKey> = LazyLock::new(TokenKey::generate);

/// Verifies a token, which no input can forge. With two lines, they are the header and the claims of a token that is
/// signed: what was changed after that, is rejected.
pub fn tokens(data: &[u8]) {
    if let Some(text) = super::text(data) {
        assert_eq!(verify_token(&KEY, text), None, "a forged token must be invalid");
    }
    if !data.contains(&b'\n') {
        return;
    }
    let [header, claims] = super::parts(data);
    let token = sign_token(&KEY, header, claims);
    let Some(verified) = verify_token(&KEY, &token) else { return };
    let encoded = serde_json::to_vec(&verified).expect("claims must be JSON");
    let again = sign_token(&KEY, header, &encoded);
    assert_eq!(verify_token(&KEY, &again), Some(verified), "claims must survive the round trip");
    let (said, signature) = token.rsplit_once('.').expect("a token must have three parts");
    let changed = format!("{said}A.{signature}");
    assert_eq!(verify_token(&KEY, &changed), None, "a changed token must be invalid");
    assert_eq!(verify_token(&KEY, said), None, "a token without its signature must be invalid");
}
