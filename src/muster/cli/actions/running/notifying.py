"""Decide whether notices about a job of `muster run` can be sent."""

import os

import click
from msgspec.structs import replace

from muster.actions.submission.gang import Gang
from muster.api.ours.notify import NoticeSettings
from muster.cli.terminal.output import say


def fit_notify(gang: Gang, *, embedded: bool, is_batch: bool) -> Gang:
    """Return the gang without notices that cannot be sent, if a Slurm script requested them; print why.

    Raises `click.UsageError` if an option requested such notices.

    embedded: whether the cluster was started by `muster up`.
    is_batch: whether a Slurm script requested the notices.
    """
    if not gang.notify:
        return gang
    from muster.actions.delivering import explain_unsent  # it loads the clients of mail and HTTP

    complaint = explain_unsent(gang.notify, os.environ.get("PATH", os.defpath), embedded=embedded)
    if not complaint:
        return gang
    if not is_batch:
        raise click.UsageError(f"--notify: {complaint}")
    say(f"no notice is sent: {complaint}")
    return replace(gang, notify=NoticeSettings())
