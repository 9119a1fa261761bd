"""A group of commands that says what may have been meant by a command or an option that there is not."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import click

from muster.cli.names.habits import OPTIONS
from muster.insight.nearest import nearest


class SuggestingGroup(click.Group):
    """`elsewhere`: what other systems call its commands."""

    elsewhere: Mapping[str, str] = {}

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command."""
        known = self.get_command(ctx, args[0]) is not None
        if not known and not ctx.resilient_parsing and not args[0].startswith("-"):
            found = nearest(args[0], self.list_commands(ctx), self.elsewhere)
            ctx.fail(f"no such command: {args[0]}" + (f"; did you mean: {ctx.command_path} {found}" if found else ""))
        return super().resolve_command(ctx, args)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the options of the group itself."""
        with _suggesting():
            return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Read the options of the command, and run it."""
        with _suggesting():
            return super().invoke(ctx)


@contextmanager
def _suggesting() -> Iterator[None]:
    try:
        yield
    except click.NoSuchOption as wrong:
        if wrong.ctx is None:
            raise
        raise click.UsageError(meant(wrong), wrong.ctx) from None


def meant(wrong: click.NoSuchOption) -> str:
    """That there is no such option, and which may have been meant."""
    assert wrong.ctx is not None, "it is an option of a command"
    known = [name for one in wrong.ctx.command.get_params(wrong.ctx) for name in one.opts if name.startswith("--")]
    elsewhere = {word: name for word, name in OPTIONS.items() if name in known}
    found = nearest(wrong.option_name, known, elsewhere)
    return f"no such option: {wrong.option_name}" + (f"; did you mean {found}?" if found else "")
