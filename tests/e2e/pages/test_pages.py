"""The pages' commands and programs: each section of which runs as it stands, and prints what the page says.

A block marked `sh` holds commands, one marked `python` a program (or a file, if it begins with its name), one marked
`text` all that they print. Blocks without a mark are shown and not run. Every third page runs; the long form runs all
of them.
"""

import importlib.util
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
BLOCK = re.compile(r"^```(python|sh|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SECTION = re.compile(r"^#+ (.*?)\n(.*?)(?=^##+ |\Z)", re.MULTILINE | re.DOTALL)
FILES = {
    "train.py": "import os, time\nprint('loss', 0)\ntime.sleep(float(os.environ.get('SECONDS_TO_TRAIN', 0)))\n",
    "trial.py": "print('tried')\n",
    "head.sh": "#!/bin/sh\necho head\n",
    "worker.sh": "#!/bin/sh\necho worker\n",
}


def has_program(blocks: list[tuple[str, str]]) -> bool:
    """Return whether a section has commands, or a program whose output the page shows."""
    kinds = {kind for kind, _ in blocks}
    return "sh" in kinds or {"python", "text"} <= kinds


SECTIONS = {
    f"{page.name}: {title}": blocks
    for page in sorted((ROOT / "docs").glob("*.md"))
    for title, text in SECTION.findall(page.read_text())
    if has_program(blocks := BLOCK.findall(text))
}

PAGES = list(dict.fromkeys(section.partition(":")[0] for section in SECTIONS))


# What pages import that no extra of the project has, as it is large.
LARGE = ("accelerate", "deepspeed", "hydra", "jax", "lightning", "mpi4py", "ray", "torch")
# What pages call that comes from elsewhere.
PROGRAMS = ("mpirun", "snakemake", "uv", "/etc/profile.d/modules.sh")


def marks(blocks: list[tuple[str, str]]) -> list[pytest.MarkDecorator]:
    """Return what a section needs beside Muster."""
    needs = [pytest.mark.kubectl] if any("kubectl" in text for kind, text in blocks if kind == "sh") else []
    imported = {name for _, text in blocks for name in re.findall(r"^(?:import|from) (\w+)", text, re.MULTILINE)}
    missing = [name for name in LARGE if name in imported and importlib.util.find_spec(name) is None]
    words = {word for kind, text in blocks if kind == "sh" for word in text.split()}
    missing += [name for name in PROGRAMS if name in words and not (shutil.which(name) or Path(name).exists())]
    return [*needs, *(pytest.mark.skip(reason=f"{name} is not installed") for name in missing)]


@pytest.fixture
def desk(shared_muster, tmp_path):
    """A user's directory with programs and examples, and the home of a cluster without jobs."""
    muster = shared_muster
    if not muster.home.exists():
        muster("up", "--detach", "--port", "0", "--nodes", "process,cpu=64,memory=64Gi,gpus=4:fake")
    muster("cancel", "--all", "--delete", "--yes", check=False)
    while "no jobs" not in muster("ps").stderr:  # a deleted job is there until its pods have ended
        time.sleep(0.1)
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (tmp_path / ".muster").symlink_to(muster.home)
    muster.environment = {"HOME": str(tmp_path), "USER": "ada", "KUBECONFIG": str(muster.home / "kubeconfig")}
    return muster


@pytest.mark.parametrize("section", [pytest.param(name, marks=marks(SECTIONS[name])) for name in SECTIONS])
def test_a_section_prints_what_it_says(request, tmp_path, section, long):
    if not long and PAGES.index(section.partition(":")[0]) % 3:
        pytest.skip("the long form has it")
    desk = request.getfixturevalue("desk")
    parts: dict[str, list[str]] = {"python": [], "sh": [], "text": []}
    for kind, text in SECTIONS[section]:
        if named := re.match(r"# (\w+\.py)\n", text):
            (tmp_path / named[1]).write_text(text)
        else:
            parts[kind].append(text)
    (tmp_path / "cells.py").write_text("\n".join(parts["python"]))
    command = ["bash", "-e", "-c", "".join(parts["sh"])] if parts["sh"] else [sys.executable, "cells.py"]
    done = subprocess.run(
        command,
        env=desk.env(),
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    if parts["text"]:
        assert done.stdout == "".join(parts["text"]), done.stderr
