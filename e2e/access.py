"""Checks of kubectl's commands for users and permissions: impersonation, `auth`, and tokens of service accounts."""

import base64
import json
import os

from checks import check, contains, equal, eventually, lacks
from program import HOME, NAMESPACE, attempt, get, header, jsonpath, kubectl, refused, rows

ROLE = """
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: reconciled
  namespace: {namespace}
rules:
- {{apiGroups: [""], resources: [secrets], verbs: [{verbs}]}}
"""


def can(*args):
    """Returns the answer of `kubectl auth can-i`, whose exit code must agree with it."""
    code, output, _ = attempt("auth", "can-i", *args)
    answer = output.split()[0]
    equal((answer, code), (answer, {"yes": 0, "no": 1}.get(answer)))
    return answer


def claims(token):
    """Returns the claims of a token."""
    payload = token.split(".")[1]
    return json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))


def with_token(token):
    """Returns an environment whose kubeconfig has a token instead of the administrator's certificate."""
    config = json.loads(kubectl("config", "view", "--raw", "--minify", "-o", "json"))
    config["users"][0]["user"] = {"token": token}
    path = os.path.join(HOME, "token.kubeconfig")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(config, file)
    return {"KUBECONFIG": path}


@check
def impersonation():
    """kubectl --as, --as-group and --as-uid act as another user, whose permissions apply"""
    jane = ["--as=jane", "--as-group=readers", "--as-group=dev", "--as-uid=u-7"]
    user = json.loads(kubectl("auth", "whoami", *jane, "-o", "json"))["status"]["userInfo"]
    equal(user["username"], "jane")
    equal(user["uid"], "u-7")
    equal(sorted(user["groups"]), ["dev", "readers", "system:authenticated"])

    kubectl("create", "cm", "shown", "--from-literal=a=b")
    message = f'User "jane" cannot list resource "configmaps" in API group "" in the namespace "{NAMESPACE}"'
    contains(refused("get", "cm", *jane), f"Error from server (Forbidden): configmaps is forbidden: {message}")
    kubectl("create", "role", "settings", "--verb=get,list", "--resource=configmaps")
    kubectl("create", "rolebinding", "settings", "--role=settings", "--group=readers")
    eventually(lambda: attempt("get", "cm", "shown", *jane)[0] == 0, "the members of the group may read")
    contains(refused("get", "cm", "--as=jane"), message)
    message = f'User "jane" cannot delete resource "configmaps" in API group "" in the namespace "{NAMESPACE}"'
    contains(refused("delete", "cm", "shown", *jane), f'(Forbidden): configmaps "shown" is forbidden: {message}')
    contains(refused("get", "cm", "--as-group=readers"), "without impersonating a user")


@check
def auth_whoami():
    """kubectl auth whoami prints the attributes of the user"""
    output = kubectl("auth", "whoami", "--as=jane", "--as-group=dev")
    equal(header(output), ["ATTRIBUTE", "VALUE"])
    equal(rows(output)[0], ["Username", "jane"])
    contains(output, "dev", "system:authenticated")


@check
def auth_can_i():
    """kubectl auth can-i answers for the user and for others, and lists permissions; runs after `impersonation`"""
    jane = ["--as=jane", "--as-group=readers"]
    equal(can("*", "*", "--all-namespaces"), "yes")
    equal(can("list", "configmaps", *jane), "yes")
    equal(can("delete", "configmaps", *jane), "no")
    equal(can("get", "pods", "--subresource=log", *jane), "no")
    equal(can("get", "/healthz", *jane), "yes")
    equal(can("get", "/metrics", *jane), "no")
    listed = kubectl("auth", "can-i", "--list", *jane)
    equal(header(listed), ["Resources", "Non-Resource URLs", "Resource Names", "Verbs"])
    lines = {line.split()[0]: line for line in listed.splitlines()}
    contains(lines["configmaps"], "[get list]")
    contains(lines["selfsubjectaccessreviews.authorization.k8s.io"], "[create]")
    contains(listed, "[/healthz]")
    lacks(listed, "*.*")
    contains(kubectl("auth", "can-i", "--list"), "*.*")


@check
def auth_reconcile():
    """kubectl auth reconcile creates roles, adds missing permissions, and removes extra ones on request"""
    def verbs():
        return sorted(verb for rule in get("role", "reconciled")["rules"] for verb in rule["verbs"])

    def reconcile(allowed, *flags):
        # The changes are on stderr.
        role = ROLE.format(namespace=NAMESPACE, verbs=allowed)
        code, output, errors = attempt("auth", "reconcile", *flags, "-f", "-", input=role)
        equal(code, 0, errors)
        return output + errors

    created = reconcile("get")
    contains(created, "role.rbac.authorization.k8s.io/reconciled reconciled", "reconciliation required create")
    equal(verbs(), ["get"])
    contains(reconcile("list", "--dry-run=client"), "missing rules added")
    equal(verbs(), ["get"])
    contains(reconcile("list"), "reconciliation required update", "missing rules added")
    equal(verbs(), ["get", "list"])
    contains(reconcile("list", "--remove-extra-permissions"), "extra rules removed")
    equal(verbs(), ["list"])
    lacks(reconcile("list"), "required")


@check
def create_token():
    """kubectl create token requests tokens with audiences, a lifetime and a bound object, which authenticate"""
    kubectl("create", "serviceaccount", "robot")
    token = kubectl("create", "token", "robot").strip()
    equal(claims(token)["sub"], f"system:serviceaccount:{NAMESPACE}:robot")
    user = json.loads(kubectl("auth", "whoami", "-o", "json", env=with_token(token)))["status"]["userInfo"]
    equal(user["username"], f"system:serviceaccount:{NAMESPACE}:robot")
    contains(user["groups"], "system:serviceaccounts", f"system:serviceaccounts:{NAMESPACE}")
    equal(user["uid"], jsonpath("{.metadata.uid}", "serviceaccount", "robot"))

    kubectl("create", "secret", "generic", "anchor")
    bound = ["--bound-object-kind=Secret", "--bound-object-name=anchor"]
    short = kubectl("create", "token", "robot", "--duration=10m", *bound).strip()
    equal(claims(short)["exp"] - claims(short)["iat"], 600)
    equal(claims(short)["kubernetes.io"]["secret"]["name"], "anchor")
    kubectl("auth", "whoami", env=with_token(short))
    kubectl("delete", "secret", "anchor")
    eventually(lambda: attempt("auth", "whoami", env=with_token(short))[0] == 1, "the token ends with its Secret", 30)

    other = kubectl("create", "token", "robot", "--audience=vault").strip()
    equal(claims(other)["aud"], ["vault"])
    code, _, errors = attempt("auth", "whoami", env=with_token(other))
    equal(code, 1)
    contains(errors, "Unauthorized")
    contains(refused("create", "token", "nobody"), 'serviceaccounts "nobody" not found')
    contains(refused("create", "token", "robot", "--duration=1s"), "may not specify a duration less than 10 minutes")
