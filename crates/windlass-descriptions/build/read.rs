//! Descriptions in a source file of k8s-openapi.
//!
//! A file defines one type. Its implementation of `JsonSchema` has the schema as a JSON object, some of whose values
//! are expressions: `"spec": ({ let mut schema_obj = …; schema_obj.…("description".into(), "…".into()); schema_obj })`.

/// The descriptions of a schema.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Schema {
    /// Name of the schema.
    pub(crate) name: String,
    /// Its description; empty if it has none.
    pub(crate) description: String,
    /// Descriptions of properties, by name.
    pub(crate) properties: Vec<(String, String)>,
}

#[derive(Debug, PartialEq)]
enum Token {
    Open,
    Close,
    Colon,
    Text(String),
}

/// Returns the descriptions in a source file; `None` if it has no schema.
pub(crate) fn schema(source: &str) -> Option<Schema> {
    let (_, implementation) = source.split_once("schemars::JsonSchema for ")?;
    let (head, body) = implementation.split_once("json_schema!(")?;
    let name = tokens(head).find_map(|token| if let Token::Text(name) = token { Some(name) } else { None })?;
    let mut schema = Schema { name, description: String::new(), properties: Vec::new() };
    // The depth of the schema's keywords is 1, that of the names of properties is 2.
    let (mut depth, mut keyword, mut property) = (0_u32, String::new(), None);
    let mut tokens = tokens(body).peekable();
    while let Some(token) = tokens.next() {
        match token {
            Token::Open => depth += 1,
            Token::Close if depth <= 1 => break,
            Token::Close => depth -= 1,
            Token::Colon => {}
            Token::Text(text) => {
                let is_key = tokens.peek() == Some(&Token::Colon);
                if depth == 1 && is_key {
                    keyword = text;
                    if keyword == "description" {
                        schema.description = next_text(&mut tokens).unwrap_or_default();
                    }
                } else if depth == 2 && is_key && keyword == "properties" {
                    property = Some(text);
                } else if text == "description" {
                    // The first one is that of the property; further ones would belong to its items.
                    if let (Some(property), Some(text)) = (property.take(), next_text(&mut tokens)) {
                        schema.properties.push((property, text));
                    }
                }
            }
        }
    }
    split_watch_event(&mut schema);
    Some(schema)
}

/// Splits the description of watch events: k8s-openapi has appended that of the property to it.
fn split_watch_event(schema: &mut Schema) {
    if schema.name.ends_with(".WatchEvent")
        && let Some((own, object)) = schema.description.split_once("\n\n")
    {
        schema.properties.push(("object".to_owned(), object.trim_end().to_owned()));
        schema.description = own.to_owned();
    }
}

/// Returns the next text; parentheses of calls are between it and the one before.
fn next_text(tokens: &mut impl Iterator<Item = Token>) -> Option<String> {
    let mut depth = 0_i32;
    for token in tokens {
        match token {
            Token::Text(text) if depth == 0 => return Some(text),
            Token::Open => depth += 1,
            Token::Close => depth -= 1,
            _ => {}
        }
    }
    None
}

/// Returns the string literals, colons and brackets of a source text. Paths such as `a::b` have no colons.
fn tokens(source: &str) -> impl Iterator<Item = Token> {
    let mut letters = source.chars().peekable();
    std::iter::from_fn(move || {
        loop {
            return Some(match letters.next()? {
                '{' | '(' | '[' => Token::Open,
                '}' | ')' | ']' => Token::Close,
                ':' if letters.next_if_eq(&':').is_none() => Token::Colon,
                '"' => Token::Text(literal(&mut letters)?),
                _ => continue,
            });
        }
    })
}

/// Reads the rest of a string literal.
fn literal(letters: &mut impl Iterator<Item = char>) -> Option<String> {
    let mut text = String::new();
    loop {
        match letters.next()? {
            '"' => return Some(text),
            '\\' => text.push(match letters.next()? {
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                '0' => '\0',
                'u' => {
                    let digits: String = letters.by_ref().skip(1).take_while(|letter| *letter != '}').collect();
                    u32::from_str_radix(&digits, 16).ok().and_then(char::from_u32)?
                }
                other => other,
            }),
            letter => text.push(letter),
        }
    }
}
