"""The order operators, also between numbers of different types.

The CEL library orders numbers of different types only if their types are unknown.
"""

from muster.cluster.apiserver.cel.library.overloads import Function, Functions
from muster.cluster.apiserver.cel.operators import BINARY

ORDERS = ("_<_", "_<=_", "_>_", "_>=_")

_NUMBERS = ("int", "uint", "double")
_ORDERED = ("string", "bytes", "bool", "timestamp", "duration")
_PAIRS = [(a, b) for a in _NUMBERS for b in _NUMBERS] + [(each, each) for each in _ORDERED]
_TABLE: list[Function] = [(name, f"({a}, {b}) -> bool", BINARY[name]) for name in ORDERS for a, b in _PAIRS]

FUNCTIONS = Functions(table=_TABLE)
