"""Explain why pods failed: rank, exit code or signal, the last printed line, the node's message. Pure.

Output of programs is shown without characters that could control a terminal.
"""

import re
import signal
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from msgspec import Struct

from muster.api.core import ContainerStateTerminated, ContainerStatus, Pod
from muster.api.jobset import JOB_SET
from muster.api.jobset.names import GROUP_SCHEDULING_EXIT_CODE, GROUP_SCHEDULING_INIT
from muster.api.ours.oom import OOM_KILLED, is_excess
from muster.api.pods import (
    NODE_NOT_READY,
    find_condition,
    is_deleting,
    is_finished,
    why_unplaced,
)
from muster.api.values.indexes import Indexes
from muster.insight.record import JobEnd, JobRecord, is_late
from muster.insight.text import format_span
from muster.jobs.interruption import interruption_of
from muster.jobs.job.census import completion_index

# The maximum length of a shown line of a program's output.
LINE_LENGTH = 160

# The maximum number of workers in a list.
NAMED = 5

# The maximum length of a list of trial indexes.
_NAMES_LENGTH = 60

# The message of a Job that failed because its group did not start in time.
GAVE_UP = "group scheduling timed out"

# The messages of Jobs about a deleted pod, or about a failure by their podFailurePolicy.
_TOLD = (
    r"Container \S+ for pod [^/\s]+/(?P<failed>\S+) failed with exit code (?P<code>\d+)"
    r"|Pod [^/\s]+/(?P<deleted>\S+) was deleted(?:: (?P<why>.*))?"
)

_DELETED = "was deleted"

_NEVER = datetime(1, 1, 1, tzinfo=UTC)

_ESCAPES = r"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)?|.)"
_REJECTED = r"^Pod was rejected: "
_LACKS = r"^OutOf(.+)"

# The messages of nodes, Muster's and others', about a program that does not exist.
_NOT_THERE = ("executable file not found in $PATH", '": no such file or directory')

# The reasons whose messages explain the failure; other messages are the program's output.
_OF_THE_NODE = ("StartError", "ContainerCannotRun", "ContainerStatusUnknown")


class Failure(Struct, frozen=True):
    """The failure of one pod.

    who: `rank 2`, or the name of the pod.
    what: `ended with exit code 3`.
    line: the last line that the pod printed; "" if unknown.
    upstream: Kubernetes' message about the failure; "" if there is none.
    code: the exit code as a shell reports it.
    """

    who: str
    what: str
    line: str = ""
    upstream: str = ""
    code: int = 1

    def __str__(self) -> str:
        return f"{self.who} {self._predicate}"

    @property
    def alone(self) -> str:
        """The sentence about the failure without the pod's name, for a job with only one pod."""
        how = self._predicate
        return f"its pod {how}" if how.startswith(_DELETED) else how.removeprefix("was ")

    @property
    def _predicate(self) -> str:
        return f"{self.what}: {self.line}" if self.line else self.what


def find_failures(job: JobRecord, pods: Iterable[Pod]) -> list[Failure]:
    """Return the failure of every failed pod, in time order.

    Pods that were deleted on request or interrupted count only if no other pod failed.
    """
    failed = [pod for pod in pods if pod.status.phase == "Failed"]
    unasked = [pod for pod in failed if not is_deleting(pod) and not job.is_excused(pod)]

    def when(pod: Pod) -> tuple[datetime, int, str]:
        ends = [ended.finished_at for _, ended in _list_failed_containers(pod) if ended.finished_at is not None]
        rank = job.rank(pod)
        return min(ends, default=_NEVER), int(rank) if rank.isdigit() else 0, pod.metadata.name

    return [_explain_failure(job, pod) for pod in sorted(unasked or failed, key=when)]


def find_culprits(job: JobRecord, end: JobEnd, pods: Sequence[Pod]) -> list[Failure]:
    """Return the failures that made the job fail, in time order.

    For pods that are deleted, the message in the Job's condition is used.
    """
    if job.array is not None:  # a trial that was retried may have succeeded
        lost = job.failed_trials
        pods = [pod for pod in pods if completion_index(pod) in lost]
    match = re.search(_TOLD, end.message) if end.by_pods and end.job else None
    if match is None:
        return find_failures(job, pods)
    stayed = [pod for pod in pods if pod.status.phase == "Failed" and not is_deleting(pod)]
    if any(pod.metadata.name == match["failed"] for pod in stayed):
        return find_failures(job, pods)
    who = job.name_of_gone_pod(end.job, match["failed"] or match["deleted"])
    if match["deleted"]:
        first = Failure(who, _DELETED + (f": {last_telling_line(match['why'])}" if match["why"] else ""))
    else:
        code = int(match["code"])
        first = Failure(who, describe_container_end(ContainerStateTerminated(exit_code=code)), code=code)
    return [first, *(find_failures(job, stayed) if stayed else ())]


