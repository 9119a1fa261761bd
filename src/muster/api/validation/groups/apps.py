"""The rules of other workload kinds than Job (k8s.io/kubernetes/pkg/apis/{apps,core,batch}/validation).

If a kind has a selector, it must match the kind's template, so that the controller finds its pods.
"""

import msgspec

from muster.api.batch import CronJob
from muster.api.core import (
    PersistentVolumeClaimVolumeSource,
    PodTemplate,
    PodTemplateSpec,
    ReplicationController,
    Volume,
)
from muster.api.groups.apps import ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet, StatefulSetSpec
from muster.api.meta import LabelSelector
from muster.api.validation import names
from muster.api.validation.fields import (
    IMMUTABLE,
    Errors,
    forbidden,
    invalid,
    required,
    unsupported,
    validate_immutable,
    validate_not_negative,
)
from muster.api.validation.jobs.job import validate_template_spec
from muster.api.validation.metadata import validate_label_selector
from muster.api.validation.pods.podspec import validate_pod_template
from muster.api.validation.standard import Standard
from muster.api.values import schedules
from muster.api.values.selectors import SelectorError, label_matcher, labels_matcher

_NO_MATCH = "`selector` does not match template `labels`"
_LONGEST_CRON_JOB = 52  # the names of its Jobs have 11 more
_STATEFUL_FIXED = ("pod_management_policy", "selector", "service_name", "volume_claim_templates")
_STATEFUL_CHANGES = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "
    "'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
)


def _validate_deployment(deployment: Deployment) -> Errors:
    spec = deployment.spec
    yield from validate_not_negative("spec.replicas", spec.replicas)
    yield from _validate_selector(spec.selector, spec.template, "deployment")
    yield from validate_not_negative("spec.minReadySeconds", spec.min_ready_seconds)
    yield from validate_not_negative("spec.revisionHistoryLimit", spec.revision_history_limit)
    if spec.strategy.type not in ("Recreate", "RollingUpdate"):
        yield unsupported("spec.strategy.type", spec.strategy.type, ("Recreate", "RollingUpdate"))
    elif spec.strategy.type == "Recreate" and spec.strategy.rolling_update is not None:
        sentence = "may not be specified when strategy `type` is 'Recreate'"
        yield forbidden("spec.strategy.rollingUpdate", sentence)
    deadline = spec.progress_deadline_seconds
    if deadline is not None:
        yield from validate_not_negative("spec.progressDeadlineSeconds", deadline)
        if deadline <= spec.min_ready_seconds:
            yield invalid("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds")


def _validate_replica_set(replica_set: ReplicaSet) -> Errors:
    spec = replica_set.spec
    yield from validate_not_negative("spec.replicas", spec.replicas)
    yield from validate_not_negative("spec.minReadySeconds", spec.min_ready_seconds)
    yield from _validate_selector(spec.selector, spec.template, "replicaset")


def _validate_stateful_set(stateful_set: StatefulSet) -> Errors:
    spec = stateful_set.spec
    if spec.pod_management_policy not in ("OrderedReady", "Parallel"):
        sentence = "must be 'OrderedReady' or 'Parallel'"
        yield invalid("spec.podManagementPolicy", spec.pod_management_policy, sentence)
    if spec.update_strategy.type not in ("OnDelete", "RollingUpdate"):
        yield invalid("spec.updateStrategy", spec.update_strategy, "must be 'RollingUpdate' or 'OnDelete'")
    yield from validate_not_negative("spec.replicas", spec.replicas)
    yield from validate_not_negative("spec.minReadySeconds", spec.min_ready_seconds)
    if spec.ordinals is not None:
        yield from validate_not_negative("spec.ordinals.start", spec.ordinals.start)
    yield from _validate_selector(spec.selector, _add_claim_volumes(spec), "statefulset")


def _add_claim_volumes(spec: StatefulSetSpec) -> PodTemplateSpec:
    """Return the template with the volumes that its pods get from the claim templates."""
    template = spec.template
    own = {volume.name for volume in template.spec.volumes}
    claimed = tuple(
        Volume(
            name=claim.metadata.name,
            persistent_volume_claim=PersistentVolumeClaimVolumeSource(claim_name=claim.metadata.name),
        )
        for claim in spec.volume_claim_templates
        if claim.metadata.name not in own
    )
    volumes = (*template.spec.volumes, *claimed)
    return msgspec.structs.replace(template, spec=msgspec.structs.replace(template.spec, volumes=volumes))


def _validate_daemon_set(daemon_set: DaemonSet) -> Errors:
    spec = daemon_set.spec
    yield from _validate_selector(spec.selector, spec.template, "daemonset")
    yield from validate_not_negative("spec.minReadySeconds", spec.min_ready_seconds)
    if spec.update_strategy.type not in ("OnDelete", "RollingUpdate"):
        yield unsupported("spec.updateStrategy.type", spec.update_strategy.type, ("RollingUpdate", "OnDelete"))
    yield from validate_not_negative("spec.revisionHistoryLimit", spec.revision_history_limit)


