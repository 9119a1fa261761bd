"""Parse single options of `muster run`. Invalid values raise `click.BadParameter`."""

import os
from collections.abc import Sequence
from pathlib import Path

import click
from msgspec.structs import replace

from muster.actions.errors import UserError
from muster.actions.parsing import dotenv, limits
from muster.actions.submission import caller
from muster.actions.submission.gang import SecretVariables, SoftSignal
from muster.api.kueue.names import PRIORITY_CLASS_LABEL, QUEUE_NAME_LABEL
from muster.api.ours.deferral import Deferral, check_dependencies, parse_dependencies
from muster.api.ours.elastic import Bounds
from muster.api.ours.notify import NoticeSettings, NotifyError, make_notice_settings, parse_events
from muster.api.validation import names
from muster.api.values import durations
from muster.api.values.durations import DurationError
from muster.cli.names.types import parse_job_name

_START_TIMES = "it is from 1s to 68 years, as 90s or 10m"
# Labels that have an option of their own, which checks the name.
_OF_OPTIONS = {QUEUE_NAME_LABEL: "--queue", PRIORITY_CLASS_LABEL: "--priority"}
_MOST_OF_ANNOTATIONS = 256 << 10


def read_environment(pairs: Sequence[str], files: Sequence[str]) -> dict[str, str]:
    """Return the variables of the workers: from files of NAME=VALUE lines, then from pairs, which override the files.

    A pair is NAME=VALUE, or only a NAME, whose value is copied from the environment of this command. Raises
    `click.BadParameter` if that NAME is not set, or if a file cannot be read or parsed.
    """
    variables: dict[str, str] = {}
    for file in files:
        variables |= _read_env_file(file)
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not name:
            raise click.BadParameter(f"{pair!r}: expected NAME=VALUE or NAME", param_hint="--env")
        if not equals and name not in os.environ:
            raise click.BadParameter(f"{name} is not set here; give it a value: {name}=...", param_hint="--env")
        variables[name] = value if equals else os.environ[name]
    return variables


def _read_env_file(file: str) -> dict[str, str]:
    try:
        with Path(file).open("rb") as opened:
            return dotenv.parse_variables(opened.read(dotenv.MOST_BYTES + 1))
    except OSError as error:
        raise click.BadParameter(f"{file}: {error.strerror}", param_hint="--env-file") from None
    except (dotenv.DotenvError, ValueError) as error:
        raise click.BadParameter(f"{file}: {error}", param_hint="--env-file") from None


def parse_secrets(texts: Sequence[str]) -> tuple[SecretVariables, ...]:
    """Parse references to Secrets: each names a whole Secret, or one key of it. Raises `click.BadParameter`."""
    selected = []
    for text in texts:
        name, equals, key = text.partition("=")
        wrong = [*names.dns_subdomain(name), *(names.environment_variable(key) if equals else ())]
        if wrong:
            raise click.BadParameter(f"{text!r}: expected NAME or NAME=KEY; {wrong[0]}", param_hint="--secret")
        selected.append(SecretVariables(name, key))
    return tuple(selected)


def parse_labels(texts: Sequence[str]) -> dict[str, str]:
    """Parse KEY=VALUE texts into labels. If a key is repeated, its last value applies. Raises `click.BadParameter`.

    A label that another option sets is refused.
    """
    values = _parse_pairs(texts, "--label")
    for key, value in values.items():
        if wrong := [*names.label_key(key), *names.label_value(value)]:
            raise click.BadParameter(f"{f'{key}={value}'!r}: {wrong[0]}", param_hint="--label")
        if option := _OF_OPTIONS.get(key):
            raise click.BadParameter(f"{key} is set by {option}: use that option", param_hint="--label")
    return values


def parse_annotations(texts: Sequence[str]) -> dict[str, str]:
    """Parse KEY=VALUE texts into annotations.

    If a key is repeated, its last value applies. Raises `click.BadParameter` for a text without `=`, for an invalid
    key, and for annotations that are too large together.
    """
    values = _parse_pairs(texts, "--annotation")
    for key in values:
        if wrong := list(names.label_key(key.lower())):
            raise click.BadParameter(f"{key!r}: {wrong[0]}", param_hint="--annotation")
    if sum(len(key) + len(value) for key, value in values.items()) > _MOST_OF_ANNOTATIONS:
        raise click.BadParameter(
            f"the annotations have more than {_MOST_OF_ANNOTATIONS} bytes", param_hint="--annotation"
        )
    return values


