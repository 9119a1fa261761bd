"""Jobs, as a program or a notebook has them: everything here waits; `muster.aio` has the same to be awaited."""

from collections.abc import Coroutine, Iterator, Mapping, Sequence
from typing import Any, TypeVar, Unpack

from muster.sdk import core
from muster.sdk.background import background
from muster.sdk.core import Reference, What, Why
from muster.sdk.feed import Feed
from muster.sdk.options import Options, checked
from muster.sdk.results import result

T = TypeVar("T")


class Job:
    """A job that was submitted, and goes on whatever becomes of this object."""

    def __init__(self, reference: Reference) -> None:
        self._reference = reference

    def __repr__(self) -> str:
        return f"<muster job {self.name}>"

    @property
    def name(self) -> str:
        """Its name: `muster.job(name)` finds it again, from any program."""
        return self._reference.name

    @property
    def state(self) -> str:
        """What it is doing, in a word of `muster ps`: Queued, Running, Completed, Failed and others."""
        return background().call(core.state(self._reference))

    def done(self) -> bool:
        """Whether it has ended."""
        return background().call(core.record(self._reference)).end is not None

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it has ended; its exit code. Raises `TimeoutError` after so many seconds."""
        return self._awaited(core.ending(self._reference), timeout).code

    def result(self, timeout: float | None = None) -> Any:
        """What the function returned, once all workers are done: of several the list, by rank; None of a command.

        Raises what the first worker that failed has raised, `JobFailedError` if it died without a word, and
        `TimeoutError`. The value is unpickled, so it is believed: it comes from a directory that is the user's alone.
        """
        return result(self._awaited(core.ended(self._reference), timeout))

    def logs(self, rank: int | None = None) -> str:
        """What it has printed so far: all workers, each line with its rank, or one of them."""
        return "".join(f"{line}\n" for line in background().call(core.logs(self._reference, rank)))

    def follow(self, rank: int | None = None) -> Iterator[str]:
        """Its lines as they are printed, to the end of the job."""
        there, feed = background(), Feed[str]()
        following = there.start(feed.filled_by(core.follow(self._reference, rank, feed.tell)))
        try:
            while (lines := there.call(feed.take())) is not None:
                yield from lines
            following.result()
        finally:
            following.cancel()

    def why(self) -> Why:
        """Why it does not run, with numbers and an estimate; or where it does. It shows itself as text."""
        return background().call(core.why(self._reference))

    def cancel(self) -> None:
        """End it, gracefully."""
        background().call(core.cancel(self._reference))

    def scale(self, workers: int) -> None:
        """Give it so many workers."""
        background().call(core.scale(self._reference, workers))

    def _awaited(self, end: Coroutine[Any, Any, T], timeout: float | None) -> T:
        try:
            return background().call(end, timeout)
        except TimeoutError:
            raise TimeoutError(f"{self.name} has not ended within {timeout:g} s; it goes on") from None

    @property
    def reference(self) -> Reference:
        """For `muster.aio`."""
        return self._reference


def run(
    what: What, /, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None, **options: Unpack[Options]
) -> Job:
    """Run a function, or a command, on every worker: all of them start together, or none does.

    what: a function, a list of words, or a line for the shell. args, kwargs: of the function.

    The options, all of which may be left out, are in the words of `muster run`; quantities are as in Kubernetes:

    workers: how many. cpus, memory, gpus: of each, as 2 or "500m", "4Gi", 1.
    queue: the LocalQueue to wait in. priority: a WorkloadPriorityClass or a PriorityClass.
    time: how long an attempt may run, as "2h" or in seconds. signal: "USR1@60" comes before that.
    retries: how often the whole is started anew when it fails. exclusive: no other job is on its nodes.
    name: of the job, which else is made from what runs. labels, annotations: of the job and its pods.
    env: variables of the workers. workdir: where they start.
    elastic: "MIN:MAX" lets it shrink and grow. start_timeout: seconds for all workers to start.
    image: container image. namespace, kubeconfig: the cluster to use, if not the embedded one.

    Without a running cluster one is started inside this process, and ends with it. Raises `muster.Error`.
    """
    asked, work, there = checked(options), core.work_of(what, args, kwargs), background()
    return Job(there.call(core.run(there.connections, work, asked)))


def job(name: str, *, namespace: str = "", kubeconfig: str = "") -> Job:
    """A job that there is, by its name: its result, too, if its function was submitted here. Raises `muster.Error`."""
    there = background()
    options = Options(namespace=namespace, kubeconfig=kubeconfig)
    return Job(there.call(core.find(there.connections, name, options)))
