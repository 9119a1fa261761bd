"""Why pods failed, first in a person's words: rank, exit code or signal, the last line it printed, what its node said.

Pure. Texts that programs wrote are shown without what could steer a terminal.
"""

import re
import signal
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from muster.api.core import ContainerStateTerminated, ContainerStatus, Pod
from muster.api.jobset.names import GROUP_SCHEDULING_EXIT_CODE, GROUP_SCHEDULING_INIT
from muster.api.pods import ended_with_cluster, find_condition, is_deleting, is_finished, why_unplaced
from muster.api.values.indexes import Indexes
from muster.insight.record import JobEnd, JobRecord, is_late
from muster.insight.text import span
from muster.jobs.job.census import completion_index

# Of a line that a program wrote, so much is shown.
LINE_LENGTH = 160

# Of many workers, so many are named.
NAMED = 5

# Of the indexes of many trials, so much is shown.
_NAMES_LENGTH = 60

# How a Job says that it has failed for the start of its group.
GAVE_UP = "group scheduling timed out"

# How Jobs tell of a pod that is gone, or fails them by their podFailurePolicy.
_TOLD = re.compile(
    r"Container \S+ for pod [^/\s]+/(?P<failed>\S+) failed with exit code (?P<code>\d+)"
    r"|Pod [^/\s]+/(?P<deleted>\S+) was deleted(?:: (?P<why>.*))?"
)

_DELETED = "was deleted"

_NEVER = datetime(1, 1, 1, tzinfo=UTC)

_ESCAPES = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)?|.)")
_REJECTED = re.compile(r"^Pod was rejected: ")
_LACKS = re.compile(r"^OutOf(.+)")

# How nodes say, of ours and others, that there is no such program.
_NOT_THERE = ("executable file not found in $PATH", '": no such file or directory')

# Messages that say what went wrong, where others are what the program left.
_OF_THE_NODE = ("StartError", "ContainerCannotRun", "ContainerStatusUnknown")


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a pod failed.

    who: `rank 2`, or the name of the pod. what: `ended with exit code 3`.
    line: the last one that it printed, if that is known. told: the same in upstream's words.
    code: its exit code as a shell gives it.
    """

    who: str
    what: str
    line: str = ""
    told: str = ""
    code: int = 1

    def __str__(self) -> str:
        return f"{self.who} {self._how}"

    @property
    def alone(self) -> str:
        """Without the name of the only one that there is."""
        how = self._how
        return f"its pod {how}" if how.startswith(_DELETED) else how.removeprefix("was ")

    @property
    def _how(self) -> str:
        return f"{self.what}: {self.line}" if self.line else self.what


def failures(job: JobRecord, pods: Iterable[Pod]) -> list[Failure]:
    """Of every pod that failed, the first first. Those that were asked to go, or ended with the cluster, count only if
    there are no others.
    """
    failed = [pod for pod in pods if pod.status.phase == "Failed"]
    unasked = [pod for pod in failed if not is_deleting(pod) and not ended_with_cluster(pod)]

    def when(pod: Pod) -> tuple[datetime, int, str]:
        ends = [ended.finished_at for _, ended in _ends(pod) if ended.finished_at is not None]
        rank = job.rank(pod)
        return min(ends, default=_NEVER), int(rank) if rank.isdigit() else 0, pod.metadata.name

    return [_failure(job, pod) for pod in sorted(unasked or failed, key=when)]


def culprits(job: JobRecord, end: JobEnd, pods: Sequence[Pod]) -> list[Failure]:
    """Of every pod that made the job fail, the first first; of one that is gone, as far as its Job tells."""
    if job.array is not None:  # a trial that was tried again may have gone well
        lost = job.failed_trials
        pods = [pod for pod in pods if completion_index(pod) in lost]
    told = _TOLD.search(end.message) if end.by_pods and end.job else None
    if told is None:
        return failures(job, pods)
    stayed = [pod for pod in pods if pod.status.phase == "Failed" and not is_deleting(pod)]
    if any(pod.metadata.name == told["failed"] for pod in stayed):
        return failures(job, pods)
    who = job.who_was(end.job, told["failed"] or told["deleted"])
    if told["deleted"]:
        first = Failure(who, _DELETED + (f": {last_line(told['why'])}" if told["why"] else ""))
    else:
        code = int(told["code"])
        first = Failure(who, how_it_ended(ContainerStateTerminated(exit_code=code)), code=code)
    return [first, *(failures(job, stayed) if stayed else ())]


def _ends(pod: Pod) -> list[tuple[ContainerStatus, ContainerStateTerminated]]:
    """The containers that failed, the first that did so before the others."""
    ends = [
        (status, ended)
        for status in (*pod.status.init_container_statuses, *pod.status.container_statuses)
        if (ended := status.state.terminated) is not None and ended.exit_code != 0
    ]
    return sorted(ends, key=lambda end: end[1].finished_at or _NEVER)


def _failure(job: JobRecord, pod: Pod) -> Failure:
    who, ends, status = job.who(pod), _ends(pod), pod.status
    code = _shell_code(ends[0][1]) if ends else 1
    if status.reason or not ends:
        told = ": ".join(filter(None, (status.reason, status.message)))
        return Failure(who, _by_its_node(pod), told=told, code=code)
    container, ended = ends[0]
    told = f"{ended.reason or 'Error'}: exit code {ended.exit_code}"
    if container.name == GROUP_SCHEDULING_INIT:
        return Failure(who, "had started, and waited in vain for the others", told=told, code=code)
    own = [one for one in (*pod.spec.containers, *pod.spec.init_containers) if one.name != GROUP_SCHEDULING_INIT]
    of = f" (container {container.name})" if len(own) > 1 else ""
    line = "" if ended.reason in _OF_THE_NODE else last_line(ended.message)
    return Failure(who, how_it_ended(ended) + of, line, told, code)


def _shell_code(ended: ContainerStateTerminated) -> int:
    return start_code(ended.message) if ended.reason == "StartError" else ended.exit_code


def start_code(message: str) -> int:
    """The exit code of what was not started: 127 for a command that is not there, 126 for one that cannot be run."""
    return 127 if any(words in message for words in _NOT_THERE) else 126


def how_it_ended(ended: ContainerStateTerminated) -> str:
    """`ended with exit code 3`, `was ended by SIGSEGV (exit code 139)`."""
    said = last_line(ended.message)
    if ended.reason == "OOMKilled":
        return "used more memory than it may, and was killed"
    if ended.reason in ("StartError", "ContainerCannotRun"):
        return f"could not be started: {said}" if said else "could not be started"
    if ended.reason == "ContainerStatusUnknown":
        return f"was lost: {said}" if said else "was lost"
    by = _signal(ended.signal or ended.exit_code - 128)
    if by:
        return f"was ended by {by} (exit code {ended.exit_code})"
    return f"ended with exit code {ended.exit_code}"


def _signal(number: int) -> str:
    """Shells and kubelets say 128 and the number of the signal."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return ""


