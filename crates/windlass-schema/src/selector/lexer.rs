//! Tokens of label selectors.

/// A token; words keep their text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Token<'a> {
    /// A key, a value, or one of the words `in` and `notin`, which are keys and values too.
    Word(&'a str),
    Open,
    Close,
    Comma,
    Not,
    Equals,
    DoubleEquals,
    NotEquals,
    Greater,
    Less,
    End,
}

impl<'a> Token<'a> {
    /// Returns the token as written.
    pub(super) fn text(self) -> &'a str {
        match self {
            Self::Word(text) => text,
            Self::Open => "(",
            Self::Close => ")",
            Self::Comma => ",",
            Self::Not => "!",
            Self::Equals => "=",
            Self::DoubleEquals => "==",
            Self::NotEquals => "!=",
            Self::Greater => ">",
            Self::Less => "<",
            Self::End => "",
        }
    }
}

/// A reader of tokens with one token of lookahead.
pub(super) struct Lexer<'a> {
    rest: &'a str,
    ahead: Option<Token<'a>>,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { rest: text, ahead: None }
    }

    pub(super) fn peek(&mut self) -> Token<'a> {
        let token = match self.ahead {
            Some(token) => token,
            None => self.scan(),
        };
        self.ahead = Some(token);
        token
    }

    pub(super) fn next(&mut self) -> Token<'a> {
        let token = self.peek();
        // The end is final.
        if token != Token::End {
            self.ahead = None;
        }
        token
    }

    fn scan(&mut self) -> Token<'a> {
        self.rest = self.rest.trim_start_matches([' ', '\t', '\r', '\n']);
        let bytes = self.rest.as_bytes();
        let (token, length) = match (bytes.first(), bytes.get(1)) {
            // A zero byte counts as the end.
            (None | Some(0), _) => return Token::End,
            (Some(b'('), _) => (Token::Open, 1),
            (Some(b')'), _) => (Token::Close, 1),
            (Some(b','), _) => (Token::Comma, 1),
            (Some(b'!'), Some(b'=')) => (Token::NotEquals, 2),
            (Some(b'!'), _) => (Token::Not, 1),
            (Some(b'='), Some(b'=')) => (Token::DoubleEquals, 2),
            (Some(b'='), _) => (Token::Equals, 1),
            (Some(b'>'), _) => (Token::Greater, 1),
            (Some(b'<'), _) => (Token::Less, 1),
            _ => return self.word(),
        };
        self.rest = &self.rest[length..];
        token
    }

    fn word(&mut self) -> Token<'a> {
        let ends = [' ', '\t', '\r', '\n', '=', '!', '(', ')', ',', '>', '<', '\0'];
        let end = self.rest.find(ends).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        // A zero byte that ends a word is consumed with it.
        self.rest = rest.strip_prefix('\0').unwrap_or(rest);
        Token::Word(word)
    }
}
