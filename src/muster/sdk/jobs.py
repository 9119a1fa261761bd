"""Jobs for programs and notebooks. All methods here block; `muster.aio` has the same functions as coroutines."""

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
    """A submitted job. Deleting this object does not affect the job."""

    def __init__(self, reference: JobReference) -> None:
        self._reference = reference

    def __repr__(self) -> str:
        return f"<muster job {self.name}>"

    @property
    def name(self) -> str:
        """The name of the job. `muster.job(name)` returns the job in any program."""
        return self._reference.name

    @property
    def state(self) -> str:
        """The state of the job, in a word of `muster ps`: Queued, Running, Completed, Failed and others."""
        return get_background().call(core.read_state(self._reference))

    def done(self) -> bool:
        """Return whether the job has ended."""
        return get_background().call(core.record(self._reference)).end is not None

    def wait(self, timeout: float | None = None) -> int:
        """Wait until the job has ended; return its exit code.

        timeout: the maximum wait in seconds; None to wait without a limit.

        Raises `TimeoutError` after the timeout; the job continues.
        """
        return self._wait_for_end(core.wait_for_ending(self._reference), timeout).code

    def result(self, timeout: float | None = None) -> Any:
        """Wait until all workers are done; return the function's result.

        timeout: the maximum wait in seconds; None to wait without a limit.

        For several workers, the result is the list of their results, by rank. For a command, it is None. Raises the
        error of the first worker that failed, `JobFailedError` if it ended without an error of the function, and
        `TimeoutError`. Results are unpickled, which is safe because only this user can write to their directory.
        """
        return collect_result(self._wait_for_end(core.wait_for_end(self._reference), timeout))

    def logs(self, rank: int | None = None) -> str:
        """Return the output so far. `rank` selects one worker; None returns all output, each line with its rank."""
        return "".join(f"{line}\n" for line in get_background().call(core.read_logs(self._reference, rank)))

    def follow(self, rank: int | None = None) -> Iterator[str]:
        """Yield the lines of the job as they are printed, until the job ends."""
        thread, feed = get_background(), Feed[str]()
        following = thread.start(feed.fill_from(core.follow(self._reference, rank, feed.tell)))
        try:
            while (lines := thread.call(feed.take())) is not None:
                yield from lines
            following.result()
        finally:
            following.cancel()

    def why(self) -> Why:
        """Return why the job does not run, with numbers and an estimate; or where it runs.

        `print` shows it as text.
        """
        return get_background().call(core.why(self._reference))

    def cancel(self) -> None:
        """Cancel the job, without waiting until its workers have ended.

        The workers get SIGTERM and their grace period. In a cluster that `muster up` did not start, the job is deleted.
        """
        get_background().call(core.cancel(self._reference))

    def scale(self, workers: int) -> None:
        """Change the number of workers of the job."""
        get_background().call(core.scale(self._reference, workers))

    def _wait_for_end(self, end: Coroutine[Any, Any, T], timeout: float | None) -> T:
        try:
            return get_background().call(end, timeout)
        except TimeoutError:
            raise TimeoutError(f"{self.name} has not ended within {timeout:g} s; it continues") from None

    @property
    def reference(self) -> JobReference:
        """The reference to the job, for `muster.aio`."""
        return self._reference


def run(
    what: What, /, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None, **options: Unpack[Options]
) -> Job:
    """Run a function or a command on every worker. All workers start together, or none starts.

    what: a function, a list of words, or a shell command line.
    args, kwargs: the arguments of the function.

    All options are optional, and have the names of the options of the command `muster run`:

    workers: the number of workers.
    cpus, memory, gpus: the requests of each worker, such as 2 or "500m", "4Gi", 1.
    queue: the LocalQueue to wait in.
    priority: the name of a WorkloadPriorityClass or a PriorityClass.
    time: the time limit of each attempt, such as "2h", or a number of seconds.
    signal: the signal to send before the time limit; "USR1@60" sends SIGUSR1 60 s before it.
    retries: how often all workers restart after a worker has failed.
    exclusive: whether the job uses only nodes on which no other job runs.
    name: the name of the job; by default derived from the function or the command.
    labels, annotations: the labels and annotations of the job and its pods.
    env: environment variables of the workers.
    workdir: the directory in which the workers start.
    elastic: "MIN:MAX" lets the job shrink and grow.
    start_timeout: the seconds within which all workers must start after the first one; otherwise the job fails.
    notify: the URL, mail address or command to notify when the job ends, or a list of them.
    notify_on: the events of the notices, such as "start,fail", instead of the end.
    image: the container image, on nodes that run containers.
    namespace, kubeconfig: the namespace, and the kubeconfig of the cluster; by default the cluster of `muster up`.

    Without a running cluster, Muster starts one inside this process, which ends with the process. Raises
    `muster.Error`.
    """
    checked_options, work, thread = normalize_options(options), work_of(what, args, kwargs), get_background()
    return Job(submit_work(thread, work, checked_options))


def job(name: str, *, namespace: str = "", kubeconfig: str = "") -> Job:
    """Return an existing job by its name. Raises `muster.Error`.

    `Job.result` works only if the function was submitted from this machine.
    """
    thread = get_background()
    options = Options(namespace=namespace, kubeconfig=kubeconfig)
    return Job(thread.call(core.find(thread.connections, name, options)))
