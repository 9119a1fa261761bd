"""What a simulation would ignore is refused before anything runs."""

import pytest
from tests.system.test_simulation import FLAVOR, burst, play, queue, scenario

from muster.simulation.scenario.reading import ScenarioError

CHECK = """
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: AdmissionCheck
metadata: {name: c}
spec: {controllerName: kueue.x-k8s.io/%s}
"""


def checked(controller):
    text = queue("q", 1).replace("spec:\n", "spec:\n  admissionChecksStrategy: {admissionChecks: [{name: c}]}\n", 1)
    return scenario("  work:\n" + burst(1, queued="q"), FLAVOR + text + (CHECK % controller if controller else ""))


@pytest.mark.parametrize("controller", ["provisioning-request", ""])
def test_a_check_that_nobody_answers_is_refused(tmp_path, controller):
    with pytest.raises(ScenarioError, match="ClusterQueue q: AdmissionCheck c cannot be simulated: leave it out"):
        play(tmp_path, checked(controller))
