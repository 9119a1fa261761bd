"""Every target survives: a short run here, a long one with `--long`."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("atheris", reason="atheris has no build for this Python")

from tests.fuzz.targets import SEEDS, TARGETS

ROOT = Path(__file__).parents[2]
RUNS, LONG_RUNS = 2_000, 1_000_000
SEED = "20"


def pytest_generate_tests(metafunc):
    """Each target is a test of its own in the long form. In the short form, most of the time is for their import."""
    if "names" not in metafunc.fixturenames:
        return
    names = [*TARGETS]
    each = [[name] for name in names] if metafunc.config.getoption("--long") else [names[::2], names[1::2]]
    metafunc.parametrize("names", each, ids=",".join)


@pytest.mark.long
def test_survive(names: list[str], tmp_path: Path, long: bool) -> None:
    for name in names:
        corpus = tmp_path / name / "corpus"
        corpus.mkdir(parents=True)
        (tmp_path / name / "finds").mkdir()
        for number, seed in enumerate(SEEDS.get(name, ())):
            (corpus / str(number)).write_bytes(seed)
    limits = [f"-runs={LONG_RUNS if long else RUNS}", f"-seed={0 if long else SEED}", "-timeout=10", "-max_len=4096"]
    folders = [f"-artifact_prefix={tmp_path}/{{name}}/finds/", f"{tmp_path}/{{name}}/corpus"]
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz.targets", ",".join(names), *limits, *folders],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=7000 if long else 280,
        check=False,
    )
    found = {path.parent.parent.name: path.read_bytes()[:500] for path in tmp_path.glob("*/finds/*")}
    assert done.returncode == 0, f"{found}\n{done.stdout[-4000:]}\n{done.stderr[-2000:]}"


def test_a_target_that_fails_does_not_hide_the_next(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz.targets", "duration,path", "-runs=1", str(tmp_path / "missing")],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 1
    assert re.search(r"^duration ended with \d+, path ended with \d+$", done.stderr, re.MULTILINE)
