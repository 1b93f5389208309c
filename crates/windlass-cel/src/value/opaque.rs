//! The types that the Kubernetes libraries add.

use std::cmp::Ordering;
use std::fmt;
use std::net::IpAddr;

use windlass_schema::go_url;
use windlass_schema::quantity::Quantity;

use super::EvalError;
use crate::authorizer::AuthorizationValue;

/// A value of a Kubernetes library type.
#[derive(Debug, Clone)]
pub enum Opaque {
    /// `kubernetes.Quantity`
    Quantity {
        /// The quantity.
        value: Quantity,
        /// Whether it is the result of arithmetic. Such quantities are allowed only on the left of `==`.
        computed: bool,
    },
    /// `net.IP`
    Ip(IpAddr),
    /// `net.CIDR`
    Cidr(Cidr),
    /// `kubernetes.URL`
    Url(go_url::Url),
    /// `kubernetes.Semver`
    Semver(Semver),
    /// `kubernetes.NamedFormat`
    Format(&'static NamedFormat),
    /// A type of the authorization library.
    Authorization(AuthorizationValue),
}

/// An address and a prefix length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cidr {
    /// The address, including the bits after the prefix.
    pub address: IpAddr,
    /// The prefix length in bits.
    pub bits: u8,
}

/// A semantic version.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Semver {
    /// The major version.
    pub major: u64,
    /// The minor version.
    pub minor: u64,
    /// The patch version.
    pub patch: u64,
    /// The parts of the pre-release version.
    pub pre: Vec<PreRelease>,
}

/// A part of a pre-release version.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum PreRelease {
    /// A number, which sorts before words.
    Number(u64),
    /// A word.
    Word(String),
}

impl Ord for Semver {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.major, self.minor, self.patch).cmp(&(other.major, other.minor, other.patch)).then_with(|| {
            match (self.pre.is_empty(), other.pre.is_empty()) {
                (true, true) => Ordering::Equal,
                (true, false) => Ordering::Greater,
                (false, true) => Ordering::Less,
                (false, false) => self.pre.cmp(&other.pre),
            }
        })
    }
}

impl PartialOrd for Semver {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// A format that strings can be validated against.
#[derive(Debug)]
pub struct NamedFormat {
    /// The name that identifies the format.
    pub name: &'static str,
    /// Returns the errors of a string.
    pub validate: fn(&str) -> Vec<String>,
    /// The assumed length of its regular expression, for the cost.
    pub regex_size: u64,
}

impl Opaque {
    /// Returns the name of its type.
    pub fn type_name(&self) -> &'static str {
        match self {
            Opaque::Quantity { .. } => "kubernetes.Quantity",
            Opaque::Ip(_) => "net.IP",
            Opaque::Cidr(_) => "net.CIDR",
            Opaque::Url(_) => "kubernetes.URL",
            Opaque::Semver(_) => "kubernetes.Semver",
            Opaque::Format(_) => "kubernetes.NamedFormat",
            Opaque::Authorization(value) => value.type_name(),
        }
    }

    /// Returns the error for using a value that was selected through an optional.
    pub(crate) fn lost(&self) -> EvalError {
        let native = match self {
            Opaque::Quantity { .. } => "*resource.Quantity",
            Opaque::Ip(_) => "netip.Addr",
            Opaque::Cidr(_) => "netip.Prefix",
            Opaque::Url(_) => "*url.URL",
            Opaque::Semver(_) => "semver.Version",
            Opaque::Format(_) => "cel.Format",
            Opaque::Authorization(value) => value.go_type(),
        };
        EvalError::new(format!("unsupported conversion to ref.Val: ({native}){self}"))
    }

    /// Returns the number of bytes of an address or prefix.
    pub fn size(&self) -> Option<i64> {
        match self {
            Opaque::Ip(IpAddr::V4(_)) => Some(4),
            Opaque::Ip(IpAddr::V6(_)) => Some(16),
            Opaque::Cidr(cidr) => Some(i64::from(cidr.bits.div_ceil(8))),
            _ => None,
        }
    }

    /// Returns whether two values are equal; `None` if they cannot be compared.
    pub fn equals(&self, other: &Opaque) -> Option<bool> {
        Some(match (self, other) {
            (Opaque::Quantity { .. }, Opaque::Quantity { computed: true, .. }) => return None,
            (Opaque::Quantity { value: a, .. }, Opaque::Quantity { value: b, .. }) => a == b,
            (Opaque::Ip(a), Opaque::Ip(b)) => a == b,
            (Opaque::Cidr(a), Opaque::Cidr(b)) => a == b,
            (Opaque::Url(a), Opaque::Url(b)) => a.text == b.text,
            (Opaque::Semver(a), Opaque::Semver(b)) => a.cmp(b) == Ordering::Equal,
            (Opaque::Format(a), Opaque::Format(b)) => a.name == b.name,
            _ => return None,
        })
    }
}

impl fmt::Display for Opaque {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Opaque::Quantity { value, .. } => value.fmt(f),
            Opaque::Ip(ip) => ip.fmt(f),
            Opaque::Cidr(cidr) => write!(f, "{}/{}", cidr.address, cidr.bits),
            Opaque::Url(url) => f.write_str(&url.text),
            Opaque::Semver(version) => version.fmt(f),
            Opaque::Format(format) => f.write_str(format.name),
            Opaque::Authorization(value) => f.write_str(value.type_name()),
        }
    }
}

impl fmt::Display for Semver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)?;
        for (index, part) in self.pre.iter().enumerate() {
            f.write_str(if index == 0 { "-" } else { "." })?;
            match part {
                PreRelease::Number(number) => number.fmt(f)?,
                PreRelease::Word(word) => f.write_str(word)?,
            }
        }
        Ok(())
    }
}
