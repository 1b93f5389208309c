"""Checks of an aggregated API server with Flunders and Fischers: $PROGRAM is that of Windlass (operators/wardle), or
Kubernetes' sample-apiserver with the etcd $ETCD. The program runs alongside the server of $KUBECONFIG, which forwards
requests to it; its data and its log are in $FOLDER. Both must pass the same checks, behind any server."""

import atexit
import contextlib
import json
import os
import shutil
import socket
import subprocess
from pathlib import Path

import program
from checks import check, contains, equal, eventually, run
from program import attempt, command, get, header, kubectl, refused, rows

GROUP = "wardle.example.com"
VERSIONS = ["v1beta1", "v1alpha1"]
ALPHA = f"flunders.v1alpha1.{GROUP}"
BETA = f"flunders.v1beta1.{GROUP}"
FOLDER = Path(os.environ["FOLDER"])
LOG = FOLDER / "log"


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def spawn(*arguments):
    with open(LOG, "a") as log:
        process = subprocess.Popen([str(argument) for argument in arguments], stdout=log, stderr=log, cwd=FOLDER)
    atexit.register(stop, process)


def stop(process):
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(10)
    process.kill()
    process.wait()


def unregister():
    """Other suites must not meet a group whose server is gone."""
    attempt("delete", "apiservice", *[f"{version}.{GROUP}" for version in VERSIONS])


def start_wardle(port):
    spawn(
        os.environ["PROGRAM"], "--register", "localhost", "--port", port, "--namespace", program.NAMESPACE,
        "--kubeconfig", os.environ["KUBECONFIG"], "--store", FOLDER / "store",
    )


def start_sample_apiserver(port):
    url, peer_url = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
    spawn(
        os.environ["ETCD"], "--data-dir", FOLDER / "etcd", "--listen-client-urls", url, "--advertise-client-urls", url,
        "--listen-peer-urls", peer_url, "--initial-advertise-peer-urls", peer_url, "--log-level", "warn",
        "--initial-cluster", f"default={peer_url}",
    )
    kubeconfigs = ["--kubeconfig", "--authentication-kubeconfig", "--authorization-kubeconfig"]
    spawn(
        os.environ["PROGRAM"], f"--etcd-servers={url}", f"--secure-port={port}", "--bind-address=127.0.0.1",
        f"--cert-dir={FOLDER}", *[f"{flag}={os.environ['KUBECONFIG']}" for flag in kubeconfigs],
    )
    kubectl("apply", "-f", "-", input=json.dumps(registration(port)))


def registration(port):
    """Registers the server as the manifests of sample-apiserver do, but outside of the cluster."""
    service = {
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "wardle"},
        "spec": {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": port}]},
    }
    reference = {"namespace": program.NAMESPACE, "name": "wardle", "port": port}
    services = [
        {
            "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": f"{version}.{GROUP}"},
            "spec": {
                "group": GROUP, "version": version, "groupPriorityMinimum": 1000, "versionPriority": priority,
                "service": reference, "insecureSkipTLSVerify": True,
            },
        }
        for version, priority in zip(VERSIONS, [20, 15])
    ]
    return {"apiVersion": "v1", "kind": "List", "items": [service, *services]}


def start():
    """Starts the program, and returns its port."""
    shutil.rmtree(FOLDER)
    FOLDER.mkdir()
    kubectl("create", "namespace", program.NAMESPACE)
    atexit.register(unregister)
    port = free_port()
    (start_sample_apiserver if "ETCD" in os.environ else start_wardle)(port)
    for version in VERSIONS:
        name = f"{version}.{GROUP}"
        eventually(lambda: attempt("get", "apiservice", name)[0] == 0, f"{name} is registered; see {LOG}", 60)
        kubectl("wait", "--for=condition=Available", "apiservice", name, "--timeout=60s")
    return port


PORT = start()


def flunder(name, version, **spec):
    return json.dumps({
        "apiVersion": f"{GROUP}/{version}", "kind": "Flunder",
        "metadata": {"name": name, "labels": {"sample-label": "true"}}, "spec": spec,
    })


def create(name, version="v1alpha1", **spec):
    kubectl("create", "-f", "-", input=flunder(name, version, **spec))


