"""All decisions together, over random scenarios: quotas hold, nodes hold, and nobody is forgotten."""

from collections import Counter

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.system.simulation.test_simulation import JOB, burst, play, queue, scenario
from tests.system.simulation.test_topology import HOSTS, NODES, asking

SETTINGS = """
---
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
metadata: {name: settings}
waitForPodsReady:
  timeout: 40s
  recoveryTimeout: 20s
  blockAdmission: %s
  requeuingStrategy: {backoffBaseSeconds: 10, backoffLimitCount: 3}
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: high}
value: 9
"""
PARTIAL = JOB.replace(
    "kind: Job", "kind: Job\n      metadata: {annotations: {kueue.x-k8s.io/job-min-parallelism: '1'}}"
)
PARTIAL = PARTIAL.replace("parallelism: 1", "parallelism: 4").replace("completions: 1", "completions: 4")
RACK = asking("required-topology: rack")
TEMPLATES = {
    "plain": JOB,
    "urgent": JOB.replace("restartPolicy", "priorityClassName: high\n            restartPolicy"),
    "rack": RACK,
    "urgent rack": RACK.replace("restartPolicy", "priorityClassName: high\n            restartPolicy"),
    "partial": PARTIAL,
}

works = st.lists(
    st.tuples(
        st.sampled_from(sorted(TEMPLATES)),
        st.sampled_from(["", "p", "q"]),
        st.integers(0, 60),
        st.integers(1, 9),
        st.sampled_from([1, 20, 50, 100]),
        st.sampled_from([0, 5, 39, 41]),
    ),
    min_size=1,
    max_size=12,
)


@given(works, st.booleans())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_quotas_and_nodes_hold_and_every_job_ends_or_is_named(tmp_path, works, block):
    text = ""
    for number, (kind, queued, at, size, run, startup) in enumerate(works):
        more = f"    startup: {startup}s\n" + (f"    size: {size}\n" if kind != "partial" else "")
        work = burst(1, name=f"w{number}", queued=queued, run=f"{run}s", job=TEMPLATES[kind], more=more)
        text += work.replace("at: [0]", f"at: [{at}]")
    body = scenario(
        "  until: 1d\n  work:\n" + text,
        HOSTS + queue("p", 4) + queue("q", 4) + NODES + SETTINGS % str(block).lower(),
    )
    report = play(tmp_path, body)
    used = Counter[str]()
    for change in report.changes:
        used[change.queue] += change.amount
        assert min(used.values()) >= 0
        assert used.total() <= 8000
    waiting = {one.name for one in report.waiting}
    assert {job.name for job in report.jobs if job.ended is None} == waiting
    for job in report.jobs:
        if job.ended is not None:
            assert job.ended >= job.submitted + job.run_time
    assert play(tmp_path, body).jobs == report.jobs, "the same scenario has the same outcome"