def _by_its_node(pod: Pod) -> str:
    """What its node, or who else ended it, says."""
    reason, said = pod.status.reason, last_line(_REJECTED.sub("", pod.status.message))
    where = f"node {pod.spec.node_name}" if pod.spec.node_name else "its node"
    disrupted = find_condition(pod, "DisruptionTarget")
    if (lacks := _LACKS.match(reason)) is not None:
        return f"was refused by {where}: it has not enough {lacks[1]} left"
    if reason == "UnexpectedAdmissionError":
        return f"was refused by {where}: {said}"
    if reason == "DeadlineExceeded":
        limit = pod.spec.active_deadline_seconds
        return _out_of_time(limit)
    if reason == "Evicted":
        return f"was evicted from {where}: {said}"
    if reason in ("Terminated", "NodeShutdown"):
        return f"was ended by the shutdown of {where}"
    if disrupted is not None and disrupted.status == "True":
        return f"was ended: {last_line(disrupted.message) or disrupted.reason}"
    return f"failed: {': '.join(filter(None, (reason, said)))}" if reason or said else "failed, and nothing says why"


def last_line(text: str) -> str:
    """The last line that says anything, as far as it is for people to read."""
    for line in reversed(re.split(r"[\r\n]+", _ESCAPES.sub("", text))):
        shown = "".join(char for char in line if char.isprintable()).strip()
        if shown:
            return shown if len(shown) <= LINE_LENGTH else f"{shown[: LINE_LENGTH - 3]}..."
    return ""


def why_failed(job: JobRecord, end: JobEnd, pods: Sequence[Pod]) -> str:
    """Why a job failed, for people: the first failure of a pod, or the limit of its own that it went over."""
    restarted = _restarted(end.restarts, job.job_restarts if end.by_pods else 0, "had been", "had been")
    again = f"; {restarted}" if restarted else ""
    if late := _late(job, end, pods):
        return f"{late}{again}"
    if end.out_of_time:
        return f"it {_out_of_time(end.deadline)}{again}"
    found = culprits(job, end, pods)
    if lost := job.failed_trials:
        return ": ".join([lost_trials(job, lost), *map(str, found[:1])])
    if not found or not end.by_pods:
        return f"{end.message}{again}"
    if job.wanted == 1 and len(found) == 1:
        return f"{found[0].alone}{again}"
    others = f"; {count_of(len(found) - 1, 'more pod')} failed" if len(found) > 1 else ""
    return f"{found[0]}{others}{again}"


