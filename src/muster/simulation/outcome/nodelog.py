"""Record which job ran on which node and when, for a chart of a small cluster. Bounded in memory."""

from array import array
from collections.abc import Mapping
from math import inf, nan

# The maximum number of nodes in a readable chart.
MOST_NODES = 200
# The maximum number of stored stays, which take 32 bytes each.
MOST_STAYS = 500_000


class NodeLog:
    """The stays of jobs on nodes. All pods of a job on a node are one stay.

    names: the names of the nodes, by number.
    jobs, nodes, pods, starts, ends: arrays with one entry per stay; the end is NaN while the job runs.
    complete_until: the time from which starts are missing, because there are too many; infinity if none is missing.
    """

    def __init__(self, most_stays: int = MOST_STAYS) -> None:
        self.jobs, self.nodes, self.pods = array("q"), array("i"), array("i")
        self.starts, self.ends = array("d"), array("d")
        self.complete_until = inf
        self._numbers: dict[str, int] = {}
        self._open: dict[int, range] = {}  # the stays of each running job
        self._most = most_stays

    def __len__(self) -> int:
        return len(self.jobs)

    @property
    def names(self) -> list[str]:
        """The names of the nodes, by number."""
        return list(self._numbers)

    def add_node(self, name: str) -> int:
        """Return the number of a node, which is added if it is new."""
        return self._numbers.setdefault(name, len(self._numbers))

    def start(self, job: int, nodes: Mapping[str, int], at: float) -> None:
        """Add the stays of a job that starts.

        nodes: the number of its pods on each node.

        If there would be too many stays, none is added, and the log is marked as complete only until `at`.
        """
        first = len(self)
        if first + len(nodes) > self._most:
            self.complete_until = min(self.complete_until, at)
            return
        for name, pods in nodes.items():
            self.jobs.append(job)
            self.nodes.append(self.add_node(name))
            self.pods.append(pods)
            self.starts.append(at)
            self.ends.append(nan)
        self._open[job] = range(first, len(self))

    def end(self, job: int, at: float) -> None:
        """End the open stays of a job, if it has any."""
        for stay in self._open.pop(job, ()):
            self.ends[stay] = at
