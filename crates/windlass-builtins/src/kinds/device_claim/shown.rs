//! Claims as kube-apiserver shows them in messages.

use crate::kinds::internal_types::{Field, NUMBER, OPTIONAL, Shape, TEXT, pointer};

/// The spec of a ResourceClaim.
pub(in super::super) const CLAIM_SPEC: &[Field] =
    &[("Devices", "devices", Shape::Struct { fields: DEVICES, pointer: false })];

/// The allocation of a ResourceClaim.
pub(in super::super) const ALLOCATION: &[Field] = &[
    ("Devices", "devices", Shape::Struct { fields: ALLOCATED, pointer: false }),
    ("NodeSelector", "nodeSelector", OPTIONAL),
    ("AllocationTimestamp", "allocationTimestamp", OPTIONAL),
];

const ALLOCATED: &[Field] =
    &[("Results", "results", Shape::List(RESULT)), ("Config", "config", Shape::List(ALLOCATED_CONFIGURATION))];

const RESULT: &[Field] = &[
    ("Request", "request", TEXT),
    ("Driver", "driver", TEXT),
    ("Pool", "pool", TEXT),
    ("Device", "device", TEXT),
    ("AdminAccess", "adminAccess", OPTIONAL),
    ("Tolerations", "tolerations", Shape::List(TOLERATION)),
    ("BindingConditions", "bindingConditions", OPTIONAL),
    ("BindingFailureConditions", "bindingFailureConditions", OPTIONAL),
    ("ShareID", "shareID", OPTIONAL),
    ("ConsumedCapacity", "consumedCapacity", OPTIONAL),
];

const ALLOCATED_CONFIGURATION: &[Field] =
    &[("Source", "source", TEXT), ("Requests", "requests", OPTIONAL), ("Opaque", "opaque", pointer(OPAQUE))];

/// An attribute of a device.
pub(in super::super) const ATTRIBUTE: &[Field] = &[
    ("IntValue", "int", OPTIONAL),
    ("BoolValue", "bool", OPTIONAL),
    ("StringValue", "string", OPTIONAL),
    ("VersionValue", "version", OPTIONAL),
    ("IntValues", "ints", OPTIONAL),
    ("BoolValues", "bools", OPTIONAL),
    ("StringValues", "strings", OPTIONAL),
    ("VersionValues", "versions", OPTIONAL),
];

const DEVICES: &[Field] = &[
    ("Requests", "requests", Shape::List(REQUEST)),
    ("Constraints", "constraints", Shape::List(CONSTRAINT)),
    ("Config", "config", Shape::List(CONFIGURATION)),
];

const REQUEST: &[Field] = &[
    ("Name", "name", TEXT),
    ("Exactly", "exactly", pointer(EXACTLY)),
    ("FirstAvailable", "firstAvailable", Shape::List(ALTERNATIVE)),
];

const EXACTLY: &[Field] = &[
    ("DeviceClassName", "deviceClassName", TEXT),
    ("Selectors", "selectors", Shape::List(SELECTOR)),
    ("AllocationMode", "allocationMode", TEXT),
    ("Count", "count", NUMBER),
    ("AdminAccess", "adminAccess", OPTIONAL),
    ("Tolerations", "tolerations", Shape::List(TOLERATION)),
    ("Capacity", "capacity", pointer(CAPACITY)),
];

const ALTERNATIVE: &[Field] = &[
    ("Name", "name", TEXT),
    ("DeviceClassName", "deviceClassName", TEXT),
    ("Selectors", "selectors", Shape::List(SELECTOR)),
    ("AllocationMode", "allocationMode", TEXT),
    ("Count", "count", NUMBER),
    ("Tolerations", "tolerations", Shape::List(TOLERATION)),
    ("Capacity", "capacity", pointer(CAPACITY)),
];

const SELECTOR: &[Field] = &[("CEL", "cel", pointer(&[("Expression", "expression", TEXT)]))];

const TOLERATION: &[Field] = &[
    ("Key", "key", TEXT),
    ("Operator", "operator", TEXT),
    ("Value", "value", TEXT),
    ("Effect", "effect", TEXT),
    ("TolerationSeconds", "tolerationSeconds", OPTIONAL),
];

const CAPACITY: &[Field] = &[("Requests", "requests", OPTIONAL)];

const CONSTRAINT: &[Field] = &[
    ("Requests", "requests", OPTIONAL),
    ("MatchAttribute", "matchAttribute", OPTIONAL),
    ("DistinctAttribute", "distinctAttribute", OPTIONAL),
];

const CONFIGURATION: &[Field] = &[("Requests", "requests", OPTIONAL), ("Opaque", "opaque", pointer(OPAQUE))];

const OPAQUE: &[Field] = &[("Driver", "driver", TEXT), ("Parameters", "parameters", OPTIONAL)];
