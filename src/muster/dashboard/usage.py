"""Ask what pods use now, which no watch keeps up to date."""

from collections.abc import Sequence
from functools import partial

from muster.dashboard.visits import Visit
from muster.insight.reader.usage import read_usage
from muster.insight.usage import PodUsage

_SECONDS = 5.0


async def ask_usage(visit: Visit, namespace: str) -> Sequence[PodUsage]:
    """Return the measured usage of the pods of a namespace ("": of all), as far as the viewer may see it.

    A page does not wait for the server: without an answer so far, the result is empty.
    """
    find = partial(read_usage, visit.viewer.client, namespace, _ignore)
    metrics: Sequence[PodUsage] | None = await visit.copy.answers.ask(("usage", namespace), _SECONDS, find)
    return metrics or ()


def _ignore(_sentence: str) -> None:
    """Ignore a sentence on usage that the viewer may not see: the page's column then stays empty."""
