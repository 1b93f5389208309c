"""Foos are handled by the operator, on a plane of the test's own."""

# ANCHOR: test
import subprocess

from kopf.testing import KopfRunner


def test_a_foo_is_handled(plane, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", str(plane))
    subprocess.run(["kubectl", "apply", "-f", "crd.yaml"], check=True)
    with KopfRunner(["run", "--namespace", "default", "foo_operator.py"]) as runner:
        subprocess.run(["kubectl", "apply", "-f", "foo.yaml"], check=True)
        subprocess.run(["kubectl", "wait", "foo/example", "--for=condition=Ready", "--timeout=10s"], check=True)
    assert runner.exit_code == 0
# ANCHOR_END: test
