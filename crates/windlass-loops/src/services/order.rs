//! The order of ports and subsets in objects written by kube-controller-manager: by a hash of their Go representation.

use k8s_openapi::api::{
    core::v1::{EndpointAddress, EndpointPort as OldPort, EndpointSubset, ObjectReference},
    discovery::v1::EndpointPort,
};

/// A value with a Go representation.
pub(crate) trait Shown {
    /// The representation with types and fields.
    fn shown(&self) -> String;
}

/// Sorts by the hash of the Go representation.
pub(crate) fn sort_as_go<T: Shown>(things: &mut [T]) {
    things.sort_by_cached_key(|thing| hash(&thing.shown()));
}

/// 128-bit FNV-1a.
fn hash(text: &str) -> u128 {
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    text.bytes()
        .fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d, |hash, byte| (hash ^ u128::from(byte)).wrapping_mul(PRIME))
}

fn optional(kind: &str, value: Option<&str>) -> String {
    format!("(*{kind}){}", value.unwrap_or("<nil>"))
}

fn text(value: Option<&String>) -> &str {
    value.map_or("", String::as_str)
}

impl Shown for EndpointPort {
    fn shown(&self) -> String {
        let port = self.port.map(|port| port.to_string());
        format!(
            "(v1.EndpointPort){{Name:{} Protocol:{} Port:{} AppProtocol:{}}}",
            optional("string", self.name.as_deref()),
            optional("v1.Protocol", self.protocol.as_deref()),
            optional("int32", port.as_deref()),
            optional("string", self.app_protocol.as_deref()),
        )
    }
}

impl Shown for OldPort {
    fn shown(&self) -> String {
        format!(
            "(v1.EndpointPort){{Name:(string){} Port:(int32){} Protocol:(v1.Protocol){} AppProtocol:{}}}",
            text(self.name.as_ref()),
            self.port,
            text(self.protocol.as_ref()),
            optional("string", self.app_protocol.as_deref()),
        )
    }
}

impl Shown for ObjectReference {
    fn shown(&self) -> String {
        format!(
            "{{Kind:(string){} Namespace:(string){} Name:(string){} UID:(types.UID){} APIVersion:(string){} \
             ResourceVersion:(string){} FieldPath:(string){}}}",
            text(self.kind.as_ref()),
            text(self.namespace.as_ref()),
            text(self.name.as_ref()),
            text(self.uid.as_ref()),
            text(self.api_version.as_ref()),
            text(self.resource_version.as_ref()),
            text(self.field_path.as_ref()),
        )
    }
}

impl Shown for EndpointAddress {
    fn shown(&self) -> String {
        let target = self.target_ref.as_ref().map(Shown::shown);
        format!(
            "(v1.EndpointAddress){{IP:(string){} Hostname:(string){} NodeName:{} TargetRef:{}}}",
            self.ip,
            text(self.hostname.as_ref()),
            optional("string", self.node_name.as_deref()),
            optional("v1.ObjectReference", target.as_deref()),
        )
    }
}

impl Shown for EndpointSubset {
    fn shown(&self) -> String {
        format!(
            "(v1.EndpointSubset){{Addresses:{} NotReadyAddresses:{} Ports:{}}}",
            list("v1.EndpointAddress", self.addresses.as_deref()),
            list("v1.EndpointAddress", self.not_ready_addresses.as_deref()),
            list("v1.EndpointPort", self.ports.as_deref()),
        )
    }
}

/// The type of a list contains the type of its items.
fn list<T: Shown>(kind: &str, things: Option<&[T]>) -> String {
    let Some(things) = things else { return format!("([]{kind})<nil>") };
    let prefix = format!("({kind})");
    let bare = |thing: &T| thing.shown().trim_start_matches(&prefix).to_owned();
    let things: Vec<String> = things.iter().map(bare).collect();
    format!("([]{kind})[{}]", things.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_formatted_as_in_go() {
        let port = EndpointPort {
            name: Some("http".into()),
            protocol: Some("TCP".into()),
            port: Some(80),
            app_protocol: None,
        };
        let expected = "(v1.EndpointPort){Name:(*string)http Protocol:(*v1.Protocol)TCP Port:(*int32)80 AppProtocol:(*string)<nil>}";
        assert_eq!(port.shown(), expected);
        assert_eq!(hash("a"), 0xd228_cb69_6f1a_8caf_7891_2b70_4e4a_8964);
    }
    #[test]
    fn subsets_are_formatted_as_in_go() {
        let subset: EndpointSubset = serde_json::from_value(serde_json::json!({
            "addresses": [{ "ip": "1.2.3.4", "nodeName": "", "targetRef": { "kind": "Pod", "uid": "u" } }, { "ip": "1.2.3.5" }],
            "ports": [{ "name": "http", "port": 1 }],
        }))
        .unwrap();
        let expected = "(v1.EndpointSubset){Addresses:([]v1.EndpointAddress)[{IP:(string)1.2.3.4 Hostname:(string) \
            NodeName:(*string) TargetRef:(*v1.ObjectReference){Kind:(string)Pod Namespace:(string) Name:(string) \
            UID:(types.UID)u APIVersion:(string) ResourceVersion:(string) FieldPath:(string)}} {IP:(string)1.2.3.5 \
            Hostname:(string) NodeName:(*string)<nil> TargetRef:(*v1.ObjectReference)<nil>}] \
            NotReadyAddresses:([]v1.EndpointAddress)<nil> Ports:([]v1.EndpointPort)[{Name:(string)http Port:(int32)1 \
            Protocol:(v1.Protocol) AppProtocol:(*string)<nil>}]}";
        assert_eq!(subset.shown(), expected);
    }
}
