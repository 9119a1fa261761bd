"""Metrics: upstream's names, no global registry, and numbers that are true when scraped."""

import asyncio

import pytest
from prometheus_client import REGISTRY
from prometheus_client.parser import text_string_to_metric_families

from muster.runtime.clock import VirtualClock, run_virtual
from muster.runtime.control.controller import Controller, Result
from muster.runtime.ids import Random
from muster.runtime.metrics import CONTENT_TYPE, Gauges, Registry

Samples = dict[tuple[str, str], float]


def samples(registry: Registry) -> Samples:
    """Every sample by name and labels, without buckets."""
    found = {}
    for family in text_string_to_metric_families(registry.text().decode()):
        for sample in family.samples:
            if "le" not in sample.labels and not sample.name.endswith("_created"):
                found[sample.name, ",".join(f"{k}={v}" for k, v in sorted(sample.labels.items()))] = sample.value
    return found


def test_registries_are_apart() -> None:
    one, other = Registry(), Registry()
    one.counter("muster_things_total", "Things", ("color",)).labels("red").inc(3)
    one.gauge("muster_level", "Level").labels().set(7)
    one.histogram("muster_seconds", "Seconds", (), (1, 10)).labels().observe(5)
    assert samples(one)["muster_things_total", "color=red"] == 3
    assert samples(one)["muster_level", ""] == 7
    assert samples(one)["muster_seconds_sum", ""] == 5
    assert samples(other) == {}
    assert "muster_level" not in {family.name for family in REGISTRY.collect()}
    assert CONTENT_TYPE.startswith("text/plain")


def test_same_name_is_the_same_metric() -> None:
    registry = Registry()
    first = registry.counter("muster_things_total", "Things")
    assert registry.counter("muster_things_total", "Things") is first


def test_metrics_of_two_types_have_two_names() -> None:
    registry = Registry()
    registry.counter("muster_things_total", "Things")
    for make in (
        lambda: registry.gauge("muster_things_total", "Things"),
        lambda: registry.histogram("muster_things_total", "Things", (), (1,)),
    ):
        with pytest.raises(ValueError, match="muster_things_total is a counter already"):
            make()


def test_process_numbers_are_there_if_asked_for() -> None:
    names = {name for name, _ in samples(Registry(process=True))}
    assert {"process_resident_memory_bytes", "python_gc_collections_total"} <= names


def test_controller_has_upstream_numbers() -> None:
    registry = Registry()
    clock = VirtualClock()

    async def reconcile(key: str) -> Result:
        await clock.sleep(10)
        if key == "bad":
            raise ConnectionError("no")
        return 1000.0 if key == "again" else None

    async def main() -> tuple[Samples, Samples]:
        controller = Controller("job", reconcile, clock, Random(seed=1), workers=2, observer=registry.controller("job"))
        for key in ("bad", "again", "good", "more"):
            controller.queue.add(key)
        task = asyncio.create_task(controller.run())
        await clock.sleep(5)
        during = samples(registry)
        await clock.sleep(14)
        await controller.stop()
        await task
        return during, samples(registry)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("muster.runtime.control.controller.log.disabled", True)
        during, after = run_virtual(main())
    queue = "controller=job,name=job"
    assert during["workqueue_depth", queue] == 2
    assert during["workqueue_adds_total", queue] == 4
    assert during["workqueue_unfinished_work_seconds", queue] == 10
    assert during["workqueue_longest_running_processor_seconds", queue] == 5
    assert during["controller_runtime_active_workers", "controller=job"] == 2
    assert during["controller_runtime_max_concurrent_reconciles", "controller=job"] == 2
    assert during["controller_runtime_reconcile_total", "controller=job,result=error"] == 0
    assert after["workqueue_depth", queue] == 0
    assert after["workqueue_retries_total", queue] == 1
    assert after["workqueue_queue_duration_seconds_count", queue] == 4
    assert after["workqueue_queue_duration_seconds_sum", queue] == 20
    assert after["workqueue_work_duration_seconds_sum", queue] == 40
    assert after["controller_runtime_active_workers", "controller=job"] == 0
    assert after["controller_runtime_reconcile_errors_total", "controller=job"] == 1
    assert {result: after["controller_runtime_reconcile_total", f"controller=job,result={result}"] for result in
            ("success", "requeue_after", "error")} == {"success": 2, "requeue_after": 1, "error": 1}  # fmt: skip
    assert after["controller_runtime_reconcile_time_seconds_sum", "controller=job"] == 40


def test_what_is_scraped_is_asked_for_each_time() -> None:
    registry, depth = Registry(), {"red": 1.0}
    registry.counter("muster_things_total", "Things", ("color",)).labels("red").inc(3)
    registry.add_computed(lambda: [Gauges("muster_things", "Now", ("color",), (((c,), n) for c, n in depth.items()))])
    assert samples(registry)["muster_things", "color=red"] == 1
    depth.update(red=5, blue=2)
    assert samples(registry)["muster_things", "color=red"] == 5
    assert samples(registry)["muster_things", "color=blue"] == 2
    assert samples(registry)["muster_things_total", "color=red"] == 3
