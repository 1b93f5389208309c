//! Static tokens: a file of tokens and their users.

use std::{collections::HashMap, sync::Arc};

use super::csv;
use crate::user::User;

/// The users of static tokens.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TokenFile {
    users: HashMap<String, Arc<User>>,
}

/// The string is not a token file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TokenFileError {
    /// The string is not CSV.
    #[error("record on line {line}: {problem}")]
    Csv {
        /// The line of the record, from 1.
        line: usize,
        /// The problem.
        problem: &'static str,
    },
    /// A record has too few fields.
    #[error("must have at least 3 columns (token, user name, user uid), found {0}")]
    Columns(usize),
}

impl TokenFile {
    /// Parses a file of comma-separated values: token, user name, user UID, and the groups, separated by commas as
    /// well.
    ///
    /// # Errors
    /// Returns an error if the string is not CSV or a record has fewer than three fields.
    pub fn parse(text: &str) -> Result<Self, TokenFileError> {
        let mut users = HashMap::new();
        let records = csv::parse(text).map_err(|(line, problem)| TokenFileError::Csv { line, problem })?;
        for (number, record) in records.into_iter().enumerate() {
            let mut fields = record.into_iter();
            let found = fields.len();
            let (Some(token), Some(name), Some(uid)) = (fields.next(), fields.next(), fields.next()) else {
                return Err(TokenFileError::Columns(found));
            };
            if token.is_empty() {
                tracing::warn!(record = number + 1, "empty token in the token file");
                continue;
            }
            let groups = fields.next().map(|groups| groups.split(',').map(str::to_owned).collect());
            let user = User { name, uid, groups: groups.unwrap_or_default(), ..User::default() }.authenticated();
            if users.insert(token, Arc::new(user)).is_some() {
                tracing::warn!(record = number + 1, "duplicate token in the token file");
            }
        }
        Ok(Self { users })
    }

    /// Returns the user of a token.
    pub(super) fn user(&self, token: &str) -> Option<Arc<User>> {
        self.users.get(token).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_has_a_user_with_uid_and_groups() {
        let file = TokenFile::parse("t1,eve,u1\n\nt2,bob,u2,\"a,b\"\n,none,u3\nt1,mallory,u4,g,ignored\n").unwrap();
        let bob = file.user("t2").unwrap();
        assert_eq!((bob.name.as_str(), bob.uid.as_str()), ("bob", "u2"));
        assert_eq!(bob.groups, ["a", "b", "system:authenticated"]);
        assert_eq!(file.user("t1").unwrap().name, "mallory", "the last record counts");
        assert_eq!(file.user(""), None);
        assert_eq!(file.user("t3"), None);
    }

    #[test]
    fn a_record_without_uid_is_rejected() {
        assert_eq!(TokenFile::parse("t1,eve"), Err(TokenFileError::Columns(2)));
        assert_eq!(
            TokenFile::parse("a,b,c\n\"t1,eve"),
            Err(TokenFileError::Csv { line: 2, problem: "extraneous or missing \" in quoted-field" })
        );
    }
}
