"""kubectl with CustomResourceDefinitions and their resources. $WINDLASS is the binary whose `crd upgrade` is checked.

A server may need a moment until a new definition is served and published, so the first look at one waits.
"""

import json
import os
import subprocess
from pathlib import Path

from checks import check, contains, equal, eventually, lacks
from program import (
    HOME, NAMESPACE, attempt, get, header, is_windlass, jsonpath, kubectl, refused, rows, while_waiting,
)

HERE = Path(__file__).parent
BACKUPS = str(HERE / "backups.yaml")
WINDLASS = os.environ.get("WINDLASS", "windlass")


def backup(name, spec="schedule: '0 3 * * *'", metadata=""):
    return f"""
apiVersion: e2e.example.com/v1
kind: Backup
metadata:
  name: {name}
  {metadata}
spec:
  {spec}
"""


def settled(*args):
    """Runs kubectl until it succeeds and returns its output."""
    return eventually(lambda: (lambda code, out, _: (out,) if code == 0 else None)(*attempt(*args)), " ".join(args))[0]


# A CustomResourceDefinition and its objects


@check
def define():
    """a CRD is applied, unchanged the second time, established and served; later checks use it"""
    name = "customresourcedefinition.apiextensions.k8s.io/backups.e2e.example.com"
    equal(kubectl("apply", "-f", BACKUPS), f"{name} created\n")
    equal(kubectl("apply", "-f", BACKUPS), f"{name} unchanged\n")
    equal(kubectl("wait", "--for=condition=established", "--timeout=20s", "crd/backups.e2e.example.com"),
          f"{name} condition met\n")
    settled("get", "backups")
    lines = kubectl("api-resources", "--api-group=e2e.example.com", "-o", "wide").splitlines()
    contains(lines[1], "backups", "bkp", "e2e.example.com/v1", "true", "Backup", "e2e-kinds")
    equal(header(kubectl("get", "crd", "backups.e2e.example.com")), ["NAME", "CREATED AT"])
    contains(kubectl("describe", "crd", "backups.e2e.example.com"), "Established", "InitialNamesAccepted")


@check
def explain_definition():
    """kubectl explain shows the fields of a custom resource, including nested ones; runs after `define`"""
    text = eventually(lambda: attempt("explain", "bkp")[1], "the schema is published")
    contains(text, "GROUP:      e2e.example.com", "KIND:       Backup", "VERSION:    v1")
    contains(text, "Backup copies volumes on a schedule.", "spec\t<Object> -required-", "metadata\t<ObjectMeta>")
    contains(kubectl("explain", "bkp.spec.target"), "FIELD: target <Object>", "Where the copies go.", "bucket\t<string>",
             "The name of the bucket.")
    contains(kubectl("explain", "backups.spec.volumes"), "FIELD: volumes <[]Object>", "name\t<string> -required-",
             "A folder in the volume.")
    contains(kubectl("explain", "backups.spec.mode"), "FIELD: mode <string>", "ENUM:\n    Full\n    Incremental")
    contains(kubectl("explain", "backups", "--recursive"), "conditions\t<[]Object>", "bucket\t<string>")
    contains(kubectl("explain", "backups.spec", "--output=plaintext-openapiv2"), "schedule\t<string> -required-")
    contains(refused("explain", "backups.spec.nothing"), 'field "nothing" does not exist')


@check
def custom_objects():
    """custom resources are created, defaulted, and shown by short name and category with their columns"""
    made = kubectl("apply", "-f", "-", input=backup("nightly", "{schedule: '0 3 * * *', target: {bucket: box}}"))
    equal(made, "backup.e2e.example.com/nightly created\n")
    again = kubectl("apply", "-f", "-", input=backup("nightly", "{schedule: '0 3 * * *', target: {bucket: box}}"))
    equal(again, "backup.e2e.example.com/nightly unchanged\n")
    equal(get("bkp", "nightly")["spec"],
          {"schedule": "0 3 * * *", "replicas": 1, "mode": "Full", "target": {"bucket": "box"}})
    table = kubectl("get", "bkp")
    equal(header(table), ["NAME", "SCHEDULE", "REPLICAS", "AGE"])
    equal(rows(table)[0][:3], ["nightly", "0 3 * * *", "1"])
    table = kubectl("get", "bkp", "-o", "wide")
    equal(header(table), ["NAME", "SCHEDULE", "REPLICAS", "BUCKET", "AGE"])
    equal(rows(table)[0][:4], ["nightly", "0 3 * * *", "1", "box"])
    equal(kubectl("get", "e2e-kinds", "-o", "name"), "backup.e2e.example.com/nightly\n")
    equal(kubectl("get", "backups", "--field-selector=spec.mode=Full", "-o", "name"), "backup.e2e.example.com/nightly\n")
    equal(kubectl("get", "backups", "--field-selector=spec.mode=Incremental", "-o", "name"), "")
    contains(kubectl("describe", "bkp", "nightly"), "Schedule:  0 3 * * *", "Kind:         Backup")


