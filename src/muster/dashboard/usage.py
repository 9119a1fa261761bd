"""Read the current resource use of pods, which cannot be watched."""

from collections.abc import Sequence
from functools import partial

from muster.dashboard.visits import Visit
from muster.insight.reader.usage import read_usage
from muster.insight.usage import PodUsage

_SECONDS = 5.0


async def ask_usage(visit: Visit, namespace: str) -> Sequence[PodUsage]:
    """Return the measured use of the pods in a namespace ("": in all), as far as the viewer may see it.

    A page does not wait for the server: until the first response, the result is empty.
    """
    find = partial(read_usage, visit.viewer.client, namespace, _ignore)
    metrics: Sequence[PodUsage] | None = await visit.copy.answers.ask(("usage", namespace), _SECONDS, find)
    return metrics or ()


def _ignore(_sentence: str) -> None:
    """Ignore a sentence about use that the viewer may not see. The page's column is then empty."""
