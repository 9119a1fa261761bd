"""Asks what pods use now, which no watch keeps up to date."""

from collections.abc import Sequence
from functools import partial

from muster.dashboard.visits import Visit
from muster.insight.reader.usage import read_usage
from muster.insight.usage import PodUsage

_SECONDS = 5.0


async def ask_usage(visit: Visit, namespace: str) -> Sequence[PodUsage]:
    """Return what the pods of a namespace ("": of all) use, as far as it has been measured and the viewer may see it.

    A page does not wait for the answer: without one it shows no use yet.
    """
    find = partial(read_usage, visit.viewer.client, namespace, _ignore)
    metrics: Sequence[PodUsage] | None = await visit.copy.answers.ask(("usage", namespace), _SECONDS, find)
    return metrics or ()


def _ignore(_sentence: str) -> None:
    """Leave out uses that the viewer may not see: the column says nothing then."""
