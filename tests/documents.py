"""CRDs and manifests to test with: our own, in `samples`, and the peers', where there are some.

The peers' lie in the folder that `MUSTER_PEERS` names, by default beside the checkout: `crds/PROJECT/*.yaml` and
`manifests/PROJECT/*.yaml`.
"""

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

OURS = Path(__file__).parent / "samples"
PEERS = Path(os.environ.get("MUSTER_PEERS") or Path(__file__).resolve().parents[2] / "shared" / "data")

# For what only their own files can answer.
needs_the_peers = pytest.mark.skipif(not PEERS.is_dir(), reason=f"the peers' CRDs and manifests are not at {PEERS}")


def files(pattern: str) -> list[Path]:
    """Ours, then the peers'."""
    return [path for folder in (OURS, PEERS) for path in sorted(folder.glob(pattern))]


def documents(pattern: str) -> list[tuple[str, Any]]:
    """What is in them, each with a name to know it by."""
    return [
        (f"{path.parent.name}/{path.name}#{number}", document)
        for path in files(pattern)
        for number, document in enumerate(yaml.load_all(path.read_text(), yaml.CSafeLoader))
        if document
    ]