@check
def registered():
    """the APIServices name the Service, and are available"""
    for version in VERSIONS:
        name = f"{version}.{GROUP}"
        equal(rows(kubectl("get", "apiservice", name))[0][:3], [name, f"{program.NAMESPACE}/wardle", "True"])


@check
def discovery():
    """the group is discovered like any other"""
    def is_listed():
        return rows(attempt("api-resources", f"--api-group={GROUP}")[1]) == [
            ["fischers", f"{GROUP}/v1alpha1", "false", "Fischer"], ["flunders", f"{GROUP}/v1beta1", "true", "Flunder"],
        ]

    eventually(is_listed, "the resources are listed")
    contains(kubectl("api-versions"), *[f"{GROUP}/{version}\n" for version in VERSIONS])
    group = json.loads(kubectl("get", "--raw", f"/apis/{GROUP}"))
    equal([version["version"] for version in group["versions"]], VERSIONS)
    equal(group["preferredVersion"]["version"], "v1beta1")


@check
def explained():
    """kubectl explain shows the fields of each version"""
    for version, field in [("v1alpha1", "reference"), ("v1beta1", "fischerReference")]:
        explain = ["explain", "flunders.spec", f"--api-version={GROUP}/{version}"]
        text = eventually(lambda: attempt(*explain)[1], f"{version} is explained", 60)
        contains(text, f"GROUP:      {GROUP}", f"VERSION:    {version}", f"{field}\t<string>", "referenceType\t<string>")
    contains(refused("explain", "flunders.spec.none"), "field \"none\" does not exist")


@check
def created_and_listed():
    """Flunders are created, and listed in a table with the columns of the sample"""
    create("first")
    create("second")
    equal(rows(kubectl("get", "flunders", "-l", "sample-label=true", "-o", "custom-columns=NAME:.metadata.name")),
          [["first"], ["second"]])
    table = kubectl("get", "flunders")
    equal(header(table), ["NAME", "CREATED AT"])
    equal([row[0] for row in rows(table)], ["first", "second"])
    equal(kubectl("get", "flunders", "--field-selector=metadata.name=second", "-o", "name"),
          f"flunder.{GROUP}/second\n")
    contains(refused("create", "-f", "-", input=flunder("first", "v1alpha1")), "AlreadyExists", '"first" already exists')
    contains(refused("get", "flunder", "none"), f'flunders.{GROUP} "none" not found')


@check
def changed():
    """Flunders are patched, applied and labelled; a stale update is a conflict"""
    stale = get("flunder", "first")
    kubectl("patch", ALPHA, "first", "--type=merge", "-p", '{"spec": {"reference": "a", "referenceType": "Fischer"}}')
    equal(get(ALPHA, "first")["spec"], {"reference": "a", "referenceType": "Fischer"})
    applied = flunder("applied", "v1beta1", flunderReference="first", referenceType="Flunder")
    for _ in range(2):
        kubectl("apply", "--server-side", "-f", "-", input=applied)
    equal(get(BETA, "applied", "--show-managed-fields")["metadata"]["managedFields"][0]["manager"], "kubectl")
    kubectl("label", "flunder", "applied", "sample-label=false", "--overwrite")
    equal(get("flunder", "applied")["metadata"]["labels"], {"sample-label": "false"})
    contains(refused("replace", "-f", "-", input=json.dumps(stale)), "the object has been modified")


@check
def versions():
    """a reference has one field in v1alpha1, with a default type, and a field of its own in v1beta1"""
    create("by-default", reference="x")
    equal(get(ALPHA, "by-default")["spec"], {"reference": "x", "referenceType": "Flunder"})
    equal(get(BETA, "by-default")["spec"], {"flunderReference": "x", "referenceType": "Flunder"})
    create("new", "v1beta1", fischerReference="y", referenceType="Fischer")
    equal(get(ALPHA, "new")["spec"], {"reference": "y", "referenceType": "Fischer"})


@check
def validated():
    """references and types that contradict each other are rejected in both versions"""
    both = 'spec.fischerReference: Invalid value: "b": cannot be set with flunderReference at the same time'
    other = 'spec.flunderReference: Invalid value: "a": cannot be set if referenceType is not Flunder'
    none = 'spec.fischerReference: Invalid value: "": cannot be empty if referenceType is Fischer'
    for version, spec, problem in [
        ("v1beta1", {"flunderReference": "a", "fischerReference": "b", "referenceType": "Flunder"}, both),
        ("v1beta1", {"flunderReference": "a", "referenceType": "Fischer"}, other),
        ("v1alpha1", {"referenceType": "Fischer"}, none),
    ]:
        contains(refused("create", "-f", "-", input=flunder("wrong", version, **spec)), '"wrong" is invalid', problem)
    equal(attempt("get", "flunder", "wrong")[0], 1)


