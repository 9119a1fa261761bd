"""Other clients: each runs a script of its own, in a process of its own, with nothing but a kubeconfig.

The JavaScript one is not a Python package: `.ci/run` installs it and says where. By hand:

    npm install --prefix DIRECTORY @kubernetes/client-node@1.4.0
    MUSTER_CLIENT_NODE=DIRECTORY pytest tests/peers
"""

import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.peers.conftest import play_client

SCRIPTS = Path(__file__).parent / "scripts"
CLIENT_NODE = os.environ.get("MUSTER_CLIENT_NODE", "")


@pytest.mark.parametrize("script", ["official", "asyncio_client", "kr8s_client", "lightkube_client", "kopf_client"])
def test_python(server: Any, tmp_path: Path, script: str) -> None:
    play_client([sys.executable, str(SCRIPTS / f"{script}.py")], script.replace("_", "-"), server, tmp_path)


@pytest.mark.skipif(not shutil.which("node"), reason="there is no Node.js here")
@pytest.mark.skipif(not CLIENT_NODE, reason="MUSTER_CLIENT_NODE does not say where the client is")
def test_javascript(server: Any, tmp_path: Path) -> None:
    package = Path(CLIENT_NODE) / "node_modules" / "@kubernetes" / "client-node"
    play_client(["node", str(SCRIPTS / "client_node.mjs"), str(package)], "client-node", server, tmp_path)
