"""Pages whose sections are programs: every one runs as it stands, and prints what the page says."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
SECTIONS = {
    f"{page}: {title}": re.findall(r"^```(python|sh|text)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    for page in ("python.md", "submitit.md", "ray.md", "sweeps.md")
    for title, text in re.findall(r"^#+ (.*?)\n(.*?)(?=^## |\Z)", (DOCS / page).read_text(), re.MULTILINE | re.DOTALL)
}


@pytest.mark.parametrize("section", [section for section, blocks in SECTIONS.items() if blocks])
def test_a_section_prints_what_it_says(shared_muster, tmp_path, section):
    """Python blocks that begin with the name of a file are that file; commands, if there are any, are the program."""
    shared_muster("up", "--detach", "--port", "0", "--nodes", "process,cpu=64", check=False)
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
        env=shared_muster.env(),
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "".join(parts["text"]), done.stderr
