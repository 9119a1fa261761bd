"""Differences of variants, and which of them are beyond noise."""

from muster.simulation.outcome.assertions import judge, parse_assertion
from muster.simulation.outcome.comparison import (
    Figure,
    SimulationRun,
    compare,
    describe_never,
    group_failures,
    is_same_for_all_seeds,
    list_changes,
    list_figures,
    name_seeds,
)
from muster.simulation.outcome.record import SimulationRecord
from muster.simulation.outcome.summary import summarize
from muster.simulation.outcome.usechanges import RecordedUse


def run(variant, seed, wait, queues=("q",)):
    record = SimulationRecord(["w"])
    for queue in queues:
        record.change(0.0, queue, "f", "cpu", round(wait))
        record.start(record.submit("w-0", 0, queue, 1, 0, 0.0, 10.0), wait)
    record.now = wait
    return SimulationRun(variant, seed, summarize(list(record.jobs()), list(record.changes()), wait), [], 0)


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


def test_the_figures_of_a_single_queue_are_those_of_all_jobs():
    one, two = (
        [change.figure for change in list_changes(compare([run("a", 1, 10, queues), run("b", 1, 90, queues)]))]
        for queues in (("q",), ("q", "r"))
    )
    assert {figure.queue for figure in one if not figure.name.startswith("mean use")} == {None}
    assert [figure.queue for figure in one if figure.name == "mean use of cpu (f)"] == ["q"]
    assert [figure.queue for figure in two if figure.name == "wait mean"] == [None, "q", "r"]


def test_what_lost_nodes_undid_is_compared():
    record = SimulationRecord(["w"])
    record.start(record.submit("w-0", 0, "q", 4, 0, 0.0, 90.0), 0.0)
    record.now = 10.0
    record.interrupt(0, 10.0)
    broken = SimulationRun("b", 1, summarize(list(record.jobs()), [], 10.0), [], 0)
    changes = {one.figure.name: one.change.mean for one in list_changes(compare([run("a", 1, 0.0), broken]))}
    assert (changes["interruptions"], changes["lost by nodes"]) == (1, 40)


def test_the_rounding_errors_of_sums_are_no_difference():
    """0.1 + 0.2 exceeds 0.3, by the same error with all seeds."""
    exact, inexact = ([run(name, seed, wait) for seed in (1, 2)] for name, wait in (("a", 0.3), ("b", 0.1 + 0.2)))
    assert list_changes(compare(exact + inexact)) == []


def test_one_seed_says_nothing_of_noise():
    one = change_of_wait([run("a", 1, 10.0), run("b", 1, 90.0)])
    assert (one.change.mean, one.change.low, one.beyond_noise) == (80.0, None, None)


def test_seeds_that_change_nothing_are_noticed():
    same = [run(variant, seed, wait) for variant, wait in (("a", 10.0), ("b", 30.0)) for seed in (1, 2)]
    assert is_same_for_all_seeds(same)
    assert not is_same_for_all_seeds([*same[:3], run("b", 2, 31.0)])
    assert not is_same_for_all_seeds(same[::2]), "one seed says nothing"


def test_only_seeds_with_which_both_were_simulated_are_compared():
    one = change_of_wait([run("a", 1, 10.0), run("a", 2, 99.0), run("b", 1, 30.0)])
    assert one.change.mean == 20.0
    assert compare([]).differences == []


def run_with_huge_jobs(variant, seed, huge):
    """Return a run of one job that waits and some that could never run."""
    record = SimulationRecord(["w"])
    record.submit("w-0", 0, "q", 1, 0, 0.0, 10.0)
    for number in range(huge):
        record.submit(f"huge-{number}", 0, "q", 9, 0, 0.0, 10.0)
    record.now = 50.0
    jobs = list(record.jobs())
    verdict = judge(parse_assertion("count(waiting) <= 2", {}), jobs, RecordedUse(record))
    summary = summarize(jobs, [], 50.0, {f"huge-{number}" for number in range(huge)})
    return SimulationRun(variant, seed, summary, [verdict], huge)


def test_jobs_that_could_never_run_are_a_figure_of_their_own():
    figures = dict(list_figures(run_with_huge_jobs("a", 1, 2).summary))
    for name in (None, "q"):
        assert (figures[Figure(name, "waiting", "")], figures[Figure(name, "never", "")]) == (1, 2)


def test_what_is_wrong_is_said_once_for_all_seeds():
    runs = [run_with_huge_jobs("a", seed, 2) for seed in (1, 2, 3)] + [run_with_huge_jobs("b", 1, 1)]
    assert list(describe_never(runs)) == [
        "a, seed 1 and 2 more: 2 jobs could never run",
        "b, seed 1: 1 job could never run",
    ]
    failures = group_failures(runs)
    assert {key: name_seeds(list(some)) for key, some in failures.items()} == {
        ("a", "count(waiting) <= 2"): "seed 1 and 2 more"
    }
