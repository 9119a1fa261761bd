"""The rules of Topologies."""

from muster.api.kueue import Topology, TopologyLevel
from muster.api.nodes import HOSTNAME_LABEL
from muster.api.status import FieldError
from muster.api.validation.fields import Errors, invalid
from muster.api.validation.kueue.rules import ARRAY, validate_changed, validate_created

_LEVELS = "spec.levels"


def validate_create(topology: Topology) -> list[FieldError]:
    """Return the errors in a new Topology."""
    return validate_created(topology.metadata, _validate_levels(topology.spec.levels))


def validate_update(new: Topology, old: Topology) -> list[FieldError]:
    """Return the errors in a change of a Topology, whose levels may change only above its hosts."""
    now, before = new.spec.levels, old.spec.levels
    return validate_changed(
        new.metadata, old.metadata, [*_validate_changed_levels(now, before), *_validate_levels(now)]
    )


def _validate_levels(levels: tuple[TopologyLevel, ...]) -> Errors:
    if len(set(levels)) < len(levels):
        yield invalid(_LEVELS, ARRAY, "must be unique")
    if any(level.node_label == HOSTNAME_LABEL for level in levels) and not _ends_with_hosts(levels):
        sentence = f"the {HOSTNAME_LABEL} label can only be used at the lowest level of topology"
        yield invalid(_LEVELS, ARRAY, sentence)


def _validate_changed_levels(new: tuple[TopologyLevel, ...], old: tuple[TopologyLevel, ...]) -> Errors:
    if new != old and not (_ends_with_hosts(new) and _ends_with_hosts(old)):
        sentence = f"levels are mutable only when {HOSTNAME_LABEL} is the lowest level both before and after the change"
        yield invalid(_LEVELS, ARRAY, sentence)


def _ends_with_hosts(levels: tuple[TopologyLevel, ...]) -> bool:
    return bool(levels) and levels[-1].node_label == HOSTNAME_LABEL
