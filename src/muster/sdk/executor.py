"""An executor with the interface of `concurrent.futures` that makes calls in the cluster."""

import concurrent.futures
import os
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from threading import Lock, Thread
from types import TracebackType
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, Unpack

from muster.insight.jobs.state import Ending
from muster.sdk import core, submission, worker
from muster.sdk.background import get_background
from muster.sdk.core import Ended
from muster.sdk.directories import remove_directory
from muster.sdk.errors import Error
from muster.sdk.jobs import Job
from muster.sdk.options import Options, normalize_options, require_whole_number
from muster.sdk.pool import Pool
from muster.sdk.results import collect_result

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

P = ParamSpec("P")
T = TypeVar("T")


class Executor(concurrent.futures.Executor):
    """An executor that makes up to `array` concurrent calls in the cluster.

    By default each call uses one worker. Then all workers are one job: they start together, stay, and make one call
    after another, about a thousand small calls per second. With several workers per call, each call is a separate job:
    a gang whose ranks all make the call. The future of such a call returns the same value as `Job.result`.

    All other options are those of `muster.run`. `shutdown` waits for the submitted calls, as in `concurrent.futures`,
    but Ctrl-C ends all of them.
    """

    def __init__(self, *, array: int = 1, **options: Unpack[Options]) -> None:
        if "max_workers" in options:
            raise TypeError("there is no option 'max_workers' here: array=4 makes four calls at a time")
        array = require_whole_number("array", array)
        if array < 1:
            raise Error(f"array={array}: the least is 1 call at a time")
        self._options = normalize_options(options)
        self._array = array
        self._process = os.getpid()
        self._threads = _start_threads(array)
        self._pool: Pool | None = None
        self._job: Job | None = None
        self._turn = Lock()
        self._gangs: set[Future[Ended]] = set()
        self._terminated = False
        if self._options.get("workers", 1) == 1:
            self._start_workers()

    @property
    def job(self) -> Job | None:
        """The job of the persistent workers; None if each call has its own job.

        The job's `why` explains why it has not started, and `logs` returns its output.
        """
        return self._job

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> "Future[T]":
        """Submit a call. Raises `Error` if it cannot be pickled, and in a forked process."""
        if self._is_forked:
            raise Error(f"the executor belongs to process {self._process}; make another one in this fork of it")
        work = submission.work_of(fn, args, kwargs)
        return self._threads.submit(self._call_in_job if self._pool is None else self._call_in_pool, work)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, KeyboardInterrupt):
            self.terminate_workers()
        else:
            self.shutdown()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Accept no more calls, and release the workers after the last call. Ctrl-C during the wait terminates them.

        Does nothing in a forked process, because the calls and the workers belong to its parent.
        """
        if self._is_forked:
            return
        self._threads.shutdown(wait=False, cancel_futures=cancel_futures)
        if not wait:
            Thread(target=self._finish, name="muster-executor", daemon=True).start()
            return
        try:
            self._finish()
        except KeyboardInterrupt:
            self.terminate_workers()
            raise

    def terminate_workers(self) -> None:
        """Accept no more calls, cancel waiting calls, and end the jobs of running calls.

        Does nothing in a forked process.
        """
        if self._is_forked:
            return
        self._threads.shutdown(wait=False, cancel_futures=True)
        with self._turn:
            self._terminated = True
            for gang in self._gangs:
                gang.cancel()
        pool, job = self._pool, self._job  # another thread may release them at the same time
        try:
            if pool is not None and job is not None:
                job.cancel()
        finally:
            if pool is not None:
                pool.end("it was terminated", at_once=True)
            self._finish()

    @property
    def _is_forked(self) -> bool:
        return os.getpid() != self._process

    def _start_workers(self) -> None:
        """Submit the job of the persistent workers, and listen for their connections.

        If the job ends, waiting calls get an error with the reason. Raises `Error`, after removing all files.
        """
        thread = get_background()
        options: Options = {**self._options, "workers": self._array}
        self._directory = directory = thread.call(submission.make_call_directory(thread.connections, options))
        self._pool = pool = Pool(directory)
        try:
            reference = thread.call(
                submission.submit_workers(thread.connections, directory, worker.STAY, ["executor"], options)
            )
        except BaseException:
            pool.end("they were never submitted")
            remove_directory(directory)
            raise
        self._job = Job(reference)
        ending = thread.start(core.wait_for_ending(reference))
        ending.add_done_callback(lambda job: pool.end(_describe_end(job)))

    def _finish(self) -> None:
        """Wait for all calls, then release the workers and remove their files.

        If not all workers have connected, the job is cancelled.
        """
        self._threads.shutdown()
        pool, self._pool = self._pool, None
        if pool is None or self._job is None:
            return
        pool.end("it was shut down")
        remove_directory(self._directory)
        if pool.ranks < self._array:
            self._job.cancel()  # no calls are left for workers that have not started

    def _call_in_pool(self, work: submission.Work) -> Any:
        assert self._pool is not None
        assert self._job is not None
        outcome, rank = self._pool.call(self._job.name, work.call)
        return outcome.value(self._job.name, rank)

    def _call_in_job(self, work: submission.Work) -> Any:
        thread = get_background()
        with self._turn:
            if self._terminated:
                raise CancelledError
            gang = thread.start(submission.submit_and_wait(thread.connections, work, self._options))
            self._gangs.add(gang)
        try:
            return collect_result(gang.result())
        finally:
            with self._turn:
                self._gangs.discard(gang)


def _describe_end(job: "Future[Ending]") -> str:
    """Return how the job of the workers has ended, as text for an error."""
    if job.cancelled():
        return "nothing is known of it any more"
    error = job.exception()
    return str(error) if error is not None else job.result().text or "its workers have left"


def _start_threads(number: int) -> "ThreadPoolExecutor":
    """Return the threads that make calls. Raises `Error` once the main thread has ended."""
    try:
        from concurrent.futures import ThreadPoolExecutor
    except RuntimeError as error:  # Python's own executor cannot be imported any more
        raise Error("Python ends, as the main thread has ended: muster.run makes calls until the end") from error
    return ThreadPoolExecutor(number, thread_name_prefix="muster-executor")
