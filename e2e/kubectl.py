"""kubectl against a server, which `program.py` selects. `access.py` holds the checks of users and permissions, and
`custom_resources.py` those of CustomResourceDefinitions.

The checks need no control loops: objects get the status that a check needs by a patch. They run in order, in a
namespace of their own; a check relies on earlier ones only where it says so.
"""

import base64
import functools
import json
import os
import re
import subprocess
import tempfile
import threading
from pathlib import Path

from checks import Failed, check, contains, equal, eventually, lacks, run
from program import (
    HOME, NAMESPACE, attempt, command, get, header, jsonpath, kubectl, refused, rows, while_waiting,
)


def configmap(name, data="a: b", labels="app: e2e"):
    return f"""
apiVersion: v1
kind: ConfigMap
metadata:
  name: {name}
  labels: {{{labels}}}
data:
  {data}
"""


DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata:
  name: applied
  labels: {app: applied}
spec:
  replicas: 2
  selector:
    matchLabels: {app: applied}
  template:
    metadata:
      labels: {app: applied}
    spec:
      containers:
      - name: main
        image: example.com/main:1
        env:
        - {name: FIRST, value: "1"}
        - {name: SECOND, value: "2"}
      - name: helper
        image: example.com/helper:1
"""


# The server as a whole


@check
def version():
    """kubectl version names the server's version"""
    server = json.loads(kubectl("version", "-o", "json"))["serverVersion"]
    contains(server["gitVersion"], "v1.36")
    equal((server["major"], server["minor"]), ("1", "36"))


@check
def cluster_info():
    """kubectl cluster-info finds the control plane"""
    contains(kubectl("cluster-info"), "Kubernetes control plane", "is running at", "https://")


@check
def health():
    """the health endpoints answer ok, and in detail"""
    for path in ["/healthz", "/livez", "/readyz"]:
        equal(kubectl("get", "--raw", path), "ok", path)
    contains(kubectl("get", "--raw", "/readyz?verbose"), "[+]ping ok", "readyz check passed")
    contains(kubectl("get", "--raw", "/metrics"), "# TYPE apiserver_request_total counter")


@check
def api_versions():
    """kubectl api-versions lists the groups"""
    versions = kubectl("api-versions").split()
    for version in ["v1", "apps/v1", "batch/v1", "coordination.k8s.io/v1", "events.k8s.io/v1", "networking.k8s.io/v1"]:
        contains(versions, version)


@check
def api_resources():
    """kubectl api-resources shows names, short names, kinds, verbs and categories"""
    lines = {line.split()[0]: line for line in kubectl("api-resources", "--api-group=apps", "-o", "wide").splitlines()}
    equal(
        sorted(lines),
        ["NAME", "controllerrevisions", "daemonsets", "deployments", "replicasets", "statefulsets"],
    )
    contains(lines["deployments"], "deploy", "apps/v1", "true", "Deployment", "all")
    contains(lines["deployments"], "create,delete,deletecollection,get,list,patch,update,watch")
    cluster = kubectl("api-resources", "--namespaced=false", "-o", "name").split()
    contains(cluster, "nodes", "namespaces", "persistentvolumes", "clusterroles.rbac.authorization.k8s.io")
    lacks(cluster, "configmaps", "pods")
    contains(kubectl("api-resources", "--categories=all", "-o", "name").split(), "pods", "services", "jobs.batch")


@check
def explain():
    """kubectl explain knows fields, types and descriptions"""
    pod = kubectl("explain", "pod")
    contains(pod, "KIND:       Pod", "VERSION:    v1", "spec\t<PodSpec>", "metadata\t<ObjectMeta>")
    containers = kubectl("explain", "pods.spec.containers")
    contains(containers, "FIELD: containers <[]Container>", "image\t<string>", "ports\t<[]ContainerPort>", "-required-")
    contains(kubectl("explain", "deploy.spec.replicas"), "GROUP:      apps", "FIELD: replicas <integer>")
    contains(kubectl("explain", "deploy.spec.replicas"), "DESCRIPTION:\n    Number of desired pods. This is a pointer to")
    contains(kubectl("explain", "deploy"), "Deployment enables declarative updates for Pods and ReplicaSets.")
    contains(kubectl("explain", "service", "--recursive"), "nodePort\t<integer>", "sessionAffinityConfig")
    contains(kubectl("explain", "cm", "--output=plaintext-openapiv2"), "KIND:     ConfigMap", "binaryData")
    contains(refused("explain", "pod.spec.nothing"), 'field "nothing" does not exist')


@check
def openapi():
    """the OpenAPI documents are served"""
    index = json.loads(kubectl("get", "--raw", "/openapi/v3"))
    path = index["paths"]["apis/apps/v1"]["serverRelativeURL"]
    document = json.loads(kubectl("get", "--raw", path))
    contains(document["components"]["schemas"], "io.k8s.api.apps.v1.Deployment")
    contains(json.loads(kubectl("get", "--raw", "/openapi/v2"))["definitions"], "io.k8s.api.core.v1.Pod")


