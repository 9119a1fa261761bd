"""`jobs/log`: the logs of a Job's pods that are gone."""

import asyncio

import msgspec
import pytest

from muster.api.status import ApiError
from muster.cluster.apiserver.answers import Stream
from muster.cluster.apiserver.pods.logs import read_kept_log
from muster.cluster.store import Entry
from muster.cluster.store.values import Header, Key
from muster.runtime.containerlogs import KeptPod

JOB = Entry(Key("jobs.batch", "ns", "j"), 1, b"{}", Header(uid="job"))


class Node:
    def __init__(self, *pods):
        self.pods = pods

    def logs(self, pod, options):
        raise AssertionError("the pods are gone")

    def list_kept_pods(self, job):
        return self.pods if job == "job" else ()

    async def kept_log(self, pod, options):
        yield f"{pod.name} {options.container} {options.attempt}".encode()


NODES = {
    "a": Node(KeptPod("j-0", "u0", "0", "2026", {"c": (1, 2)})),
    "b": Node(KeptPod("j-1", "u1", "1", "2026", {"c": (0,)})),
}


def ask(**query):
    async def main():
        answer = await read_kept_log(JOB, query, NODES)
        if isinstance(answer, Stream):
            return b"".join([piece async for piece in answer.chunks])
        return msgspec.json.decode(answer.body)

    return asyncio.run(main())


def test_they_are_listed():
    assert [(pod["name"], pod["uid"], pod["containers"]) for pod in ask()["items"]] == [
        ("j-0", "u0", {"c": [1, 2]}),
        ("j-1", "u1", {"c": [0]}),
    ]


def test_one_is_read():
    assert ask(uid="u0", container="c") == b"j-0 c None"
    assert ask(uid="u1", container="c", attempt="0") == b"j-1 c 0"


@pytest.mark.parametrize(
    ("query", "code", "message"),
    [
        ({"uid": "u9", "container": "c"}, 404, 'pods "u9" not found'),
        ({"uid": "u0"}, 400, "container  is not valid for pod j-0"),
        ({"uid": "u0", "container": "../c"}, 400, "container ../c is not valid for pod j-0"),
        (
            {"uid": "u0", "container": "c", "attempt": "0"},
            400,
            "no log of attempt 0 of container c in pod j-0",
        ),
        ({"uid": "u0", "container": "c", "tailLines": "-1"}, 422, "must be greater than or equal to 0"),
    ],
)
def test_what_is_not_there_is_refused(query, code, message):
    with pytest.raises(ApiError, match=message) as caught:
        ask(**query)
    assert caught.value.code == code
