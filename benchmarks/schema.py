"""Checking one object against its schema: the pass that every write goes through.

    python benchmarks/schema.py [--seconds 1] [--crd FILE]

Built-in: a Pod and a Job of some 6 KB. Custom: with `--crd FILE`, Kueue's Workload CRD and a workload of one pod set of
about that size. "clean" is a document that is fine as it is, "dirty" one with an unknown field and some nulls.
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import yaml

from muster.api.batch import JOB
from muster.api.core import POD
from muster.cluster.apiserver.schema import Checker, compile_builtin, compile_custom


def pod_spec(containers: int) -> dict[str, Any]:
    return {
        "restartPolicy": "Never",
        "serviceAccountName": "default",
        "terminationGracePeriodSeconds": 30,
        "nodeSelector": {"example.com/pool": "a"},
        "tolerations": [{"key": "example.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
        "volumes": [{"name": f"v{n}", "emptyDir": {}} for n in range(4)],
        "containers": [
            {
                "name": f"c{n}",
                "image": "registry.example.com/training/worker:1.2.3",
                "command": ["python", "-m", "train"],
                "args": [f"--option-{i}=value-{i}" for i in range(8)],
                "env": [{"name": f"VARIABLE_{i}", "value": f"value {i}"} for i in range(12)]
                + [{"name": "POD_IP", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "status.podIP"}}}],
                "ports": [{"name": "http", "containerPort": 8080 + n, "protocol": "TCP"}],
                "resources": {"limits": {"cpu": "4", "memory": "16Gi"}, "requests": {"cpu": "4", "memory": "16Gi"}},
                "volumeMounts": [{"name": f"v{i}", "mountPath": f"/mnt/{i}"} for i in range(4)],
                "terminationMessagePath": "/dev/termination-log",
                "imagePullPolicy": "IfNotPresent",
            }
            for n in range(containers)
        ],
    }


def metadata(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "namespace": "default",
        "uid": "b6a07188-5887-4bbf-8ced-aeeb47e6de7e",
        "resourceVersion": "123456",
        "creationTimestamp": "2026-01-02T03:04:05Z",
        "labels": {f"example.com/label-{i}": f"value-{i}" for i in range(6)},
        "annotations": {f"example.com/annotation-{i}": "x" * 60 for i in range(4)},
    }


def soiled(document: dict[str, Any]) -> dict[str, Any]:
    dirty: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(document))
    dirty["metadata"] |= {"selfLink": None, "deletionTimestamp": None}
    dirty["spec"]["nonsense"] = 1
    return dirty


def microseconds(check: Callable[[Any], object], document: Any, seconds: float) -> float:
    best = float("inf")
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        for _ in range(100):
            check(document)
        best = min(best, (time.perf_counter() - start) / 100)
    return best * 1e6


def report(name: str, make: Callable[[], Checker], document: dict[str, Any], seconds: float) -> None:
    start = time.perf_counter()
    check = make()
    compiling = (time.perf_counter() - start) * 1e3
    dirty = soiled(document)
    assert check(document).value is document
    assert check(dirty).unknown == ("spec.nonsense",)
    size = len(msgspec.json.encode(document))
    clean_us, dirty_us = microseconds(check, document, seconds), microseconds(check, dirty, seconds)
    print(f"| {name} | {size:,} | {compiling:.1f} | {clean_us:.0f} | {dirty_us:.0f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=1.0, help="for each number")
    parser.add_argument("--crd", type=Path, help="kueue.x-k8s.io_workloads.yaml")
    options = parser.parse_args()
    print("| schema | object, bytes | compiled in, ms | clean, us | dirty, us |")
    print("|---|---:|---:|---:|---:|")
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata("p"), "spec": pod_spec(3)}
    report("Pod, built-in", lambda: compile_builtin(POD), pod, options.seconds)
    template = {"metadata": {"labels": {"a": "b"}}, "spec": pod_spec(3)}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata("j"), "spec": {"template": template}}
    report("Job, built-in", lambda: compile_builtin(JOB), job, options.seconds)
    if options.crd:
        crd = yaml.load(options.crd.read_text(), yaml.CSafeLoader)
        version = next(v for v in crd["spec"]["versions"] if v["storage"])
        workload = {
            "apiVersion": f"{crd['spec']['group']}/{version['name']}",
            "kind": "Workload",
            "metadata": metadata("w"),
            "spec": {
                "active": True,
                "queueName": "q",
                "podSets": [{"name": "main", "count": 4, "template": {"spec": pod_spec(3)}}],
            },
        }
        schema = version["schema"]["openAPIV3Schema"]
        workload = compile_custom(schema)(workload).value
        report("Workload, custom", lambda: compile_custom(schema), workload, options.seconds)


if __name__ == "__main__":
    main()