@check
def system_namespaces():
    """the standard namespaces exist"""
    names = kubectl("get", "namespaces", "-o", "name").split()
    for name in ["default", "kube-system", "kube-public", "kube-node-lease"]:
        contains(names, f"namespace/{name}")
    table = kubectl("get", "ns", "default")
    equal(header(table), ["NAME", "STATUS", "AGE"])
    equal(rows(table)[0][:2], ["default", "Active"])
    equal(jsonpath("{.spec.ports[0].port}", "service", "kubernetes", "-n", "default"), "443")


# Creating and reading


@check
def namespace():
    """a namespace and its service account can be created; later checks use them"""
    contains(kubectl("create", "namespace", NAMESPACE), f"namespace/{NAMESPACE} created")
    equal(jsonpath("{.status.phase} {.spec.finalizers}", "ns", NAMESPACE), 'Active ["kubernetes"]')
    equal(jsonpath("{.metadata.labels.kubernetes\\.io/metadata\\.name}", "ns", NAMESPACE), NAMESPACE)
    # In a cluster a control loop creates it. This server may run none, and pods need it.
    attempt("create", "serviceaccount", "default")
    equal(kubectl("get", "serviceaccount", "default", "-o", "name"), "serviceaccount/default\n")


@check
def create_configmap():
    """kubectl create configmap, and every output format"""
    equal(kubectl("create", "configmap", "first", "--from-literal=who=world"), "configmap/first created\n")
    table = kubectl("get", "configmap", "first")
    equal(header(table), ["NAME", "DATA", "AGE"])
    equal(rows(table)[0][:2], ["first", "1"])
    contains(kubectl("get", "cm", "first", "-o", "yaml"), "apiVersion: v1\n", "  who: world\n", "kind: ConfigMap\n")
    equal(jsonpath("{.data.who}", "cm", "first"), "world")
    equal(kubectl("get", "cm/first", "-o", "go-template={{.metadata.name}}={{.data.who}}"), "first=world")
    equal(kubectl("get", "cm", "first", "-o", "name"), "configmap/first\n")
    columns = kubectl("get", "cm", "first", "-o", "custom-columns=N:.metadata.name,W:.data.who")
    equal(rows(columns), [["first", "world"]])
    metadata = get("cm", "first")["metadata"]
    contains(metadata, "uid", "creationTimestamp", "resourceVersion")
    contains(kubectl("describe", "cm", "first"), "Name:         first", "who:\n----\nworld\n")


@check
def create_secret():
    """kubectl create secret: encoded, typed, and hidden by describe"""
    kubectl("create", "secret", "generic", "hidden", "--from-literal=password=s3cret")
    secret = get("secret", "hidden")
    equal((secret["type"], secret["data"]), ("Opaque", {"password": "czNjcmV0"}))
    equal(rows(kubectl("get", "secret", "hidden"))[0][:3], ["hidden", "Opaque", "1"])
    described = kubectl("describe", "secret", "hidden")
    contains(described, "password:  6 bytes")
    lacks(described, "s3cret", "czNjcmV0")
    kubectl("create", "-f", "-", input="""
        {apiVersion: v1, kind: Secret, metadata: {name: plain}, stringData: {user: root}}
        """)
    equal(jsonpath("{.data.user}", "secret", "plain"), "cm9vdA==")


@check
def errors():
    """error messages match those of the real API server"""
    equal(refused("get", "cm", "absent"), 'Error from server (NotFound): configmaps "absent" not found\n')
    equal(
        refused("create", "-f", "-", input=configmap("first")),
        'Error from server (AlreadyExists): error when creating "STDIN": configmaps "first" already exists\n',
    )
    contains(
        refused("create", "-f", "-", input=configmap("Upper")),
        'The ConfigMap "Upper" is invalid: metadata.name: Invalid value: "Upper": a lowercase RFC 1123 subdomain must',
    )
    equal(
        refused("create", "cm", "x", "-n", "absent"),
        'error: failed to create configmap: namespaces "absent" not found\n',
    )
    contains(refused("get", "nonsense"), 'the server doesn\'t have a resource type "nonsense"')


@check
def field_validation():
    """unknown fields are rejected, warned about or ignored"""
    text = "{apiVersion: v1, kind: ConfigMap, metadata: {name: unknown-field}, dta: {a: b}}"
    contains(
        refused("create", "-f", "-", input=text),
        'ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: unknown field "dta"',
    )
    code, _, errors = attempt("create", "--validate=warn", "-f", "-", input=text)
    equal((code, errors), (0, 'Warning: unknown field "dta"\n'))
    code, _, errors = attempt("replace", "--validate=ignore", "-f", "-", input=text)
    equal((code, errors), (0, ""))
    lacks(get("cm", "unknown-field"), "dta")


@check
def invalid_deployment():
    """an invalid object is rejected with every cause"""
    text = DEPLOYMENT.replace("labels: {app: applied}\n    spec:", "labels: {app: other}\n    spec:")
    text = text.replace("replicas: 2", "replicas: -2")
    errors = refused("create", "-f", "-", input=text)
    contains(
        errors,
        'The Deployment "applied" is invalid:',
        "spec.replicas: Invalid value: -2: must be greater than or equal to 0",
        '`selector` does not match template `labels`',
    )


@check
def generate_name():
    """generateName produces unique names"""
    text = "{apiVersion: v1, kind: ConfigMap, metadata: {generateName: made-}}"
    names = {kubectl("create", "-f", "-", "-o", "name", input=text) for _ in range(3)}
    equal(len(names), 3)
    for name in names:
        if not re.fullmatch(r"configmap/made-[a-z0-9]{5}\n", name):
            raise Failed(f"not a generated name: {name!r}")


@check
def many_kinds():
    """kubectl create works for many kinds"""
    for args in [
        ("role", "reader", "--verb=get", "--resource=pods"),
        ("rolebinding", "readers", "--role=reader", "--user=jane"),
        ("quota", "limit", "--hard=pods=10"),
        ("job", "once", "--image=example.com/job"),
        ("cronjob", "often", "--image=example.com/job", "--schedule=*/5 * * * *"),
        ("ingress", "web", "--rule=example.com/*=web:80"),
        ("poddisruptionbudget", "keep", "--selector=app=web", "--min-available=1"),
        ("service", "clusterip", "headless", "--clusterip=None", "--tcp=80"),
        ("service", "externalname", "elsewhere", "--external-name=example.com"),
    ]:
        kubectl("create", *args)
    equal(jsonpath("{.rules[0].verbs}", "role", "reader"), '["get"]')
    equal(jsonpath("{.spec.schedule}", "cronjob", "often"), "*/5 * * * *")
    equal(jsonpath("{.spec.clusterIP}", "service", "headless"), "None")
    names = kubectl("get", "role,quota,job,cronjob,ing,pdb", "-o", "name").split()
    contains(names, "ingress.networking.k8s.io/web", "job.batch/once", "poddisruptionbudget.policy/keep")


@check
def every_kind():
    """an object of every built-in kind is created, shown, labelled, selected and deleted"""
    request = Path(__file__).with_name("request.pem").read_bytes()
    text = Path(__file__).with_name("objects.yaml").read_text()
    text = text.replace("@NAMESPACE@", NAMESPACE).replace("@CSR@", base64.b64encode(request).decode())
    documents = text.split("---\n")
    wrong, kinds = [], set()
    for document in documents:
        try:
            kinds.add(one_of_a_kind(document))
        except Failed as failure:
            wrong.append(f"{document.strip().splitlines()[-1]}\n{failure}")
    if wrong:
        raise Failed(f"{len(wrong)} of {len(documents)}\n" + "\n".join(wrong))
    verbs = "create,delete,deletecollection,get,list,patch,update,watch"
    served = set(kubectl("api-resources", f"--verbs={verbs}", "-o", "name").split())
    # CustomResourceDefinitions have their own checks.
    equal(served - kinds, {"customresourcedefinitions.apiextensions.k8s.io"}, "kinds without an object")


def one_of_a_kind(document):
    """Takes an object through its life cycle and returns its resource."""
    name = kubectl("create", "-f", "-", "-o", "name", input=document).strip()
    target = resource_of(document, name)
    object = get(target)
    contains(document, f"kind: {object['kind']},", f"apiVersion: {object['apiVersion']},")
    equal(len(rows(kubectl("get", target))), 1)
    kubectl("label", target, "e2e=every")
    group, _, plain = target.partition("/")
    equal(len(get(group, "-l", "e2e=every", "--field-selector", f"metadata.name={plain}")["items"]), 1)
    kubectl("delete", target, "--wait=false")
    finalizers = object["metadata"].get("finalizers") or object.get("spec", {}).get("finalizers")
    if not finalizers:
        equal(kubectl("get", target, "--ignore-not-found"), "", "after its deletion")
    return re.sub(r"\.v[0-9][a-z0-9]*(\.|$)", r"\1", group).rstrip(".")


@functools.cache
def resources_of(path):
    return json.loads(kubectl("get", "--raw", path))["resources"]


def resource_of(document, name):
    """`resource.version.group/name`, so that kinds with the same name in several groups stay apart."""
    group, _, version = re.search(r"apiVersion: ([^,]*),", document)[1].rpartition("/")
    kind = re.search(r"kind: ([^,]*),", document)[1]
    resources = resources_of(f"/apis/{group}/{version}" if group else f"/api/{version}")
    plural = next(entry["name"] for entry in resources if entry["kind"] == kind and "/" not in entry["name"])
    return f"{plural}.{version}.{group}/{name.split('/')[1]}"


@check
def lists():
    """lists: pages, selectors, sorting, label columns"""
    kubectl("create", "-f", "-", input="---".join(
        configmap(f"page-{i:02}", labels=f"group: pages, parity: '{i % 2}'") for i in range(25)
    ))
    equal(len(get("cm", "-l", "group=pages", "--chunk-size=4")["items"]), 25)
    page = json.loads(kubectl(
        "get", "--raw", f"/api/v1/namespaces/{NAMESPACE}/configmaps?labelSelector=group%3Dpages&limit=10"
    ))
    equal(len(page["items"]), 10)
    contains(page["metadata"], "continue")
    equal(len(get("cm", "-l", "group=pages,parity=1")["items"]), 12)
    equal(len(get("cm", "-l", "group in (pages),parity!=1")["items"]), 13)
    equal(kubectl("get", "cm", "--field-selector=metadata.name=page-07", "-o", "name"), "configmap/page-07\n")
    names = kubectl("get", "cm", "-l", "group=pages", "--sort-by={.metadata.name}", "--no-headers").splitlines()
    equal([names[0].split()[0], names[-1].split()[0]], ["page-00", "page-24"])
    table = kubectl("get", "cm", "page-03", "-L", "parity", "--show-labels")
    equal(header(table), ["NAME", "DATA", "AGE", "PARITY", "LABELS"])
    equal(rows(table)[0][3:], ["1", "group=pages,parity=1"])
    contains(kubectl("get", "cm", "-A", "--no-headers"), f"{NAMESPACE}   ", "page-24")


