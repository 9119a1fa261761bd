"""The functions of optional values. The operators `.?` and `[?]` are in `operators`."""

from typing import Any

from muster.cluster.apiserver.cel.library.overloads import Functions
from muster.cluster.apiserver.cel.values import NONE, CelError, Optional, UInt

_ZEROES: dict[type, Any] = {
    bool: False, int: 0, UInt: UInt(0), float: 0.0, str: "", bytes: b"", list: [], dict: {}, type(None): None,
}  # fmt: skip


def _make_optional_of_non_zero(value: Any) -> Optional:
    is_zero = type(value) in _ZEROES and value == _ZEROES[type(value)]
    return NONE if is_zero else Optional(True, value)


def _get_value(optional: Optional) -> Any:
    if not optional.present:
        raise CelError("optional.none() dereference")
    return optional.value


FUNCTIONS = Functions(
    table=(),
    standard=(
        ("optional.of", "(dyn) -> optional", lambda value: Optional(True, value)),
        ("optional.none", "() -> optional", lambda: NONE),
        ("optional.ofNonZeroValue", "(dyn) -> optional", _make_optional_of_non_zero),
        ("hasValue", "optional.() -> bool", lambda optional: optional.present),
        ("value", "optional.() -> dyn", _get_value),
        ("or", "optional.(optional) -> optional", lambda first, second: first if first.present else second),
        ("orValue", "optional.(dyn) -> dyn", lambda first, other: first.value if first.present else other),
    ),
)
