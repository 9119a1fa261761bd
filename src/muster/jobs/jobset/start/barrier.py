"""The init container that holds a pod back until all pods of its group have started, and what it reads.

It opens on its own word alone, that of its JobSet's UID and its epoch: what another JobSet of the name has left there
means nothing to it. The word is in the file `started` of the mounted ConfigMap, which is enough by itself, and in a
line from the endpoint that the file `endpoint` names, which comes at once. Whatever goes wrong, it stays shut, and ends
with an exit code of its own when its time is over.
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
from muster.api.values.quantity import Quantity, amount

MOUNT_PATH = "/mnt/group-scheduling"
DEFAULT: Final = GroupScheduling()
# Files there: the word; where it comes earlier (host, port, secret); how often Jobs were restarted by themselves; the
# UID of the pod's JobSet and its epoch.
STARTED, ENDPOINT, RESTARTS, JOBSET, EPOCH = "started", "endpoint", "restarts", "jobset", "epoch"
# The controller and the containers keep the time. The controller is first, and says what was lacking; the containers
# would end so much later. Where a podFailurePolicy asks how they end, it is the other way round.
LATER_SECONDS = 5
# Where a rule restarts a Job alone the others wait on: their time counts anew with the file `restarts`. So long may the
# failed Job take to end, and a kubelet to bring the file up to date.
LATER_SECONDS_RESTARTED = 180
TIMEOUT = "GROUP_SCHEDULING_TIMEOUT_SECONDS"

# Only what bash has built in, but for `sleep`. A connection is made in a child: where packets are dropped that takes
# minutes, and the file is looked at every second whatever becomes of it. One that is lost or refused is tried again
# after a time that differs from pod to pod and doubles, or at once where the file names another endpoint. The child
# says two empty lines, as one is enough: a read that runs out of time has lost what it had read of a line.
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
    """What the ConfigMap of a JobSet's group is called."""
    return jobset + names.GROUP_SCHEDULING_SUFFIX


def word(uid: str, epoch: int) -> str:
    """What opens the barriers of a JobSet's epoch, and no others."""
    return f"{uid} {epoch}"


def gated(
    template: JobTemplateSpec, jobset: JobSet, epoch: int, settings: GroupScheduling = DEFAULT
) -> JobTemplateSpec:
    """The template of a child Job whose pods wait for the group: the barrier comes after the user's init containers."""
    pod = template.spec.template
    metadata = replace(pod.metadata, annotations={**pod.metadata.annotations, names.GROUP_SCHEDULING_EPOCH: str(epoch)})
    spec = replace(
        pod.spec,
        init_containers=(*pod.spec.init_containers, _container(template.spec, jobset, settings)),
        volumes=(*pod.spec.volumes, _volume(jobset)),
    )
    return replace(template, spec=replace(template.spec, template=replace(pod, metadata=metadata, spec=spec)))


def asks_containers(spec: JobSpec) -> bool:
    """Whether a Job's podFailurePolicy asks how the container ended."""
    rules = spec.pod_failure_policy.rules if spec.pod_failure_policy is not None else ()
    asked = [rule.on_exit_codes.container_name for rule in rules if rule.on_exit_codes is not None]
    return names.GROUP_SCHEDULING_INIT in asked


def _seconds(spec: JobSpec, jobset: JobSet) -> int | None:
    config = jobset.spec.group_scheduling_config
    if config is None or config.timeout_after_seconds is None:
        return None
    return config.timeout_after_seconds + (0 if asks_containers(spec) else _later(jobset))


def _later(jobset: JobSet) -> int:
    policy = jobset.spec.failure_policy
    actions = {rule.action for rule in policy.rules} if policy is not None else set()
    alone = actions & {names.RESTART_JOB, names.RESTART_JOB_IGNORING_MAX}
    return LATER_SECONDS_RESTARTED if alone else LATER_SECONDS


def _container(job: JobSpec, jobset: JobSet, settings: GroupScheduling) -> Container:
    pod, seconds = job.template.spec, _seconds(job, jobset)
    return Container(
        name=names.GROUP_SCHEDULING_INIT,
        image=settings.image,
        command=("bash", "-c", SCRIPT),
        env=(EnvVar(name=TIMEOUT, value=str(seconds)),) if seconds is not None else (),
        resources=_resources(pod, settings),
        volume_mounts=(VolumeMount(name=names.GROUP_SCHEDULING_VOLUME, mount_path=MOUNT_PATH, read_only=True),),
        termination_message_policy="FallbackToLogsOnError",
        security_context=_security_context(pod, settings),
    )


def _volume(jobset: JobSet) -> Volume:
    whose = ObjectFieldSelector(field_path=f"metadata.labels['{names.JOBSET_UID}']")
    which = ObjectFieldSelector(field_path=f"metadata.annotations['{names.GROUP_SCHEDULING_EPOCH}']")
    own = DownwardAPIVolumeFile(path=JOBSET, field_ref=whose), DownwardAPIVolumeFile(path=EPOCH, field_ref=which)
    words = ConfigMapProjection(name=config_map_name(jobset.metadata.name), optional=True)
    sources = (
        VolumeProjection(config_map=words),
        VolumeProjection(downward_api=DownwardAPIProjection(items=own)),
    )
    return Volume(name=names.GROUP_SCHEDULING_VOLUME, projected=ProjectedVolumeSource(sources=sources))


def _resources(pod: PodSpec, settings: GroupScheduling) -> ResourceRequirements:
    """What the operator allows, but never more than the first main container asks for: it costs a pod nothing."""
    if settings.resources is not None:
        return settings.resources
    main = pod.containers[0].resources if pod.containers else ResourceRequirements()
    return ResourceRequirements(requests=_at_most(main.requests), limits=_at_most(main.limits))


_ENOUGH: Mapping[str, Quantity] = {"cpu": "100m", "memory": "64Mi"}


def _at_most(given: Mapping[str, Quantity]) -> dict[str, Quantity]:
    return {
        resource: min(given[resource], most, key=lambda quantity: amount(resource, quantity))
        for resource, most in _ENOUGH.items()
        if resource in given
    }


def _security_context(pod: PodSpec, settings: GroupScheduling) -> SecurityContext:
    """As the first main container's, and no right that a restricted namespace refuses: so it runs where that does."""
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
