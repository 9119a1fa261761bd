"""A job that may start with fewer pods takes as many nodes as it got quota."""

import pytest
from tests.system.simulation.test_simulation import FLAVOR, JOB, NODES, burst, play, queue, scenario

ANNOTATION = "metadata: {annotations: {kueue.x-k8s.io/job-min-parallelism: '%d'}}"


@pytest.mark.parametrize(
    ("least", "admitted", "started", "third"),
    [
        pytest.param(2, (5.0, 2000), 5.0, 10.0, id="two pods start beside the others"),
        pytest.param(3, (10.0, 4000), 16.0, 6.0, id="four pods have quota from 10 on, and nodes once z has ended"),
    ],
)
def test_a_job_starts_with_the_pods_that_its_queue_admits(tmp_path, least, admitted, started, third):
    """Of four CPUs two are in use until 10, as are two of five nodes."""
    template = JOB.replace("kind: Job", f"kind: Job\n      {ANNOTATION % least}")
    template = template.replace("parallelism: 1", "parallelism: 6").replace("completions: 1", "completions: 6")
    works = burst(2, name="a", queued="q") + burst(1, name="p", queued="q", job=template).replace("at: [0]", "at: [5]")
    late = burst(1, name="z", more="    size: 3\n").replace("at: [0]", "at: [6]")
    report = play(tmp_path, scenario(NODES % 5 + "  work:\n" + works + late, FLAVOR + queue("q", 4)))
    p, z = (next(job for job in report.jobs if job.name == name) for name in ("p-0", "z-0"))
    assert (p.started, z.started) == (started, third)
    assert [(one.at, one.amount) for one in report.changes if one.amount > 0 and one.at] == [admitted]