def _out_of_time(limit: int | None) -> str:
    return "ran into its time limit" + (f" of {span(limit)}" if limit is not None else "")


def lost_trials(job: JobRecord, lost: Indexes) -> str:
    """`3 of 100 trials failed (7,12,80)`."""
    return f"{len(lost)} of {count_of(job.wanted, 'trial')} failed ({brief(str(job.trials(lost)))})"


def brief(array: str) -> str:
    """The indexes of many trials, as far as they are worth a line."""
    return array if len(array) <= _NAMES_LENGTH else f"{array[:_NAMES_LENGTH].rpartition(',')[0]},..."


def _late(job: JobRecord, end: JobEnd, pods: Sequence[Pod]) -> str:
    """That those that had started gave up waiting for the others; "" if that is not how it ended."""
    if job.gathering is None or not (GAVE_UP in end.message or any(map(_waited_in_vain, pods))):
        return ""
    started, expected = job.gathering
    if started >= expected and GAVE_UP in end.message:
        return end.message  # something else held them up
    return f"not all workers had started after {job.start_timeout} s: {started} of {expected} had"


def absent(job: JobRecord, pods: Iterable[Pod]) -> str:
    """Which of the pods that the others wait for have not started, and why as far as that is known; "" for none."""
    late = [pod for pod in pods if is_late(pod) and not is_finished(pod)]
    named = [next(iter(why_waiting(job, pod)), job.who(pod)) for pod in late[:NAMED]]
    more = f" and {len(late) - NAMED} more" if len(late) > NAMED else ""
    unplaced = why_unplaced(pod for pod in late if not pod.spec.node_name)
    return f"{', '.join(named)}{more}" + (f" ({unplaced})" if unplaced else "")


def _waited_in_vain(pod: Pod) -> bool:
    ends = [one for one in pod.status.init_container_statuses if one.name == GROUP_SCHEDULING_INIT]
    return any(
        one.state.terminated is not None and one.state.terminated.exit_code == GROUP_SCHEDULING_EXIT_CODE
        for one in ends
    )


def so_far(job: JobRecord, pods: Sequence[Pod]) -> str:
    """Why pods of a job that goes on have failed, and how often it was restarted; "" if nothing has."""
    found = failures(job, (pod for pod in pods if not is_deleting(pod) and not ended_with_cluster(pod)))
    count = max(job.failed, len(found))
    again = _restarted(job.restarts, job.job_restarts, "was", "were")
    if not count:
        return again
    allowed = "" if job.may_fail is None else f", {job.may_fail} may"
    failed = f"{count_of(count, 'pod')} failed{allowed}" + (f": {found[-1]}" if found else "")
    return f"{again}; {failed}" if again else failed


def _restarted(whole: int, parts: int, was: str, were: str) -> str:
    """`it was restarted once, and Jobs of it 2 times`."""
    if not whole:
        return f"Jobs of it {were} restarted {_times(parts)}" if parts else ""
    return f"it {was} restarted {_times(whole)}" + (f", and Jobs of it {_times(parts)}" if parts else "")


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"


def count_of(number: int, what: str) -> str:
    """`1 pod`, `2 pods`."""
    return f"{number} {what}" + ("" if number == 1 else "s")


# What a container waits for, where that is more than its turn.
_WAITS = {
    "CrashLoopBackOff": "is started again after a pause",
    "CreateContainerConfigError": "cannot be set up",
    "CreateContainerError": "cannot be started",
    "RunContainerError": "cannot be started",
    "ErrImagePull": "has an image that cannot be pulled",
    "ContainerCreating": "cannot start yet",
    "ImagePullBackOff": "has an image that cannot be pulled",
    "PodInitializing": "cannot start yet",
    "InvalidImageName": "has an image with a name that is none",
}


def why_waiting(job: JobRecord, pod: Pod, *, told: bool = False) -> list[str]:
    """What its containers wait for, where that is more than their turn; with `told` in upstream's word as well."""
    usual = ("", "ContainerCreating", "PodInitializing")
    found = []
    for status in (*pod.status.init_container_statuses, *pod.status.container_statuses):
        wait = status.state.waiting
        if wait is None or (wait.reason in usual and not wait.message):
            continue
        before = status.last_state.terminated
        what = _WAITS.get(wait.reason, f"waits ({wait.reason})")
        if wait.reason == "CrashLoopBackOff" and before is not None:
            line = last_line(before.message)
            text = f"{job.who(pod)} {how_it_ended(before)}, and {what}" + (f": {line}" if line else "")
        else:
            said = last_line(wait.message)
            text = f"{job.who(pod)} {what}" + (f": {said}" if said else "")
        found.append(f"{text} ({wait.reason})" if told and wait.reason not in text else text)
    return found
