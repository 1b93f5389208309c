"""kubectl against pods that run as processes: logs, exec, cp, attach, port-forward. This suite starts its own server,
because the other suites run without the process runtime. $WINDLASS is the server binary, $KUBECTL the client."""

import atexit
import contextlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path

import program
from checks import Failed, check, contains, equal, eventually, run
from program import attempt, command, get, header, jsonpath, kubectl, refused, rows

DATA = Path(tempfile.mkdtemp(prefix="windlass-pods-"))
# Both protocols in which clients open a stream; kubectl prefers the first.
PROTOCOLS = {
    "websocket": {},
    "spdy": {"KUBECTL_REMOTE_COMMAND_WEBSOCKETS": "false", "KUBECTL_PORT_FORWARD_WEBSOCKETS": "false"},
}

PODS = """
apiVersion: v1
kind: ConfigMap
metadata: {name: page}
data: {index.html: "a page\\n"}
---
apiVersion: v1
kind: Pod
metadata: {name: clock}
spec:
  terminationGracePeriodSeconds: 2
  containers:
  - name: main
    image: busybox
    command: [sh, -c, "trap 'exit 0' TERM; echo begin; i=0; while :; do echo tick $i; i=$((i+1)); sleep 0.1; done"]
---
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  terminationGracePeriodSeconds: 2
  containers:
  - name: main
    image: example.com/web:1
    args: ["--directory", /srv]
    readinessProbe: {httpGet: {port: 8080, path: /index.html}, periodSeconds: 1}
    volumeMounts: [{name: page, mountPath: /srv}]
  volumes: [{name: page, configMap: {name: page}}]
"""

IMAGES = """
images:
- image: example.com/web
  command: [python3, -m, http.server, "8080", --bind, "$(WINDLASS_POD_IP)"]
"""


def start():
    """Starts the server and points kubectl at it."""
    ready = DATA / "ready"
    (DATA / "images.yaml").write_text(IMAGES)
    log = open(DATA / "log", "w")
    arguments = ["up", "--port", "0", "--data-dir", DATA, "--runtime", "process", "--ready-file", ready]
    server = subprocess.Popen([os.environ["WINDLASS"], *arguments], stdout=log, stderr=log)
    atexit.register(stop, server)
    eventually(lambda: ready.exists() or server.poll() is not None, "the server is ready", 60)
    os.environ["KUBECONFIG"] = str(DATA / "kubeconfig")
    return server


def stop(server):
    if server.poll() is None:
        server.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            server.wait(10)
    server.kill()
    shutil.rmtree(DATA, ignore_errors=True)


SERVER = start()


@check
def pods_become_ready():
    """pods run as processes and become ready, each with its own address"""
    kubectl("create", "namespace", program.NAMESPACE)
    kubectl("apply", "-f", "-", input=PODS)
    kubectl("wait", "--for=condition=Ready", "pod/clock", "pod/web", "--timeout=30s")
    addresses = {jsonpath("{.status.podIP}", "pod", name) for name in ["clock", "web"]}
    equal(len(addresses), 2)
    equal([address for address in addresses if not address.startswith("127.")], [])


@check
def logs():
    """logs are shown whole, in part, with timestamps, and followed"""
    contains(kubectl("logs", "clock"), "begin\ntick 0\n")
    equal(len(kubectl("logs", "clock", "--tail=2").splitlines()), 2)
    equal(kubectl("logs", "clock", "--limit-bytes=5"), "begin")
    first = kubectl("logs", "clock", "--timestamps").splitlines()[0]
    if not re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z begin", first):
        raise Failed(f"no time: {first}")
    follow = subprocess.Popen(command("logs", "-f", "--tail=1", "clock"), stdout=subprocess.PIPE, text=True)
    lines = [follow.stdout.readline() for _ in range(4)]
    follow.kill()
    follow.wait()
    numbers = [int(line.split()[1]) for line in lines]
    equal(numbers, list(range(numbers[0], numbers[0] + 4)))
    contains(refused("logs", "clock", "-c", "other"), "container other is not valid for pod clock")


@check
def exec_commands():
    """commands run in containers over both protocols, with stdin, stdout, stderr and the exit code"""
    for name, env in PROTOCOLS.items():
        script = "echo out; echo err >&2; exit 5"
        code, output, errors = attempt("exec", "clock", "--", "sh", "-c", script, env=env)
        equal((code, output), (5, "out\n"), name)
        contains(errors, "err\n", "command terminated with exit code 5")
        equal(kubectl("exec", "-i", "clock", "--", "cat", input="typed", env=env), "typed", name)
        code, _, errors = attempt("exec", "clock", "--", "no-such-program", env=env)
        equal(code, 1, name)
        contains(errors, "executable file not found in $PATH")


