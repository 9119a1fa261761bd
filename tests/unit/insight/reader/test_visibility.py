"""Positions are what the cluster says, or nothing."""

import asyncio

import msgspec
import pytest
from tests.unit.runtime.conftest import ScriptedTransport

from muster.api.status import ApiError
from muster.insight.reader.visibility import Visibility
from muster.runtime.client import Client
from muster.runtime.transport import Response, UnreadableAnswerError


def answer(*names):
    items = [
        {
            "metadata": {"name": name, "namespace": "ns"},
            "priority": 0,
            "localQueueName": "q",
            "positionInClusterQueue": place + 4,
            "positionInLocalQueue": place,
        }
        for place, name in enumerate(names)
    ]
    return Response(200, msgspec.json.encode({"items": items or None}))


def refusal(code):
    return Response(code, b"no")


def ask(*script, queues=frozenset({("ns", "q")})):
    transport = ScriptedTransport(*script)
    found = asyncio.run(Visibility(Client(transport)).find_positions(set(queues)))
    return found, [request.path.split("/")[3] for request in transport.requests]


def test_positions_are_from_one_and_in_the_cluster_queue():
    assert ask(answer("a", "b")) == ({("ns", "a"): 5, ("ns", "b"): 6}, ["v1beta2"])
    assert ask(answer()) == ({}, ["v1beta2"])


def test_an_older_version_will_do_and_is_remembered():
    two = {("ns", "q"), ("ns", "r")}
    found, versions = ask(refusal(404), answer("a"), answer("b"), queues=two)
    assert found == {("ns", "a"): 5, ("ns", "b"): 5}
    assert versions == ["v1beta2", "v1beta1", "v1beta1"]


@pytest.mark.parametrize("code", [403, 404, 503])
def test_where_nobody_tells_nothing_is_made_up(code):
    assert ask(refusal(code), refusal(code))[0] == {}


@pytest.mark.parametrize("body", [b"[]", b'{"items": 3}', b"nonsense"])
def test_an_answer_that_is_none_is_an_error(body):
    with pytest.raises(UnreadableAnswerError):
        ask(Response(200, body))


def test_other_errors_are_errors():
    with pytest.raises(ApiError, match="no"):
        ask(refusal(500))
