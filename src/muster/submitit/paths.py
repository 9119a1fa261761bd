"""The files of a job in submitit's folder. Pure."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class JobPaths:
    """The paths of the output of a task. base: the folder of the executor, where %j, %A, %a and %t stand for ids."""

    base: Path
    job_id: str
    task_id: int = 0

    @property
    def folder(self) -> Path:
        """The folder of the job."""
        array, _, index = self.job_id.partition("_")
        text = str(self.base)
        for mark, value in {"%j": self.job_id, "%A": array, "%a": index, "%t": str(self.task_id)}.items():
            text = text.replace(mark, value)
        return Path(text)

    @property
    def stdout(self) -> Path:
        """The file with what the task printed on stdout."""
        return self.folder / f"{self.job_id}_{self.task_id}_log.out"

    @property
    def stderr(self) -> Path:
        """The file with what the task printed on stderr."""
        return self.folder / f"{self.job_id}_{self.task_id}_log.err"
