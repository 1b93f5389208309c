"""Runs the tests of envtest/ with the programs of `windlass assets`, and with those of Kubernetes to compare.

Prints the time that the tests take, and the memory of all control planes at its highest.
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time

PROGRAMS = ("kube-apiserver", "etcd")


def memory(programs):
    """Resident memory of all processes of these programs, in bytes."""
    page = os.sysconf("SC_PAGE_SIZE")
    total = 0
    for process in pathlib.Path("/proc").iterdir():
        if not process.name.isdigit():
            continue
        try:
            command = (process / "cmdline").read_bytes().split(b"\0")[0].decode()
            if command in programs:
                total += int((process / "statm").read_text().split()[1]) * page
        except OSError:
            # It has ended.
            continue
    return total


class Memory(threading.Thread):
    """Watches the memory of programs until it is stopped."""

    def __init__(self, programs):
        super().__init__(daemon=True)
        self.programs, self.most, self.ended = programs, 0, threading.Event()

    def run(self):
        while not self.ended.wait(0.05):
            self.most = max(self.most, memory(self.programs))

    def stop(self):
        self.ended.set()
        self.join()
        return self.most


def run(name, tests, assets):
    """Runs the tests; returns whether they passed."""
    watching = Memory({str(pathlib.Path(assets) / program) for program in PROGRAMS})
    watching.start()
    environment = dict(os.environ, KUBEBUILDER_ASSETS=str(assets), ENVTEST_OF=name)
    begin = time.monotonic()
    done = subprocess.run([tests, "-test.v", "-test.count=1"], env=environment, cwd=folder() / "envtest")
    took = time.monotonic() - begin
    most = watching.stop()
    print(f"{name}: {took:.2f} s, control planes use up to {most / 2**20:.0f} MiB", flush=True)
    return done.returncode == 0


def folder():
    return pathlib.Path(__file__).resolve().parent


def main():
    windlass, peers = os.environ["WINDLASS"], os.environ["PEERS"]
    against = os.environ.get("E2E_AGAINST", "windlass")
    with tempfile.TemporaryDirectory(prefix="windlass-envtest-") as directory:
        tests = os.path.join(directory, "envtest.test")
        subprocess.run(["go", "test", "-c", "-o", tests, "."], cwd=folder() / "envtest", check=True)
        assets = os.path.join(directory, "assets")
        path = f"{peers}{os.pathsep}{os.environ['PATH']}"
        subprocess.run(
            [windlass, "assets", assets], env=dict(os.environ, PATH=path), stdout=subprocess.DEVNULL, check=True
        )
        passed = run("windlass", tests, assets)
        if against == "kubernetes":
            passed &= run("kubernetes", tests, os.path.abspath(peers))
    sys.exit(0 if passed else 1)


main()
