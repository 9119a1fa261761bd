"""Read the options of `muster queue create` and `edit`: quotas, limits, users and shares. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

import click

from muster.actions.parsing.quantities import check_quota
from muster.actions.quota.editedqueue import UNLIMITED, QueueEdit
from muster.api.ours.gpus import NVIDIA_GPU
from muster.api.ours.teams import LIMIT_NAMES
from muster.cli.actions.queues.newqueue import USUAL_FLAVOR, NewQueue
from muster.cli.names.types import parse_quantity


def is_team(options: Mapping[str, Any]) -> bool:
    """Return whether the options describe a team's queue, whose quota is a part of the quota of all nodes."""
    return bool(options["share"] or options["users"] is not None)


def read_new_queue(name: str, namespace: str, options: Mapping[str, Any], covered: Sequence[str] = ()) -> NewQueue:
    """Return the queue that the options of `create` describe. Raises `click.UsageError`, `click.BadParameter`.

    covered: resources that the queue may borrow even without a quota of its own.
    """
    quotas = dict.fromkeys(covered, "0") | read_quotas(options)
    if not quotas:
        raise click.UsageError("a queue needs a quota: --cpus, --memory, --gpus or --quota RESOURCE=QUANTITY")
    borrowing, lending = read_pairs(options["borrow"], "--borrow"), read_pairs(options["lend"], "--lend")
    if (borrowing or lending) and not options["cohort"]:
        raise click.UsageError("--borrow and --lend mean nothing without --cohort")
    for resource in (*borrowing, *lending):
        if resource not in quotas:
            raise click.UsageError(
                f"a limit of {resource} needs a quota of that resource, which may be 0: --quota {resource}=0"
            )
    return NewQueue(
        name=name,
        quotas=quotas,
        namespace="" if options["no_local"] else namespace,
        flavor=options["flavor"] or USUAL_FLAVOR,
        cohort=options["cohort"],
        borrowing=borrowing,
        lending=lending,
        strict=options["strict"],
        within=options["preempt"],
        reclaim=options["reclaim"],
        weight=options["share"] or options["weight"],
        by_usage=bool(options["by_usage"]),
        users=read_users(options["users"], "--users"),
        limits=read_limits(options["per_user"]),
        part_of=options.get("part_of", ""),
    )


def read_edit(options: Mapping[str, Any]) -> QueueEdit:
    """Return the changes that the options of `edit` describe. Raises `click.UsageError`, `click.BadParameter`."""
    for one, other in (("cohort", "no_cohort"), ("users", "everybody"), ("share", "weight")):
        if options[one] and options[other]:
            names = (f"--{word.replace('_', '-')}" for word in (one, other))
            raise click.UsageError(f"{' and '.join(names)} exclude each other")
    return QueueEdit(
        quotas=read_quotas(options),
        borrowing=read_pairs(options["borrow"], "--borrow", UNLIMITED),
        lending=read_pairs(options["lend"], "--lend", UNLIMITED),
        flavor=options["flavor"],
        cohort="" if options["no_cohort"] else options["cohort"],
        strict=options["strict"],
        within=options["preempt"] or "",
        reclaim=options["reclaim"] or "",
        weight=options["share"] or options["weight"],
        by_usage=options["by_usage"],
        users=read_users(options["users"], "--users"),
        added=read_users(options["add_users"], "--add-users") or frozenset(),
        removed=read_users(options["remove_users"], "--remove-users") or frozenset(),
        everybody=options["everybody"],
        limits=read_limits(options["per_user"]),
        without_team=options["without_team"],
    )


def read_quotas(options: Mapping[str, Any]) -> dict[str, str]:
    """Return the quotas that the options set, by resource. Raises `click.BadParameter`."""
    named = {"cpus": "cpu", "memory": "memory", "gpus": NVIDIA_GPU}
    given = {resource: options[option] for option, resource in named.items() if options[option]}
    quotas = given | read_pairs(options["quota"], "--quota")
    for resource, text in quotas.items():
        try:
            check_quota(resource, text)
        except ValueError as error:
            raise click.BadParameter(str(error)) from None
    return quotas


def read_pairs(texts: Sequence[str], option: str, word: str = "") -> dict[str, str]:
    """Parse RESOURCE=QUANTITY texts into quantities by resource. Raises `click.BadParameter`.

    option: the name of the option, for errors.
    word: a word that is allowed in place of a quantity; "" for none.
    """
    pairs = {}
    for text in texts:
        resource, given, amount = text.partition("=")
        if not resource or not given or not amount:
            raise click.BadParameter(f"{text!r}: expected RESOURCE=QUANTITY, as cpu=8", param_hint=option)
        try:
            pairs[resource] = amount if amount == word else parse_quantity(amount, resource)
        except click.BadParameter as error:
            raise click.BadParameter(error.message, param_hint=option) from None
    return pairs


def read_users(text: str | None, option: str) -> frozenset[str] | None:
    """Parse a comma-separated list of users; None for None. Raises `click.BadParameter`, also for an empty text.

    An empty text may come from an unset variable, and the queue would be for everybody.

    option: the name of the option, for errors.
    """
    if text is None:
        return None
    names = [one.strip() for one in text.split(",")]
    for one in names:
        if not one or set(one) & set(" :/="):
            raise click.BadParameter(f"{one!r} is no name of a user; expected NAME,NAME", param_hint=option)
    return frozenset(names)


def read_limits(texts: Sequence[str]) -> dict[str, str]:
    """Parse `LIMIT=N` texts, which may have commas, into a number or `unlimited` by the limit's name.

    Raises `click.BadParameter`.
    """
    limits = {}
    for text in (part for each in texts for part in each.split(",")):
        name, _, amount = text.partition("=")
        if name not in LIMIT_NAMES or not (amount == UNLIMITED or (amount.isascii() and amount.isdigit())):
            raise click.BadParameter(
                f"{text!r}: expected LIMIT=N, where LIMIT is {' or '.join(LIMIT_NAMES)}", param_hint="--per-user"
            )
        limits[name] = amount
    return limits
