"""Convert topology assignments between a list of domains (v1beta1) and slices of columns (v1beta2).

A slice stores once what all its domains share: equal values of a level, equal counts, and common prefixes and suffixes
of the values.
"""

from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

from muster.api.members import Json

MAX_SLICE = 100_000  # the most domains of a slice in the schema of v1beta2


def assignment_of_domains(assignment: Json) -> Json:
    """Convert a topology assignment of v1beta1 (a list of domains) to v1beta2 (slices)."""
    domains = assignment.get("domains") or []
    slices = [_make_slice(domains[first : first + MAX_SLICE]) for first in range(0, len(domains), MAX_SLICE)]
    return {"levels": assignment.get("levels", []), "slices": slices}


def domains_of_assignment(assignment: Json) -> Json:
    """Convert a topology assignment of v1beta2 (slices) to v1beta1 (a list of domains)."""
    domains = [domain for part in assignment.get("slices") or () for domain in _list_domains(part)]
    return {"levels": assignment.get("levels", []), "domains": domains}


def _make_slice(domains: list[Json]) -> Json:
    # Rows of different lengths are invalid. The rules of v1beta2 refuse the rows that are filled up here.
    columns = zip_longest(*(domain["values"] for domain in domains), fillvalue="")
    counts = [domain["count"] for domain in domains]
    return {
        "domainCount": len(domains),
        "valuesPerLevel": [_compress_values(column) for column in columns],
        "podCounts": {"universal": counts[0]} if len(set(counts)) == 1 else {"individual": counts},
    }


def _compress_values(column: tuple[str, ...]) -> Json:
    if len(set(column)) == 1:
        return {"universal": column[0]}
    prefix = _find_common_prefix(column)
    rests = [value[len(prefix) :] for value in column]
    suffix = _find_common_prefix([rest[::-1] for rest in rests])[::-1]
    shared = {name: part for name, part in (("prefix", prefix), ("suffix", suffix)) if part}
    return {"individual": shared | {"roots": [rest[: len(rest) - len(suffix)] for rest in rests]}}


def _find_common_prefix(texts: Sequence[str]) -> str:
    first, last = min(texts), max(texts)
    length = next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), min(len(first), len(last)))
    return first[:length]


def _list_domains(part: Json) -> list[Json]:
    levels, counts = part["valuesPerLevel"], part["podCounts"]
    columns = [level["individual"]["roots"] for level in levels if "individual" in level]
    if "individual" in counts:
        columns.append(counts["individual"])
    if not columns:
        # Identical domains count as one, whatever number the slice claims.
        pods = counts.get("universal", 0) * part["domainCount"]
        return [{"values": [_get_value(level, 0) for level in levels], "count": pods}]
    return [
        {"values": [_get_value(level, index) for level in levels], "count": _count(counts, index)}
        for index in range(min([part["domainCount"], *map(len, columns)]))
    ]


def _get_value(level: Json, index: int) -> str:
    individual = level.get("individual")
    if individual is None:
        return str(level.get("universal", ""))
    return f"{individual.get('prefix', '')}{individual['roots'][index]}{individual.get('suffix', '')}"


def _count(counts: Json, index: int) -> Any:
    return counts["individual"][index] if "individual" in counts else counts.get("universal", 0)
