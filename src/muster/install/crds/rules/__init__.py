"""Collect the CEL rules of upstream's definitions, with the same messages as `muster.api.validation`."""

from collections.abc import Mapping
from typing import Any

from muster.api.kinds import Kind
from muster.install.crds.rules.jobset import JOB_SET
from muster.install.crds.rules.kueue import KUEUE
from muster.install.crds.rules.rule import Rules
from muster.install.crds.rules.workload import WORKLOAD

_RULES: Mapping[tuple[str, str], Rules] = {**KUEUE, **WORKLOAD, **JOB_SET}


def rules_of(kind: Kind[Any]) -> Rules:
    """Return the CEL rules of a version of a kind, by the path of the value that they check."""
    return _RULES.get((kind.resource, kind.version), {})


__all__ = ["Rules", "rules_of"]
