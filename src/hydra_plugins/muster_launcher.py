"""A launcher of Hydra: `hydra/launcher=muster` runs the trials of a multirun as one sweep in the cluster.

Hydra imports this module at each start of any of its programs, to find the launcher. So the module imports the rest of
Muster once there is something to launch.
"""

import dataclasses
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hydra.core.config_store import ConfigStore
from hydra.core.singleton import Singleton
from hydra.core.utils import JobReturn, JobStatus, configure_log, filter_overrides, run_job, setup_globals
from hydra.errors import CompactHydraException
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf, open_dict

log = logging.getLogger(__name__)


@dataclasses.dataclass
class Configuration:
    """The settings under `hydra.launcher`: the options of `muster.run` that a trial can have, and two of the sweep.

    at_once: how many trials run at a time; None for as many as there is room for.
    title: what the name of the job is made from.
    """

    _target_: str = "hydra_plugins.muster_launcher.MusterLauncher"
    title: str = "${hydra.job.name}"
    at_once: int | None = None
    workers: int | None = None
    cpus: Any = None
    memory: str | None = None
    gpus: int | None = None
    queue: str | None = None
    priority: str | None = None
    time: Any = None
    signal: str | None = None
    retries: int | None = None
    exclusive: bool | None = None
    labels: dict[str, str] = dataclasses.field(default_factory=dict)
    annotations: dict[str, str] = dataclasses.field(default_factory=dict)
    env: dict[str, str] = dataclasses.field(default_factory=dict)
    notify: Any = None
    notify_on: Any = None
    start_timeout: int | None = None
    image: str | None = None
    namespace: str | None = None
    kubeconfig: str | None = None


ConfigStore.instance().store(group="hydra/launcher", name="muster", node=Configuration, provider="muster")


@dataclasses.dataclass(frozen=True, slots=True)
class Trial:
    """A run of the user's function with some overrides, which a worker makes."""

    context: HydraContext
    function: TaskFunction
    config: DictConfig
    singletons: dict[type, Any]

    def __call__(self, overrides: list[str], number: int) -> JobReturn:
        """Run the function; return what Hydra knows of the run. Raises the error of the function."""
        from muster.submitit import JobEnvironment

        Singleton.set_state(self.singletons)
        setup_globals()
        config = self.context.config_loader.load_sweep_config(self.config, overrides)
        with open_dict(config):
            config.hydra.job.id, config.hydra.job.num = JobEnvironment().job_id, number
        done = run_job(
            hydra_context=self.context,
            task_function=self.function,
            config=config,
            job_dir_key="hydra.sweep.dir",
            job_subdir_key="hydra.sweep.subdir",
        )
        _ = done.return_value  # raises the error of a failed run, so that the trial fails, too
        return done


class MusterLauncher(Launcher):
    """The launcher that Hydra makes for a multirun."""

    def __init__(self, title: str, at_once: int | None = None, **options: Any) -> None:
        self._title, self._at_once = title, at_once
        plain = {
            name: OmegaConf.to_container(one) if OmegaConf.is_config(one) else one for name, one in options.items()
        }
        self._options = {name: value for name, value in plain.items() if value not in (None, {})}
        self._trial: Trial | None = None

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Take what all trials have in common."""
        self._trial = Trial(hydra_context, task_function, config, {})

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        """Run a trial for each list of overrides; return how each has ended. Ctrl-C ends the trials."""
        from muster import Error
        from muster.submitit import AutoExecutor

        assert self._trial is not None, "Hydra has called setup"
        config = self._trial.config
        setup_globals()
        configure_log(config.hydra.hydra_logging, config.hydra.verbose)
        directory = Path(str(config.hydra.sweep.dir))
        directory.mkdir(parents=True, exist_ok=True)
        numbers = range(initial_job_idx, initial_job_idx + len(job_overrides))
        for number, overrides in zip(numbers, job_overrides, strict=True):
            log.info("\t#%d : %s", number, " ".join(filter_overrides(overrides)))
        executor = AutoExecutor(directory, name=self._title, slurm_array_parallelism=self._at_once)
        executor.update_parameters(**{f"muster_{name}": value for name, value in self._options.items()})
        trial = dataclasses.replace(self._trial, singletons=Singleton.get_state())
        try:
            jobs = executor.map_array(trial, map(list, job_overrides), numbers)
        except (Error, TypeError) as error:
            raise CompactHydraException(f"hydra.launcher: {error}") from error
        by_name = {job.job_id.partition("_")[0]: job for job in jobs}  # a sweep is one job
        log.info("Submitted to Muster as %s; follow a job with muster logs -f JOB", ", ".join(by_name))
        try:
            return [_await_return(job, list(overrides)) for job, overrides in zip(jobs, job_overrides, strict=True)]
        except KeyboardInterrupt:
            for job in by_name.values():
                job.cancel()
            raise


def _await_return(job: Any, overrides: list[str]) -> JobReturn:
    """Wait for a trial; return what its run returned, of several workers that of rank 0, or the error of the run."""
    from muster.submitit import FailedJobError

    try:
        done: JobReturn = job.results()[0]
    except FailedJobError as error:
        failed = JobReturn(overrides=overrides, status=JobStatus.FAILED)
        cause = error.__cause__ or error
        failed.return_value = cause.with_traceback(None)  # its notes have the traceback of the run
        return failed
    return done
