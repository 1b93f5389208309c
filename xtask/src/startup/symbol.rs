//! Names of functions, as the linker has them and as people read them.

/// Characters and their encodings in symbols.
const ESCAPES: [(&str, &str); 18] = [
    ("$LT$", "<"),
    ("$GT$", ">"),
    ("$RF$", "&"),
    ("$BP$", "*"),
    ("$C$", ","),
    ("$LP$", "("),
    ("$RP$", ")"),
    ("$u20$", " "),
    ("$u22$", "\""),
    ("$u27$", "'"),
    ("$u2b$", "+"),
    ("$u3b$", ";"),
    ("$u3d$", "="),
    ("$u5b$", "["),
    ("$u5d$", "]"),
    ("$u7b$", "{"),
    ("$u7d$", "}"),
    ("$u7e$", "~"),
];

/// Returns the path of a function, without the hash that tells instances apart: `core::ptr::drop_in_place<u8>`. Paths
/// inside of angle brackets keep their dots. Returns `None` for functions that are not written in Rust.
pub(super) fn path(symbol: &str) -> Option<String> {
    let mut rest = symbol.strip_prefix("_ZN")?;
    let mut path = String::new();
    loop {
        let digits = rest.find(|character: char| !character.is_ascii_digit())?;
        let Ok(length) = rest[..digits].parse::<usize>() else { break };
        let component = rest.get(digits..digits + length)?;
        rest = &rest[digits + length..];
        if rest.starts_with('E') && length == 17 && component.starts_with('h') {
            break;
        }
        let component = component.strip_prefix('_').filter(|text| text.starts_with('$')).unwrap_or(component);
        if !path.is_empty() {
            path.push_str("::");
        }
        let readable =
            ESCAPES.iter().fold(component.to_owned(), |text, (escape, character)| text.replace(escape, character));
        path.push_str(&readable);
    }
    (!path.is_empty()).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_readable() {
        let symbols = [
            ("_ZN4redb2db8Database3new17h0c10a51b3bc0af96E", Some("redb::db::Database::new")),
            (
                "_ZN4core3ptr46drop_in_place$LT$kube_client..error..Error$GT$17h0c10a51b3bc0af96E",
                Some("core::ptr::drop_in_place<kube_client..error..Error>"),
            ),
            (
                "_ZN58_$LT$h2..server..Peer$u20$as$u20$h2..proto..peer..Peer$GT$1a17h0c10a51b3bc0af96E.llvm.1",
                Some("<h2..server..Peer as h2..proto..peer..Peer>::a"),
            ),
            ("je_malloc", None),
            ("_ZN", None),
            ("_ZN99short", None),
        ];
        for (symbol, expected) in symbols {
            assert_eq!(path(symbol).as_deref(), expected, "{symbol}");
        }
    }
}
