"""What a user may have meant by a word that is not known here. Pure."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

# What people who know other systems type, and what does the same here.
COMMANDS = {
    "submit": "run --detach",
    "sbatch": "run --detach",
    "qsub": "run --detach",
    "bsub": "run --detach",
    "create": "apply -f FILE",
    "srun": "run",
    "mpirun": "run",
    "torchrun": "run",
    "launch": "run",
    "exec": "run, or kubectl exec for what runs already",
    "attach": "logs -f JOB",
    "tail": "logs -f JOB",
    "log": "logs JOB",
    "output": "logs JOB",
    "squeue": "ps",
    "qstat": "ps",
    "bjobs": "ps",
    "sacct": "ps",
    "jobs": "ps",
    "job": "ps",
    "list": "ps",
    "ls": "ps",
    "get": "ps",
    "show": "ps",
    "podgroup": "podgroups list",
    "pg": "podgroups list",
    "sinfo": "top",
    "nodes": "top",
    "usage": "top",
    "describe": "why JOB",
    "explain": "why JOB",
    "events": "why JOB",
    "inspect": "why JOB",
    "scontrol": "why JOB",
    "scancel": "cancel JOB",
    "qdel": "cancel JOB",
    "bkill": "cancel JOB",
    "delete": "cancel JOB",
    "remove": "cancel JOB",
    "rm": "cancel JOB",
    "kill": "cancel JOB",
    "suspend": "hold JOB",
    "pause": "hold JOB",
    "resume": "release JOB",
    "unhold": "release JOB",
    "resize": "scale JOB WORKERS",
    "queues": "queue list",
    "start": "up --detach, or run for a job",
    "serve": "up",
    "server": "up",
    "init": "up --detach",
    "stop": "down, or cancel JOB for one job",
    "shutdown": "down",
    "restart": "down, then up",
    "info": "status",
    "health": "status",
    "version": "--version",
    "help": "--help",
}

OPTIONS = {
    "-N": "--workers",
    "-c": "--cpus",
    "-G": "--gpus",
    "-p": "--queue",
    "-J": "--name",
    "-d": "--detach",
    "-a": "--all-namespaces",
    "--ntasks": "--workers",
    "--nproc": "--workers",
    "--nnodes": "--workers",
    "--nodes": "--workers",
    "--np": "--workers",
    "--replicas": "--workers",
    "--size": "--workers",
    "--mem": "--memory",
    "--gres": "--gpus",
    "--cpus-per-task": "--cpus",
    "--job-name": "--name",
    "--partition": "--queue",
    "--export": "--env",
    "--background": "--detach",
    "--daemon": "--detach",
    "--all": "--all-namespaces",
    "--file": "--filename",
    "--index": "--rank",
    "--worker": "--rank",
    "--tail": "--follow",
    "--watch": "--follow",
    "--context": "--kubeconfig",
    "--data-dir": "--data",
    "--home": "--data",
}

# What this has nothing for, and how it is done.
_TIME_LIMIT = "a time limit is activeDeadlineSeconds in the template that --dry-run prints, or: -- timeout 1h COMMAND"
ELSEWHERE = dict.fromkeys(
    ("-t", "--time", "--time-limit", "--timelimit", "--walltime", "--timeout", "--deadline"), _TIME_LIMIT
)
# How much like another a word has to be, and an option, where less would take --time for --image.
_LIKENESS, _LIKENESS_OF_OPTIONS = 0.6, 0.7


def nearest(word: str, known: Iterable[str], elsewhere: Mapping[str, str] = MappingProxyType({})) -> str:
    """What `word` is called here, or the known word that is most like it; "" if nothing is."""
    if word in elsewhere:
        return elsewhere[word]
    if len(word.lstrip("-")) < 2:
        return ""
    from difflib import get_close_matches

    known = list(known)
    begun = [one for one in known if one.startswith(word)]
    if len(begun) == 1:
        return begun[0]
    cutoff = _LIKENESS_OF_OPTIONS if word.startswith("-") else _LIKENESS
    bare = {one.lstrip("-"): one for one in known}  # that both are options makes them no more alike
    found = get_close_matches(word.lstrip("-"), bare, n=1, cutoff=cutoff)
    return bare[found[0]] if found else ""
