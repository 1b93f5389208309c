"""A small kopf operator: creates a Deployment for every Greeting and deletes the Greeting's ConfigMap when the Greeting is deleted."""

import kopf
import kubernetes


def child(name, replicas):
    labels = {"greeting": name}
    container = {"name": "main", "image": "example.com/hello:1"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }


@kopf.on.startup()
def configure(settings, **_):
    kubernetes.config.load_kube_config()
    settings.posting.enabled = True
    settings.persistence.finalizer = "kopf.e2e.windlass.dev/finalizer"


@kopf.on.create("kopf.e2e.windlass.dev", "v1", "greetings")
@kopf.on.resume("kopf.e2e.windlass.dev", "v1", "greetings")
def made(name, namespace, spec, **_):
    deployment = child(name, spec["replicas"])
    kopf.adopt(deployment)
    try:
        kubernetes.client.AppsV1Api().create_namespaced_deployment(namespace, deployment)
    except kubernetes.client.ApiException as error:
        if error.status != 409:
            raise
    return {"deployment": name}


@kopf.on.field("kopf.e2e.windlass.dev", "v1", "greetings", field="spec.replicas")
def scaled(name, namespace, new, old, **_):
    if old is not None:
        body = {"spec": {"replicas": new}}
        kubernetes.client.AppsV1Api().patch_namespaced_deployment_scale(name, namespace, body)


@kopf.on.event("apps", "v1", "deployments", labels={"greeting": kopf.ABSENT})
def nothing(**_):
    """Deployments that do not belong to a Greeting are watched but never changed."""


@kopf.on.delete("kopf.e2e.windlass.dev", "v1", "greetings")
def farewell(name, namespace, **_):
    body = {"metadata": {"name": f"farewell-{name}"}}
    kubernetes.client.CoreV1Api().create_namespaced_config_map(namespace, body)
