"""Describes a job that a script for Slurm asks for: its tasks, its files, and its signal. Pure.

A node of the script is a worker of the job. The script runs once, on the first worker; each worker has room for tasks.
"""

from msgspec import Struct
from msgspec.structs import replace


class ScriptSettings(Struct, frozen=True, omit_defaults=True):
    """The settings in the `#SBATCH` lines of a script that no option of `muster run` has.

    name: as the user wrote it; the job has a name of its own, because names of jobs are unique.
    nodes, tasks: how many there are in all. gpus_per_task: 0 if every task sees all GPUs of its node.
    output, error, input: patterns of file names; "" where the job keeps the output, or has no input.
    append: whether output goes behind what a file has. notice: the signal that steps get, such as `USR1@60`.
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
        """The most tasks of one node."""
        return -(-self.tasks // self.nodes)

    def on(self, nodes: int) -> "ScriptSettings":
        """Return the batch with another number of nodes, which have as many tasks as before."""
        return self if nodes == self.nodes else replace(self, nodes=nodes, tasks=nodes * self.tasks_per_node)


def spread_tasks(tasks: int, nodes: int) -> list[int]:
    """Return how many tasks each node has, the first nodes one more where they cannot all have the same."""
    least, more = divmod(tasks, nodes)
    return [least + (node < more) for node in range(nodes)]
