"""What the Hydra launcher can be told."""

import dataclasses

import pytest

from muster.sdk.options import Options

launcher = pytest.importorskip("hydra_plugins.muster_launcher")

# A sweep has a fixed size, its trials have names of their own, and Hydra runs them where it was started.
NOT_OF_TRIALS = {"elastic", "name", "workdir"}


def test_its_settings_are_the_options_of_a_trial():
    settings = {field.name for field in dataclasses.fields(launcher.Configuration)}
    assert settings - {"_target_", "title", "at_once"} == Options.__annotations__.keys() - NOT_OF_TRIALS