def _parse_pairs(texts: Sequence[str], option: str) -> dict[str, str]:
    values = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise click.BadParameter(f"{text!r}: expected KEY=VALUE", param_hint=option)
        values[key] = value
    return values


def parse_soft_signal(text: str, limit: int | None) -> SoftSignal | None:
    """Parse the signal to send before the time limit; None for an empty text. Raises `click.BadParameter`.

    limit: the time limit in seconds; None without a limit, in which case a signal is refused.
    """
    try:
        return limits.parse_soft_signal(text, limit) if text else None
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--signal") from None


def parse_elastic_bounds(text: str) -> Bounds | None:
    """Parse the sizes that an elastic job may have; None for an empty text. Raises `click.BadParameter`."""
    try:
        return Bounds.parse(text) if text else None
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--elastic") from None


def parse_deferral(begin: str, after: Sequence[str]) -> Deferral:
    """Parse the options that defer the start of a job: a time, and jobs that must end first.

    Raises `click.BadParameter`.
    """
    from muster.actions.parsing.deferring import parse_begin
    from muster.runtime.realclock import RealClock

    try:
        begin_at = parse_begin(begin, RealClock().now()) if begin else None
    except (ValueError, OverflowError) as error:
        raise click.BadParameter(str(error), param_hint="--begin") from None
    try:
        named = [one for text in after for one in parse_dependencies(text)]
        dependencies = check_dependencies(replace(one, name=parse_job_name(one.name)) for one in named)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--after") from None
    return Deferral(begin_at, dependencies)


def parse_notices(targets: Sequence[str], events: str) -> NoticeSettings:
    """Parse the receivers of notices, and the events to notify them about.

    Raises `click.BadParameter`, and `click.UsageError` for events without a receiver.
    """
    try:
        settings = make_notice_settings(targets)
    except NotifyError as error:
        raise click.BadParameter(str(error), param_hint="--notify") from None
    if events and not settings:
        raise click.UsageError("--notify-on: say whom to tell with --notify")
    try:
        return replace(settings, events=parse_events(events)) if events else settings
    except NotifyError as error:
        raise click.BadParameter(str(error), param_hint="--notify-on") from None


def parse_start_timeout(text: str) -> int | None:
    """Parse the timeout for the start of all workers into whole seconds; None for an empty text.

    Raises `click.BadParameter`.
    """
    if not text:
        return None
    try:
        seconds = durations.parse(text) // durations.SECOND
    except DurationError as error:
        raise click.BadParameter(f"{error}; {_START_TIMES}", param_hint="--start-timeout") from None
    if not 1 <= seconds < 1 << 31:
        raise click.BadParameter(f"{text}: {_START_TIMES}", param_hint="--start-timeout")
    return seconds


def check_run_time(text: str) -> str:
    """Return the text if it is a run time for simulated nodes or empty. Raises `click.BadParameter` otherwise."""
    try:
        if text and durations.parse_seconds(text) < 0:
            raise DurationError(f"{text}: a time to run is not below 0")
    except DurationError as error:
        raise click.BadParameter(str(error), param_hint="--run-time") from None
    return text


def find_working_directory(text: str, *, on_this_machine: bool) -> str:
    """Return the directory in which workers start.

    The default on this machine is the current directory. In a cluster with images it is "", which stands for the
    image's own directory; any other directory must be absolute there. Raises `click.BadParameter`,
    `click.ClickException`.
    """
    if not on_this_machine:
        if text and not text.startswith("/"):
            raise click.BadParameter(f"{text}: in an image the directory must begin with /", param_hint="--workdir")
        return text
    try:
        return caller.find_working_directory(text)
    except UserError as error:
        raise click.ClickException(str(error)) from None


def check_state(text: str, *, on_this_machine: bool) -> str:
    """Return the name of the volume claim for data that outlives attempts; "" for none.

    Raises `click.BadParameter` if the name is invalid, or the workers run on this machine.
    """
    if text and on_this_machine:
        raise click.BadParameter(
            "process nodes have no claims, and set $MUSTER_STATE without this option", param_hint="--state"
        )
    if text and (wrong := list(names.dns_subdomain(text))):
        raise click.BadParameter(f"{text!r}: {wrong[0]}", param_hint="--state")
    return text