@check
def custom_validation():
    """violations of the schema and its rules are rejected; unknown fields are rejected, warned about or dropped"""
    prefix = 'The Backup "bad" is invalid: '
    errors = refused("create", "-f", "-", input=backup("bad", "{schedule: nightly, mode: None}"))
    contains(errors, 'The Backup "bad" is invalid:', 'spec.mode: Unsupported value: "None": supported values: "Full"',
             "spec.schedule: Invalid value: \"nightly\": spec.schedule in body should match")
    contains(refused("create", "-f", "-", input=backup("bad", "{schedule: '* * * * *', replicas: 3, keep: 2}")),
             prefix, "spec: Invalid value: ", "keep must not be less than replicas")
    contains(refused("create", "-f", "-", input=backup("bad", "{replicas: 1}")), prefix, "spec.schedule: Required value")
    unknown = backup("unknown", "{schedule: '* * * * *', colour: red}")
    contains(refused("apply", "--validate=strict", "-f", "-", input=unknown),
             'Backup in version "v1" cannot be handled as a Backup: strict decoding error: unknown field "spec.colour"')
    code, _, errors = attempt("apply", "--validate=warn", "-f", "-", input=unknown)
    equal((code, errors), (0, 'Warning: unknown field "spec.colour"\n'))
    lacks(get("bkp", "unknown")["spec"], "colour")
    kubectl("delete", "bkp", "unknown")


@check
def custom_patches():
    """custom resources are patched, labelled and edited; status and spec are separate; runs after `custom_objects`"""
    kubectl("patch", "bkp", "nightly", "--type=merge", "-p", '{"spec":{"target":{"region":"north"}}}')
    equal(get("bkp", "nightly")["spec"]["target"], {"bucket": "box", "region": "north"})
    kubectl("patch", "bkp", "nightly", "--type=json", "-p", '[{"op":"remove","path":"/spec/target/region"}]')
    equal(get("bkp", "nightly")["spec"]["target"], {"bucket": "box"})
    contains(refused("patch", "bkp", "nightly", "-p", '{"spec":{"replicas":2}}'),
             "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml")
    contains(refused("patch", "bkp", "nightly", "--type=merge", "-p", '{"spec":{"replicas":"two"}}'),
             'spec.replicas: Invalid value: "string": spec.replicas in body must be of type integer: "string"')
    kubectl("label", "bkp", "nightly", "tier=gold")
    equal(kubectl("get", "bkp", "-l", "tier=gold", "-o", "name"), "backup.e2e.example.com/nightly\n")
    editor = Path(HOME, "custom-editor")
    editor.write_text('#!/bin/sh\nsed -i "s/0 3/0 4/" "$1"\n')
    editor.chmod(0o755)
    kubectl("edit", "bkp", "nightly", env={"KUBE_EDITOR": str(editor)})
    equal(jsonpath("{.spec.schedule}", "bkp", "nightly"), "0 4 * * *")
    before = get("bkp", "nightly")
    condition = '{"status":{"conditions":[{"type":"Ready","status":"True"}]},"spec":{"replicas":9}}'
    equal(
        while_waiting(
            ["--for=condition=Ready", "bkp/nightly"],
            ["patch", "bkp", "nightly", "--subresource=status", "--type=merge", "-p", condition],
        ),
        "backup.e2e.example.com/nightly condition met\n",
    )
    after = get("bkp", "nightly")
    equal(after["spec"], before["spec"], "a status patch leaves the spec alone")
    equal(after["metadata"]["generation"], before["metadata"]["generation"])
    kubectl("patch", "bkp", "nightly", "--type=merge", "-p", '{"status":null}')
    equal(get("bkp", "nightly")["status"], after["status"], "an ordinary patch leaves the status alone")


