use windlass_schema::types::{Scalar, StructId, Topology, Type};

use super::{decode, encode, file, table, unstable};
use crate::verb::Verb;

fn struct_named(name: &str) -> &'static windlass_schema::types::Struct {
    table().types.structs.iter().find(|have| have.name == name).expect("the struct must be in the table")
}

#[test]
fn the_table_has_all_stable_resources_of_the_version() {
    let table = table();
    assert_eq!(table.resources.len(), 68);
    assert_eq!(table.resources.iter().map(|resource| resource.subresources.len()).sum::<usize>(), 45);
    assert_eq!(table.groups.iter().map(|group| group.versions.len()).sum::<usize>(), 22);
    assert_eq!(table.groups[0].name, "");
    for group in &table.groups {
        for version in &group.versions {
            assert!(
                table.resources.iter().any(|have| have.group == group.name && have.version == *version),
                "{}/{version} must have resources",
                group.name
            );
        }
    }
}

#[test]
fn every_resource_and_subresource_has_a_struct_and_a_kind() {
    let table = table();
    for resource in &table.resources {
        assert_eq!(table.types.get(resource.ty).go_name, resource.kind);
        assert_eq!(table.kind(&resource.api_version(), &resource.kind), Some(resource.ty));
        if resource.has_verb(Verb::List) {
            let list = table.kind(&resource.api_version(), &format!("{}List", resource.kind));
            let list = table.types.get(list.expect("a list kind must be in the table"));
            let items = list.field("items").expect("a list must have items");
            assert_eq!(items.ty, Type::List(Box::new(Type::Struct(resource.ty))));
        }
        for subresource in &resource.subresources {
            let ty = subresource.ty.expect("a subresource must have a struct");
            assert_eq!(table.types.get(ty).go_name, subresource.kind);
        }
    }
}

#[test]
fn a_resource_matches_discovery() {
    let deployments = table().resource("apps", "v1", "deployments").expect("deployments must be in the table");
    assert_eq!(deployments.singular, "deployment");
    assert_eq!(deployments.short_names, ["deploy"]);
    assert_eq!(deployments.categories, ["all"]);
    assert_eq!(deployments.storage_version_hash, "8aSe+NMegvE=");
    assert!(deployments.namespaced && deployments.has_verb(Verb::DeleteCollection));
    let scale = deployments.subresource("scale").expect("deployments must have a scale");
    assert_eq!((&*scale.group, &*scale.version, &*scale.kind), ("autoscaling", "v1", "Scale"));
    assert_eq!(scale.verbs, [Verb::Get, Verb::Patch, Verb::Update]);
}

#[test]
fn a_field_combines_go_tags_and_the_published_schema() {
    let containers = struct_named("io.k8s.api.core.v1.PodSpec").field("containers").expect("a pod has containers");
    assert_eq!(containers.go_type, "[]v1.Container");
    assert_eq!(containers.proto, 2);
    assert!(containers.required && !containers.omit_empty && !containers.pointer);
    assert!(containers.patch.merge && !containers.patch.retain_keys);
    assert_eq!(containers.patch.merge_key.as_deref(), Some("name"));
    assert_eq!(containers.topology, Topology::Map(vec!["name".into()]));

    let port = struct_named("io.k8s.api.core.v1.ContainerPort");
    let protocol = port.field("protocol").expect("a port has a protocol");
    assert_eq!((&*protocol.go_type, protocol.default.as_ref()), ("v1.Protocol", Some(&"TCP".into())));
    let number = port.field("containerPort").expect("a port has a number");
    assert_eq!((&number.ty, number.format.as_deref()), (&Type::Scalar(Scalar::Int32), Some("int32")));
}

#[test]
fn embedded_structs_are_flat_in_json_and_nested_in_protobuf() {
    let probe = struct_named("io.k8s.api.core.v1.Probe");
    assert_eq!(probe.fields[1].name, "httpGet");
    let inline = probe.inlines[0];
    assert_eq!((inline.proto, inline.start, inline.end), (1, 0, 4));
    let pod = struct_named("io.k8s.api.core.v1.Pod");
    let names: Vec<&str> = pod.fields.iter().map(|field| &*field.name).collect();
    assert_eq!(names, ["kind", "apiVersion", "metadata", "spec", "status"]);
    assert_eq!(pod.fields[0].proto, 0);
    assert!(!pod.field("status").expect("a pod has a status").omit_empty, "Go writes an empty struct");
    assert!(struct_named("io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector").atomic);
}

#[test]
fn a_written_table_reads_back_the_same_and_writes_the_same_bytes() {
    let bytes = encode(table());
    assert_eq!(&decode(&bytes).expect("written data must be readable"), table());
    assert_eq!(encode(table()), bytes);
    assert!(file().len() <= 100 << 10, "the file must stay small: {} bytes", file().len());
}

#[test]
fn a_damaged_table_is_an_error_not_a_panic() {
    assert!(decode(b"").is_err());
    let mut inflated = Vec::new();
    std::io::Read::read_to_end(&mut flate2::read::ZlibDecoder::new(file()), &mut inflated).expect("a zlib stream");
    for at in (0..inflated.len()).step_by(997) {
        let mut bytes = inflated.clone();
        bytes[at] ^= 0x55;
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::none());
        std::io::Write::write_all(&mut encoder, &bytes[..bytes.len() - at % 3]).expect("a Vec takes all");
        let _ = decode(&encoder.finish().expect("a Vec takes all"));
    }
}

#[test]
fn unstable_resources_extend_the_table() {
    let mut all = table().clone();
    let (structs, resources) = (all.types.structs.len(), all.resources.len());
    all.extend(unstable(), |_| true);
    assert_eq!(all.resources.len(), resources + unstable().resources.len());
    assert!(all.types.structs.len() < structs + unstable().types.structs.len());
    // Types are not there twice, and each field has the type that it had.
    let mut names: Vec<_> = all.types.structs.iter().map(|structure| &structure.name).collect();
    names.sort();
    assert!(names.is_sorted_by(|a, b| a < b));
    let ty = all.kind("scheduling.k8s.io/v1alpha2", "PodGroup").expect("pod groups");
    let field = |of: StructId, name: &str| {
        let found = all.types.get(of).fields.iter().find(|field| field.name == name);
        found.map(|field| field.ty.clone()).expect("the field must be there")
    };
    let name = |ty: Type| match ty {
        Type::Struct(id) => all.types.get(id).name.to_string(),
        other => panic!("{other:?} is not a struct"),
    };
    assert_eq!(name(field(ty, "metadata")), "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta");
    assert_eq!(name(field(ty, "spec")), "io.k8s.api.scheduling.v1alpha2.PodGroupSpec");
    assert!(all.kind("scheduling.k8s.io/v1alpha2", "PodGroupList").is_some());
    let versions = |name: &str| all.groups.iter().find(|group| group.name == name).expect("the group").versions.clone();
    assert_eq!(versions("storagemigration.k8s.io"), ["v1beta1"]);
    assert_eq!(versions("resource.k8s.io"), ["v1", "v1beta2"]);
    let mut same = table().clone();
    same.extend(unstable(), |_| false);
    assert_eq!(&same, table());
}
