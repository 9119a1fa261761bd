"""Decide about a deletion: remove the object, mark it for deletion, or leave it as it is. Pure.

The rules follow k8s.io/apiserver (registry.Store.Delete, rest.BeforeDelete), also for pods and namespaces. A marked
object is removed when nothing holds it any more. Finalizers, the grace period of a pod (which the pod's node ends), and
the content of a namespace hold an object. `remove` reads and writes the store.
"""

from datetime import datetime, timedelta
from typing import Any

from msgspec import Struct

from muster.api.kinds import Kind
from muster.api.meta import FOREGROUND_FINALIZER, ORPHAN_FINALIZER, DeleteOptions
from muster.api.status import INVALID, NOT_SUPPORTED, ApiError, FieldError, conflict, invalid
from muster.cluster.apiserver.decode import Document
from muster.cluster.apiserver.objects.metadata import format_timestamp, meta_of
from muster.cluster.apiserver.registry.resources import Rules

_POLICIES = ("Foreground", "Background", "Orphan")
_FINISHED = ("Succeeded", "Failed")
# Upstream adds any grace period to the current time. A Python datetime has a maximum, so the period needs one, too.
MAX_GRACE_SECONDS = 100 * 365 * 24 * 3600


class Removed(Struct, frozen=True):
    """The decision to remove the object now. document: its last state."""

    document: Document


class KeptObject(Struct, frozen=True):
    """The decision to keep the object for now. changed: whether `document` must be written to the store."""

    document: Document
    changed: bool


def check_options(options: DeleteOptions) -> None:
    """Raise `ApiError` (422) for an unknown propagation policy, for two policies, or for an unknown `dryRun`."""
    errors = []
    policy = options.propagation_policy
    if policy is not None and options.orphan_dependents is not None:
        detail = "orphanDependents and deletionPropagation cannot be both set"
        errors.append(FieldError("propagationPolicy", INVALID, policy[:100], detail))
    elif policy is not None and policy not in _POLICIES:
        supported = ", ".join(f'"{name}"' for name in (*_POLICIES, "nil"))
        errors.append(FieldError("propagationPolicy", NOT_SUPPORTED, policy[:100], f"supported values: {supported}"))
    if options.dry_run not in ((), ("All",)):
        errors.append(FieldError("dryRun", NOT_SUPPORTED, list(options.dry_run)[:5], 'supported values: "All"'))
    if errors:
        raise invalid("DeleteOptions", "meta.k8s.io", "", errors)


def check_preconditions(document: Document, options: DeleteOptions, kind: Kind[Any]) -> None:
    """Raise `ApiError` (409) unless the object has the UID and resource version of the preconditions."""
    wanted = options.preconditions
    if wanted is None:
        return
    meta = meta_of(document)
    what = f"{kind.kind}.{kind.group}" if kind.group else kind.kind  # upstream names the kind here, not the resource
    if wanted.uid is not None and wanted.uid != meta["uid"]:
        raise _make_failure(
            what,
            meta,
            f"the UID in the precondition ({wanted.uid}) does not match the UID in record ({meta['uid']}). "
            "The object might have been deleted and then recreated",
        )
    if wanted.resource_version is not None and wanted.resource_version != meta["resourceVersion"]:
        raise _make_failure(
            what,
            meta,
            f"the ResourceVersion in the precondition ({wanted.resource_version}) does not match the ResourceVersion "
            f"in record ({meta['resourceVersion']}). The object might have been modified",
        )


def _make_failure(resource: str, meta: dict[str, Any], message: str) -> ApiError:
    return conflict(resource, meta["name"], message)


def delete(document: Document, options: DeleteOptions, rules: Rules, now: datetime) -> Removed | KeptObject:
    """Apply a deletion request to the document, in place; return whether to remove the object now or to keep it.

    A second request can only shorten a pod's grace period or change how dependents are deleted.
    """
    meta = meta_of(document)
    if meta.get("deletionTimestamp") and meta.get("deletionGracePeriodSeconds"):
        return _shorten(document, options.grace_period_seconds)
    changed = _set_finalizers(meta, options, rules)
    if rules.begin_deletion is not None and not meta.get("deletionTimestamp"):
        rules.begin_deletion(document, format_timestamp(now))
    grace = _find_grace_period(document, options) if rules.graceful and not meta.get("deletionTimestamp") else 0
    if not grace and not _is_held(document):
        if rules.graceful:
            _mark(meta, now, 0)
        return Removed(document)
    if not meta.get("deletionTimestamp"):
        changed = True
        _mark(meta, now, grace)
        if _holds_content(document):
            document.setdefault("status", {})["phase"] = "Terminating"
    return KeptObject(document, changed)


