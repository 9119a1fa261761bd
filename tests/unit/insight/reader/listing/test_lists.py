"""The lists of one question: each is read once, and whole objects serve for their views."""

import asyncio
from typing import Any

import pytest

from muster.api.batch import JOB
from muster.api.kinds import Kind, Page
from muster.insight.reader.listing.lists import Lists
from muster.insight.reader.listing.views import JOB_LINES
from muster.runtime.client import Client


class Counting(Client):
    """A client of a cluster with one job, which notes the types that it is asked for."""

    def __init__(self) -> None:
        self.types: list[Any] = []

    async def list(self, kind: Kind[Any], namespace: str = "", **_: Any) -> Page[Any]:
        """Return the job as the type of the kind."""
        self.types.append(kind.type)
        return Page(items=[kind.typed({"metadata": {"name": "a"}, "spec": {"template": {"metadata": {"name": "t"}}}})])


@pytest.mark.parametrize(
    ("kinds", "read"),
    [
        ((JOB, JOB), [JOB.type]),
        ((JOB, JOB_LINES), [JOB.type]),
        ((JOB_LINES, JOB_LINES), [JOB_LINES.type]),
        ((JOB_LINES, JOB), [JOB_LINES.type, JOB.type]),
        ((JOB_LINES, JOB, JOB_LINES), [JOB_LINES.type, JOB.type]),
    ],
)
def test_a_list_is_read_again_only_for_more_of_its_objects(kinds: tuple[Kind[Any], ...], read: list[Any]) -> None:
    async def run() -> None:
        client = Counting()
        lists = Lists(client)
        for kind in kinds:
            jobs = await lists.of(kind)
            assert jobs is not None
            assert kind is not JOB or jobs[0].spec.template.metadata.name == "t"
        assert client.types == read

    asyncio.run(run())
