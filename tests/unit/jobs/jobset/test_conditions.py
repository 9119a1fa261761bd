"""How a status changes with the start of its group."""

from msgspec.structs import replace
from tests.unit.jobs.jobset.world import START

from muster.api.jobset import JobSetStatus, names
from muster.api.meta import Condition
from muster.jobs.jobset.conditions import StatusRecord
from muster.jobs.jobset.start.decide import StartPlan

OTHER = Condition(type="Other", status="True")
WAITING = Condition(type=names.GROUP_SCHEDULING_READY, status="False", message="1/2")
READY = replace(WAITING, status="True", message="2/2")


def test_the_condition_of_the_start_is_added_once_and_then_takes_its_own_place() -> None:
    record = StatusRecord(JobSetStatus(conditions=(OTHER,)), START)
    waiting = record.add_start_plan(StartPlan(condition=WAITING))
    assert waiting.status.conditions == (OTHER, WAITING)
    assert waiting.add_start_plan(StartPlan(condition=WAITING)).status.conditions == (OTHER, WAITING)
    assert waiting.add_start_plan(StartPlan(condition=READY)).status.conditions == (OTHER, READY)
    assert waiting.add_start_plan(StartPlan()).status.conditions == (OTHER, WAITING)
