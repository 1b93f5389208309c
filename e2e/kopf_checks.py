"""Runs kopf_operator.py on its own control plane: `$WINDLASS up` with one node. kopf is installed next to the Python interpreter that runs this file."""

import atexit
import os
import subprocess
import sys
import tempfile
import time

from kubernetes import client, config

from checks import HERE, check, equal, eventually, run

GROUP, VERSION, PLURAL, NAMESPACE = "kopf.e2e.windlass.dev", "v1", "greetings", "default"


def started(command, **options):
    process = subprocess.Popen(command, **options)
    atexit.register(ended, process)
    return process


def ended(process):
    if process.poll() is None:
        process.terminate()
        process.wait(timeout=20)


folder = tempfile.TemporaryDirectory()
ready = os.path.join(folder.name, "ready")
plane = [os.environ["WINDLASS"], "up", "--port", "0", "--store", "memory", "--data-dir", folder.name]
started([*plane, "--ready-file", ready], stdout=subprocess.DEVNULL)
eventually(lambda: os.path.exists(ready), "the plane serves")
os.environ["KUBECONFIG"] = os.path.join(folder.name, "kubeconfig")
config.load_kube_config(os.environ["KUBECONFIG"])
apps, core, custom = client.AppsV1Api(), client.CoreV1Api(), client.CustomObjectsApi()


def operator():
    log = open(os.path.join(folder.name, "kopf.log"), "a")
    kopf = os.path.join(os.path.dirname(sys.executable), "kopf")
    command = [kopf, "run", "--standalone", "--namespace", NAMESPACE, os.path.join(HERE, "kopf_operator.py")]
    return started(command, stdout=log, stderr=log)


def define():
    kept = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": kept, "status": kept}}
    version = {"name": VERSION, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": PLURAL, "singular": "greeting", "kind": "Greeting"}
    spec = {"group": GROUP, "scope": "Namespaced", "names": names, "versions": [version]}
    body = {"metadata": {"name": f"{PLURAL}.{GROUP}"}, "spec": spec}
    client.ApiextensionsV1Api().create_custom_resource_definition(body)


def greet(name, replicas):
    body = {"apiVersion": f"{GROUP}/{VERSION}", "kind": "Greeting", "metadata": {"name": name}, "spec": {"replicas": replicas}}
    custom.create_namespaced_custom_object(GROUP, VERSION, NAMESPACE, PLURAL, body)


def found(read, *arguments):
    try:
        return read(*arguments)
    except client.ApiException as error:
        if error.status == 404:
            return None
        raise


def is_ready(name, replicas):
    def look():
        deployment = found(apps.read_namespaced_deployment, name, NAMESPACE)
        return deployment and deployment.status.ready_replicas == replicas and deployment

    return eventually(look, f"{replicas} pods of {name} are ready", seconds=60)


define()
running = [operator()]


@check
def a_greeting_gets_pods_that_become_ready():
    greet("hello", 2)
    deployment = is_ready("hello", 2)
    equal(deployment.metadata.owner_references[0].kind, "Greeting")


@check
def the_operator_tells_what_it_did():
    def look():
        greeting = custom.get_namespaced_custom_object(GROUP, VERSION, NAMESPACE, PLURAL, "hello")
        return greeting.get("status", {}).get("made", {}).get("deployment") == "hello"

    eventually(look, "the result of the handler is in the status", seconds=30)
    eventually(
        lambda: any(event.involved_object.name == "hello" for event in core.list_namespaced_event(NAMESPACE).items),
        "there are events",
        seconds=30,
    )


@check
def it_follows_a_change():
    patch = {"spec": {"replicas": 4}}
    custom.patch_namespaced_custom_object(GROUP, VERSION, NAMESPACE, PLURAL, "hello", patch)
    is_ready("hello", 4)


@check
def another_operator_goes_on():
    ended(running.pop())
    greet("later", 1)
    time.sleep(0.5)
    equal(found(apps.read_namespaced_deployment, "later", NAMESPACE), None)
    running.append(operator())
    is_ready("later", 1)


@check
def it_says_farewell_and_everything_goes():
    custom.delete_namespaced_custom_object(GROUP, VERSION, NAMESPACE, PLURAL, "hello")
    gone = lambda: found(custom.get_namespaced_custom_object, GROUP, VERSION, NAMESPACE, PLURAL, "hello") is None
    eventually(gone, "the finalizer is removed", seconds=30)
    core.read_namespaced_config_map("farewell-hello", NAMESPACE)
    pods = lambda: not core.list_namespaced_pod(NAMESPACE, label_selector="greeting=hello").items
    eventually(pods, "the pods are collected", seconds=30)


run()
