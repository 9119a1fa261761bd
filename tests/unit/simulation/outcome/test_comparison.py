"""Differences of variants, and which of them are beyond noise."""

from muster.simulation.outcome.comparison import Figure, SimulationRun, compare
from muster.simulation.outcome.record import SimulationRecord
from muster.simulation.outcome.summary import summarize


def run(variant, seed, wait):
    record = SimulationRecord(["w"])
    record.start(record.submit("w-0", 0, "q", 1, 0, 0.0, 10.0), wait)
    record.now = wait
    return SimulationRun(variant, seed, summarize(list(record.jobs()), [], wait), [], 0)


def change_of_wait(runs):
    figure = Figure("q", "wait mean", "seconds")
    [one] = [one for one in compare(runs).differences if one.figure == figure]
    return one


def test_a_difference_that_all_seeds_share_is_beyond_the_noise_of_the_draws():
    waits = {1: 10.0, 2: 500.0, 3: 90.0}
    runs = [run("a", seed, wait) for seed, wait in waits.items()]
    one = change_of_wait(runs + [run("b", seed, wait + 5 + seed / 10) for seed, wait in waits.items()])
    assert (round(one.change.mean, 1), one.beyond_noise) == (5.2, True)
    assert one.before.high > one.after.low, "each alone varies much more"
    one = change_of_wait(runs + [run("b", seed, wait + (-5) ** seed) for seed, wait in waits.items()])
    assert one.beyond_noise is False


def test_one_seed_says_nothing_of_noise():
    one = change_of_wait([run("a", 1, 10.0), run("b", 1, 90.0)])
    assert (one.change.mean, one.change.low, one.beyond_noise) == (80.0, None, None)


def test_only_seeds_with_which_both_were_simulated_are_compared():
    one = change_of_wait([run("a", 1, 10.0), run("a", 2, 99.0), run("b", 1, 30.0)])
    assert one.change.mean == 20.0
    assert compare([]).differences == []