@check
def custom_scale():
    """kubectl scale changes the replicas of a custom resource; runs after `custom_objects`"""
    equal(kubectl("scale", "bkp/nightly", "--replicas=3"), "backup.e2e.example.com/nightly scaled\n")
    equal(rows(kubectl("get", "bkp", "nightly"))[0][2], "3")
    kubectl("patch", "bkp", "nightly", "--subresource=status", "--type=merge", "-p",
            '{"status":{"replicas":2,"selector":"app=nightly"}}')
    scale = json.loads(kubectl("get", "bkp", "nightly", "--subresource=scale", "-o", "json"))
    equal((scale["kind"], scale["spec"]), ("Scale", {"replicas": 3}))
    equal(scale["status"], {"replicas": 2, "selector": "app=nightly"})
    contains(refused("scale", "bkp/nightly", "--current-replicas=9", "--replicas=1"), "Expected replicas to be 9, was 3")
    contains(kubectl("autoscale", "bkp", "nightly", "--max=5"), "horizontalpodautoscaler.autoscaling/nightly autoscaled")


@check
def server_side_apply():
    """apply --server-side: a conflict names the manager and the field, --force-conflicts takes ownership, lists merge by key"""
    first = backup("shared", "{schedule: '0 1 * * *', volumes: [{name: a, path: /a}]}")
    equal(kubectl("apply", "--server-side", "--field-manager=one", "-f", "-", input=first),
          "backup.e2e.example.com/shared serverside-applied\n")
    second = backup("shared", "{schedule: '0 2 * * *', volumes: [{name: b, path: /b}]}")
    errors = refused("apply", "--server-side", "--field-manager=two", "-f", "-", input=second)
    contains(errors, 'Apply failed with 1 conflict: conflict with "one": .spec.schedule', "--force-conflicts")
    equal(jsonpath("{.spec.schedule}", "bkp", "shared"), "0 1 * * *")
    kubectl("apply", "--server-side", "--field-manager=two", "--force-conflicts", "-f", "-", input=second)
    shared = get("bkp", "shared", "--show-managed-fields")
    equal(shared["spec"]["schedule"], "0 2 * * *")
    equal(shared["spec"]["volumes"], [{"name": "a", "path": "/a"}, {"name": "b", "path": "/b"}])
    owners = {entry["manager"]: entry for entry in shared["metadata"]["managedFields"]}
    lacks(owners["one"]["fieldsV1"]["f:spec"], "f:schedule")
    contains(owners["two"]["fieldsV1"]["f:spec"], "f:schedule")
    contains(owners["one"]["fieldsV1"]["f:spec"]["f:volumes"], 'k:{"name":"a"}')
    # A field that its only manager no longer applies is removed.
    kubectl("apply", "--server-side", "--field-manager=one", "-f", "-", input=backup("shared", "{schedule: '0 2 * * *'}"))
    equal(get("bkp", "shared")["spec"]["volumes"], [{"name": "b", "path": "/b"}])


@check
def definition_changes():
    """a new version is served once its CRD is applied, and existing objects can be read in it; runs after `custom_objects`"""
    definition = get("crd", "backups.e2e.example.com")
    second = json.loads(json.dumps(definition["spec"]["versions"][0]))
    second.update(name="v2", storage=False, deprecated=True)
    patch = json.dumps({"spec": {"versions": [*definition["spec"]["versions"], second]}})
    kubectl("patch", "crd", "backups.e2e.example.com", "--type=merge", "-p", patch)
    settled("get", "backups.v2.e2e.example.com")
    code, output, errors = attempt("get", "backups.v2.e2e.example.com", "nightly", "-o", "json")
    equal((code, json.loads(output)["apiVersion"]), (0, "e2e.example.com/v2"))
    equal(errors, "Warning: e2e.example.com/v2 Backup is deprecated\n")
    equal(get("bkp", "nightly")["apiVersion"], "e2e.example.com/v2", "the newest version is the preferred one")
    contains(refused("apply", "-f", "-", input=Path(BACKUPS).read_text().replace("storage: true", "storage: false")),
             'The CustomResourceDefinition "backups.e2e.example.com" is invalid:', "spec.versions: Invalid value: ")


