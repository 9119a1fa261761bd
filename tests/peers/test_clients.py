"""Other Python clients: each runs a script of its own, in a process of its own, with nothing but a kubeconfig."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPTS = Path(__file__).parent / "scripts"


@pytest.mark.parametrize("script", ["official", "kr8s_client", "lightkube_client"])
def test_script(server: Any, tmp_path: Path, script: str) -> None:
    namespace = script.replace("_", "-")
    environment = os.environ | {"KUBECONFIG": str(server.kubeconfig), "HOME": str(tmp_path)}
    _run([sys.executable, str(SCRIPTS / "namespace.py"), namespace], environment)
    assert _run([sys.executable, str(SCRIPTS / f"{script}.py"), namespace], environment).endswith("done\n")


def _run(command: list[str], environment: dict[str, str]) -> str:
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=55, check=False)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout
