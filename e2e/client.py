"""The Python `kubernetes` client against the server of $KUBECONFIG: CRUD, patches, lists, watches, the dynamic client."""

import base64
import json
import os
import ssl
import threading
import urllib.error
import urllib.request

from kubernetes import client, config, dynamic, utils, watch
from kubernetes.client.rest import ApiException

from checks import Failed, check, contains, equal, run

NAMESPACE = f"e2e-python-{os.getpid()}"

config.load_kube_config()
core = client.CoreV1Api()
apps = client.AppsV1Api()


def configmap(name, data=None, labels=None):
    return client.V1ConfigMap(metadata=client.V1ObjectMeta(name=name, labels=labels), data=data or {"a": "b"})


def deployment(name, replicas=2):
    labels = {"app": name}
    container = client.V1Container(
        name="main", image="example.com/main:1", ports=[client.V1ContainerPort(container_port=80)]
    )
    return client.V1Deployment(
        metadata=client.V1ObjectMeta(name=name),
        spec=client.V1DeploymentSpec(
            replicas=replicas,
            selector=client.V1LabelSelector(match_labels=labels),
            template=client.V1PodTemplateSpec(
                metadata=client.V1ObjectMeta(labels=labels), spec=client.V1PodSpec(containers=[container])
            ),
        ),
    )


def refused(status, reason, call, *args, **kwargs):
    """Asserts that the call fails with this status and reason."""
    try:
        call(*args, **kwargs)
    except ApiException as error:
        equal(error.status, status)
        contains(error.body, f'"reason":"{reason}"', '"kind":"Status"')
        return error
    raise Failed(f"expected {status} {reason}")


@check
def version():
    """the version and the groups"""
    equal(client.VersionApi().get_code().minor, "36")
    groups = {group.name for group in client.ApisApi().get_api_versions().groups}
    contains(groups, "apps", "coordination.k8s.io")
    contains({resource.name for resource in core.get_api_resources().resources}, "pods", "pods/status")


@check
def anonymous():
    """a client without a certificate gets health, and a Status error for everything else"""
    server = client.Configuration.get_default_copy()
    trust = ssl.create_default_context(cafile=server.ssl_ca_cert)
    with urllib.request.urlopen(f"{server.host}/healthz", context=trust) as answer:
        equal((answer.status, answer.read()), (200, b"ok"))
    try:
        urllib.request.urlopen(f"{server.host}/api/v1/namespaces", context=trust)
    except urllib.error.HTTPError as error:
        # 403 if anonymous requests are allowed but have no permissions.
        contains([401, 403], error.code)
        contains(error.read().decode(), '"kind":"Status"', '"status":"Failure"')
        return
    raise Failed("expected a refusal")


@check
def namespaces():
    """a namespace for the other checks"""
    created = core.create_namespace(client.V1Namespace(metadata=client.V1ObjectMeta(name=NAMESPACE)))
    equal((created.status.phase, created.metadata.name), ("Active", NAMESPACE))


@check
def crud():
    """create, read, replace, delete, and the errors of each"""
    created = core.create_namespaced_config_map(NAMESPACE, configmap("crud"))
    refused(409, "AlreadyExists", core.create_namespaced_config_map, NAMESPACE, configmap("crud"))
    read = core.read_namespaced_config_map("crud", NAMESPACE)
    equal((read.metadata.uid, read.data), (created.metadata.uid, {"a": "b"}))
    read.data["c"] = "d"
    replaced = core.replace_namespaced_config_map("crud", NAMESPACE, read)
    equal(replaced.data, {"a": "b", "c": "d"})
    refused(409, "Conflict", core.replace_namespaced_config_map, "crud", NAMESPACE, read)
    core.delete_namespaced_config_map("crud", NAMESPACE)
    refused(404, "NotFound", core.read_namespaced_config_map, "crud", NAMESPACE)
    refused(404, "NotFound", core.delete_namespaced_config_map, "crud", NAMESPACE)


@check
def dry_run():
    """a dry run returns the object and stores nothing"""
    answered = core.create_namespaced_config_map(NAMESPACE, configmap("dry"), dry_run="All")
    equal(answered.metadata.name, "dry")
    refused(404, "NotFound", core.read_namespaced_config_map, "dry", NAMESPACE)