def _list_failed_containers(pod: Pod) -> list[tuple[ContainerStatus, ContainerStateTerminated]]:
    """Return the containers of a pod that ended with an exit code other than 0, in time order."""
    ends = [
        (status, ended)
        for status in (*pod.status.init_container_statuses, *pod.status.container_statuses)
        if (ended := status.state.terminated) is not None and ended.exit_code != 0
    ]
    return sorted(ends, key=lambda end: end[1].finished_at or _NEVER)


def _explain_failure(job: JobRecord, pod: Pod) -> Failure:
    who, ends, status = job.name_of_pod(pod), _list_failed_containers(pod), pod.status
    code = _convert_to_shell_code(ends[0][1]) if ends else 1
    if status.reason or not ends:
        text = ": ".join(filter(None, (status.reason, status.message)))
        return Failure(who, _format_node_message(pod), upstream=text, code=code)
    container, ended = ends[0]
    text = f"{ended.reason or 'Error'}: exit code {ended.exit_code}"
    if container.name == GROUP_SCHEDULING_INIT:
        return Failure(who, "had started, and waited in vain for the others", upstream=text, code=code)
    own = [one for one in (*pod.spec.containers, *pod.spec.init_containers) if one.name != GROUP_SCHEDULING_INIT]
    of = f" (container {container.name})" if len(own) > 1 else ""
    tells = ended.reason in _OF_THE_NODE or is_excess(ended.message)
    line = "" if tells else last_telling_line(ended.message)
    return Failure(who, describe_container_end(ended) + of, line, text, code)


def describe_pod_end(pod: Pod) -> str:
    """Return how a pod ended, without its name: `ended with exit code 3`, `was lost with node n`."""
    if (interruption := interruption_of(pod)) is not None:
        return interruption.message
    ends = _list_failed_containers(pod)
    return _format_node_message(pod) if pod.status.reason or not ends else describe_container_end(ends[0][1])


def _convert_to_shell_code(ended: ContainerStateTerminated) -> int:
    """Return the exit code of a container as a shell reports it: 126 or 127 if it could not be started."""
    return exit_code_of_start(ended.message) if ended.reason == "StartError" else ended.exit_code


def exit_code_of_start(message: str) -> int:
    """Return the exit code of a container that did not start.

    It is 127 if its command does not exist, 126 if the command cannot be executed.
    """
    return 127 if any(words in message for words in _NOT_THERE) else 126


def describe_container_end(ended: ContainerStateTerminated) -> str:
    """Return a container's end: `ended with exit code 3`, `was ended by SIGSEGV (exit code 139)`."""
    line = last_telling_line(ended.message)
    if ended.reason == OOM_KILLED:
        return f"was killed: {line}" if is_excess(line) else "used more memory than it may, and was killed"
    if ended.reason in ("StartError", "ContainerCannotRun"):
        return f"could not be started: {line}" if line else "could not be started"
    if ended.reason == "ContainerStatusUnknown":
        return f"was lost: {line}" if line else "was lost"
    by = _find_signal_name(ended.signal or ended.exit_code - 128)
    if by:
        return f"was ended by {by} (exit code {ended.exit_code})"
    return f"ended with exit code {ended.exit_code}"


def _find_signal_name(number: int) -> str:
    """Return the name of a signal, such as SIGSEGV; "" if no signal has this number."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return ""


def _format_node_message(pod: Pod) -> str:
    """Return, as a phrase, how a node, or the component that ended a pod, explains the pod's end."""
    reason, line = pod.status.reason, last_telling_line(re.sub(_REJECTED, "", pod.status.message))
    where = f"node {pod.spec.node_name}" if pod.spec.node_name else "its node"
    disrupted = find_condition(pod, "DisruptionTarget")
    if (lacks := re.match(_LACKS, reason)) is not None:
        return f"was refused by {where}: it has not enough {lacks[1]} left"
    if reason == "UnexpectedAdmissionError":
        return f"was refused by {where}: {line}"
    if reason == "DeadlineExceeded":
        limit = pod.spec.active_deadline_seconds
        return _format_time_limit_failure(limit)
    if reason == "Evicted":
        return f"was evicted from {where}: {line}"
    if reason in ("Terminated", "NodeShutdown"):
        return f"was ended by the shutdown of {where}"
    if disrupted is not None and disrupted.status == "True":
        return f"was ended: {last_telling_line(disrupted.message) or disrupted.reason}"
    return f"failed: {': '.join(filter(None, (reason, line)))}" if reason or line else "failed, and nothing says why"


