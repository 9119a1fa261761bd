"""What users name, and what a cluster has."""

import asyncio

import msgspec
import pytest
from tests.unit.runtime.conftest import ScriptedTransport

from muster.actions.choices import queue_to_name
from muster.actions.errors import UserError
from muster.runtime.client import Client
from muster.runtime.transport import Response

THERE = Response(200, msgspec.json.encode({"metadata": {"name": "default", "namespace": "ns"}}))
NONE, FORBIDDEN = Response(404, b"no"), Response(403, b"no")


def named(asked, *script, embedded=False):
    return asyncio.run(queue_to_name(Client(ScriptedTransport(*script)), "ns", asked, embedded=embedded))


def test_a_job_names_the_queue_that_it_is_to_wait_in():
    assert named("vision", THERE) == "vision"
    assert named("", THERE) == "default"
    assert named("vision", THERE, embedded=True) == "vision"
    assert named("", embedded=True) == "", "the cluster does it, and is not asked"


@pytest.mark.parametrize("answer", [NONE, FORBIDDEN])
def test_where_no_queue_is_to_be_seen_none_is_named(answer):
    assert named("", answer) == ""


def test_a_queue_that_is_not_there_is_told():
    with pytest.raises(UserError, match="no queue vision in namespace ns; it has none"):
        named("vision", Response(404, b'{"reason": "NotFound"}'), Response(200, b'{"items": []}'))