@check
def exec_with_a_terminal():
    """a program started with a TTY sees a terminal"""
    if not shutil.which("script"):
        raise Failed("the program `script` is needed")
    for name, env in PROTOCOLS.items():
        line = " ".join(command("exec", "-it", "clock", "--", "sh", "-c", "'tty && echo $TERM'"))
        result = subprocess.run(
            ["script", "-qec", line, "/dev/null"], capture_output=True, text=True, timeout=30, stdin=subprocess.DEVNULL,
            env={**os.environ, **env},
        )
        contains(result.stdout, "/dev/pts/", "xterm")
        equal(result.returncode, 0, name)


@check
def copies():
    """files are copied to a pod and back"""
    source, back = DATA / "source", DATA / "back"
    source.write_text("data\n" * 10000)
    kubectl("cp", str(source), "clock:copied")
    kubectl("cp", "clock:copied", str(back))
    equal(back.read_text(), source.read_text())


@check
def attach():
    """an attached client sees the container's output"""
    process = subprocess.Popen(command("attach", "clock"), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    line = process.stdout.readline()
    process.kill()
    process.wait()
    contains(line, "tick ")


@check
def port_forward():
    """ports are reachable over both protocols, and a port without a listener is an error"""
    for name, env in PROTOCOLS.items():
        process = subprocess.Popen(
            command("port-forward", "pod/web", ":8080"), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env={**os.environ, **env},
        )
        try:
            port = re.search(r"127\.0\.0\.1:(\d+)", process.stdout.readline()).group(1)
            for _ in range(3):
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/index.html", timeout=10) as answer:
                    equal(answer.read(), b"a page\n", name)
        finally:
            process.kill()
            process.wait()


@check
def top():
    """kubectl top shows what nodes, pods and containers use"""
    # A container is measured once it has run for a while.
    eventually(lambda: all(name in attempt("top", "pods")[1] for name in ["clock", "web"]), "pods are measured", 40)
    equal(header(kubectl("top", "pods")), ["NAME", "CPU(cores)", "MEMORY(bytes)"])
    containers = kubectl("top", "pods", "web", "--containers")
    equal(header(containers), ["POD", "NAME", "CPU(cores)", "MEMORY(bytes)"])
    web = rows(containers)[0]
    equal(web[:2], ["web", "main"])
    if not re.fullmatch(r"\d+m", web[2]) or not re.fullmatch(r"[1-9]\d*Mi", web[3]):
        raise Failed(f"no usage: {web}")
    nodes = kubectl("top", "nodes")
    equal(header(nodes), ["NAME", "CPU(cores)", "CPU(%)", "MEMORY(bytes)", "MEMORY(%)"])
    equal([row[0] for row in rows(nodes)], ["node-1"])


@check
def images_that_are_not_known():
    """an image without a command reports what to do, and its pod has no log"""
    kubectl("run", "unknown", "--image=example.com/unknown:1", "--restart=Never")
    eventually(lambda: rows(kubectl("get", "pod", "unknown"))[0][2] in ("ErrImagePull", "ImagePullBackOff"), "it fails")
    contains(kubectl("describe", "pod", "unknown"), 'no program for image "example.com/unknown:1"', "images.yaml")
    contains(refused("logs", "unknown"), 'container "unknown" in pod "unknown" is waiting to start')
    kubectl("delete", "pod", "unknown")


@check
def runs_of_a_program():
    """`kubectl run` shows the program's output and returns the pod's exit code"""
    kubectl("run", "once", "--image=busybox", "--restart=Never", "--", "sh", "-c", "echo said; exit 3")
    kubectl("wait", "--for=jsonpath={.status.phase}=Failed", "pod/once", "--timeout=20s")
    equal(kubectl("logs", "once"), "said\n")
    state = get("pod", "once")["status"]["containerStatuses"][0]["state"]["terminated"]
    equal((state["exitCode"], state["reason"]), (3, "Error"))


@check
def ends():
    """deleting a pod ends its processes, and killing the server ends all of them"""
    started = time.monotonic()
    kubectl("delete", "pod", "clock")
    if time.monotonic() - started > 5:
        raise Failed("a pod that listens to SIGTERM took long to go")

    def left():
        # Every process of a pod has the pod's directory in its environment.
        marker = str(DATA).encode()
        return [path for path in Path("/proc").glob("[0-9]*/environ") if marker in read(path)]

    equal(len(left()) > 0, True, "the processes of pods")
    SERVER.send_signal(signal.SIGKILL)
    SERVER.wait()
    eventually(lambda: not left(), "no process of a pod is left")


def read(path):
    try:
        return path.read_bytes()
    except OSError:
        return b""


if __name__ == "__main__":
    run()
