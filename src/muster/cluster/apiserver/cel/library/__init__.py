"""The functions that expressions may call: CEL's own functions, the string extension, and the additions of Kubernetes.

Each module has a table `FUNCTIONS`. A signature reads `(string, int) -> list` for a function and
`string.(int) -> string` for a method. `overloads.KINDS` has the names of the types.
"""

from muster.cluster.apiserver.cel.library import (
    addresses,
    comparisons,
    conversions,
    lists,
    named_formats,
    optionals,
    quantities,
    semver,
    strings,
    times,
    urls,
)
from muster.cluster.apiserver.cel.library.overloads import Overload, group_by_name

OVERLOADS = group_by_name(
    comparisons.FUNCTIONS,
    conversions.FUNCTIONS,
    strings.FUNCTIONS,
    lists.FUNCTIONS,
    times.FUNCTIONS,
    optionals.FUNCTIONS,
    quantities.FUNCTIONS,
    urls.FUNCTIONS,
    addresses.FUNCTIONS,
    semver.FUNCTIONS,
    named_formats.FUNCTIONS,
)

# Functions that the CEL library declares too, but with fewer overloads than Muster has.
OURS = ("string", *comparisons.ORDERS)

__all__ = ["OURS", "OVERLOADS", "Overload"]
