"""Name the output files of a job, by submitit's rules. Pure."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class JobPaths:
    """The paths of a task's output files.

    base: the folder of the executor. In it, %j stands for the id of the job, %A for the name of its sweep, %a for the
    index of the trial, and %t for the task.
    """

    base: Path
    job_id: str
    task_id: int = 0

    @property
    def folder(self) -> Path:
        """The folder of the executor, with the placeholders replaced."""
        array, _, index = self.job_id.partition("_")
        text = str(self.base)
        for mark, value in {"%j": self.job_id, "%A": array, "%a": index, "%t": str(self.task_id)}.items():
            text = text.replace(mark, value)
        return Path(text)

    @property
    def stdout(self) -> Path:
        """The path of the file with the task's stdout."""
        return self.folder / f"{self.job_id}_{self.task_id}_log.out"

    @property
    def stderr(self) -> Path:
        """The path of the file with the task's stderr."""
        return self.folder / f"{self.job_id}_{self.task_id}_log.err"