@check
def patches():
    """strategic, merge and JSON patches"""
    apps.create_namespaced_deployment(NAMESPACE, deployment("patched"))
    patch = {"spec": {"template": {"spec": {"containers": [{"name": "side", "image": "example.com/side:1"}]}}}}
    patched = apps.patch_namespaced_deployment(
        "patched", NAMESPACE, patch, _content_type="application/strategic-merge-patch+json"
    )
    equal(sorted(container.name for container in patched.spec.template.spec.containers), ["main", "side"])
    merged = apps.patch_namespaced_deployment(
        "patched", NAMESPACE, {"spec": {"paused": True}}, _content_type="application/merge-patch+json"
    )
    equal(merged.spec.paused, True)
    operations = [{"op": "replace", "path": "/spec/replicas", "value": 5}]
    equal(apps.patch_namespaced_deployment("patched", NAMESPACE, operations).spec.replicas, 5)
    status = apps.patch_namespaced_deployment_status("patched", NAMESPACE, {"status": {"replicas": 4}})
    equal((status.status.replicas, status.spec.replicas), (4, 5))


@check
def scale():
    """the scale subresource; runs after `patches`"""
    scale = apps.read_namespaced_deployment_scale("patched", NAMESPACE)
    equal(scale.spec.replicas, 5)
    scale.spec.replicas = 1
    equal(apps.replace_namespaced_deployment_scale("patched", NAMESPACE, scale).spec.replicas, 1)
    equal(apps.read_namespaced_deployment("patched", NAMESPACE).spec.replicas, 1)


@check
def lists():
    """pages, selectors and collections"""
    for i in range(12):
        core.create_namespaced_config_map(NAMESPACE, configmap(f"page-{i:02}", labels={"page": str(i % 3)}))
    names, token = [], None
    while True:
        page = core.list_namespaced_config_map(NAMESPACE, label_selector="page", limit=5, _continue=token)
        names += [item.metadata.name for item in page.items]
        token = page.metadata._continue
        if not token:
            break
    equal(names, [f"page-{i:02}" for i in range(12)])
    equal(len(core.list_namespaced_config_map(NAMESPACE, label_selector="page in (0,1)").items), 8)
    one = core.list_config_map_for_all_namespaces(field_selector=f"metadata.name=page-04,metadata.namespace={NAMESPACE}")
    equal([item.metadata.name for item in one.items], ["page-04"])
    core.delete_collection_namespaced_config_map(NAMESPACE, label_selector="page=2")
    equal(len(core.list_namespaced_config_map(NAMESPACE, label_selector="page").items), 8)


@check
def watches():
    """a watch from a list's resource version delivers every change in order, and ends at its timeout"""
    start = core.list_namespaced_config_map(NAMESPACE).metadata.resource_version

    def change():
        core.create_namespaced_config_map(NAMESPACE, configmap("seen"))
        core.patch_namespaced_config_map("seen", NAMESPACE, {"data": {"a": "c"}})
        core.delete_namespaced_config_map("seen", NAMESPACE)

    thread = threading.Thread(target=change)
    thread.start()
    events = []
    stream = watch.Watch().stream(
        core.list_namespaced_config_map, NAMESPACE, resource_version=start, timeout_seconds=3,
        field_selector="metadata.name=seen",
    )
    for event in stream:
        events.append((event["type"], event["object"].data["a"]))
    thread.join()
    equal(events, [("ADDED", "b"), ("MODIFIED", "c"), ("DELETED", "c")])


@check
def watches_from_nothing():
    """a watch without a resource version starts with the existing objects"""
    stream = watch.Watch().stream(
        core.list_namespaced_config_map, NAMESPACE, label_selector="page=1", timeout_seconds=2
    )
    equal(sorted(event["object"].metadata.name for event in stream), ["page-01", "page-04", "page-07", "page-10"])