def last_telling_line(text: str) -> str:
    """Return the last line with a letter or a digit, without control characters, cut to a limit.

    Return the last line if no line has one, or "" for an empty text. Open MPI and others print a line of dashes below
    their message.
    """
    split = reversed(re.split(r"[\r\n]+", re.sub(_ESCAPES, "", text)))
    lines = list(filter(None, (_drop_controls(line).strip() for line in split)))
    telling = next((line for line in lines if any(map(str.isalnum, line))), lines[0] if lines else "")
    return telling if len(telling) <= LINE_LENGTH else f"{telling[: LINE_LENGTH - 3]}..."


def _drop_controls(line: str) -> str:
    """Return a line without control characters, with a space for each tab and other white space."""
    return "".join(" " if char.isspace() else char for char in line if char.isspace() or char.isprintable())


def explain_failure(job: JobRecord, end: JobEnd, pods: Sequence[Pod]) -> str:
    """Return why a job failed: the failures of pods, or the limit that it exceeded; and how often it restarted.

    If no pod failed, or the job failed for another reason, return the message of the job's condition.
    """
    whole = max(end.restarts - job.interruptions + job.suspensions, 0)
    restarted = _describe_restarts(whole, job.job_restarts if end.by_pods else 0, "had been", "had been")
    again = f"; {restarted}" if restarted else ""
    if late := _describe_late_start(job, end, pods):
        return f"{late}{again}"
    if end.out_of_time:
        return f"it {_format_time_limit_failure(end.deadline)}{again}"
    culprits = find_culprits(job, end, pods)
    if lost := job.failed_trials:
        return ": ".join([describe_failed_trials(job, lost), *map(str, culprits[:1])])
    if not culprits or not end.by_pods:
        return f"{end.message}{again}"
    if job.wanted == 1 and len(culprits) == 1:
        return f"{culprits[0].alone}{again}"
    others = f"; {count_of(len(culprits) - 1, 'more pod')} failed" if len(culprits) > 1 else ""
    return f"{culprits[0]}{others}{again}"


def _format_time_limit_failure(limit: int | None) -> str:
    return "ran into its time limit" + (f" of {format_span(limit)}" if limit is not None else "")


def describe_failed_trials(job: JobRecord, lost: Indexes) -> str:
    """Return how many and which trials failed: `3 of 100 trials failed (7,12,80)`."""
    return f"{len(lost)} of {count_of(job.wanted, 'trial')} failed ({shorten_indexes(str(job.indexes_of(lost)))})"


def describe_cancelled_trials(job: JobRecord) -> str:
    """Return how many and which trials were cancelled: `2 of 100 trials cancelled (7,12)`; "" if none was."""
    ranks = job.cancelled_trials
    if not ranks:
        return ""
    return f"{len(ranks)} of {count_of(job.wanted, 'trial')} cancelled ({shorten_indexes(str(job.indexes_of(ranks)))})"


def shorten_indexes(array: str) -> str:
    """Return the indexes of some trials as text, cut to fit on a line."""
    return array if len(array) <= _NAMES_LENGTH else f"{array[:_NAMES_LENGTH].rpartition(',')[0]},..."


def _describe_late_start(job: JobRecord, end: JobEnd, pods: Sequence[Pod]) -> str:
    """Return a sentence that the started workers waited too long for the others.

    Return "" if the job ended for another reason.
    """
    if job.group_start is None or not (GAVE_UP in end.message or any(map(_has_given_up_waiting, pods))):
        return ""
    started, expected = job.group_start.started, job.group_start.expected
    if started >= expected and GAVE_UP in end.message:
        return end.message  # something else delayed them
    return f"not all workers had started after {job.start_timeout} s: {started} of {expected} had"


def describe_absent(job: JobRecord, pods: Iterable[Pod]) -> str:
    """Return which pods of a start group have not started, and why if that is known; "" if all have started."""
    late = [pod for pod in pods if is_late(pod) and not is_finished(pod)]
    named = [next(iter(explain_waiting(job, pod)), job.name_of_pod(pod)) for pod in late[:NAMED]]
    more = f" and {len(late) - NAMED} more" if len(late) > NAMED else ""
    unplaced = why_unplaced(pod for pod in late if not pod.spec.node_name)
    return f"{', '.join(named)}{more}" + (f" ({unplaced})" if unplaced else "")


def _has_given_up_waiting(pod: Pod) -> bool:
    ends = [one for one in pod.status.init_container_statuses if one.name == GROUP_SCHEDULING_INIT]
    return any(
        one.state.terminated is not None and one.state.terminated.exit_code == GROUP_SCHEDULING_EXIT_CODE
        for one in ends
    )


