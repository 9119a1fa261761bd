"""Make the other objects of a JobSet: the Service that gives its pods host names, and its volume claims."""

from collections.abc import Iterator

from muster.api.core import PersistentVolumeClaim, Service
from muster.api.core.service import ServiceSpec
from muster.api.jobset import JobSet, names
from muster.api.jobset.naming import claim_name, name_subdomain
from muster.api.meta import ObjectMeta, OwnerReference
from muster.jobs.jobset.terms import has_dns_names


def headless_service(jobset: JobSet, owner: OwnerReference) -> Service | None:
    """Return the headless Service that gives the JobSet's pods host names; None if they have no host names."""
    if not has_dns_names(jobset):
        return None
    network = jobset.spec.network
    return Service(
        metadata=ObjectMeta(
            name=name_subdomain(jobset), namespace=jobset.metadata.namespace, owner_references=(owner,)
        ),
        spec=ServiceSpec(
            cluster_ip="None",
            selector={names.JOBSET_NAME: jobset.metadata.name},
            publish_not_ready_addresses=network is None or network.publish_not_ready_addresses is not False,
        ),
    )


def volume_claims(jobset: JobSet, owner: OwnerReference) -> Iterator[PersistentVolumeClaim]:
    """Yield the volume claims that must exist.

    Claims with the policy Retain have no owner, so they outlive the JobSet.
    """
    for policy in jobset.spec.volume_claim_policies:
        is_retained = policy.retention_policy is not None and policy.retention_policy.when_deleted == names.RETAIN
        for template in policy.templates:
            yield PersistentVolumeClaim(
                metadata=ObjectMeta(
                    name=claim_name(jobset, template.metadata.name),
                    namespace=jobset.metadata.namespace,
                    labels=template.metadata.labels | {names.JOBSET_NAME: jobset.metadata.name},
                    annotations=template.metadata.annotations,
                    owner_references=() if is_retained else (owner,),
                ),
                spec=template.spec,
            )
