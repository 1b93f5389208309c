//! Authentication: who sent a request.
//!
//! The authenticators are asked in the order of kube-apiserver: a front proxy's headers, the client certificate, the bearer
//! token, and the token in a WebSocket subprotocol. The first that knows the user decides. If none does, a request without
//! credentials is anonymous, and one whose credentials were rejected is answered with 401.

pub mod jwt;
pub(crate) mod tokens;
pub mod webhook_token;

use futures_util::future::BoxFuture;

use crate::user::User;

/// The result of a token authenticator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Authenticated {
    /// The user, without the group `system:authenticated`, which all users get.
    pub user: User,
    /// Those of the requested audiences that the token is for; `None` if the authenticator knows no audiences.
    pub audiences: Option<Vec<String>>,
}

/// Authenticates bearer tokens of one kind.
pub(crate) trait TokenAuthenticator: Send + Sync {
    /// Returns the user of a token that is meant for one of the audiences; `None` if the token is of another kind. The
    /// error is logged and shown to users who may review tokens; other authenticators are asked nevertheless.
    fn authenticate<'a>(
        &'a self,
        token: &'a str,
        audiences: &'a [&'a str],
    ) -> BoxFuture<'a, Result<Option<Authenticated>, String>>;
}
