"""The Containerfile, as far as it can be checked where no image is built."""

import json
import tomllib
from pathlib import Path

from muster.api.config import load
from muster.install import deployment
from muster.install.options import Options, make_default_configuration

ROOT = Path(__file__).parents[3]
LINES = [line.split() for line in (ROOT / "Containerfile").read_text().splitlines() if not line.startswith("#")]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def arguments(instruction: str) -> list[list[str]]:
    return [words[1:] for words in LINES if words and words[0] == instruction]


def test_it_copies_what_is_there_and_all_that_a_build_needs():
    copied = [name for words in arguments("COPY") if not words[0].startswith("--") for name in words[:-1]]
    assert all((ROOT / name).exists() for name in copied)
    project = PROJECT["project"]
    assert {"pyproject.toml", "src", project["readme"], *project["license-files"]} <= set(copied)


def test_it_starts_a_program_that_is_installed_which_the_deployment_calls_too():
    ((text,),) = arguments("ENTRYPOINT")
    (program,) = json.loads(text)
    assert program in PROJECT["project"]["scripts"]
    assert (
        deployment.make_command(Options(make_default_configuration(), load(make_default_configuration())))[0] == program
    )


def test_it_runs_as_the_user_of_the_deployment():
    ((user,),) = arguments("USER")
    assert user == f"{deployment.USER}:{deployment.USER}"
