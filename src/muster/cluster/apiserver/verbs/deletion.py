"""What a request for deletion makes of an object: removed, marked, or left as it is. Pure.

The rules are those of k8s.io/apiserver (registry.Store.Delete, rest.BeforeDelete) and of pods and namespaces.
A marked object is removed when the last of its holds is gone: finalizers, the grace period (which the pod's node
ends), and for a namespace what is in it.
"""

from datetime import datetime, timedelta
from typing import Any

from msgspec import Struct

from muster.api.kinds import Kind
from muster.api.meta import FOREGROUND_FINALIZER, ORPHAN_FINALIZER, DeleteOptions
from muster.api.status import INVALID, NOT_SUPPORTED, ApiError, FieldError, conflict, invalid
from muster.cluster.apiserver.decode import Document
from muster.cluster.apiserver.objects.metadata import meta_of, timestamp
from muster.cluster.apiserver.registry.resources import Rules

_POLICIES = ("Foreground", "Background", "Orphan")
_FINISHED = ("Succeeded", "Failed")
# Upstream adds this to now without a limit; datetime has one.
MAX_GRACE_SECONDS = 100 * 365 * 24 * 3600


class Removed(Struct, frozen=True):
    """The object goes now; its last state."""

    document: Document


class Marked(Struct, frozen=True):
    """The object stays for now, changed; the same object if nothing is to be written."""

    document: Document
    changed: bool


def check_options(options: DeleteOptions) -> None:
    """Raise `ApiError` (422) for options that make no sense."""
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
    """Raise `ApiError` (409) unless the object is the one that is meant."""
    wanted = options.preconditions
    if wanted is None:
        return
    meta = meta_of(document)
    what = f"{kind.kind}.{kind.group}" if kind.group else kind.kind  # as upstream: here it is not the resource
    if wanted.uid is not None and wanted.uid != meta["uid"]:
        raise _failed(
            what,
            meta,
            f"the UID in the precondition ({wanted.uid}) does not match the UID in record ({meta['uid']}). "
            "The object might have been deleted and then recreated",
        )
    if wanted.resource_version is not None and wanted.resource_version != meta["resourceVersion"]:
        raise _failed(
            what,
            meta,
            f"the ResourceVersion in the precondition ({wanted.resource_version}) does not match the ResourceVersion "
            f"in record ({meta['resourceVersion']}). The object might have been modified",
        )


def _failed(what: str, meta: dict[str, Any], message: str) -> ApiError:
    return conflict(what, meta["name"], message)


def delete(document: Document, options: DeleteOptions, rules: Rules, now: datetime) -> Removed | Marked:
    """Carry out a request for deletion on a document, which is changed in place."""
    meta = meta_of(document)
    if meta.get("deletionTimestamp") and meta.get("deletionGracePeriodSeconds"):
        return _shorten(document, options.grace_period_seconds)
    changed = _set_finalizers(meta, options, rules)
    if rules.begin_deletion is not None and not meta.get("deletionTimestamp"):
        rules.begin_deletion(document, timestamp(now))
    grace = _grace(document, options) if rules.graceful and not meta.get("deletionTimestamp") else 0
    if not grace and not _held(document):
        if rules.graceful:
            _mark(meta, now, 0)
        return Removed(document)
    if not meta.get("deletionTimestamp"):
        changed = True
        _mark(meta, now, grace)
        if _holds_content(document):
            document.setdefault("status", {})["phase"] = "Terminating"
    return Marked(document, changed)


def is_over(document: Document) -> bool:
    """Whether an object that is being deleted has lost its last hold, so that a change of it removes it."""
    meta = meta_of(document)
    return bool(meta.get("deletionTimestamp")) and not meta.get("deletionGracePeriodSeconds") and not _held(document)


def _held(document: Document) -> bool:
    return bool(meta_of(document).get("finalizers")) or _holds_content(document)


def _holds_content(document: Document) -> bool:
    """Whether it is a namespace that is to be emptied before it goes."""
    return document.get("kind") == "Namespace" and bool(document.get("spec", {}).get("finalizers"))


def _grace(document: Document, options: DeleteOptions) -> int:
    """The seconds that a pod has to end; none unless it is on a node and has not ended."""
    spec = document.get("spec", {})
    if not spec.get("nodeName") or document.get("status", {}).get("phase") in _FINISHED:
        return 0
    asked = options.grace_period_seconds
    seconds = spec.get("terminationGracePeriodSeconds", 0) if asked is None else asked
    return 1 if seconds < 0 else min(seconds, MAX_GRACE_SECONDS)


def _shorten(document: Document, asked: int | None) -> Removed | Marked:
    """A pod that is ending may only be told to end sooner."""
    meta = meta_of(document)
    current: int = meta["deletionGracePeriodSeconds"]
    grace = current if asked is None else 1 if asked < 0 else asked
    if grace >= current:
        return Marked(document, changed=False)
    end = datetime.fromisoformat(meta["deletionTimestamp"]) - timedelta(seconds=current - grace)
    meta["deletionTimestamp"] = timestamp(end)
    meta["deletionGracePeriodSeconds"] = grace
    return Marked(document, changed=True) if grace or _held(document) else Removed(document)


def _mark(meta: dict[str, Any], now: datetime, grace: int) -> None:
    if meta.get("deletionTimestamp"):
        return
    meta["deletionTimestamp"] = timestamp(now + timedelta(seconds=grace))
    meta["deletionGracePeriodSeconds"] = grace
    if meta.get("generation"):
        meta["generation"] += 1


def _set_finalizers(meta: dict[str, Any], options: DeleteOptions, rules: Rules) -> bool:
    """Write on the object how its dependents are to go; returns whether that changed it."""
    before = meta.get("finalizers", [])
    after = [finalizer for finalizer in before if finalizer not in (ORPHAN_FINALIZER, FOREGROUND_FINALIZER)]
    policy = _policy(before, options, rules)
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


def _policy(finalizers: list[str], options: DeleteOptions, rules: Rules) -> str | None:
    if rules.propagation is None:
        return None
    if options.orphan_dependents is not None:
        return "Orphan" if options.orphan_dependents else "Background"
    if options.propagation_policy is not None:
        return options.propagation_policy
    if ORPHAN_FINALIZER in finalizers:
        return "Orphan"
    return "Foreground" if FOREGROUND_FINALIZER in finalizers else rules.propagation
