"""The first change that the page for contributors leads to, done as the page says, in a copy of the tree."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import muster

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/contributing.md").read_text()
_, _, HOUR = PAGE.partition("## A first change in an hour\n")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", HOUR.partition("\n## ")[0], re.MULTILINE | re.DOTALL)


def block(kind: str, word: str) -> str:
    """Return the one block of this kind that has this word."""
    [text] = [text for language, text in BLOCKS if language == kind and word in text]
    assert isinstance(text, str)
    return text


@pytest.fixture
def tree(tmp_path):
    """Return a copy of what the tests of the page need, and a way to run a block of the page in it."""
    package = Path(muster.__file__).parent  # an installed one has its byte code
    shutil.copytree(package, tmp_path / "src" / "muster")
    shutil.copytree(ROOT / "tests", tmp_path / "tests")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)

    # What pytest tells its own workers is not for the pytest that the page starts.
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = inherited | {"PATH": path, "PYTHONPATH": str(tmp_path / "src")}

    def run(commands):
        command = ["bash", "-e", "-c", commands]
        return subprocess.run(command, check=False, cwd=tmp_path, env=environment, capture_output=True, text=True)

    return tmp_path, run


def apply(diff: str, tree: Path) -> None:
    """Change the file that a diff names, where its old lines stand."""
    name = re.search(r"^\+\+\+ b/(.*)$", diff, re.MULTILINE)
    assert name
    lines = diff.partition("@@\n")[2].splitlines()
    old, new = ("\n".join(line[1:] for line in lines if line[0] in " " + sign) for sign in "-+")
    text = (tree / name[1]).read_text()
    assert text.count(old) == 1
    (tree / name[1]).write_text(text.replace(old, new))


@pytest.mark.timeout(900)  # five commands, and two of them start clusters
def test_the_first_change_works_as_the_page_says(tree):
    folder, run = tree
    test = block("python", "test_a_wide_list_shows_uids")
    named = re.match(r"# (\S+)\n", test)
    assert named
    (folder / named[1]).write_text(test)
    assert run(block("bash", "test_ps.py")).returncode == 0
    before = run(block("bash", "test_uid_column.py"))
    assert before.returncode == 1, before.stdout
    assert "assert 'UID' in" in before.stdout
    apply(block("diff", "ps.py"), folder)
    after = run(block("bash", "test_uid_column.py"))
    assert after.returncode == 0, after.stdout
    look = block("bash", "muster ps -o wide").replace("/tmp/muster-first-change", str(folder / "home"))
    shown = run(look)
    assert shown.returncode == 0, shown.stderr
    assert re.search(r"^NAME .* UID +REASON$", shown.stdout, re.MULTILINE)
    assert run(f"ruff check src {named[1]} && ruff format --check src {named[1]}").returncode == 0


def test_the_gates_of_the_page_are_those_of_ci():
    gates = block("bash", "ruff").split("\n")
    [line] = re.findall(r"^  (ruff check .*)$", (ROOT / ".ci/run").read_text(), re.MULTILINE)
    assert [gate for gate in gates if gate] == line.split(" && ")[: len(gates) - 1]
