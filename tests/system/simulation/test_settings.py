"""The Configuration among the manifests of a scenario decides."""

import pytest
from tests.system.simulation.test_simulation import FLAVOR, burst, play, queue, scenario

from muster.simulation.scenario.source import ScenarioError

HEAD = "---\napiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\nmetadata: {name: settings}\n"
TIMEOUT = HEAD + "waitForPodsReady: {timeout: 15s}\n"


def late(settings, more="    startup: 20s\n"):
    works = "  until: 16s\n  work:\n" + burst(1, queued="q", run="1h", more=more)
    return scenario(works, FLAVOR + queue("q", 1) + settings)


@pytest.mark.parametrize(("settings", "evictions"), [("", 0), (TIMEOUT, 1)])
def test_the_settings_of_a_scenario_count(tmp_path, settings, evictions):
    [one] = play(tmp_path, late(settings)).jobs
    assert one.evictions == evictions


def test_what_a_configuration_leaves_out_is_as_in_an_embedded_cluster(tmp_path):
    """A JobSet has a queue only where the framework is chosen."""
    template = """
      apiVersion: jobset.x-k8s.io/v1alpha2
      kind: JobSet
      spec:
        replicatedJobs:
        - name: r
          template:
            spec:
              template:
                spec:
                  restartPolicy: Never
                  containers: [{name: c, image: i, resources: {requests: {cpu: "1"}}}]
"""
    works = "  until: 16s\n  work:\n" + burst(1, queued="q", run="1h", more="    startup: 20s\n", job=template)
    [one] = play(tmp_path, scenario(works, FLAVOR + queue("q", 1) + TIMEOUT)).jobs
    assert one.evictions == 1


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        (HEAD + "waitForPods: {}\n", "Configuration settings: waitForPods: "),
        (HEAD + "waitForPodsReady: {timeout: -1s}\n", "Configuration settings: waitForPodsReady.timeout: "),
        (TIMEOUT + TIMEOUT, "the scenario has a Configuration already"),
        (TIMEOUT.replace("v1beta2", "v9"), "Configuration settings: apiVersion: "),
        (TIMEOUT.replace("metadata: {name: settings}\n", ""), "metadata.name must be given"),
    ],
)
def test_wrong_settings_are_refused(tmp_path, settings, problem):
    with pytest.raises(ScenarioError) as refusal:
        play(tmp_path, late(settings))
    assert problem in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(("startup", "problem"), [("-5s", "is negative"), ("soon", "invalid duration")])
def test_a_wrong_startup_is_refused(tmp_path, startup, problem):
    with pytest.raises(ScenarioError, match=rf"scenario.yaml:\d+: spec\.work\[0\]\.startup: .*{problem}"):
        play(tmp_path, late("", f"    startup: {startup}\n"))