def _validate_replication_controller(controller: ReplicationController) -> Errors:
    spec = controller.spec
    yield from validate_not_negative("spec.minReadySeconds", spec.min_ready_seconds)
    if not spec.selector:
        yield required("spec.selector")
    if spec.replicas is None:
        yield required("spec.replicas")
    yield from validate_not_negative("spec.replicas", spec.replicas)
    if spec.template is None:
        yield required("spec.template")
        return
    if spec.selector and not labels_matcher(spec.selector).matches(spec.template.metadata.labels):
        yield invalid("spec.template.metadata.labels", spec.template.metadata.labels, _NO_MATCH)
    yield from _validate_endless_template(spec.template)


def _validate_cron_job(cron_job: CronJob) -> Errors:
    if len(cron_job.metadata.name) > _LONGEST_CRON_JOB:
        yield invalid("metadata.name", cron_job.metadata.name, "must be no more than 52 characters")
    spec = cron_job.spec
    yield from _validate_schedule(spec.schedule)
    if spec.time_zone is not None:
        yield from _validate_time_zone(spec.time_zone)
    yield from validate_not_negative("spec.startingDeadlineSeconds", spec.starting_deadline_seconds)
    if spec.concurrency_policy not in ("Allow", "Forbid", "Replace"):
        yield unsupported("spec.concurrencyPolicy", spec.concurrency_policy, ("Allow", "Forbid", "Replace"))
    yield from validate_not_negative("spec.successfulJobsHistoryLimit", spec.successful_jobs_history_limit)
    yield from validate_not_negative("spec.failedJobsHistoryLimit", spec.failed_jobs_history_limit)
    yield from validate_template_spec("spec.jobTemplate.spec", spec.job_template.spec)


def _validate_schedule(schedule: str) -> Errors:
    if not schedule:
        yield required("spec.schedule")
    elif "TZ" in schedule:
        sentence = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
        yield invalid("spec.schedule", schedule, sentence)
    else:
        try:
            schedules.parse(schedule)
        except schedules.ScheduleError as error:
            yield invalid("spec.schedule", schedule, str(error))


def _validate_time_zone(name: str) -> Errors:
    if not name:
        yield invalid("spec.timeZone", name, "timeZone must be nil or non-empty string")
    elif name.lower() == "local":
        sentence = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
        yield invalid("spec.timeZone", name, sentence)
    elif schedules.find_zone(name) is None:
        yield invalid("spec.timeZone", name, f"unknown time zone {name}")


def _validate_pod_template(template: PodTemplate) -> Errors:
    yield from validate_pod_template("template", template.template)


def _validate_selector(selector: LabelSelector | None, template: PodTemplateSpec, of: str) -> Errors:
    """Yield the errors in the selector of a controller, which must match its template, and in the template."""
    if selector is None:
        yield required("spec.selector")
    else:
        yield from validate_label_selector("spec.selector", selector)
        if not selector.match_labels and not selector.match_expressions:
            yield invalid("spec.selector", selector, f"empty selector is invalid for {of}")
        elif not _matches(selector, template):
            yield invalid("spec.template.metadata.labels", template.metadata.labels, _NO_MATCH)
    yield from _validate_endless_template(template)


def _matches(selector: LabelSelector, template: PodTemplateSpec) -> bool:
    try:
        return label_matcher(selector).matches(template.metadata.labels)
    except SelectorError:
        return True  # another rule reports the error


def _validate_endless_template(template: PodTemplateSpec) -> Errors:
    """Yield the errors in a pod template whose restartPolicy must be Always, as in all kinds of `apps`."""
    yield from validate_pod_template("spec.template", template)
    if template.spec.restart_policy != "Always":
        yield unsupported("spec.template.spec.restartPolicy", template.spec.restart_policy, ("Always",))
    if template.spec.active_deadline_seconds is not None:
        sentence = "activeDeadlineSeconds in ReplicaSet is not Supported"
        yield forbidden("spec.template.spec.activeDeadlineSeconds", sentence)


def _validate_same_selector(
    new: Deployment | ReplicaSet | DaemonSet, old: Deployment | ReplicaSet | DaemonSet
) -> Errors:
    if new.spec.selector != old.spec.selector:
        yield invalid("spec.selector", new.spec.selector, IMMUTABLE)


def _validate_stateful_change(new: StatefulSet, old: StatefulSet) -> Errors:
    if any(getattr(new.spec, field) != getattr(old.spec, field) for field in _STATEFUL_FIXED):
        yield forbidden("spec", _STATEFUL_CHANGES)


def _validate_revision(new: ControllerRevision, old: ControllerRevision) -> Errors:
    yield from validate_immutable("data", new.data, old.data)


DEPLOYMENT = Standard(_validate_deployment, _validate_same_selector)
REPLICA_SET = Standard(_validate_replica_set, _validate_same_selector)
STATEFUL_SET = Standard(_validate_stateful_set, _validate_stateful_change)
DAEMON_SET = Standard(_validate_daemon_set, _validate_same_selector)
CONTROLLER_REVISION = Standard(change=_validate_revision)
REPLICATION_CONTROLLER = Standard(_validate_replication_controller)
POD_TEMPLATE = Standard(_validate_pod_template)
CRON_JOB = Standard(_validate_cron_job, name=names.dns_subdomain)
