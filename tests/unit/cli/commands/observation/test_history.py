"""What `muster history` can be asked for."""

from muster.cli.commands.observation.history import STATES
from muster.insight.history.runs import OUTCOMES


def test_every_way_a_run_can_end_can_be_asked_for():
    assert STATES == OUTCOMES