# Changing


@check
def apply():
    """kubectl apply creates, leaves unchanged, configures, and removes fields that are no longer applied"""
    equal(kubectl("apply", "-f", "-", input=DEPLOYMENT), "deployment.apps/applied created\n")
    equal(kubectl("apply", "-f", "-", input=DEPLOYMENT), "deployment.apps/applied unchanged\n")
    contains(
        get("deploy", "applied")["metadata"]["annotations"], "kubectl.kubernetes.io/last-applied-configuration"
    )
    changed = DEPLOYMENT.replace("main:1", "main:2").replace('        - {name: SECOND, value: "2"}\n', "")
    equal(kubectl("apply", "-f", "-", input=changed), "deployment.apps/applied configured\n")
    deployment = get("deploy", "applied")
    containers = deployment["spec"]["template"]["spec"]["containers"]
    equal([container["name"] for container in containers], ["main", "helper"])
    equal(containers[0]["image"], "example.com/main:2")
    equal(containers[0]["env"], [{"name": "FIRST", "value": "1"}])
    equal(deployment["metadata"]["generation"], 2)


@check
def apply_keeps_what_others_set():
    """kubectl apply keeps fields that another client set; runs after `apply`"""
    kubectl("scale", "deploy", "applied", "--replicas=7")
    kubectl("label", "deploy", "applied", "owner=someone")
    kubectl("apply", "-f", "-", input=DEPLOYMENT.replace("  replicas: 2\n", ""))
    equal(jsonpath("{.metadata.labels.owner}", "deploy", "applied"), "someone")
    # Applied before and no longer: back to the default.
    equal(jsonpath("{.spec.replicas}", "deploy", "applied"), "1")


@check
def apply_several():
    """kubectl apply accepts several documents and a directory, and prunes"""
    documents = [configmap(name, labels="set: several") for name in ["several-a", "several-b"]]
    equal(
        kubectl("apply", "-f", "-", input="---".join(documents)),
        "configmap/several-a created\nconfigmap/several-b created\n",
    )
    prune = ["--prune", "-l", "set=several", "--prune-allowlist=core/v1/ConfigMap"]
    equal(
        kubectl("apply", *prune, "-f", "-", input=documents[0]),
        "configmap/several-a unchanged\nconfigmap/several-b pruned\n",
    )
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "one.yaml").write_text(configmap("kustomized"))
        Path(folder, "kustomization.yaml").write_text("resources: [one.yaml]\nnamePrefix: was-\n")
        equal(kubectl("apply", "-k", folder), "configmap/was-kustomized created\n")


@check
def patch():
    """kubectl patch: merge, JSON, strategic, status, and no change"""
    kubectl("create", "cm", "patched", "--from-literal=a=1", "--from-literal=b=2")
    target = ["patch", "cm", "patched"]
    equal(kubectl(*target, "--type=merge", "-p", '{"data":{"a":null,"c":"3"}}'), "configmap/patched patched\n")
    equal(get("cm", "patched")["data"], {"b": "2", "c": "3"})
    kubectl(*target, "--type=json", "-p", '[{"op":"test","path":"/data/b","value":"2"},'
            '{"op":"move","from":"/data/b","path":"/data/d"}]')
    equal(get("cm", "patched")["data"], {"c": "3", "d": "2"})
    equal(kubectl(*target, "-p", '{"data":{"d":"2"}}'), "configmap/patched patched (no change)\n")
    contains(refused(*target, "--type=json", "-p", '[{"op":"remove","path":"/data/none"}]'), "The request is invalid")

    kubectl("create", "deployment", "patched", "--image=example.com/one:1", "--replicas=0")
    kubectl("patch", "deploy", "patched", "-p", '{"spec":{"template":{"spec":{"containers":['
            '{"name":"two","image":"example.com/two:1"}]}}}}')
    containers = get("deploy", "patched")["spec"]["template"]["spec"]["containers"]
    equal(sorted(container["name"] for container in containers), ["one", "two"])
    kubectl("patch", "deploy", "patched", "--subresource=status", "--type=merge", "-p", '{"status":{"replicas":5}}')
    deployment = get("deploy", "patched")
    equal((deployment["spec"]["replicas"], deployment["status"]["replicas"]), (0, 5))
    equal(deployment["metadata"]["generation"], 2, "a status patch leaves the generation alone")


