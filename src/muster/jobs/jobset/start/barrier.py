"""Make the *barrier*: an init container that waits until all pods of its group have started.

A barrier opens when it reads its *word*: the UID and the epoch of its JobSet. So leftovers of another JobSet of the
same name have no effect. The barrier finds the word in the file `started` of the mounted ConfigMap, which suffices
alone. The server that the file `endpoint` names sends the word as a line, which is faster. On any error the barrier
stays shut, and exits with its own exit code at its timeout.
"""

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from muster.api.batch import JobSpec, JobTemplateSpec
from muster.api.config.types import GroupScheduling
from muster.api.core import Container, EnvVar, PodSpec, SecurityContext, Volume, VolumeMount
from muster.api.core.container import ObjectFieldSelector, ResourceRequirements
from muster.api.core.security import Capabilities
from muster.api.core.volumes import (
    ConfigMapProjection,
    DownwardAPIProjection,
    DownwardAPIVolumeFile,
    ProjectedVolumeSource,
    VolumeProjection,
)
from muster.api.jobset import JobSet, names
from muster.api.values.quantity import Quantity, parse_amount

MOUNT_PATH = "/mnt/group-scheduling"
DEFAULT: Final = GroupScheduling()
# Files in the ConfigMap: the word; the endpoint that sends the word earlier (host, port, secret); how often single Jobs
# were restarted; the UID of the pod's JobSet, and its epoch.
STARTED, ENDPOINT, RESTARTS, JOBSET, EPOCH = "started", "endpoint", "restarts", "jobset", "epoch"
# The controller and the containers both measure the timeout. The controller times out first and reports which pods were
# missing; the containers exit this many seconds later. If a podFailurePolicy matches exit codes, the containers time
# out first.
LATER_SECONDS = 5
# If a rule restarts a Job alone, the other Jobs keep waiting, and the file `restarts` restarts their timers. This is
# the time that the failed Job may take to end, and a kubelet to update the file.
LATER_SECONDS_RESTARTED = 180
TIMEOUT = "GROUP_SCHEDULING_TIMEOUT_SECONDS"

# The script uses bash builtins only, and `sleep`. A child process connects, which takes minutes if packets are dropped;
# meanwhile the script reads the file every second. A lost or refused connection is retried after a delay that differs
# from pod to pod and doubles, or at once if the file names another endpoint. The child prints two empty lines, of which
# one is enough, because a read that times out loses the part of a line that it had read.
SCRIPT = f"""\
trap '' PIPE
trap 'exit 143' TERM
cd {MOUNT_PATH} || exit 1
line() {{ REPLY=; [ -f "$1" ] && read -r < "$1"; [ -n "$REPLY" ]; }}
hear() {{
  exec 3<> "/dev/tcp/$1/$2" && echo "$epoch $3" >&3 && read -r -u 3 && [ "$REPLY" = "{STARTED} $word" ] && echo $'\\n'
}}
line {JOBSET} || exit 1
jobset=$REPLY
line {EPOCH} || exit 1
epoch=$REPLY
word="$jobset $epoch"
listens= endpoint= again=0 most=4 restarts= since=0
while true; do
  line {STARTED} && [ "$REPLY" = "$word" ] && exit 0
  line {RESTARTS} && [ "$REPLY" != "$restarts" ] && restarts=$REPLY since=$SECONDS
  if [ "${{{TIMEOUT}:-0}}" -gt 0 ] && [ "$((SECONDS - since))" -ge "${TIMEOUT}" ]; then
    echo "group scheduling timed out: not all pods of the group started within ${TIMEOUT} seconds" >&2
    exit {names.GROUP_SCHEDULING_EXIT_CODE}
  fi
  if [ -z "$listens" ] && line {ENDPOINT} && {{ [ "$REPLY" != "$endpoint" ] || [ "$SECONDS" -ge "$again" ]; }}; then
    [ "$REPLY" = "$endpoint" ] || most=4
    endpoint=$REPLY
    exec 4< <(hear $REPLY 2> /dev/null)
    listens=1
  fi
  if [ -z "$listens" ]; then
    sleep 1
  elif read -r -t 1 -u 4; then
    exit 0
  elif [ $? -le 128 ]; then
    exec 4<&-
    listens= again=$((SECONDS + 1 + RANDOM % most)) most=$((most < 32 ? most * 2 : most))
    sleep 1
  fi
done
"""


def config_map_name(jobset: str) -> str:
    """Return the name of the ConfigMap of a JobSet's group."""
    return jobset + names.GROUP_SCHEDULING_SUFFIX


def make_barrier_word(uid: str, epoch: int) -> str:
    """Return the text that opens the barriers of this epoch of a JobSet, and no other barriers."""
    return f"{uid} {epoch}"


