"""What a server tells of its Configuration is read back as it is."""

import msgspec
import pytest

from muster.api.config import EMBEDDED, GroupScheduling, Muster, Scheduling
from muster.api.config.configz import make_configz, namespace_of, origin_of, settings_of
from muster.api.core.container import ResourceRequirements
from muster.api.values.durations import MINUTE

ROOM = ResourceRequirements(requests={"cpu": "50m"})


@pytest.mark.parametrize(
    ("settings", "scheduling", "groups"),
    [
        (Muster(), {}, {}),
        (Muster(scheduling=Scheduling(scoring_strategy="LeastAllocated")), {"scoringStrategy": "LeastAllocated"}, {}),
        (
            Muster(scheduling=Scheduling(minimum_run_time=MINUTE, recovery_timeout=2 * MINUTE, overtakings=2)),
            {"minimumRunTime": "1m0s", "recoveryTimeout": "2m0s", "overtakings": 2},
            {},
        ),
        (
            Muster(group_scheduling=GroupScheduling(image="bash:5", resources=ROOM)),
            {},
            {"image": "bash:5", "resources": {"requests": {"cpu": "50m"}}},
        ),
    ],
)
def test_what_decides_about_pods(settings, scheduling, groups):
    served = make_configz(msgspec.structs.replace(EMBEDDED, muster=settings))
    assert served == {"muster.scheduling": scheduling, "muster.groupScheduling": groups}
    assert settings_of(msgspec.json.decode(msgspec.json.encode(served))) == settings


def test_another_server_says_something_else():
    assert settings_of({"kubelet": {}}) == Muster()


@pytest.mark.parametrize(("namespace", "said"), [("kueue-system", {}), ("batch", {"namespace": "batch"})])
def test_where_the_engine_has_what_it_reads(namespace, said):
    served = make_configz(msgspec.structs.replace(EMBEDDED, namespace=namespace))
    assert served == {"muster.scheduling": {}, "muster.groupScheduling": {}} | said
    assert namespace_of(served) == namespace


def test_a_server_that_says_nothing_has_it_in_the_usual_place():
    assert namespace_of({"kubelet": {}}) == "kueue-system"


@pytest.mark.parametrize(("origin", "said"), [("multikueue", {}), ("east", {"multiKueue.origin": "east"})])
def test_what_marks_the_objects_of_a_manager(origin, said):
    settings = msgspec.structs.replace(EMBEDDED.multi_kueue, origin=origin)
    served = make_configz(msgspec.structs.replace(EMBEDDED, multi_kueue=settings))
    assert served == {"muster.scheduling": {}, "muster.groupScheduling": {}} | said
    assert origin_of(served) == origin