@check
def label_and_annotate():
    """kubectl label and annotate set, overwrite and remove"""
    kubectl("create", "cm", "labelled")
    equal(kubectl("label", "cm", "labelled", "tier=front"), "configmap/labelled labeled\n")
    contains(refused("label", "cm", "labelled", "tier=back"), "already has a value (front), and --overwrite is false")
    kubectl("label", "cm", "labelled", "tier=back", "--overwrite")
    equal(kubectl("get", "cm", "-l", "tier=back", "-o", "name"), "configmap/labelled\n")
    equal(kubectl("label", "cm", "labelled", "tier-"), "configmap/labelled unlabeled\n")
    equal(kubectl("annotate", "cm", "labelled", "note=two words"), "configmap/labelled annotated\n")
    equal(jsonpath("{.metadata.annotations.note}", "cm", "labelled"), "two words")
    kubectl("annotate", "cm", "labelled", "note-")
    lacks(get("cm", "labelled")["metadata"], "annotations", "labels")
    contains(refused("label", "cm", "labelled", "bad=not valid"), "invalid label value")


@check
def scale():
    """kubectl scale uses the scale subresource"""
    kubectl("create", "deployment", "scaled", "--image=example.com/scaled")
    equal(kubectl("scale", "deploy/scaled", "--replicas=3"), "deployment.apps/scaled scaled\n")
    equal(rows(kubectl("get", "deploy", "scaled"))[0][:2], ["scaled", "0/3"])
    contains(
        refused("scale", "deploy/scaled", "--current-replicas=9", "--replicas=1"),
        "Expected replicas to be 9, was 3",
    )
    scale = json.loads(kubectl("get", "deploy", "scaled", "--subresource=scale", "-o", "json"))
    equal((scale["kind"], scale["apiVersion"], scale["spec"]), ("Scale", "autoscaling/v1", {"replicas": 3}))
    equal(scale["status"], {"replicas": 0, "selector": "app=scaled"})
    contains(kubectl("autoscale", "deploy", "scaled", "--max=5"), "horizontalpodautoscaler.autoscaling/scaled autoscaled")


@check
def deployment_verbs():
    """kubectl set image, set env, rollout pause, resume, restart and history"""
    kubectl("create", "deployment", "rolled", "--image=example.com/rolled:1")
    table = kubectl("get", "deploy", "rolled", "-o", "wide")
    equal(header(table), ["NAME", "READY", "UP-TO-DATE", "AVAILABLE", "AGE", "CONTAINERS", "IMAGES", "SELECTOR"])
    row = rows(table)[0]
    equal(row[:4] + row[5:], ["rolled", "0/1", "0", "0", "rolled", "example.com/rolled:1", "app=rolled"])
    kubectl("set", "image", "deploy/rolled", "rolled=example.com/rolled:2")
    kubectl("set", "env", "deploy/rolled", "COLOUR=blue")
    kubectl("set", "resources", "deploy/rolled", "--requests=cpu=100m")
    container = get("deploy", "rolled")["spec"]["template"]["spec"]["containers"][0]
    equal(container["image"], "example.com/rolled:2")
    equal((container["env"], container["resources"]), ([{"name": "COLOUR", "value": "blue"}], {"requests": {"cpu": "100m"}}))
    kubectl("rollout", "pause", "deploy/rolled")
    equal(jsonpath("{.spec.paused}", "deploy", "rolled"), "true")
    kubectl("rollout", "resume", "deploy/rolled")
    kubectl("rollout", "restart", "deploy/rolled")
    contains(jsonpath("{.spec.template.metadata.annotations}", "deploy", "rolled"), "kubectl.kubernetes.io/restartedAt")
    contains(kubectl("rollout", "history", "deploy/rolled"), "deployment.apps/rolled")
    contains(kubectl("describe", "deploy", "rolled"), "Selector:               app=rolled", "StrategyType:")


@check
def expose():
    """kubectl expose creates services with their own addresses and ports"""
    kubectl("create", "deployment", "exposed", "--image=example.com/exposed", "--port=8080")
    equal(kubectl("expose", "deploy", "exposed", "--port=80", "--target-port=8080"), "service/exposed exposed\n")
    service = get("svc", "exposed")["spec"]
    equal((service["type"], service["selector"]), ("ClusterIP", {"app": "exposed"}))
    equal(service["ports"], [{"port": 80, "protocol": "TCP", "targetPort": 8080}])
    equal(service["clusterIPs"], [service["clusterIP"]])
    kubectl("expose", "deploy", "exposed", "--name=outside", "--type=NodePort", "--port=80")
    outside = get("svc", "outside")["spec"]
    if not 30000 <= outside["ports"][0]["nodePort"] <= 32767:
        raise Failed(f"not a node port: {outside['ports']}")
    if outside["clusterIP"] == service["clusterIP"]:
        raise Failed("two services have one address")
    table = kubectl("get", "svc", "outside", "-o", "wide")
    equal(header(table), ["NAME", "TYPE", "CLUSTER-IP", "EXTERNAL-IP", "PORT(S)", "AGE", "SELECTOR"])
    equal(rows(table)[0][1:5], ["NodePort", outside["clusterIP"], "<none>", f"80:{outside['ports'][0]['nodePort']}/TCP"])
    contains(
        refused("patch", "svc", "exposed", "-p", '{"spec":{"clusterIP":"10.9.9.9"}}'),
        "spec.clusterIPs[0]: Invalid value: [\"10.9.9.9\"]: may not change once set",
    )
    contains(kubectl("describe", "svc", "exposed"), "TargetPort:               8080/TCP")


