"""What is forecast of jobs as they are submitted, beside what then becomes of them."""

from collections import Counter
from random import Random

import pytest
from tests.system.simulation.random_scenarios import RandomScenario
from tests.system.simulation.test_simulation import FLAVOR, JOB, play, queue, scenario

from muster.queueing.scheduling import cycle
from muster.simulation.engine.keptforecast import KeptForecast
from muster.simulation.outcome.page import render_report
from muster.simulation.simulate import simulate

# Six processors; jobs of three, four and two that run for 100 seconds at the most.
WORK = """
  work:
  - name: w
    queue: q
    arrivals: {poisson: {every: 10s}}
    count: 200
    runTime: %s
    limit: %s
    size: {uniform: {from: 1, to: 4}}
    template:""" + JOB.replace("\n      ", "\n      ")


def forecast(tmp_path, *, run_time="100s", limit="100s", forecasts="all", strategy="StrictFIFO", count=200):
    body = f"  forecasts: {forecasts}\n" + WORK.lstrip("\n") % (run_time, limit)
    body = body.replace("count: 200", f"count: {count}")
    return play(tmp_path, scenario(body, FLAVOR + queue("q", 6, strategy=strategy))).jobs


@pytest.mark.parametrize("forecasts", ["all", "some"])
def test_nothing_is_uncertain_where_order_and_run_times_are_known(tmp_path, forecasts):
    jobs = [job for job in forecast(tmp_path, forecasts=forecasts) if job.forecast is not None]
    assert len(jobs) > 10
    assert [job.forecast for job in jobs] == pytest.approx([job.wait for job in jobs])


def test_all_jobs_have_a_forecast_or_none(tmp_path):
    assert all(job.forecast is not None for job in forecast(tmp_path))
    waited = [job for job in forecast(tmp_path, forecasts="none") if job.wait]
    assert waited
    assert all(job.forecast is None for job in waited)


def test_the_shares_of_limits_that_jobs_need_are_learnt(tmp_path):
    """All jobs need a quarter of their limits; the first ones, forecast by limits alone, are far off."""
    jobs = forecast(tmp_path, run_time="100s", limit="400s")
    late = [job for job in jobs[20:] if job.wait]
    assert len(late) > 50
    assert [job.forecast for job in late] == pytest.approx([job.wait for job in late])


def test_page_and_summary_say_how_many_jobs_have_a_forecast(tmp_path):
    body = WORK.lstrip("\n") % ("100s", "100s")
    body = body.replace("{poisson: {every: 10s}}", "{uniform: {every: 1s}}").replace("count: 200", "count: 300")
    report = play(tmp_path, scenario(body, FLAVOR + queue("q", 6, strategy="StrictFIFO")))
    waited = [job for job in report.jobs if job.wait]
    forecasts = sum(job.forecast is not None for job in waited)
    assert 0 < forecasts < len(waited), "not all are paid for"
    assert f"Of {len(waited)} jobs that waited, {forecasts} have a forecast." in render_report(report)
    assert (report.summary.total.waited, report.summary.total.forecasts) == (len(waited), forecasts)


def test_forecasts_change_no_decision(tmp_path):
    plain, told = (forecast(tmp_path, forecasts=which, strategy="BestEffortFIFO") for which in ("none", "all"))
    assert [(job.name, job.started, job.ended) for job in plain] == [(job.name, job.started, job.ended) for job in told]


def test_jobs_of_one_moment_share_a_forecast(tmp_path):
    """So the forecasts of a burst cost no more than one: all are paid for, though their number is beyond the means."""
    body = "  forecasts: some\n  until: 100s\n" + WORK.lstrip("\n") % ("100s", "100s")
    body = body.replace("{poisson: {every: 10s}}", "{burst: {at: [0], count: 200}}")
    jobs = play(tmp_path, scenario(body, FLAVOR + queue("q", 6, strategy="StrictFIFO"))).jobs
    assert len(jobs) == 200
    assert all(job.forecast is not None for job in jobs)


def test_the_forecasts_of_a_burst_are_those_of_its_jobs_alone(tmp_path):
    """Order and run times are known, so each start is forecast as it comes to be."""
    body = "  forecasts: all\n" + WORK.lstrip("\n") % ("100s", "100s")
    body = body.replace("{poisson: {every: 10s}}", "{burst: {at: [0, 1h], count: 20}}")
    jobs = play(tmp_path, scenario(body, FLAVOR + queue("q", 6, strategy="StrictFIFO"))).jobs
    assert len(jobs) == 40
    assert [job.forecast for job in jobs] == pytest.approx([job.wait for job in jobs])


def test_a_forecast_that_comes_true_is_continued(tmp_path, monkeypatch):
    """So the cost of all forecasts grows with the number of jobs, and not with its square."""
    cycles, run = Counter[str](), cycle.run

    def count(*given, **more):
        cycles["run"] += 1
        return run(*given, **more)

    monkeypatch.setattr(cycle, "run", count)
    assert all(job.forecast is not None for job in forecast(tmp_path))
    assert cycles["run"] < 5 * 200


def test_a_continued_forecast_forgets_jobs_that_have_ended(tmp_path, monkeypatch):
    """So its memory grows with the jobs that run and wait, and not with all that came."""
    kept, catch_up = [], KeptForecast.catch_up

    def count(self, *given):
        is_same = catch_up(self, *given)
        if is_same:
            play = self._play
            kept.append(len(play.ends.keys() - self._holders.keys() - {step.key for step in play.steps}))
            kept.append(len(play._estimates.keys() - self._holders.keys() - {step.key for step in play.steps}))
        return is_same

    monkeypatch.setattr(KeptForecast, "catch_up", count)
    assert len(forecast(tmp_path)) == 200
    assert len(kept) > 200
    assert set(kept) == {0}


def draw_forecasts(tmp_path, seed):
    """Return the forecasts of a scenario that is drawn from a seed, with few reasons to begin them anew."""
    random, drawn = Random(seed), RandomScenario(seed)
    drawn.spec["forecasts"] = "all"
    for one in drawn.objects:
        if one["kind"] == "ClusterQueue":
            one["spec"]["preemption"] = {"withinClusterQueue": random.choice(["Never", "LowerPriority"])}
    for work in drawn.spec["work"]:
        if random.random() < 0.7:
            work.pop("priority", None)
        if "count" in work:
            work["count"] = 20
    jobs = simulate(drawn.write(tmp_path)).jobs
    return [(job.name, job.forecast) for job in jobs]


@pytest.mark.parametrize("strategy", ["StrictFIFO", "BestEffortFIFO"])
@pytest.mark.parametrize(
    ("run_time", "limit"),
    [("100s", "100s"), ("50s", "100s"), ("{uniform: {from: 20, to: 180}}", "{uniform: {from: 100, to: 400}}")],
)
def test_a_continued_forecast_is_that_of_a_new_one(tmp_path, monkeypatch, run_time, limit, strategy):
    given = {"run_time": run_time, "limit": limit, "strategy": strategy, "count": 60}
    continued = [job.forecast for job in forecast(tmp_path, **given)]
    monkeypatch.setattr(KeptForecast, "catch_up", lambda *_: False)
    assert continued == [job.forecast for job in forecast(tmp_path, **given)]


@pytest.mark.parametrize("seed", range(6))
def test_a_continued_forecast_of_anything_is_that_of_a_new_one(tmp_path, monkeypatch, seed):
    continued = draw_forecasts(tmp_path, seed)
    monkeypatch.setattr(KeptForecast, "catch_up", lambda *_: False)
    assert continued == draw_forecasts(tmp_path, seed)