@check
def watched():
    """a watch reports creations, changes and deletions"""
    watch = command("get", "flunders", "--watch", "--output-watch-events", "--no-headers", "-l", "watched",
                    "--request-timeout=60s")
    create("before")
    kubectl("label", "flunder", "before", "watched=yes")
    with subprocess.Popen(watch, stdout=subprocess.PIPE, text=True) as process:
        def seen():
            return process.stdout.readline().split()[:2]

        equal(seen(), ["ADDED", "before"])
        create("watched")
        kubectl("label", "flunder", "watched", "watched=yes")
        equal(seen(), ["ADDED", "watched"])
        kubectl("annotate", "flunder", "watched", "note=changed")
        equal(seen(), ["MODIFIED", "watched"])
        kubectl("delete", "flunder", "watched")
        equal(seen(), ["DELETED", "watched"])
        process.kill()


@check
def banned():
    """the admission plugin of the server bans the names that a Fischer lists"""
    fischer = {
        "apiVersion": f"{GROUP}/v1alpha1", "kind": "Fischer", "metadata": {"name": "ban"},
        "disallowedFlunders": ["banned"],
    }
    kubectl("create", "-f", "-", input=json.dumps(fischer))
    table = kubectl("get", "fischers")
    equal((header(table), rows(table)[0][0]), (["NAME", "CREATED AT"], "ban"))
    attempted = ["create", "--dry-run=server", "-f", "-"]
    # The plugin of sample-apiserver reads Fischers from a cache.
    eventually(lambda: attempt(*attempted, input=flunder("banned", "v1alpha1"))[0] != 0, "the name is banned")
    for version in VERSIONS:
        contains(
            refused("create", "-f", "-", input=flunder("banned", version)),
            f'flunders.{GROUP} "banned" is forbidden: this name may not be used, please change the resource name',
        )
    kubectl("delete", "fischer", "ban")


@check
def forwarded_users():
    """users that the server forwards may do what a Role allows, and others may not"""
    kubectl("create", "role", "reader", "--verb=get,list", f"--resource=flunders.{GROUP}")
    kubectl("create", "rolebinding", "reader", "--role=reader", "--user=ann", f"--serviceaccount={program.NAMESPACE}:ann")
    contains(eventually(lambda: attempt("get", "flunders", "--as=ann")[1], "the role is in effect"), "first")
    for user, args in [("ben", ["get", "flunders"]), ("ann", ["delete", "flunder", "first"])]:
        contains(refused(*args, f"--as={user}"), "Forbidden", f'User "{user}" cannot', f'API group "{GROUP}"')


@check
def direct_users():
    """the program itself authenticates and authorizes users by asking the server"""
    direct = ["--kubeconfig=/dev/null", f"--server=https://localhost:{PORT}", "--insecure-skip-tls-verify"]
    path = f"/apis/{GROUP}/v1alpha1/namespaces/{program.NAMESPACE}/flunders"
    for name in ["ann", "ben"]:
        kubectl("create", "serviceaccount", name)
    tokens = {name: kubectl("create", "token", name).strip() for name in ["ann", "ben"]}
    listed = json.loads(kubectl("get", "--raw", path, f"--token={tokens['ann']}", *direct))
    equal("first" in [item["metadata"]["name"] for item in listed["items"]], True)
    contains(
        refused("get", "--raw", path, f"--token={tokens['ben']}", *direct),
        f'User "system:serviceaccount:{program.NAMESPACE}:ben" cannot list resource "flunders"',
    )
    contains(refused("get", "--raw", path, "--token=nonsense", *direct), "Unauthorized")


@check
def deleted():
    """Flunders are deleted, alone and all together"""
    kubectl("delete", "flunder", "first", "second")
    contains(refused("get", "flunder", "first"), f'flunders.{GROUP} "first" not found')
    kubectl("delete", "--raw", f"/apis/{GROUP}/v1beta1/namespaces/{program.NAMESPACE}/flunders")
    equal(get("flunders")["items"], [])


run()
