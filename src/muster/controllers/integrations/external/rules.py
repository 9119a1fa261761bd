"""Check jobs of other projects' kinds that queue, with the messages of Kueue's webhooks. Pure."""

from muster.api.kueue import MOST_POD_SETS
from muster.api.managed.topology import validate_annotations
from muster.api.members import mapping_at, value_at
from muster.api.validation.fields import Errors, forbidden, invalid, required, too_many
from muster.controllers.integrations.external.documents import ExternalJob, Path, list_at, text_at, text_of_path
from muster.controllers.integrations.external.podsets import HEAD, Place


def find_no_errors(job: ExternalJob) -> Errors:  # noqa: ARG001  (rules like others)
    """Return no errors, for kinds without rules of their own."""
    return iter(())


def of_place(place: Place) -> Errors:
    """Return the errors in the topology request of a pod template."""
    path = f"{text_of_path(place.path)}.metadata.annotations"
    return validate_annotations(path, place.template.metadata.annotations, place.count)


def ray_cluster(job: ExternalJob) -> Errors:
    """Return the errors in the spec of a RayCluster that queues."""
    return _validate_cluster(job, ("spec",))


def ray_service(job: ExternalJob) -> Errors:
    """Return the errors in the cluster of a RayService."""
    return _validate_cluster(job, ("spec", "rayClusterConfig"))


def ray_job(job: ExternalJob) -> Errors:
    """Yield the errors in a RayJob.

    A RayJob must either use an existing Ray cluster (`clusterSelector`), or define one and delete it when it finishes.
    """
    if job.spec.get("clusterSelector"):
        if mapping_at(job.spec, "rayClusterSpec"):
            detail = "a kueue managed job should not use an existing cluster"
            yield invalid("spec.clusterSelector", job.spec["clusterSelector"], detail)
        return
    if not mapping_at(job.spec, "rayClusterSpec"):
        detail = "rayClusterSpec is required for Kueue-managed jobs that don't use clusterSelector"
        yield required("spec.rayClusterSpec", detail)
        return
    if job.spec.get("shutdownAfterJobFinishes") is not True:
        detail = "a kueue managed job should delete the cluster after finishing"
        yield invalid("spec.shutdownAfterJobFinishes", False, detail)
    yield from _validate_cluster(job, ("spec", "rayClusterSpec"))


def _validate_cluster(job: ExternalJob, at: Path) -> Errors:
    document = {"spec": job.spec}
    if value_at(document, (*at, "enableInTreeAutoscaling")) is True:
        detail = "a kueue managed job should not use autoscaling"
        yield invalid(text_of_path((*at, "enableInTreeAutoscaling")), True, detail)
    groups = list_at(document, *at, "workerGroupSpecs")
    if len(groups) >= MOST_POD_SETS:
        yield too_many(text_of_path((*at, "workerGroupSpecs")), len(groups), MOST_POD_SETS - 1)
    for number, group in enumerate(groups):
        if text_at(group, "groupName") == HEAD:
            path = text_of_path((*at, "workerGroupSpecs", number, "groupName"))
            yield forbidden(path, f'"{HEAD}" is reserved for the head group')
