use super::*;

#[test]
fn every_signature_parses() {
    let declarations = Declarations::kubernetes();
    assert!(declarations.functions().count() > 100);
    assert!(declarations.functions().all(|function| !function.overloads.is_empty()));
}

#[test]
fn a_signature_has_receiver_arguments_and_result() {
    let overload = signature::overload("x", "kubernetes.Quantity.(map(K, V), int) -> optional_type(V)");
    assert!(overload.member);
    assert_eq!(overload.arguments.len(), 3);
    assert_eq!(overload.arguments[0], Type::object("kubernetes.Quantity"));
    assert_eq!(overload.result.to_string(), "optional_type(V)");
    assert_eq!(overload.parameters.iter().map(|name| &**name).collect::<Vec<_>>(), ["K", "V"]);
}

#[test]
fn overloads_of_one_function_come_from_several_libraries() {
    let declarations = Declarations::kubernetes();
    let ids: Vec<&str> =
        declarations.function("ip").expect("ip must be declared").overloads.iter().map(|o| o.id).collect();
    assert_eq!(ids, ["string_to_ip", "cidr_ip"]);
}
