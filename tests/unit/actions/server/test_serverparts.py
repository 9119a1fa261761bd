"""What the distribution says that it needs is what is imported."""

import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

from muster.actions.server.serverparts import PACKAGES, describe_missing

ROOT = Path(__file__).parents[4]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
# Libraries of programs that have them already: the launcher of Hydra is loaded by Hydra.
GUESTS = {"hydra", "joblib", "omegaconf", "pandas"}
OURS = {"muster", "shim"}
IMPORT = re.compile(r"^ *(?:import|from(?= [\w.]+ import)) (\w+)", re.MULTILINE)


def named(requirements: list[str]) -> set[str]:
    return {re.split(r"[^\w.-]", each)[0].lower() for each in requirements}


def imported() -> set[str]:
    """The packages that any module of the project imports, wherever in it."""
    found: set[str] = set()
    for path in (ROOT / "src").rglob("*.py"):
        found |= set(IMPORT.findall(path.read_text()))
    # numpy is loaded late, by its name alone.
    return {name for name in found if name not in sys.stdlib_module_names} - OURS - GUESTS | {"numpy"}


def distributions(packages: set[str]) -> set[str]:
    known = packages_distributions()
    return {known[package][0].lower().replace("_", "-") for package in packages}


def test_all_that_is_imported_is_declared_and_nothing_else():
    declared = named(PROJECT["dependencies"]) | named(PROJECT["optional-dependencies"]["server"])
    assert distributions(imported()) == declared


def test_the_servers_parts_are_those_of_its_extra():
    assert distributions(set(PACKAGES)) == named(PROJECT["optional-dependencies"]["server"])


def test_only_a_part_of_the_server_is_explained():
    text = describe_missing("muster up", ModuleNotFoundError("no numpy", name="numpy.core"))
    assert text.startswith("muster up needs numpy, which")
    assert describe_missing("muster up", ModuleNotFoundError("no x", name="x")) == ""
