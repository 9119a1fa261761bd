"""Describe the job that a script with `#SBATCH` lines requests: its tasks, its files, and its signal. Pure.

Each node that the script requests is one worker of Muster's job. The script runs once, on the first worker, and `srun`
starts tasks on all workers.
"""

from msgspec import Struct
from msgspec.structs import replace


class ScriptSettings(Struct, frozen=True, omit_defaults=True):
    """The settings from a script's `#SBATCH` lines for which `muster run` has no option.

    name: the value of `--job-name`. Muster's job has another name, because job names are unique.
    nodes, tasks: the number of nodes and tasks of the whole job.
    gpus_per_task: the GPUs of each task; 0 if each task sees all GPUs of its node.
    output, error, input: patterns of file names; "" if Muster logs the output, or if the script has no input.
    append: whether to append output to existing files.
    notice: the signal that the tasks of steps get before the time limit, such as `USR1@60`; "" for none.
    """

    name: str = ""
    nodes: int = 1
    tasks: int = 1
    gpus_per_task: int = 0
    output: str = ""
    error: str = ""
    input: str = ""
    append: bool = False
    notice: str = ""

    @property
    def tasks_per_node(self) -> int:
        """The number of tasks per node, rounded up."""
        return -(-self.tasks // self.nodes)

    def on(self, nodes: int) -> "ScriptSettings":
        """Return the settings for another number of nodes, with the same number of tasks per node."""
        return self if nodes == self.nodes else replace(self, nodes=nodes, tasks=nodes * self.tasks_per_node)


def spread_tasks(tasks: int, nodes: int) -> list[int]:
    """Return the number of tasks of each node, as equal as possible; the first nodes get the remainder, one each."""
    least, more = divmod(tasks, nodes)
    return [least + (node < more) for node in range(nodes)]
