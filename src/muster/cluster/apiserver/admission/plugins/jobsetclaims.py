"""Check the volume claims of a new JobSet that already exist. The JobSet may use them if their spec is the same."""

from collections.abc import Iterator

import msgspec

from muster.api.core import PERSISTENT_VOLUME_CLAIM, PersistentVolumeClaim
from muster.api.defaults import DEFAULTS
from muster.api.jobset import JOB_SET, JobSet, names
from muster.api.jobset.naming import claim_name
from muster.api.status import FieldError, invalid
from muster.api.validation import fields
from muster.cluster.apiserver.admission.chain import WriteAttempt
from muster.cluster.store import Key, Store


def require_claims_meant(attempt: WriteAttempt, store: Store) -> None:
    """Raise `ApiError` if a volume claim that a JobSet would use already exists and the JobSet may not use it.

    It may not use a claim with another spec, or a claim that would be deleted with the JobSet.
    """
    if attempt.resource.key != JOB_SET.resource or attempt.operation != "CREATE":
        return
    if not attempt.document.get("spec", {}).get("volumeClaimPolicies"):
        return
    errors = list(_find_errors(JOB_SET.typed(attempt.document), attempt, store))
    if errors:
        raise invalid(JOB_SET.kind, JOB_SET.group, attempt.name, errors)


def _find_errors(job_set: JobSet, attempt: WriteAttempt, store: Store) -> Iterator[FieldError]:
    for i, policy in enumerate(job_set.spec.volume_claim_policies):
        path = f"spec.volumeClaimPolicies[{i}]"
        is_retained = policy.retention_policy is not None and policy.retention_policy.when_deleted == names.RETAIN
        for j, template in enumerate(policy.templates):
            name = claim_name(job_set, template.metadata.name)
            entry = store.latest(Key(PERSISTENT_VOLUME_CLAIM.resource, attempt.namespace, name))
            if entry is None:
                continue
            if not _is_same_claim(template, PERSISTENT_VOLUME_CLAIM.decode(entry.body)):
                sentence = f"spec does not match existing PVC {name} in namespace {attempt.namespace}"
                yield fields.invalid(f"{path}.templates[{j}].spec", template.spec, sentence)
            if not is_retained:
                where = f"{path}.retentionPolicy.whenDeleted"
                yield fields.invalid(where, names.DELETE, "retentionPolicy must be retain when PVC exists")


def _is_same_claim(template: PersistentVolumeClaim, there: PersistentVolumeClaim) -> bool:
    """Return whether an existing claim equals the template with its defaults, and so means the same volume.

    there: the existing claim.
    """
    document = {"spec": msgspec.json.decode(msgspec.json.encode(template.spec))}
    DEFAULTS[PERSISTENT_VOLUME_CLAIM.resource](document)
    wanted = PERSISTENT_VOLUME_CLAIM.typed(document).spec
    volume = wanted.volume_name or there.spec.volume_name
    return msgspec.structs.replace(wanted, volume_name=volume) == there.spec
