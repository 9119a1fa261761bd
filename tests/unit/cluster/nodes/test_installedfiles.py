"""Shims whose files an upgrade has replaced under a running server."""

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest

from muster.cluster.nodes import shims
from muster.cluster.nodes.installedfiles import explain_changed_files, stamp_files


def test_an_upgrade_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "entry.py").write_text("old")
    before = stamp_files(tmp_path)
    assert explain_changed_files(before, tmp_path) == ""
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "entry.pyc").touch()  # no change of the source
    assert explain_changed_files(before, tmp_path) == ""
    (tmp_path / "new").write_text("new")
    (tmp_path / "new").rename(tmp_path / "entry.py")
    assert explain_changed_files(before, tmp_path).endswith("let a new server take over: muster restart")
    shutil.rmtree(tmp_path)
    assert explain_changed_files(before, tmp_path)


@pytest.mark.parametrize("upgraded", [False, True])
def test_a_shim_that_fails_after_an_upgrade_says_what_to_do(
    upgraded: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shims, "LAUNCHER", ["/bin/true"])  # a shim that does not understand the server
    if upgraded:
        monkeypatch.setattr(shims, "_FILES", {"entry.py": (1, 1)})
    spec: Any = {"directory": str(tmp_path), "lifeline": -1, "fence": -1, "isolation": "none"}
    advice = ": Muster was upgraded under this server; let a new server take over: muster restart" if upgraded else ""
    with pytest.raises(shims.ShimError, match=f"^the shim ended without a report{advice}$"):
        asyncio.run(shims.start(spec))
