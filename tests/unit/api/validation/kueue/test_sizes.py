"""How many flavors, resources and quotas a ClusterQueue may have: more than a case can write down."""

from typing import Any

import msgspec
import pytest

from muster.api.kueue import ClusterQueue
from muster.api.validation.kueue.clusterqueue import validate_create


def group(number: int, flavors: int, resources: int) -> dict[str, Any]:
    covered = [f"r{number}-{i}" for i in range(resources)]
    quotas = [{"name": name, "nominalQuota": 1} for name in covered]
    return {
        "coveredResources": covered,
        "flavors": [{"name": f"f{number}-{i}", "resources": quotas} for i in range(flavors)],
    }


def queue(*sizes: tuple[int, int], concurrent: bool = False) -> ClusterQueue:
    groups = [group(number, *size) for number, size in enumerate(sizes)]
    policy = {"concurrentAdmissionPolicy": {"migration": {"mode": "TryPreferredFlavors"}}} if concurrent else {}
    document = {"metadata": {"name": "queue"}, "spec": {"resourceGroups": groups, **policy}}
    return msgspec.convert(document, ClusterQueue)


EVERY = "across all resourceGroups must be \u2264 256, got 257"
FLAVORS = f"spec.resourceGroups: Invalid value: 257: total number of flavors {EVERY}"
RESOURCES = f"spec.resourceGroups: Invalid value: 257: total number of covered resources {EVERY}"
QUOTAS = "number of flavor-resource combinations in a resourceGroup must be \u2264 512, got 576"


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([(10, 10)], []),
        ([(64, 1)] * 4, []),
        ([(64, 1)] * 4 + [(1, 1)], [FLAVORS]),
        ([(1, 64)] * 4, []),
        ([(1, 64)] * 4 + [(1, 1)], [RESOURCES]),
        ([(8, 64)], []),
        ([(1, 1), (9, 64)], [f"spec.resourceGroups[1]: Invalid value: 576: {QUOTAS}"]),
    ],
)
def test_sizes(sizes: Any, expected: list[str], sentences: Any) -> None:
    assert sentences(validate_create(queue(*sizes))) == expected


def test_concurrent_admission_has_few_flavors(sentences: Any) -> None:
    assert sentences(validate_create(queue((16, 1), concurrent=True))) == []
    most = "cannot have more than 16 resource flavors in the ResourceGroup when ConcurrentAdmissionPolicy is defined"
    expected = [f"spec.resourceGroups[0].flavors: Invalid value: 17: {most}"]
    assert sentences(validate_create(queue((17, 1), concurrent=True))) == expected
