//! Quoting and variables of shells.

use std::{ffi::OsStr, path::Path};

use clap::ValueEnum;

/// A shell, by its syntax for variables.
#[allow(clippy::enum_variant_names, reason = "the name of PowerShell")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shell {
    Bash,
    Zsh,
    /// Any other Bourne-like shell
    Sh,
    Fish,
    #[value(name = "powershell", alias = "pwsh")]
    PowerShell,
}

impl Shell {
    /// Detects the shell of the environment: `$SHELL`, which the login shell sets, or a variable that only PowerShell
    /// sets.
    pub(crate) fn detect(variable: &dyn Fn(&str) -> Option<String>) -> Self {
        let named = variable("SHELL").filter(|path| !path.is_empty());
        let name = named.as_deref().map(Path::new).and_then(Path::file_name).and_then(OsStr::to_str);
        match name {
            // PowerShell keeps the `$SHELL` of the shell it was started from.
            _ if variable("POWERSHELL_DISTRIBUTION_CHANNEL").is_some() => Self::PowerShell,
            Some("bash") => Self::Bash,
            Some("zsh") => Self::Zsh,
            Some("fish") => Self::Fish,
            Some("pwsh" | "powershell") => Self::PowerShell,
            Some(_) => Self::Sh,
            None if variable("PSModulePath").is_some() => Self::PowerShell,
            None => Self::Sh,
        }
    }

    /// The command that sets an environment variable to a path.
    pub(crate) fn export(self, name: &str, path: &Path) -> String {
        match self {
            Self::Bash | Self::Zsh | Self::Sh => format!("export {name}={}", word(path)),
            Self::Fish => format!("set -gx {name} {}", fish_word(path)),
            Self::PowerShell => format!("$Env:{name} = '{}'", path.display().to_string().replace('\'', "''")),
        }
    }

    /// The command that unsets a variable.
    pub(crate) fn unset(self, name: &str) -> String {
        match self {
            Self::Bash | Self::Zsh | Self::Sh => format!("unset {name}"),
            Self::Fish => format!("set -e {name}"),
            Self::PowerShell => format!("Remove-Item Env:{name} -ErrorAction SilentlyContinue"),
        }
    }

    /// Returns the line that evaluates the output of a command in this shell.
    pub(crate) fn evaluate(self, command: &str) -> String {
        match self {
            Self::Bash | Self::Zsh | Self::Sh => format!("eval \"$({command})\""),
            Self::Fish => format!("{command} | source"),
            Self::PowerShell => format!("& {command} | Invoke-Expression"),
        }
    }
}

/// Quotes a path as one word.
pub(crate) fn word(path: &Path) -> String {
    let text = path.display().to_string();
    if is_plain(&text) { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

/// In fish, a backslash is special within single quotes.
fn fish_word(path: &Path) -> String {
    let text = path.display().to_string();
    if is_plain(&text) { text } else { format!("'{}'", text.replace('\\', r"\\").replace('\'', r"\'")) }
}

fn is_plain(text: &str) -> bool {
    text.chars().all(|c| c.is_ascii_alphanumeric() || "/._-+:@%,=".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_quoted_as_one_word() {
        assert_eq!(word(Path::new("/tmp/a-b_1.2/kubeconfig")), "/tmp/a-b_1.2/kubeconfig");
        assert_eq!(word(Path::new("/tmp/it's $HOME")), r"'/tmp/it'\''s $HOME'");
    }

    #[test]
    fn variables_are_set_in_the_syntax_of_each_shell() {
        let path = Path::new("/tmp/it's");
        for (shell, export, unset) in [
            (Shell::Bash, r"export K='/tmp/it'\''s'", "unset K"),
            (Shell::Fish, r"set -gx K '/tmp/it\'s'", "set -e K"),
            (Shell::PowerShell, "$Env:K = '/tmp/it''s'", "Remove-Item Env:K -ErrorAction SilentlyContinue"),
        ] {
            assert_eq!((shell.export("K", path).as_str(), shell.unset("K").as_str()), (export, unset));
        }
    }

    #[test]
    fn the_shell_is_detected_from_the_environment() {
        for (variables, expected) in [
            (&[("SHELL", "/bin/bash")][..], Shell::Bash),
            (&[("SHELL", "/usr/local/bin/zsh")], Shell::Zsh),
            (&[("SHELL", "/usr/bin/fish")], Shell::Fish),
            (&[("SHELL", "/bin/dash")], Shell::Sh),
            (&[("SHELL", "/bin/bash"), ("POWERSHELL_DISTRIBUTION_CHANNEL", "MSI")], Shell::PowerShell),
            (&[("PSModulePath", "/opt")], Shell::PowerShell),
            (&[("SHELL", "")], Shell::Sh),
            (&[], Shell::Sh),
        ] {
            let variable =
                |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, v)| (*v).to_owned());
            assert_eq!(Shell::detect(&variable), expected, "{variables:?}");
        }
    }
}
