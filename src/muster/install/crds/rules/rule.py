"""Define a CEL rule, and the rules that several kinds have."""

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct


class Rule(Struct, frozen=True):
    """A CEL rule for a value.

    rule: the expression that must be true.
    message: the error if it is not.
    """

    rule: str
    message: str


# By the path of the checked value (`.spec.podSets[]`).
Rules = Mapping[str, Sequence[Rule]]

UNCHANGED: Final = "self == oldSelf"
UNIQUE: Final = Rule("self.all(x, self.exists_one(y, y == x))", "must be unique")

_EFFECTS = "['NoSchedule', 'PreferNoSchedule', 'NoExecute']"
_KNOWN_EFFECTS = "supported taint effect values: 'NoSchedule', 'PreferNoSchedule', 'NoExecute'"

TAINTS: Final = (Rule(f"self.all(t, t.effect in {_EFFECTS})", _KNOWN_EFFECTS),)
TOLERATIONS: Final = (
    Rule(
        "self.all(t, has(t.key) || (has(t.operator) && t.operator == 'Exists'))",
        "operator must be Exists when 'key' is empty, which means 'match all values and all keys'",
    ),
    Rule(
        "self.all(t, !has(t.tolerationSeconds) || (has(t.effect) && t.effect == 'NoExecute'))",
        "effect must be 'NoExecute' when 'tolerationSeconds' is set",
    ),
    Rule(
        "self.all(t, !has(t.operator) || t.operator in ['Equal', 'Exists'])",
        "supported toleration values: 'Equal'(default), 'Exists'",
    ),
    Rule(
        "self.all(t, !has(t.operator) || t.operator != 'Exists' || !has(t.value))",
        "a value must be empty when 'operator' is 'Exists'",
    ),
    Rule(f"self.all(t, !has(t.effect) || t.effect in {_EFFECTS})", _KNOWN_EFFECTS),
)


def exactly_one(one: str, other: str) -> Rule:
    """Return the rule that exactly one of two fields is set."""
    return Rule(f"has(self.{one}) != has(self.{other})", f"exactly one of the fields in [{one} {other}] must be set")