def is_over(document: Document) -> bool:
    """Return whether the object is marked for deletion and nothing holds it any more, so that it must be removed."""
    meta = meta_of(document)
    return bool(meta.get("deletionTimestamp")) and not meta.get("deletionGracePeriodSeconds") and not _is_held(document)


def _is_held(document: Document) -> bool:
    return bool(meta_of(document).get("finalizers")) or _holds_content(document)


def _holds_content(document: Document) -> bool:
    """Return whether the document is a Namespace with finalizers in its spec, whose content must be deleted first."""
    return document.get("kind") == "Namespace" and bool(document.get("spec", {}).get("finalizers"))


def _find_grace_period(document: Document, options: DeleteOptions) -> int:
    """Return the grace period of a pod in seconds: 0 if it has no node or has finished.

    A negative period becomes 1 second.
    """
    spec = document.get("spec", {})
    if not spec.get("nodeName") or document.get("status", {}).get("phase") in _FINISHED:
        return 0
    requested = options.grace_period_seconds
    seconds = spec.get("terminationGracePeriodSeconds", 0) if requested is None else requested
    return 1 if seconds < 0 else min(seconds, MAX_GRACE_SECONDS)


def _shorten(document: Document, requested: int | None) -> Removed | KeptObject:
    """Shorten the grace period of a pod that is being deleted, in place; return the decision.

    requested: the requested seconds; None or a longer period changes nothing. A negative period becomes 1 second.
    """
    meta = meta_of(document)
    current: int = meta["deletionGracePeriodSeconds"]
    grace = current if requested is None else 1 if requested < 0 else requested
    if grace >= current:
        return KeptObject(document, changed=False)
    end = datetime.fromisoformat(meta["deletionTimestamp"]) - timedelta(seconds=current - grace)
    meta["deletionTimestamp"] = format_timestamp(end)
    meta["deletionGracePeriodSeconds"] = grace
    return KeptObject(document, changed=True) if grace or _is_held(document) else Removed(document)


def _mark(meta: dict[str, Any], now: datetime, grace: int) -> None:
    """Set the deletion timestamp to the end of the grace period, in place. grace: seconds."""
    if meta.get("deletionTimestamp"):
        return
    meta["deletionTimestamp"] = format_timestamp(now + timedelta(seconds=grace))
    meta["deletionGracePeriodSeconds"] = grace
    if meta.get("generation"):
        meta["generation"] += 1


def _set_finalizers(meta: dict[str, Any], options: DeleteOptions, rules: Rules) -> bool:
    """Set the finalizer that decides how dependents are deleted, in place; return whether that changed the object."""
    before = meta.get("finalizers", [])
    after = [finalizer for finalizer in before if finalizer not in (ORPHAN_FINALIZER, FOREGROUND_FINALIZER)]
    policy = _find_policy(before, options, rules)
    if policy == "Orphan":
        after.append(ORPHAN_FINALIZER)
    elif policy == "Foreground":
        after.append(FOREGROUND_FINALIZER)
    if after == before:
        return False
    meta.pop("finalizers", None)
    if after:
        meta["finalizers"] = after
    return True


def _find_policy(finalizers: list[str], options: DeleteOptions, rules: Rules) -> str | None:
    """Return the propagation policy of a deletion; None for a kind whose deletions ignore dependents."""
    if rules.propagation is None:
        return None
    if options.orphan_dependents is not None:
        return "Orphan" if options.orphan_dependents else "Background"
    if options.propagation_policy is not None:
        return options.propagation_policy
    if ORPHAN_FINALIZER in finalizers:
        return "Orphan"
    return "Foreground" if FOREGROUND_FINALIZER in finalizers else rules.propagation
