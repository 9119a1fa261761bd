"""A group of commands that suggests a similar command or option for an unknown one."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import click

from muster.cli.names.habits import OPTIONS
from muster.insight.nearest import find_nearest


class SuggestingGroup(click.Group):
    """A group of commands that suggests similar names for unknown commands and options.

    elsewhere: names of its commands in other systems, each with the equivalent name here.
    """

    elsewhere: Mapping[str, str] = {}

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that `args` names.

        Raises an error of click that suggests a similar name if there is none.
        """
        known = self.get_command(ctx, args[0]) is not None
        if not known and not ctx.resilient_parsing and not args[0].startswith("-"):
            nearest = find_nearest(args[0], self.list_commands(ctx), self.elsewhere)
            ctx.fail(
                f"no such command: {args[0]}" + (f"; did you mean: {ctx.command_path} {nearest}" if nearest else "")
            )
        return super().resolve_command(ctx, args)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the options of the group itself; an error about an unknown option suggests a similar one."""
        with _suggest_names():
            return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Parse the options of the command and run it; an error about an unknown option suggests a similar one."""
        with _suggest_names():
            return super().invoke(ctx)


@contextmanager
def _suggest_names() -> Iterator[None]:
    try:
        yield
    except click.NoSuchOption as wrong:
        if wrong.ctx is None:
            raise
        raise click.UsageError(make_suggestion(wrong), wrong.ctx) from None


def make_suggestion(wrong: click.NoSuchOption) -> str:
    """Return the error that an option does not exist; it names the most similar option, if there is one."""
    assert wrong.ctx is not None, "it is an option of a command"
    known = [name for one in wrong.ctx.command.get_params(wrong.ctx) for name in one.opts if name.startswith("--")]
    elsewhere = {word: name for word, name in OPTIONS.items() if name.partition(" ")[0] in known}
    nearest = find_nearest(wrong.option_name, known, elsewhere)
    return f"no such option: {wrong.option_name}" + (f"; did you mean {nearest}?" if nearest else "")
