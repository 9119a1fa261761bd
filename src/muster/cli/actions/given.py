"""What single options of `muster run` say, each checked by itself. All of it raises `click.BadParameter`."""

import os
from collections.abc import Sequence
from pathlib import Path

import click

from muster.actions import caller, dotenv, limits
from muster.actions.errors import UserError
from muster.actions.gang import SecretAsked, SoftSignal
from muster.api.kueue.names import PRIORITY_CLASS_LABEL, QUEUE_NAME_LABEL
from muster.api.validation import names
from muster.api.values import durations
from muster.api.values.durations import DurationError

_START_TIMES = "it is from 1s to 68 years, as 90s or 10m"
# Labels that options of their own set, which look at what they name.
_OF_OPTIONS = {QUEUE_NAME_LABEL: "--queue", PRIORITY_CLASS_LABEL: "--priority"}
_MOST_OF_ANNOTATIONS = 256 << 10


def environment(pairs: Sequence[str], files: Sequence[str]) -> dict[str, str]:
    """Out of files, and by name and value."""
    found: dict[str, str] = {}
    for file in files:
        found |= _env_file(file)
    for pair in pairs:
        name, given, value = pair.partition("=")
        if not name:
            raise click.BadParameter(f"{pair!r}: expected NAME=VALUE or NAME", param_hint="--env")
        if not given and name not in os.environ:
            raise click.BadParameter(f"{name} is not set here; give it a value: {name}=...", param_hint="--env")
        found[name] = value if given else os.environ[name]
    return found


def _env_file(file: str) -> dict[str, str]:
    try:
        with Path(file).open("rb") as opened:
            return dotenv.variables(opened.read(dotenv.MOST_BYTES + 1))
    except OSError as error:
        raise click.BadParameter(f"{file}: {error.strerror}", param_hint="--env-file") from None
    except (dotenv.DotenvError, ValueError) as error:
        raise click.BadParameter(f"{file}: {error}", param_hint="--env-file") from None


def secrets(texts: Sequence[str]) -> tuple[SecretAsked, ...]:
    """Which Secrets, or keys of them."""
    found = []
    for text in texts:
        name, equals, key = text.partition("=")
        wrong = [*names.dns_subdomain(name), *(names.environment_variable(key) if equals else ())]
        if wrong:
            raise click.BadParameter(f"{text!r}: expected NAME or NAME=KEY; {wrong[0]}", param_hint="--secret")
        found.append(SecretAsked(name, key))
    return tuple(found)


def labels(texts: Sequence[str]) -> dict[str, str]:
    """The last of a key counts."""
    found = _pairs(texts, "--label")
    for key, value in found.items():
        if wrong := [*names.label_key(key), *names.label_value(value)]:
            raise click.BadParameter(f"{f'{key}={value}'!r}: {wrong[0]}", param_hint="--label")
        if option := _OF_OPTIONS.get(key):
            raise click.BadParameter(f"{key} is what {option} says", param_hint="--label")
    return found


def annotations(texts: Sequence[str]) -> dict[str, str]:
    """The last of a key counts."""
    found = _pairs(texts, "--annotation")
    for key in found:
        if wrong := list(names.label_key(key.lower())):
            raise click.BadParameter(f"{key!r}: {wrong[0]}", param_hint="--annotation")
    if sum(len(key) + len(value) for key, value in found.items()) > _MOST_OF_ANNOTATIONS:
        raise click.BadParameter(f"they have more than {_MOST_OF_ANNOTATIONS} bytes", param_hint="--annotation")
    return found


def _pairs(texts: Sequence[str], option: str) -> dict[str, str]:
    found = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise click.BadParameter(f"{text!r}: expected KEY=VALUE", param_hint=option)
        found[key] = value
    return found


def soft_signal(text: str, limit: int | None) -> SoftSignal | None:
    """None if there is none."""
    try:
        return limits.soft_signal(text, limit) if text else None
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--signal") from None


def start_timeout(text: str) -> int | None:
    """In whole seconds; None if there is none."""
    if not text:
        return None
    try:
        seconds = durations.parse(text) // durations.SECOND
    except DurationError as error:
        raise click.BadParameter(f"{error}; {_START_TIMES}", param_hint="--start-timeout") from None
    if not 1 <= seconds < 1 << 31:
        raise click.BadParameter(f"{text}: {_START_TIMES}", param_hint="--start-timeout")
    return seconds


def run_time(text: str) -> str:
    """For how long simulated nodes play it."""
    try:
        if text and durations.seconds(text) < 0:
            raise DurationError(f"{text}: a time to run is not below 0")
    except DurationError as error:
        raise click.BadParameter(str(error), param_hint="--run-time") from None
    return text


def working_directory(text: str, *, on_this_machine: bool) -> str:
    """Where workers start; "" leaves that to their image. On this machine it is here unless another one is said."""
    if not on_this_machine:
        if text and not text.startswith("/"):
            raise click.BadParameter(f"{text}: within an image it begins with /", param_hint="--workdir")
        return text
    try:
        return caller.working_directory(text)
    except UserError as error:
        raise click.ClickException(str(error)) from None


def state(text: str, *, on_this_machine: bool) -> str:
    """A claim."""
    if text and on_this_machine:
        raise click.BadParameter(
            "nodes of processes have no claims; $MUSTER_STATE is there without", param_hint="--state"
        )
    if text and (wrong := list(names.dns_subdomain(text))):
        raise click.BadParameter(f"{text!r}: {wrong[0]}", param_hint="--state")
    return text
