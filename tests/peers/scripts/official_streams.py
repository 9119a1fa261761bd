"""The official Python client: exec (input, terminal, exit code), attach, port-forward. Argument: a namespace."""

import sys
import time
from collections.abc import Callable
from typing import Any

from kubernetes import client, config
from kubernetes.stream import portforward, stream

SERVE = """
import http.server, os
http.server.HTTPServer((os.environ["IP"], 8099), http.server.SimpleHTTPRequestHandler).serve_forever()
"""


def main() -> None:
    namespace = sys.argv[1]
    config.load_kube_config()
    core = client.CoreV1Api()
    container = {
        "name": "main",
        "image": "none",
        "command": [sys.executable, "-c", SERVE],
        "workingDir": "/etc",
        "env": [{"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
        "readinessProbe": {"tcpSocket": {"port": 8099}, "periodSeconds": 1},
    }
    other = {"name": "cat", "image": "none", "command": ["cat"], "stdin": True}
    spec = {"terminationGracePeriodSeconds": 1, "containers": [container, other]}
    body: Any = {"metadata": {"name": "p"}, "spec": spec}
    core.create_namespaced_pod(namespace, body)
    while not ready(core.read_namespaced_pod("p", namespace)):
        time.sleep(0.1)
    exec_and_attach(core, namespace)
    forward(core, namespace)
    core.delete_namespaced_pod("p", namespace)
    print("done")


def ready(pod: client.V1Pod) -> bool:
    return any(c.type == "Ready" and c.status == "True" for c in pod.status.conditions or [])


def exec_and_attach(core: client.CoreV1Api, namespace: str) -> None:
    run = core.connect_get_namespaced_pod_exec
    streams = {"stdout": True, "stderr": True, "stdin": False, "tty": False, "container": "main"}
    assert stream(run, "p", namespace, command=["sh", "-c", "echo out; echo err >&2"], **streams) in (
        "out\nerr\n",
        "err\nout\n",
    )
    streams |= {"stdin": True, "_preload_content": False}
    talk = stream(run, "p", namespace, command=["sh", "-c", "read x; echo got $x; exit 3"], **streams)
    talk.write_stdin("hello\n")
    talk.run_forever(timeout=20)
    assert (talk.read_stdout(), talk.returncode) == ("got hello\n", 3)
    talk = stream(run, "p", namespace, command=["sh", "-c", "tty; exit 0"], **(streams | {"tty": True}))
    talk.run_forever(timeout=20)
    assert talk.read_stdout().startswith("/dev/"), talk
    assert talk.returncode == 0
    attach = core.connect_get_namespaced_pod_attach
    talk = stream(attach, "p", namespace, **(streams | {"container": "cat"}))
    talk.write_stdin("meow\n")
    assert talk.readline_stdout(timeout=20) == "meow"
    talk.close()
    assert "404" in refusal(lambda: stream(run, "none", namespace, command=["true"], **streams))


def refusal(call: Callable[[], object]) -> str:
    try:
        call()
    except client.ApiException as error:
        return str(error)
    return ""


def forward(core: client.CoreV1Api, namespace: str) -> None:
    tunnel = portforward(core.connect_get_namespaced_pod_portforward, "p", namespace, ports="8099")
    talk = tunnel.socket(8099)
    talk.setblocking(True)
    talk.sendall(b"GET /hostname HTTP/1.0\r\n\r\n")
    answer = b""
    while piece := talk.recv(4096):
        answer += piece
    assert answer.startswith(b"HTTP/1.0 200 OK"), answer
    assert tunnel.error(8099) is None


main()
