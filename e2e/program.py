"""Runs kubectl for the checks. $KUBECTL is the binary, $KUBECONFIG selects the server."""

import functools
import json
import os
import re
import subprocess
import tempfile
import textwrap

from checks import Failed

NAMESPACE = f"e2e-kubectl-{os.getpid()}"
KUBECTL = os.environ.get("KUBECTL", "kubectl")
HOME = tempfile.mkdtemp(prefix="kubectl-")  # kubectl keeps a discovery cache in its home
DEADLINE = 60


def command(*args):
    return [KUBECTL, "--namespace", NAMESPACE, "--cache-dir", f"{HOME}/cache", *args]


def attempt(*args, input=None, env=None):
    """Runs kubectl and returns its exit code, stdout and stderr."""
    text = textwrap.dedent(input) if input is not None else None
    environment = {**os.environ, "HOME": HOME, **(env or {})}
    try:
        result = subprocess.run(
            command(*args), input=text, env=environment, capture_output=True, text=True, timeout=DEADLINE
        )
    except subprocess.TimeoutExpired:
        raise Failed(f"kubectl {' '.join(args)}: no end within {DEADLINE} s")
    return result.returncode, result.stdout, result.stderr


def kubectl(*args, input=None, env=None):
    """Runs kubectl, which must succeed, and returns its stdout."""
    code, output, errors = attempt(*args, input=input, env=env)
    if code != 0:
        raise Failed(f"kubectl {' '.join(args)}: exit code {code}\n{output}{errors}")
    return output


def refused(*args, input=None):
    """Runs kubectl, which must fail, and returns its stderr."""
    code, output, errors = attempt(*args, input=input)
    if code == 0:
        raise Failed(f"kubectl {' '.join(args)}: expected an error, got\n{output}{errors}")
    return errors


def get(*args):
    """Returns an object, or a list, as JSON."""
    return json.loads(kubectl("get", *args, "-o", "json"))


def jsonpath(path, *args):
    return kubectl("get", *args, "-o", f"jsonpath={path}")


def rows(text):
    """Returns the cells of a table without its header."""
    return [re.split(r"\s{2,}", line.strip()) for line in text.splitlines()[1:]]


def header(text):
    return re.split(r"\s{2,}", text.splitlines()[0].strip())


def while_waiting(args, *changes):
    """Runs `kubectl wait`, makes the changes and returns the output of wait."""
    process = subprocess.Popen(
        command("wait", "--timeout=20s", *args), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env={**os.environ, "HOME": HOME},
    )
    try:
        for change in changes:
            kubectl(*change)
        output, _ = process.communicate(timeout=30)
    finally:
        process.kill()
        process.wait()
    if process.returncode != 0:
        raise Failed(f"kubectl wait {' '.join(args)}: {output}")
    return output


@functools.cache
def is_windlass():
    """Returns whether the server is Windlass, which accepts some requests that Kubernetes rejects."""
    return "windlass" in json.loads(kubectl("version", "-o", "json"))["serverVersion"]["gitVersion"]