def add_barrier(
    template: JobTemplateSpec, jobset: JobSet, epoch: int, settings: GroupScheduling = DEFAULT
) -> JobTemplateSpec:
    """Return the template of a child Job with the barrier added after the user's init containers.

    epoch: the epoch of the group's start.
    """
    pod = template.spec.template
    metadata = replace(pod.metadata, annotations={**pod.metadata.annotations, names.GROUP_SCHEDULING_EPOCH: str(epoch)})
    spec = replace(
        pod.spec,
        init_containers=(*pod.spec.init_containers, _make_container(template.spec, jobset, settings)),
        volumes=(*pod.spec.volumes, _make_volume(jobset)),
    )
    return replace(template, spec=replace(template.spec, template=replace(pod, metadata=metadata, spec=spec)))


def asks_containers(spec: JobSpec) -> bool:
    """Return whether a podFailurePolicy rule of a Job names the barrier's container in its condition on exit codes."""
    rules = spec.pod_failure_policy.rules if spec.pod_failure_policy is not None else ()
    containers = [rule.on_exit_codes.container_name for rule in rules if rule.on_exit_codes is not None]
    return names.GROUP_SCHEDULING_INIT in containers


def _compute_seconds(spec: JobSpec, jobset: JobSet) -> int | None:
    config = jobset.spec.group_scheduling_config
    if config is None or config.timeout_after_seconds is None:
        return None
    return config.timeout_after_seconds + (0 if asks_containers(spec) else _compute_delay(jobset))


def _compute_delay(jobset: JobSet) -> int:
    policy = jobset.spec.failure_policy
    actions = {rule.action for rule in policy.rules} if policy is not None else set()
    alone = actions & {names.RESTART_JOB, names.RESTART_JOB_IGNORING_MAX}
    return LATER_SECONDS_RESTARTED if alone else LATER_SECONDS


def _make_container(job: JobSpec, jobset: JobSet, settings: GroupScheduling) -> Container:
    pod, seconds = job.template.spec, _compute_seconds(job, jobset)
    return Container(
        name=names.GROUP_SCHEDULING_INIT,
        image=settings.image,
        command=("bash", "-c", SCRIPT),
        env=(EnvVar(name=TIMEOUT, value=str(seconds)),) if seconds is not None else (),
        resources=_limit_resources(pod, settings),
        volume_mounts=(VolumeMount(name=names.GROUP_SCHEDULING_VOLUME, mount_path=MOUNT_PATH, read_only=True),),
        termination_message_policy="FallbackToLogsOnError",
        security_context=_make_security_context(pod, settings),
    )


def _make_volume(jobset: JobSet) -> Volume:
    whose = ObjectFieldSelector(field_path=f"metadata.labels['{names.JOBSET_UID}']")
    which = ObjectFieldSelector(field_path=f"metadata.annotations['{names.GROUP_SCHEDULING_EPOCH}']")
    own = DownwardAPIVolumeFile(path=JOBSET, field_ref=whose), DownwardAPIVolumeFile(path=EPOCH, field_ref=which)
    words = ConfigMapProjection(name=config_map_name(jobset.metadata.name), optional=True)
    sources = (
        VolumeProjection(config_map=words),
        VolumeProjection(downward_api=DownwardAPIProjection(items=own)),
    )
    return Volume(name=names.GROUP_SCHEDULING_VOLUME, projected=ProjectedVolumeSource(sources=sources))


def _limit_resources(pod: PodSpec, settings: GroupScheduling) -> ResourceRequirements:
    """Return the barrier's resources: those that the operator configured, or else a part of the first main container's.

    That part is at most 100m of CPU and 64Mi of memory, so the barrier does not raise the requests of the pod.
    """
    if settings.resources is not None:
        return settings.resources
    main = pod.containers[0].resources if pod.containers else ResourceRequirements()
    return ResourceRequirements(requests=_cap_amounts(main.requests), limits=_cap_amounts(main.limits))


_ENOUGH: Mapping[str, Quantity] = {"cpu": "100m", "memory": "64Mi"}


def _cap_amounts(amounts: Mapping[str, Quantity]) -> dict[str, Quantity]:
    return {
        resource: min(amounts[resource], most, key=lambda quantity: parse_amount(resource, quantity))
        for resource, most in _ENOUGH.items()
        if resource in amounts
    }


def _make_security_context(pod: PodSpec, settings: GroupScheduling) -> SecurityContext:
    """Return the barrier's security context: the one that the operator configured, or else the first main container's.

    The latter goes without privileges that a restricted namespace refuses, so the barrier runs wherever the main
    container runs.
    """
    if settings.security_context is not None:
        return settings.security_context
    main = (pod.containers[0].security_context if pod.containers else None) or SecurityContext()
    return replace(
        main,
        capabilities=Capabilities(drop=("ALL",)),
        privileged=None,
        proc_mount=None,
        allow_privilege_escalation=False,
    )
