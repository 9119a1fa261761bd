"""The defaults of JobSets, from their schema and from upstream's webhook."""

from typing import Any

from muster.api.batch import INDEXED
from muster.api.defaults.resources import fill
from muster.api.defaults.structural import defaults_of
from muster.api.jobset import JOB_SET, names

Json = dict[str, Any]

_by_schema = defaults_of(JOB_SET)


def default_job_set(job_set: Json) -> None:
    """Set the defaults of a JobSet. Only two fields of its Job templates get defaults."""
    spec = job_set.setdefault("spec", {})
    spec.setdefault("successPolicy", {"operator": names.ALL})
    spec.setdefault("startupPolicy", {"startupPolicyOrder": names.ANY_ORDER})
    for replicated_job in spec.get("replicatedJobs", ()):
        _default_template(replicated_job.setdefault("template", {}))
    network = spec.setdefault("network", {})
    network.setdefault("enableDNSHostnames", True)
    network.setdefault("publishNotReadyAddresses", True)
    for index, rule in enumerate(spec.get("failurePolicy", {}).get("rules", ())):
        fill(rule, "name", f"failurePolicyRule{index}")
    for policy in spec.get("volumeClaimPolicies", ()):
        policy.setdefault("retentionPolicy", {})
    _by_schema(job_set)


def _default_template(template: Json) -> None:
    job = template.setdefault("spec", {})
    job.setdefault("completionMode", INDEXED)
    pod = job.setdefault("template", {}).setdefault("spec", {})
    fill(pod, "restartPolicy", "OnFailure")