@check
def pods():
    """kubectl run creates a pod with its defaults; its status can be set, and it can be described"""
    equal(kubectl("run", "alone", "--image=example.com/alone:1", "--labels=app=alone"), "pod/alone created\n")
    pod = get("pod", "alone")
    equal((pod["status"]["phase"], pod["status"]["qosClass"]), ("Pending", "BestEffort"))
    spec = pod["spec"]
    equal((spec["restartPolicy"], spec["dnsPolicy"]), ("Always", "ClusterFirst"))
    equal((spec["terminationGracePeriodSeconds"], spec["schedulerName"]), (30, "default-scheduler"))
    container = spec["containers"][0]
    equal((container["imagePullPolicy"], container["terminationMessagePath"]), ("IfNotPresent", "/dev/termination-log"))
    table = kubectl("get", "pod", "alone", "-o", "wide")
    equal(
        header(table),
        ["NAME", "READY", "STATUS", "RESTARTS", "AGE", "IP", "NODE", "NOMINATED NODE", "READINESS GATES"],
    )
    equal(rows(table)[0][:4], ["alone", "0/1", "Pending", "0"])
    equal(kubectl("get", "pods", "--field-selector=status.phase=Pending,spec.nodeName=", "-o", "name"), "pod/alone\n")
    equal(kubectl("get", "pods", "--field-selector=status.phase=Running", "-o", "name"), "")
    kubectl("patch", "pod", "alone", "--subresource=status", "-p", '{"status":{"phase":"Running","conditions":'
            '[{"type":"Ready","status":"True"}],"containerStatuses":[{"name":"alone","ready":true,"restartCount":2,'
            '"image":"example.com/alone:1","imageID":"","state":{"running":{}}}]}}')
    equal(rows(kubectl("get", "pod", "alone"))[0][:4], ["alone", "1/1", "Running", "2"])
    described = re.sub(r" +", " ", kubectl("describe", "pod", "alone"))
    contains(described, "Status: Running\n", "Image: example.com/alone:1\n")
    contains(
        refused("patch", "pod", "alone", "-p", '{"spec":{"restartPolicy":"Never"}}'),
        'The Pod "alone" is invalid: spec: Forbidden: pod updates may not change fields other than',
    )


@check
def nodes():
    """nodes: kubectl cordon, taint, label, describe"""
    kubectl("apply", "-f", "-", input="""
        {apiVersion: v1, kind: Node, metadata: {name: e2e-node, labels: {node-role.kubernetes.io/worker: ""}}}
        """)
    kubectl("patch", "node", "e2e-node", "--subresource=status", "-p", '{"status":{"capacity":{"cpu":"4"},"conditions":'
            '[{"type":"Ready","status":"True","reason":"KubeletReady","message":"ready"}],'
            '"nodeInfo":{"kubeletVersion":"v1.36.4"}}}')
    equal(kubectl("cordon", "e2e-node"), "node/e2e-node cordoned\n")
    equal(rows(kubectl("get", "nodes", "e2e-node"))[0][:3], ["e2e-node", "Ready,SchedulingDisabled", "worker"])
    kubectl("uncordon", "e2e-node")
    kubectl("taint", "node", "e2e-node", "dedicated=e2e:NoSchedule")
    taints = get("node", "e2e-node")["spec"]["taints"]
    contains(taints, {"key": "dedicated", "value": "e2e", "effect": "NoSchedule"})
    contains(kubectl("describe", "node", "e2e-node"), "dedicated=e2e:NoSchedule", "cpu:  4")
    kubectl("delete", "node", "e2e-node")


@check
def events():
    """events are listed, and described with the object they refer to; runs after `pods`"""
    uid = jsonpath("{.metadata.uid}", "pod", "alone")
    kubectl("create", "-f", "-", input=f"""
        apiVersion: v1
        kind: Event
        metadata: {{name: alone.1}}
        involvedObject: {{kind: Pod, namespace: {NAMESPACE}, name: alone, uid: {uid}, apiVersion: v1}}
        type: Warning
        reason: Pondering
        message: it thinks
        source: {{component: e2e}}
        firstTimestamp: "2026-01-01T00:00:00Z"
        lastTimestamp: "2026-01-01T00:00:00Z"
        count: 3
        """)
    table = kubectl("get", "events", "--field-selector=involvedObject.name=alone")
    equal(header(table), ["LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"])
    equal(rows(table)[0][1:], ["Warning", "Pondering", "pod/alone", "it thinks"])
    contains(kubectl("describe", "pod", "alone"), "Pondering", "it thinks")
    contains(kubectl("events", "--for=pod/alone"), "Pondering", "it thinks")
    equal(jsonpath("{.items[0].note}", "events.v1.events.k8s.io", "--field-selector=reason=Pondering"), "it thinks")


@check
def get_all():
    """kubectl get all lists the kinds of the category `all`"""
    everything = kubectl("get", "all", "-o", "name").split()
    for name in ["pod/alone", "service/exposed", "deployment.apps/applied", "job.batch/once"]:
        contains(everything, name)
    lacks(everything, "configmap/first")


