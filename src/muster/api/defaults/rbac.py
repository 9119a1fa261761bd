"""The defaults of bindings: the API group of a subject or role, by its kind."""

from typing import Any

from muster.api.server.rbac import GROUP

_SUBJECT_GROUPS = {"User": GROUP, "Group": GROUP}


def default_binding(binding: dict[str, Any]) -> None:
    """Set the defaults of a RoleBinding or ClusterRoleBinding."""
    ref = binding.setdefault("roleRef", {})
    if not ref.get("apiGroup"):
        ref["apiGroup"] = GROUP
    for subject in binding.get("subjects") or ():
        if not subject.get("apiGroup") and subject.get("kind") in _SUBJECT_GROUPS:
            subject["apiGroup"] = _SUBJECT_GROUPS[subject["kind"]]
