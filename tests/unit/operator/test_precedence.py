"""What gives way to what on a cluster that has programs of its own."""

import msgspec
from msgspec.structs import replace

from muster.api.config import DEFAULT
from muster.api.config.types import Muster, Scheduling
from muster.operator.precedence import beside_others, is_ours, make_identity


def test_replicas_of_muster_are_known_by_their_identity() -> None:
    assert is_ours(make_identity("box", "uid"))
    assert is_ours("")
    assert not is_ours("kueue-controller-manager-7d9_uid")


def test_pods_are_left_to_the_scheduler_that_they_name() -> None:
    assert beside_others(DEFAULT).muster.scheduling.scheduler_names == ("muster",)
    named = replace(DEFAULT, muster=Muster(scheduling=Scheduling(scheduler_names=("default-scheduler", "gangs"))))
    assert beside_others(named) is named


def test_all_else_of_the_settings_stays() -> None:
    there, here = (msgspec.to_builtins(each) for each in (DEFAULT, beside_others(DEFAULT)))
    for settings in (there, here):
        settings.get("muster", {}).get("scheduling", {}).pop("schedulerNames", None)
    assert {**here, "muster": None} == {**there, "muster": None}
