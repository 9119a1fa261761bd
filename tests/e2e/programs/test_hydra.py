"""A Hydra application whose multiruns are launched by `hydra/launcher=muster`."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.e2e.conftest import Muster

pytest.importorskip("hydra")

APP = """
import os
from pathlib import Path

import hydra
from hydra.core.hydra_config import HydraConfig


@hydra.main(version_base=None, config_path=None)
def main(config):
    directory = Path(HydraConfig.get().runtime.output_dir)
    with (directory / "attempts").open("a") as attempts:
        attempts.write("x")
    if config.lr == 0:
        raise ValueError("no rate")
    if config.lr == 9 and (directory / "attempts").read_text() == "x":
        raise RuntimeError("the first attempt")
    variables = [os.environ.get(name) for name in ("GREETING", "OMP_NUM_THREADS", "WORLD_SIZE")]
    facts = [HydraConfig.get().job.id.rpartition("_")[2], *variables]
    (directory / f"facts{os.environ.get('RANK', '')}").write_text(repr([config.lr, HydraConfig.get().job.num, *facts]))


main()
"""


@pytest.fixture
def multirun(shared_up: Muster, tmp_path: Path):
    """Run the application with overrides, in a directory of its own."""
    (tmp_path / "app.py").write_text(APP)

    def run(*overrides: str) -> "subprocess.CompletedProcess[str]":
        words = [sys.executable, "app.py", "--multirun", "hydra/launcher=muster", "hydra.sweep.dir=out", *overrides]
        env = shared_up.env()
        return subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120, check=False)

    return run


def facts_of(directory: Path) -> dict[str, str]:
    """Return what the trials have written, by the path below the directory of the multirun."""
    return {str(path.relative_to(directory / "out")): path.read_text() for path in directory.glob("out/*/facts*")}


def test_a_multirun_is_one_sweep(shared_up: Muster, multirun, tmp_path: Path) -> None:
    done = multirun(
        "+lr=1,2,3,9",
        "hydra.launcher.title=tune",
        "hydra.launcher.at_once=2",
        "hydra.launcher.cpus=2",
        "hydra.launcher.retries=1",
        "+hydra.launcher.env.GREETING=hi",
    )
    assert done.returncode == 0, done.stderr
    rates = enumerate([1, 2, 3, 9])
    assert facts_of(tmp_path) == {f"{n}/facts": repr([lr, n, str(n), "hi", "2", None]) for n, lr in rates}
    [name] = [name for name in shared_up("ps", "--all", "-o", "name").stdout.split() if name.startswith("tune-")]
    assert f"Submitted to Muster as {name};" in done.stdout
    [row] = json.loads(shared_up("ps", name, "-o", "json").stdout)
    assert (row["state"], row["wanted"]) == ("Completed", 4)


def test_a_failed_trial_fails_the_multirun_after_the_others_are_done(
    shared_up: Muster, multirun, tmp_path: Path
) -> None:
    done = multirun("+lr=0,5,6", "hydra.launcher.title=some", "hydra.launcher.retries=1")
    assert done.returncode == 1
    assert "Error executing job with overrides: ['+lr=0']" in done.stderr
    assert "ValueError: no rate\nIt was raised by rank 0 of job some-" in done.stderr
    assert sorted(facts_of(tmp_path)) == ["1/facts", "2/facts"]
    attempts = {path.parent.name: path.read_text() for path in tmp_path.glob("out/*/attempts")}
    assert attempts == {"0": "xx", "1": "x", "2": "x"}
    assert "1 of 3 trials failed (0)" in shared_up("ps", "--all").stdout


def test_a_trial_of_several_workers_is_a_gang(multirun, tmp_path: Path) -> None:
    done = multirun("+lr=1", "hydra.launcher.workers=2")
    assert done.returncode == 0, done.stderr
    assert {path: text.split(", ")[-1] for path, text in facts_of(tmp_path).items()} == {
        "0/facts0": "'2']",
        "0/facts1": "'2']",
    }


@pytest.mark.parametrize(
    ("override", "line"),
    [
        ("hydra.launcher.cpus=x", "hydra.launcher: cpus='x': 'x' is no quantity; write it as 8 or 500m"),
        ("hydra.launcher.queue=none", "hydra.launcher: no queue none in namespace default; there is: default"),
        ("hydra.launcher.cpu=1", "Could not override 'hydra.launcher.cpu'."),
    ],
)
def test_options_without_meaning_are_one_line(multirun, override: str, line: str) -> None:
    done = multirun("+lr=1", override)
    assert (done.returncode, done.stderr.splitlines()[0]) == (1, line)


def test_without_a_cluster_the_multirun_has_one_of_its_own(muster: Muster, multirun, tmp_path: Path) -> None:
    muster.environment = {"HOME": str(tmp_path)}
    words = [sys.executable, "app.py", "--multirun", "hydra/launcher=muster", "hydra.sweep.dir=out", "+lr=1"]
    subprocess.run(words, cwd=tmp_path, env=muster.env(), capture_output=True, timeout=120, check=True)
    assert list(facts_of(tmp_path)) == ["0/facts"]
    assert not muster.processes()
