"""Every target survives: a short run here, a long one with `--long`."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("atheris", reason="atheris has no build for this Python")

from tests.fuzz.targets import SEEDS, TARGETS

ROOT = Path(__file__).parents[2]
RUNS, LONG_RUNS = 2_000, 1_000_000
SEED = "20"


@pytest.mark.long
@pytest.mark.parametrize("name", TARGETS)
def test_survives(name: str, tmp_path: Path, long: bool) -> None:
    corpus, finds = tmp_path / "corpus", tmp_path / "finds"
    for directory in (corpus, finds):
        directory.mkdir()
    for number, seed in enumerate(SEEDS.get(name, ())):
        (corpus / str(number)).write_bytes(seed)
    limits = [f"-runs={LONG_RUNS if long else RUNS}", f"-seed={0 if long else SEED}", "-timeout=10", "-max_len=4096"]
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz.targets", name, *limits, f"-artifact_prefix={finds}/", str(corpus)],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=7000 if long else 55,
        check=False,
    )
    found = {each.name: each.read_bytes()[:500] for each in finds.iterdir()}
    assert done.returncode == 0, f"{found}\n{done.stdout[-4000:]}\n{done.stderr[-2000:]}"