@check
def definition_deletion():
    """a CRD is deleted together with its objects, after their finalizers; runs after `define`"""
    kubectl("create", "-f", "-", input=backup("held", metadata="finalizers: [e2e.example.com/hold]"))
    kubectl("delete", "crd", "backups.e2e.example.com", "--wait=false")
    eventually(lambda: get("backups", "--ignore-not-found")["items"] and len(get("backups")["items"]) == 1,
               "the object with a finalizer is the last one")
    contains(get("bkp", "held")["metadata"], "deletionTimestamp")
    contains(refused("create", "-f", "-", input=backup("late")),
             "create not allowed while custom resource definition is terminating")
    contains(jsonpath("{.status.conditions[?(@.type=='Terminating')].reason}", "crd", "backups.e2e.example.com"), "Instance")
    kubectl("patch", "bkp", "held", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    kubectl("wait", "--for=delete", "--timeout=20s", "crd/backups.e2e.example.com")
    eventually(lambda: attempt("get", "backups")[0] != 0, "the resource is no longer served")


# CustomResourceDefinitions older than v1


NETWORK = """
apiVersion: samplecrd.k8s.io/v1
kind: Network
metadata: {name: example-network}
spec: {cidr: 192.168.0.0/16, gateway: 192.168.0.1}
"""
CRONTAB = """
apiVersion: stable.example.com/v1
kind: CronTab
metadata: {name: my-new-cron-object}
spec: {cronSpec: "* * * * */5", image: my-awesome-cron-image, replicas: 3}
"""
AUTOSCALER = """
apiVersion: autoscaling.k8s.io/v1
kind: VerticalPodAutoscaler
metadata: {name: hamster-vpa}
spec: {targetRef: {apiVersion: apps/v1, kind: Deployment, name: hamster}}
"""
OLD = {
    "networks": ("networks.samplecrd.k8s.io", NETWORK),
    "crontabs": ("crontabs.stable.example.com", CRONTAB),
    "verticalpodautoscalers": ("verticalpodautoscalers.autoscaling.k8s.io", AUTOSCALER),
}


def use_old(plural):
    """Creates an object of the CRD and inspects it as a user would."""
    settled("get", plural)
    kubectl("apply", "-f", "-", input=OLD[plural][1])
    if plural == "networks":
        equal(get("network", "example-network")["spec"], {"cidr": "192.168.0.0/16", "gateway": "192.168.0.1"})
    elif plural == "crontabs":
        table = kubectl("get", "ct")
        equal(header(table), ["NAME", "SPEC", "REPLICAS", "AGE"])
        equal(rows(table)[0][:3], ["my-new-cron-object", "* * * * */5", "3"])
        equal(jsonpath("{.spec.image}", "ct", "my-new-cron-object"), "my-awesome-cron-image", "unknown fields stay")
        kubectl("scale", "ct/my-new-cron-object", "--replicas=5")
        contains(refused("scale", "ct/my-new-cron-object", "--replicas=11"), "should be less than or equal to 10")
        contains(eventually(lambda: attempt("explain", "crontabs.spec")[1], "the schema is published"),
                 "cronSpec\t<string>", "replicas\t<integer>")
    else:
        equal(kubectl("get", "vpa", "-o", "name"), "verticalpodautoscaler.autoscaling.k8s.io/hamster-vpa\n")


@check
def crd_upgrade():
    """the output of `windlass crd upgrade` for old CRDs applies without warnings and works"""
    for plural, (name, _) in OLD.items():
        program = [WINDLASS, "crd", "upgrade", str(HERE / "old" / f"{plural}.yaml")]
        result = subprocess.run(program, capture_output=True, text=True, timeout=20)
        equal(result.returncode, 0, result.stderr)
        contains(result.stderr, f"{plural}.yaml: {name}: ")
        if plural == "verticalpodautoscalers":
            contains(result.stderr, "spec.shortNames was moved to spec.names.shortNames")
        resource = f"customresourcedefinition.apiextensions.k8s.io/{name}"
        equal(attempt("apply", "-f", "-", input=result.stdout), (0, f"{resource} created\n", ""))
        equal(kubectl("apply", "-f", "-", input=result.stdout), f"{resource} unchanged\n")
        use_old(plural)
        kubectl("delete", "-f", "-", input=result.stdout)


def without_warnings(code, output, errors):
    """Returns kubectl's output and the warnings, without the deprecation warning of every v1beta1 request."""
    deprecated = (
        "Warning: apiextensions.k8s.io/v1beta1 CustomResourceDefinition is deprecated in v1.16+, unavailable in v1.22+; "
        "use apiextensions.k8s.io/v1 CustomResourceDefinition"
    )
    lines = errors.splitlines()
    contains(lines, deprecated)
    equal(code, 0, errors)
    return output, [line for line in lines if line != deprecated]


def old_definitions():
    """v1beta1 CRDs are applied, changed, replaced and deleted unmodified"""
    for plural, (name, _) in OLD.items():
        file = str(HERE / "old" / f"{plural}.yaml")
        resource = f"customresourcedefinition.apiextensions.k8s.io/{name}"
        output, warnings = without_warnings(*attempt("apply", "-f", file))
        equal(output, f"{resource} created\n")
        for warning in warnings:
            contains(warning, "Warning: stored as apiextensions.k8s.io/v1: ")
        use_old(plural)
        before = jsonpath("{.metadata.generation}", "crd", name)
        # The misplaced name is sent again with each request.
        again = "configured" if plural == "verticalpodautoscalers" else "unchanged"
        equal(kubectl("apply", "-f", file), f"{resource} {again}\n")
        equal(jsonpath("{.metadata.generation}", "crd", name), before)
        equal(attempt("diff", "-f", file)[:2], (0, ""))
        equal(rows(kubectl("get", "-f", file))[0][0], name)
        contains(kubectl("get", "-f", file, "-o", "yaml"), "apiVersion: apiextensions.k8s.io/v1beta1\n")
        equal(kubectl("replace", "-f", file), f"{resource} replaced\n")
        equal(kubectl("apply", "--server-side", "--force-conflicts", "-f", file), f"{resource} serverside-applied\n")
        equal(jsonpath("{.metadata.generation}", "crd", name), before, "it is the same definition all the time")
        equal(get(plural)["items"][0]["metadata"]["namespace"], NAMESPACE)
        contains(kubectl("delete", "-f", file), f'"{name}" deleted')
        eventually(lambda: attempt("get", plural)[0] != 0, "the resource is no longer served")


def old_definitions_that_change():
    """a changed v1beta1 file takes effect, and so does its v1 successor"""
    file = HERE / "old" / "crontabs.yaml"
    name = OLD["crontabs"][0]
    kubectl("apply", "-f", str(file))
    changed = file.read_text().replace("maximum: 10", "maximum: 20").replace("    - ct\n", "    - cron\n")
    equal(kubectl("apply", "-f", "-", input=changed), f"customresourcedefinition.apiextensions.k8s.io/{name} configured\n")
    equal(kubectl("apply", "-f", "-", input=changed), f"customresourcedefinition.apiextensions.k8s.io/{name} unchanged\n")
    settled("get", "cron")
    kubectl("apply", "-f", "-", input=CRONTAB.replace("replicas: 3", "replicas: 20"))
    result = subprocess.run([WINDLASS, "crd", "upgrade", "-"], input=changed, capture_output=True, text=True, timeout=20)
    before = jsonpath("{.metadata.generation}", "crd", name)
    equal(attempt("apply", "-f", "-", input=result.stdout)[0], 0)
    equal(jsonpath("{.metadata.generation}", "crd", name), before, "both forms say the same")
    kubectl("delete", "crd", name)


def old_definitions_that_are_refused():
    """a v1beta1 CRD that cannot be expressed in v1 is rejected with a hint"""
    text = (HERE / "old" / "crontabs.yaml").read_text().replace("type: integer\n", "$ref: '#/definitions/count'\n")
    contains(refused("apply", "-f", "-", input=text), "cannot be stored as apiextensions.k8s.io/v1: ",
             "$ref is not supported; hint: replace the reference with the schema it refers to")


if is_windlass():
    for only_here in [old_definitions, old_definitions_that_change, old_definitions_that_are_refused]:
        check(only_here)
