import asyncio
from pathlib import Path

import pytest
from tests.unit.cluster.store.kit import Kit

from muster.cluster.store import MemoryJournal
from muster.cluster.store.sqlite import SqliteJournal
from muster.runtime.clock import run_virtual


@pytest.fixture
def memory() -> Kit:
    return Kit(MemoryJournal, run_virtual)


@pytest.fixture
def sqlite(tmp_path: Path) -> Kit:
    return Kit(lambda: SqliteJournal(tmp_path / "data"), asyncio.run)


@pytest.fixture(params=["memory", "sqlite"])
def kit(request: pytest.FixtureRequest) -> Kit:
    kit: Kit = request.getfixturevalue(request.param)
    return kit
