"""A control plane for each test that asks for one."""

# ANCHOR: plane
import subprocess
import time

import pytest


@pytest.fixture
def plane(tmp_path):
    ready = tmp_path / "ready"
    up = subprocess.Popen(
        ["windlass", "up", "--port", "0", "--store", "memory", "--data-dir", tmp_path, "--ready-file", ready],
        stdout=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + 10
        while not ready.exists():
            assert up.poll() is None and time.monotonic() < deadline, "the control plane does not start"
            time.sleep(0.005)
        yield tmp_path / "kubeconfig"
    finally:
        up.terminate()
        up.wait()
# ANCHOR_END: plane
