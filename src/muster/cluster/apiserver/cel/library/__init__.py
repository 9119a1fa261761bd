"""The functions that expressions may call: CEL's own, the string extension, and what Kubernetes adds.

Each module has a table `FUNCTIONS`. The notation of a signature is `(string, int) -> list` for a function and
`string.(int) -> string` for a method; the types are those of `overloads.KINDS`.
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
from muster.cluster.apiserver.cel.library.overloads import Overload, by_name

OVERLOADS = by_name(
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

# Functions that the CEL library has too, but that take more here.
OURS = ("string", *comparisons.ORDERS)

__all__ = ["OURS", "OVERLOADS", "Overload"]
