"""Choose which queues have their own colour; the others share one."""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from muster.charts.plot import COLORS, Series, color_of

NO_QUEUE = "(no queue)"


class Palette(Struct, frozen=True):
    """The queues that have their own colour, largest first. All figures use the same colours."""

    queues: Sequence[str]

    @classmethod
    def of(cls, weights: Mapping[str, float]) -> "Palette":
        """Return the palette for these queues.

        weights: the importance of each queue.

        If there are too many queues, the least important ones share one colour.
        """
        ordered = sorted(weights, key=lambda name: (-weights[name], name))
        return cls(ordered if len(ordered) <= COLORS else ordered[: COLORS - 1])

    def color(self, queue: str) -> str:
        """Return the colour of a queue; the colour of all other queues if it has none of its own."""
        return color_of(self.queues.index(queue)) if queue in self.queues else "rest"

    def stack(self, values: Iterable[tuple[str, Sequence[float]]], length: int) -> list[Series]:
        """Return the values of queues as layers of a stack; queues without their own colour share one layer.

        values: pairs of a queue and its values; if a queue occurs several times, its values are added.
        length: the number of values per queue.
        """
        sums: dict[str, list[float]] = {}
        others = 0
        for queue, series in values:
            key = queue if queue in self.queues else "\0others"
            others += key != queue
            total = sums.setdefault(key, [0.0] * length)
            sums[key] = [one + two for one, two in zip(total, series, strict=True)]
        layers = [Series(name_queue(one), sums[one], self.color(one)) for one in self.queues if one in sums]
        if others:
            layers.append(Series("other queues", sums["\0others"], "rest"))
        return layers


def name_queue(queue: str) -> str:
    """Return the name of a queue for users; for "", words for jobs without a queue."""
    return queue or NO_QUEUE