@check
def replace():
    """kubectl replace, and its conflict with a later change"""
    kubectl("create", "cm", "replaced", "--from-literal=a=1")
    stale = kubectl("get", "cm", "replaced", "-o", "json")
    changed = stale.replace('"a": "1"', '"a": "2"')
    equal(kubectl("replace", "-f", "-", input=changed), "configmap/replaced replaced\n")
    equal(
        refused("replace", "-f", "-", input=changed),
        'Error from server (Conflict): error when replacing "STDIN": Operation cannot be fulfilled on configmaps '
        '"replaced": the object has been modified; please apply your changes to the latest version and try again\n',
    )
    uid = jsonpath("{.metadata.uid}", "cm", "replaced")
    kubectl("replace", "--force", "-f", "-", input=configmap("replaced"))
    if jsonpath("{.metadata.uid}", "cm", "replaced") == uid:
        raise Failed("replace --force must make a new object")


@check
def edit():
    """kubectl edit"""
    kubectl("create", "cm", "edited", "--from-literal=a=before")
    editor = Path(HOME, "editor")
    editor.write_text('#!/bin/sh\nsed -i s/before/after/ "$1"\n')
    editor.chmod(0o755)
    equal(kubectl("edit", "cm", "edited", env={"KUBE_EDITOR": str(editor)}), "configmap/edited edited\n")
    equal(jsonpath("{.data.a}", "cm", "edited"), "after")


@check
def immutable():
    """immutable fields are not changed"""
    kubectl("create", "-f", "-", input="""
        {apiVersion: v1, kind: ConfigMap, metadata: {name: fixed}, data: {a: b}, immutable: true}
        """)
    contains(
        refused("patch", "cm", "fixed", "-p", '{"data":{"a":"c"}}'),
        'The ConfigMap "fixed" is invalid: data: Forbidden: field is immutable when `immutable` is set',
    )
    kubectl("create", "deployment", "fixed", "--image=example.com/fixed")
    contains(
        refused("patch", "deploy", "fixed", "--type=json", "-p",
                '[{"op":"replace","path":"/spec/selector/matchLabels/app","value":"x"},'
                '{"op":"replace","path":"/spec/template/metadata/labels/app","value":"x"}]'),
        'The Deployment "fixed" is invalid: spec.selector: Invalid value:', "field is immutable",
    )


# Dry run and diff


@check
def dry_run():
    """--dry-run=server reports the result and stores nothing"""
    text = configmap("dry")
    equal(kubectl("create", "--dry-run=server", "-f", "-", input=text), "configmap/dry created (server dry run)\n")
    equal(kubectl("apply", "--dry-run=server", "-f", "-", input=text), "configmap/dry created (server dry run)\n")
    equal(refused("get", "cm", "dry"), 'Error from server (NotFound): configmaps "dry" not found\n')
    kubectl("create", "-f", "-", input=text)
    before = get("cm", "dry")
    equal(
        kubectl("patch", "cm", "dry", "--dry-run=server", "-p", '{"data":{"a":"z"}}', "-o", "jsonpath={.data.a}"), "z"
    )
    contains(kubectl("label", "cm", "dry", "x=y", "--dry-run=server"), "(server dry run)")
    contains(kubectl("delete", "cm", "dry", "--dry-run=server"), "deleted", "(server dry run)")
    equal(get("cm", "dry"), before)
    deployment = kubectl(
        "create", "deployment", "dry", "--image=example.com/dry", "--dry-run=server",
        "-o", "jsonpath={.spec.strategy.type} {.spec.progressDeadlineSeconds}",
    )
    equal(deployment, "RollingUpdate 600", "a dry run sets defaults")


@check
def diff():
    """kubectl diff shows what apply would change"""
    text = configmap("differs")
    kubectl("apply", "-f", "-", input=text)
    equal(attempt("diff", "-f", "-", input=text)[:2], (0, ""))
    code, output, _ = attempt("diff", "-f", "-", input=configmap("differs", data="a: c"))
    equal(code, 1)
    contains(output, "-  a: b\n", "+  a: c\n")
    code, output, _ = attempt("diff", "-f", "-", input=configmap("not-there"))
    equal(code, 1)
    contains(output, "+  name: not-there\n")
    equal(jsonpath("{.data.a}", "cm", "differs"), "b")


# Watching and waiting


@check
def watch():
    """kubectl get -w shows every change in order"""
    process = subprocess.Popen(
        command("get", "cm", "-l", "watched=yes", "-w", "--output-watch-events", "--no-headers"),
        stdout=subprocess.PIPE, text=True, env={**os.environ, "HOME": HOME},
    )
    lines = []

    def read():
        for line in process.stdout:
            lines.append(line)

    threading.Thread(target=read, daemon=True).start()
    try:
        kubectl("create", "-f", "-", input=configmap("watched", labels="watched: 'yes'"))
        eventually(lambda: len(lines) >= 1, "the creation is shown")
        kubectl("patch", "cm", "watched", "-p", '{"data":{"more":"data"}}')
        kubectl("label", "cm", "watched", "watched=no", "--overwrite")
        kubectl("label", "cm", "watched", "watched=yes", "--overwrite")
        kubectl("delete", "cm", "watched")
        eventually(lambda: len(lines) >= 5, f"five events are shown, not {lines}")
    finally:
        process.kill()
        process.wait()
    seen = [line.split()[:3] for line in lines]
    equal(seen, [
        ["ADDED", "watched", "1"],
        ["MODIFIED", "watched", "2"],
        ["DELETED", "watched", "2"],
        ["ADDED", "watched", "2"],
        ["DELETED", "watched", "2"],
    ])


