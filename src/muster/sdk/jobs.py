"""Jobs for programs and notebooks: all methods here block; `muster.aio` has the same as coroutines."""

from collections.abc import Coroutine, Iterator, Mapping, Sequence
from typing import Any, TypeVar, Unpack

from muster.sdk import core
from muster.sdk.background import get_background
from muster.sdk.core import JobReference, Why
from muster.sdk.feed import Feed
from muster.sdk.options import Options, normalize_options
from muster.sdk.results import collect_result
from muster.sdk.submission import What, submit_work, work_of

T = TypeVar("T")


class Job:
    """A submitted job. The job continues whatever happens to this object."""

    def __init__(self, reference: JobReference) -> None:
        self._reference = reference

    def __repr__(self) -> str:
        return f"<muster job {self.name}>"

    @property
    def name(self) -> str:
        """The name of the job: `muster.job(name)` finds it again, from any program."""
        return self._reference.name

    @property
    def state(self) -> str:
        """The state in a word of `muster ps`: Queued, Running, Completed, Failed and others."""
        return get_background().call(core.read_state(self._reference))

    def done(self) -> bool:
        """Return whether the job has ended."""
        return get_background().call(core.record(self._reference)).end is not None

    def wait(self, timeout: float | None = None) -> int:
        """Wait until the job has ended; return its exit code.

        Raises `TimeoutError` if the job has not ended within `timeout` seconds; the job goes on.
        """
        return self._awaited(core.wait_for_ending(self._reference), timeout).code

    def result(self, timeout: float | None = None) -> Any:
        """Return the function's result once all workers are done.

        The result of several workers is the list by rank. The result of a command is None. Raises the error of the
        first worker that failed, `JobFailedError` if it died without one, and `TimeoutError`. Results are unpickled,
        which is safe because they come from a directory that only this user can write.
        """
        return collect_result(self._awaited(core.wait_for_end(self._reference), timeout))

    def logs(self, rank: int | None = None) -> str:
        """Return the output so far: of all workers, each line with its rank, or of one worker."""
        return "".join(f"{line}\n" for line in get_background().call(core.read_logs(self._reference, rank)))

    def follow(self, rank: int | None = None) -> Iterator[str]:
        """Yield the lines of the job as they are printed, until it ends."""
        thread, feed = get_background(), Feed[str]()
        following = thread.start(feed.fill_from(core.follow(self._reference, rank, feed.tell)))
        try:
            while (lines := thread.call(feed.take())) is not None:
                yield from lines
            following.result()
        finally:
            following.cancel()

    def why(self) -> Why:
        """Return why the job does not run, with numbers and an estimate, or where it runs.

        `print` shows the answer as text.
        """
        return get_background().call(core.why(self._reference))

    def cancel(self) -> None:
        """Cancel the job, and return without waiting for its workers to end.

        The workers get SIGTERM and their grace period. On a cluster that `muster up` did not start, the job is deleted.
        """
        get_background().call(core.cancel(self._reference))

    def scale(self, workers: int) -> None:
        """Change the number of workers of the job."""
        get_background().call(core.scale(self._reference, workers))

    def _awaited(self, end: Coroutine[Any, Any, T], timeout: float | None) -> T:
        try:
            return get_background().call(end, timeout)
        except TimeoutError:
            raise TimeoutError(f"{self.name} has not ended within {timeout:g} s; it goes on") from None

    @property
    def reference(self) -> JobReference:
        """The reference to the job, for `muster.aio`."""
        return self._reference


def run(
    what: What, /, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None, **options: Unpack[Options]
) -> Job:
    """Run a function, or a command, on every worker: all workers start together, or none does.

    what: a function, a list of words, or a line for the shell. args, kwargs: of the function.

    All options may be left out. They have the names of `muster run`; quantities are as in Kubernetes:

    workers: how many. cpus, memory, gpus: of each, as 2 or "500m", "4Gi", 1.
    queue: the LocalQueue to wait in. priority: a WorkloadPriorityClass or a PriorityClass.
    time: how long an attempt may run, as "2h" or in seconds. signal: "USR1@60" comes before the time limit.
    retries: how often the whole job restarts after a failure. exclusive: whether no other job may be on its nodes.
    name: of the job; by default made from what runs. labels, annotations: of the job and its pods.
    env: variables of the workers. workdir: where they start.
    elastic: "MIN:MAX" lets the job shrink and grow. start_timeout: seconds for all workers to start.
    notify: a URL, a mail address or a command to tell of the end, or several. notify_on: other events, as "start,fail".
    image: container image. namespace, kubeconfig: the cluster to use, if not the embedded one.

    Without a running cluster, Muster starts one inside this process, which ends with it. Raises `muster.Error`.
    """
    checked_options, work, thread = normalize_options(options), work_of(what, args, kwargs), get_background()
    return Job(submit_work(thread, work, checked_options))


def job(name: str, *, namespace: str = "", kubeconfig: str = "") -> Job:
    """Return an existing job by its name. Raises `muster.Error`.

    The job has a result if its function was submitted from this machine.
    """
    thread = get_background()
    options = Options(namespace=namespace, kubeconfig=kubeconfig)
    return Job(thread.call(core.find(thread.connections, name, options)))