def describe_failures_so_far(job: JobRecord, pods: Sequence[Pod]) -> str:
    """Return how often an unfinished job was interrupted and restarted, and why its pods failed; "" for neither."""
    failed_pods = [pod for pod in pods if pod.status.phase == "Failed" and not is_deleting(pod)]
    failures = find_failures(job, (pod for pod in failed_pods if not job.is_excused(pod)))
    count = max(job.failed, len(failures))
    again = describe_interruptions_and_restarts(job)
    if not count:
        return again
    allowed = "" if job.may_fail is None else f", {job.may_fail} may"
    # The first failure of a gang causes the later ones. Other pods fail independently.
    causes = failures[:1] if job.restarts_together else failures[-1:]
    failed = ": ".join([f"{count_of(count, 'pod')} failed{allowed}", *map(str, causes)])
    return f"{again}; {failed}" if again else failed


def describe_interruptions_and_restarts(job: JobRecord) -> str:
    """Return how many times a job was interrupted and restarted; "" if it was not."""
    last = f"interrupted {count_times(job.interruptions)}, last: {job.last_interruption}" if job.interruptions else ""
    restarts = job.restarts - job.interruptions + job.suspensions if job.kind == JOB_SET else 0
    return "; ".join(filter(None, (last, _describe_restarts(max(restarts, 0), job.job_restarts, "was", "were"))))


def _describe_restarts(whole: int, parts: int, was: str, were: str) -> str:
    """Return a phrase on the restarts: `it was restarted once, and Jobs of it 2 times`; "" if there were none.

    whole: the number of restarts of the whole job.
    parts: the number of restarts of single Jobs of a JobSet.
    was, were: the verb forms to use.
    """
    if not whole:
        return f"Jobs of it {were} restarted {count_times(parts)}" if parts else ""
    return f"it {was} restarted {count_times(whole)}" + (f", and Jobs of it {count_times(parts)}" if parts else "")


def count_times(number: int) -> str:
    """Return `once` or `2 times`."""
    return "once" if number == 1 else f"{number} times"


def count_of(number: int, noun: str) -> str:
    """Return a number with its noun: `1 pod`, `2 pods`."""
    return f"{number} {noun}" + ("" if number == 1 else "s")


# The meaning of the reasons for which a container waits, other than waiting for earlier containers.
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


def is_unheard(pod: Pod) -> bool:
    """Return whether a pod's node does not report any more, so that it is unknown whether the pod still runs."""
    ready = find_condition(pod, "Ready")
    return ready is not None and ready.reason == NODE_NOT_READY


def explain_unheard(job: JobRecord, live: Sequence[Pod]) -> str:
    """Return which pods of a job are on lost nodes; "" if none is.

    live: the job's pods that have not ended.
    """
    lost = [pod for pod in live if is_unheard(pod)]
    if not lost:
        return ""
    nodes = sorted({pod.spec.node_name for pod in lost})
    more = f" and {count_of(len(nodes) - NAMED, 'more node')}" if len(nodes) > NAMED else ""
    if len(lost) == 1:
        who = f"{job.name_of_pod(lost[0])} is"
    elif len(lost) == len(live):
        who = f"all {len(lost)} pods are"
    else:
        who = f"{len(lost)} of {len(live)} pods are"
    return f"{who} on {', '.join(nodes[:NAMED])}{more}, which does not report"


def explain_waiting(job: JobRecord, pod: Pod, *, with_reason: bool = False) -> list[str]:
    """Return why containers of a pod do not run yet, a line each.

    A container that runs, or only waits for earlier containers, has no line.

    with_reason: whether to add Kubernetes' reason.
    """
    if is_unheard(pod):
        return [f"{job.name_of_pod(pod)} is on {pod.spec.node_name}, which does not report"]
    usual = ("", "ContainerCreating", "PodInitializing")
    reasons = []
    for status in (*pod.status.init_container_statuses, *pod.status.container_statuses):
        wait = status.state.waiting
        if wait is None or (wait.reason in usual and not wait.message):
            continue
        before = status.last_state.terminated
        what = _WAITS.get(wait.reason, f"waits ({wait.reason})")
        if wait.reason == "CrashLoopBackOff" and before is not None:
            line = last_telling_line(before.message)
            text = f"{job.name_of_pod(pod)} {describe_container_end(before)}, and {what}" + (
                f": {line}" if line else ""
            )
        else:
            detail = last_telling_line(wait.message)
            text = f"{job.name_of_pod(pod)} {what}" + (f": {detail}" if detail else "")
        reasons.append(f"{text} ({wait.reason})" if with_reason and wait.reason not in text else text)
    return reasons
