"""Check the types of operands whose types only the schema determines.

The CEL library gives the fields of an object the type `dyn`, so it accepts them in every operator. `applies` calls the
operator with an example value of each type to find out whether the types fit.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from muster.cluster.apiserver.cel.library import OVERLOADS
from muster.cluster.apiserver.cel.operators import BINARY, UNARY
from muster.cluster.apiserver.cel.shapes import Shape
from muster.cluster.apiserver.cel.values import CelError, Duration, Timestamp, UInt

# An example value of each type that the check covers.
EXAMPLES: Mapping[str, Any] = {
    "bool": True,
    "int": 1,
    "uint": UInt(1),
    "double": 1.0,
    "string": "a",
    "bytes": b"a",
    "timestamp": Timestamp(0),
    "duration": Duration(0),
}
# The shapes of literals, by their Python type.
CONSTANTS: Mapping[type, Shape] = {
    type(value): Shape(type=name, open=False, typed=True) for name, value in EXAMPLES.items()
}
_EQUALITY = ("_==_", "_!=_")
_LOGIC = ("_&&_", "_||_")


def applies(function: str, types: Sequence[str]) -> bool:
    """Return whether a function may take arguments of these types. An unknown type fits everywhere."""
    if function in _LOGIC:
        return all(type_ == "bool" or type_ not in EXAMPLES for type_ in types)
    if not all(type_ in EXAMPLES for type_ in types):
        return True
    if function in _EQUALITY:
        return types[0] == types[1]
    values = [EXAMPLES[type_] for type_ in types]
    operator = (UNARY if len(types) == 1 else BINARY).get(function)
    if operator is not None:
        return _works(operator, values)
    overloads = OVERLOADS.get(function, ())
    return not overloads or any(each.takes(tuple(map(type, values))) for each in overloads)


def _works(operator: Any, values: Sequence[Any]) -> bool:
    try:
        operator(*values)
    except CelError as error:
        return not str(error).startswith("no such overload")
    return True
