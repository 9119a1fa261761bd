"""Rows of all kinds but the pod."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from muster.api.batch import JOB
from muster.api.core import CONFIG_MAP, EVENT, NAMESPACE, NODE, SECRET, SERVICE, SERVICE_ACCOUNT
from muster.api.groups.coordination import LEASE
from muster.api.groups.events import EVENTS_V1_EVENT
from muster.api.groups.scheduling import PRIORITY_CLASS
from muster.api.kinds import Kind
from muster.api.meta import Object
from muster.cluster.apiserver.tables import printer_of
from muster.cluster.apiserver.tables.printer import format_duration

NOW = datetime(2026, 1, 2, 12, tzinfo=UTC)
FOO = Kind("example.com", "v1", "Foo", "foos", Object)


def ago(**since: float) -> str:
    return (NOW - timedelta(**since)).strftime("%Y-%m-%dT%H:%M:%SZ")


META = {"name": "x", "creationTimestamp": ago(hours=3)}
TEMPLATE = {"spec": {"containers": [{"name": "a", "image": "i:1"}, {"name": "b", "image": "j"}]}}


def job(status: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {"spec": spec, "status": status}


def condition(type_: str, status: str = "True") -> dict[str, Any]:
    return {"conditions": [{"type": type_, "status": status}]}


def row(*middle: Any, after: tuple[Any, ...] = ()) -> list[Any]:
    return ["x", *middle, "3h", *after]


def service(**spec: Any) -> dict[str, Any]:
    return {"spec": spec}


NODE_TAIL = ("", "<none>", "<none>", "<unknown>", "<unknown>", "<unknown>")
JOB_TAIL = ("", "", "<none>")
HEADLESS = ("<none>",)


@pytest.mark.parametrize(
    ("kind", "document", "expected"),
    [
        (JOB, job({}), row("Running", "0/1", "", after=JOB_TAIL)),
        (JOB, job({}, completions=3), row("Running", "0/3", "", after=JOB_TAIL)),
        (JOB, job({"succeeded": 1}, parallelism=4), row("Running", "1/1 of 4", "", after=JOB_TAIL)),
        (JOB, job(condition("Suspended"), completions=1), row("Suspended", "0/1", "", after=JOB_TAIL)),
        (JOB, job(condition("Suspended", "False")), row("Running", "0/1", "", after=JOB_TAIL)),
        (JOB, job(condition("FailureTarget")), row("FailureTarget", "0/1", "", after=JOB_TAIL)),
        (JOB, job({**condition("Failed"), "startTime": ago(seconds=90)}), row("Failed", "0/1", "90s", after=JOB_TAIL)),
        (
            JOB,
            job(
                {**condition("Complete"), "startTime": ago(hours=2), "completionTime": ago(hours=1), "succeeded": 2},
                completions=2,
                template=TEMPLATE,
                selector={"matchLabels": {"b": "2", "a": "1"}},
            ),
            row("Complete", "2/2", "60m", after=("a,b", "i:1,j", "a=1,b=2")),
        ),
        (NAMESPACE, {"status": {"phase": "Active"}}, row("Active")),
        (CONFIG_MAP, {"data": {"a": "", "b": ""}, "binaryData": {"c": ""}}, row(3)),
        (SECRET, {"type": "Opaque", "data": {"a": ""}}, row("Opaque", 1)),
        (SERVICE_ACCOUNT, {"secrets": [{"name": "s"}]}, row(1)),
        (LEASE, {"spec": {"holderIdentity": "me"}}, row("me")),
        (LEASE, {}, row("")),
        (
            PRIORITY_CLASS,
            {"value": 7, "globalDefault": True, "preemptionPolicy": "Never"},
            row(7, True, after=("Never",)),
        ),
        (PRIORITY_CLASS, {"value": 7}, row(7, False, after=("",))),
        (NODE, {}, row("Unknown", "<none>", after=NODE_TAIL)),
        (NODE, {"status": condition("Ready", "False")}, row("NotReady", "<none>", after=NODE_TAIL)),
        (NODE, {"status": condition("Ready", "Unknown")}, row("NotReady", "<none>", after=NODE_TAIL)),
        (
            NODE,
            {
                "spec": {"unschedulable": True},
                "status": {
                    **condition("Ready"),
                    "addresses": [
                        {"type": "Hostname", "address": "h"},
                        {"type": "InternalIP", "address": "10.0.0.1"},
                        {"type": "ExternalIP", "address": "1.2.3.4"},
                    ],
                    "nodeInfo": {
                        "kubeletVersion": "v1",
                        "osImage": "Linux",
                        "kernelVersion": "6.1",
                        "containerRuntimeVersion": "process://1",
                    },
                },
            },
            row(
                "Ready,SchedulingDisabled",
                "<none>",
                after=("v1", "10.0.0.1", "1.2.3.4", "Linux", "6.1", "process://1"),
            ),
        ),
        (
            NODE,
            {
                "metadata": {
                    **META,
                    "labels": {
                        "node-role.kubernetes.io/worker": "",
                        "kubernetes.io/role": "a",
                        "node-role.kubernetes.io/": "",
                    },
                }
            },
            row("Unknown", "a,worker", after=NODE_TAIL),
        ),
        (SERVICE, service(type="ClusterIP"), row("ClusterIP", "<none>", "<none>", "<none>", after=HEADLESS)),
        (
            SERVICE,
            service(
                type="ClusterIP",
                clusterIP="None",
                clusterIPs=["None"],
                selector={"b": "2", "a": "1"},
                ports=[{"port": 80, "protocol": "TCP"}],
            ),
            row("ClusterIP", "None", "<none>", "80/TCP", after=("a=1,b=2",)),
        ),
        (
            SERVICE,
            service(
                type="NodePort",
                externalIPs=["1.1.1.1", "2.2.2.2"],
                ports=[{"port": 80, "protocol": "TCP", "nodePort": 30000}, {"port": 53, "protocol": "UDP"}],
            ),
            row("NodePort", "<none>", "1.1.1.1,2.2.2.2", "80:30000/TCP,53/UDP", after=HEADLESS),
        ),
        (SERVICE, service(type="LoadBalancer"), row("LoadBalancer", "<none>", "<pending>", "<none>", after=HEADLESS)),
        (
            SERVICE,
            {
                "spec": {"type": "LoadBalancer", "externalIPs": ["3.3.3.3"]},
                "status": {"loadBalancer": {"ingress": [{"ip": "2.2.2.2"}, {"hostname": "1.example"}]}},
            },
            row("LoadBalancer", "<none>", "1.example,2.2.2.2,3.3.3.3", "<none>", after=HEADLESS),
        ),
        (
            SERVICE,
            service(type="ExternalName", externalName="e.example"),
            row("ExternalName", "<none>", "e.example", "<none>", after=HEADLESS),
        ),
        (FOO, {}, ["x", "2026-01-02T09:00:00Z"]),
        (
            EVENT,
            {
                "involvedObject": {"kind": "Pod", "name": "p", "fieldPath": "spec.containers{c}"},
                "type": "Normal",
                "reason": "Started",
                "message": "Started container c\n",
                "source": {"component": "node", "host": "n1"},
                "firstTimestamp": ago(minutes=5),
                "lastTimestamp": ago(seconds=5),
                "count": 3,
            },
            ["5s", "Normal", "Started", "pod/p", "spec.containers{c}", "node, n1", "Started container c", "5m", 3, "x"],
        ),
        (
            EVENT,
            {
                "involvedObject": {"kind": "Node"},
                "reportingComponent": "c",
                "eventTime": ago(minutes=3),
                "series": {"count": 9, "lastObservedTime": ago(seconds=2)},
            },
            ["2s", "", "", "node", "", "c", "", "3m", 9, "x"],
        ),
        (EVENT, {}, ["<unknown>", "", "", "", "", "", "", "<unknown>", 1, "x"]),
        (
            EVENTS_V1_EVENT,
            {
                "regarding": {"kind": "Pod", "name": "p"},
                "note": "hello",
                "reportingController": "c",
                "reportingInstance": "i",
                "eventTime": ago(minutes=3),
                "series": {"count": 9, "lastObservedTime": ago(seconds=2)},
            },
            ["2s", "", "", "pod/p", "", "c, i", "hello", "3m", 9, "x"],
        ),
    ],
)
def test_rows(kind: Kind[Any], document: dict[str, Any], expected: list[Any]) -> None:
    printer = printer_of(kind)
    obj = kind.decode(msgspec.json.encode({"metadata": META} | document))
    assert printer.cells(obj, NOW) == expected
    assert len(printer.columns) == len(expected)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-2, "<invalid>"),
        (-1.9, "0s"),
        (0, "0s"),
        (0.9, "0s"),
        (119, "119s"),
        (120, "2m"),
        (121, "2m1s"),
        (599, "9m59s"),
        (600, "10m"),
        (10799, "179m"),
        (10800, "3h"),
        (10860, "3h1m"),
        (28799, "7h59m"),
        (28800, "8h"),
        (172799, "47h"),
        (172800, "2d"),
        (176400, "2d1h"),
        (691199, "7d23h"),
        (691200, "8d"),
        (63071999, "729d"),
        (63072000, "2y"),
        (63158400, "2y1d"),
        (252288000, "8y"),
        (3153600000, "100y"),
    ],
)
def test_human_duration(seconds: float, text: str) -> None:
    assert format_duration(timedelta(seconds=seconds)) == text
