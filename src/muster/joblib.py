"""A backend for joblib, which scikit-learn uses, too.

    import muster.joblib

    with joblib.parallel_config("muster", n_jobs=4):
        joblib.Parallel()(joblib.delayed(trial)(rate) for rate in rates)

Importing this module registers the backend under the name `muster`.
"""

from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import Any

from joblib.parallel import AutoBatchingMixin, ParallelBackendBase, register_parallel_backend

from muster.actions.parsing.quantities import worker_cpus
from muster.api.values.quantity import parse_thousandths
from muster.sdk import core
from muster.sdk.background import get_background
from muster.sdk.errors import Error
from muster.sdk.executor import Executor
from muster.sdk.options import normalize_options

__all__ = ["Backend"]


class Backend(AutoBatchingMixin, ParallelBackendBase):  # type: ignore[misc]  # joblib has no types
    """A backend of joblib that runs batches of calls on an executor.

    Its options are those of `muster.Executor`, with n_jobs instead of array.
    """

    supports_retrieve_callback = True
    supports_timeout = True

    def __init__(
        self, nesting_level: int | None = None, inner_max_num_threads: int | None = None, **options: Any
    ) -> None:
        super().__init__(nesting_level=nesting_level, inner_max_num_threads=inner_max_num_threads)
        self._options = options
        self._executor: Executor | None = None

    def effective_n_jobs(self, n_jobs: int | None) -> int:
        """Return the number of concurrent calls.

        As in joblib, -1 means all CPUs, -2 all CPUs but one, and so on. All CPUs means as many workers as fit on the
        CPUs of all nodes. Raises `Error` for 0, or if the user may not list nodes.
        """
        if n_jobs == 0:
            raise Error("n_jobs=0: name a number of workers, or -1 for as many as the nodes have CPUs for")
        if n_jobs is None or n_jobs > 0:
            return n_jobs or 1
        thread, options = get_background(), normalize_options(self._options)
        cpus = thread.call(core.count_cpus(thread.connections, options))
        return max(1, count_workers(cpus, options.get("cpus", 1)) + 1 + n_jobs)

    def configure(self, n_jobs: int = 1, parallel: Any = None, **_: Any) -> int:
        """Start the workers; return the number of concurrent calls."""
        self.parallel = parallel
        workers = self.effective_n_jobs(n_jobs)
        self._executor = Executor(array=workers, **self._options)
        return workers

    def submit(self, func: Callable[[], Any], callback: Callable[[Any], None] | None = None) -> "Future[Any]":
        """Submit a batch of calls."""
        assert self._executor is not None, "it was configured"
        future = self._executor.submit(func)
        if callback is not None:
            future.add_done_callback(callback)
        return future

    def retrieve_result_callback(self, out: "Future[Any]") -> Any:
        """Return the result of a batch."""
        return out.result()

    def terminate(self) -> None:
        """Release the workers."""
        if self._executor is not None:
            self._executor.shutdown(cancel_futures=True)
            self._executor = None

    def abort_everything(self, ensure_ready: bool = True) -> None:
        """Cancel waiting calls, and terminate running calls. Then start new workers if `ensure_ready` is set."""
        if self._executor is not None:
            self._executor.terminate_workers()
            self._executor = None
        if ensure_ready:
            self.configure(n_jobs=self.parallel.n_jobs, parallel=self.parallel)


def count_workers(cpus: Iterable[int], each: float | str) -> int:
    """Return how many workers fit on all nodes together.

    cpus: the CPUs of each node, in millicores.
    each: the CPUs of one worker, as in the option `cpus`.
    """
    request = max(1, parse_thousandths(worker_cpus(str(each)).request))
    return sum(node // request for node in cpus)


register_parallel_backend("muster", Backend)
