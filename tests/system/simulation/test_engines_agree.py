"""The fast engine decides as a whole cluster does: the same, in the same order, at the same times."""

import pytest
from tests.system.simulation.judge import Unclear, configure, find_difference
from tests.system.simulation.random_scenarios import RandomScenario

FIRST_SEED, SHORT, LONG = 100, 15, 2000


def pytest_generate_tests(metafunc):
    count = LONG if metafunc.config.getoption("--long") else SHORT
    metafunc.parametrize("seed", range(FIRST_SEED, FIRST_SEED + count))


@pytest.mark.long
def test_both_engines_make_the_same_decisions(tmp_path, seed):
    scenario = RandomScenario(seed)
    difference = find_difference(scenario.write(tmp_path), configure(scenario.dispatcher))
    if isinstance(difference, Unclear):
        pytest.skip(difference.why)
    assert not difference, difference
