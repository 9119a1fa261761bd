"""Tests of the embedded cluster that are asked of a real one, too."""

from collections.abc import Callable, Mapping
from types import ModuleType

import pytest

# Why: parts of the names of tests.
Reasons = Mapping[str, tuple[str, ...]]


def retold(*modules: ModuleType) -> dict[str, Callable[..., None]]:
    """All their tests, for the module that asks them: each is called after its own, too."""
    return {
        f"{module.__name__.rpartition('.')[2]}__{name}": test
        for module in modules
        for name, test in vars(module).items()
        if name.startswith("test_")
    }


def sort_out(request: pytest.FixtureRequest, not_asked: Reasons, differences: Reasons) -> None:
    """Skip a test that is not asked; one that is different there is expected to fail."""
    name = request.node.name
    if why := _reason(not_asked, name):
        pytest.skip(why)
    if why := _reason(differences, name):
        request.applymarker(pytest.mark.xfail(reason=why, strict=True))


def _reason(reasons: Reasons, name: str) -> str:
    found = (why for why, parts in reasons.items() if any(part in name for part in parts))
    return next(found, "")