@check
def secrets_and_accounts():
    """secrets, service accounts, services, leases"""
    secret = client.V1Secret(metadata=client.V1ObjectMeta(name="secret"), string_data={"key": "value"})
    equal(core.create_namespaced_secret(NAMESPACE, secret).data, {"key": base64.b64encode(b"value").decode()})
    account = client.V1ServiceAccount(metadata=client.V1ObjectMeta(name="robot"))
    equal(core.create_namespaced_service_account(NAMESPACE, account).metadata.name, "robot")
    service = client.V1Service(
        metadata=client.V1ObjectMeta(name="web"),
        spec=client.V1ServiceSpec(selector={"app": "web"}, ports=[client.V1ServicePort(port=80)]),
    )
    spec = core.create_namespaced_service(NAMESPACE, service).spec
    equal((spec.type, spec.ports[0].target_port, spec.ip_families), ("ClusterIP", 80, ["IPv4"]))
    lease = client.V1Lease(
        metadata=client.V1ObjectMeta(name="lease"),
        spec=client.V1LeaseSpec(holder_identity="me", lease_duration_seconds=15),
    )
    coordination = client.CoordinationV1Api()
    equal(coordination.create_namespaced_lease(NAMESPACE, lease).spec.holder_identity, "me")


@check
def preconditions():
    """a deletion with a wrong uid is rejected"""
    core.create_namespaced_config_map(NAMESPACE, configmap("guarded"))
    options = client.V1DeleteOptions(preconditions=client.V1Preconditions(uid="not-this-one"))
    refused(409, "Conflict", core.delete_namespaced_config_map, "guarded", NAMESPACE, body=options)


@check
def invalid():
    """an invalid object is rejected with all causes"""
    error = refused(422, "Invalid", apps.create_namespaced_deployment, NAMESPACE, deployment("invalid", replicas=-1))
    contains(error.body, '"field":"spec.replicas"')


@check
def limits():
    """an object that is too large is rejected, and so is a request body that is too large"""
    create = core.create_namespaced_config_map
    error = refused(422, "Invalid", create, NAMESPACE, configmap("big", {"a": "x" * 1_100_000}))
    contains(error.body, "may not be more than 1048576 bytes")
    refused(413, "RequestEntityTooLarge", create, NAMESPACE, configmap("huge", {"a": "x" * 4_000_000}))


@check
def compression():
    """large responses are compressed for clients that accept it"""
    core.create_namespaced_config_map(NAMESPACE, configmap("large", {"a": "x" * 300_000}))
    for wanted, expected in [("gzip", "gzip"), ("identity", None)]:
        core.api_client.set_default_header("Accept-Encoding", wanted)
        try:
            answer = core.read_namespaced_config_map("large", NAMESPACE, _preload_content=False)
        finally:
            core.api_client.default_headers.pop("Accept-Encoding")
        equal(answer.headers.get("Content-Encoding"), expected)
        # The client has already decompressed it.
        equal(len(json.loads(answer.data)["data"]["a"]), 300_000)


@check
def dynamic_client():
    """the dynamic client finds kinds through discovery and works with them"""
    dynamic_api = dynamic.DynamicClient(client.ApiClient())
    maps = dynamic_api.resources.get(api_version="v1", kind="ConfigMap")
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "dynamic"}, "data": {"a": "1"}}
    maps.create(body=body, namespace=NAMESPACE)
    patch = {"metadata": {"name": "dynamic"}, "data": {"a": "2"}}
    maps.patch(body=patch, namespace=NAMESPACE, content_type="application/merge-patch+json")
    equal(maps.get(name="dynamic", namespace=NAMESPACE).data.a, "2")
    equal(maps.delete(name="dynamic", namespace=NAMESPACE).status, "Success")
    equal(dynamic_api.resources.get(api_version="apps/v1", kind="Deployment").name, "deployments")


@check
def from_yaml():
    """utils.create_from_yaml"""
    utils.create_from_dict(
        client.ApiClient(),
        {"apiVersion": "v1", "kind": "List", "items": [
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "from-list"}, "data": {"x": "y"}},
        ]},
        namespace=NAMESPACE,
    )
    equal(core.read_namespaced_config_map("from-list", NAMESPACE).data, {"x": "y"})


if __name__ == "__main__":
    run()