@check
def wait():
    """kubectl wait: for a condition, a value, creation and deletion"""
    kubectl("create", "deployment", "awaited", "--image=example.com/awaited")
    condition = '{"status":{"conditions":[{"type":"Available","status":"True","reason":"Told","message":"so"}]}}'
    equal(
        while_waiting(
            ["--for=condition=Available", "deploy/awaited"],
            ["patch", "deploy", "awaited", "--subresource=status", "-p", condition],
        ),
        "deployment.apps/awaited condition met\n",
    )
    kubectl("create", "cm", "awaited", "--from-literal=state=new")
    equal(
        while_waiting(
            ["--for=jsonpath={.data.state}=done", "cm/awaited"],
            ["patch", "cm", "awaited", "-p", '{"data":{"state":"done"}}'],
        ),
        "configmap/awaited condition met\n",
    )
    # It prints nothing if the object is deleted before the first check.
    contains(["", "configmap/awaited condition met\n"],
             while_waiting(["--for=delete", "cm/awaited"], ["delete", "cm", "awaited"]))
    equal(while_waiting(["--for=create", "cm/later"], ["create", "cm", "later"]), "configmap/later condition met\n")
    contains(refused("wait", "--for=condition=Never", "--timeout=1s", "deploy/awaited"), "timed out waiting")


# Deleting


@check
def delete():
    """kubectl delete: by name, by label, by file, and waiting for finalizers"""
    equal(kubectl("delete", "cm", "first"), f'configmap "first" deleted from {NAMESPACE} namespace\n')
    equal(refused("delete", "cm", "first"), 'Error from server (NotFound): configmaps "first" not found\n')
    equal(kubectl("delete", "cm", "first", "--ignore-not-found"), "")
    kubectl("delete", "cm", "-l", "group=pages,parity=0")
    equal(len(get("cm", "-l", "group=pages")["items"]), 12)
    kubectl("delete", "--raw", f"/api/v1/namespaces/{NAMESPACE}/configmaps?labelSelector=group%3Dpages")
    equal(get("cm", "-l", "group=pages")["items"], [])
    kubectl("delete", "-f", "-", input=DEPLOYMENT)
    equal(kubectl("get", "deploy", "applied", "--ignore-not-found"), "")


@check
def finalizers():
    """an object with a finalizer stays until the finalizer is removed"""
    kubectl("create", "-f", "-", input="""
        {apiVersion: v1, kind: ConfigMap, metadata: {name: kept, finalizers: [example.com/keep]}}
        """)
    kubectl("delete", "cm", "kept", "--wait=false")
    contains(get("cm", "kept")["metadata"], "deletionTimestamp")
    contains(
        refused("patch", "cm", "kept", "--type=merge", "-p", '{"metadata":{"finalizers":["example.com/keep","b/c"]}}'),
        "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted",
    )
    kubectl("patch", "cm", "kept", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    equal(kubectl("get", "cm", "kept", "--ignore-not-found"), "")


@check
def graceful_pod_deletion():
    """a pod on a node is deleted gracefully; --force deletes it at once; runs after `pods`"""
    kubectl("delete", "pod", "alone")
    equal(kubectl("get", "pod", "alone", "--ignore-not-found"), "", "a pod without a node goes at once")
    kubectl("create", "-f", "-", input="""
        {apiVersion: v1, kind: Pod, metadata: {name: placed}, spec: {nodeName: none, containers: [{name: a, image: a}]}}
        """)
    kubectl("delete", "pod", "placed", "--wait=false", "--grace-period=10")
    equal(jsonpath("{.metadata.deletionGracePeriodSeconds}", "pod", "placed"), "10")
    equal(rows(kubectl("get", "pod", "placed"))[0][2], "Terminating")
    kubectl("delete", "pod", "placed", "--force", "--grace-period=0")
    equal(kubectl("get", "pod", "placed", "--ignore-not-found"), "")


@check
def namespace_deletion():
    """a terminating namespace rejects new objects and is deleted once it is finalized"""
    kubectl("create", "namespace", "e2e-gone")
    kubectl("delete", "namespace", "e2e-gone", "--wait=false")
    if kubectl("get", "ns", "e2e-gone", "--ignore-not-found"):
        equal(jsonpath("{.status.phase}", "ns", "e2e-gone"), "Terminating")
        contains(
            refused("create", "cm", "late", "-n", "e2e-gone"),
            'configmaps "late" is forbidden: unable to create new content in namespace e2e-gone because it is being',
        )
        attempt("replace", "--raw", "/api/v1/namespaces/e2e-gone/finalize", "-f", "-", input="""
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "e2e-gone"}, "spec": {"finalizers": []}}
            """)
    eventually(lambda: not kubectl("get", "ns", "e2e-gone", "--ignore-not-found"), "the namespace is gone")
    contains(refused("delete", "ns", "default"), 'namespaces "default" is forbidden: this namespace may not be deleted')


if __name__ == "__main__":
    import access  # noqa: F401, the checks of these modules come last and use the namespace
    import custom_resources  # noqa: F401

    run()
