"""Names for a shell, from servers that give them, refuse, or talk nonsense."""

import asyncio
import json
from pathlib import Path
from typing import Any

import click
import pytest
from aiohttp import web
from tests.system.client.scripted_server import Step, World, answer, hang_up, play, refuse, silence

from muster.cli.commands.changes.cancel import command
from muster.cli.completion import asking, names

JOBS = "/apis/batch/v1/namespaces/default/jobs"
TRAIN = {"items": [{"metadata": {"name": "train"}}, {"metadata": {"name": "other"}}]}


async def offered(world: World, tmp_path: Path, user: dict[str, Any] | None = None) -> list[str]:
    """What a line that begins with `muster cancel --kubeconfig FILE t` gets."""
    file = tmp_path / "kubeconfig"
    file.write_text(json.dumps(world.server.kubeconfig(user)))
    context = click.Context(command)
    context.params = {"kubeconfig": str(file), "namespace": None}
    return await asyncio.to_thread(names.complete_jobs, context, command.params[0], "t")


async def nonsense(_: web.Request) -> web.StreamResponse:
    return web.Response(body=b"<html>")


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (answer(TRAIN), ["train"]),
        (answer({"items": []}), []),
        (answer({"items": [{"metadata": {}}]}), []),
        (answer([]), []),
        (nonsense, []),
        (hang_up, []),
        (silence, []),
        (refuse(403, "Forbidden"), []),
        (refuse(500, "InternalError"), []),
        (answer(TRAIN, 302, location="https://example.com"), []),
    ],
)
def test_whatever_a_server_says_there_are_names_or_none(
    step: Step, expected: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(asking, "PATIENCE_SECONDS", 0.2)

    async def scenario(world: World) -> None:
        world.server.on(JOBS, step)
        assert await offered(world, tmp_path) == expected
        of_sets, of_jobs = (request.query for request in world.server.seen)
        assert of_sets == {"limit": "500"}
        assert of_jobs == {"limit": "500", "labelSelector": "!jobset.sigs.k8s.io/jobset-name"}

    play(scenario)
    assert capfd.readouterr() == ("", "")


def test_a_token_is_sent(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        world.server.tokens = {"t0ken"}
        world.server.on(JOBS, answer(TRAIN))
        assert await offered(world, tmp_path, {"token": "t0ken"}) == ["train"]
        assert await offered(world, tmp_path, {"token": "other"}) == []

    play(scenario)


@pytest.mark.parametrize(
    "user",
    [
        {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "false", "interactiveMode": "Never"}},
        {"as": "somebody-else"},
    ],
)
def test_nobody_is_asked_to_log_in_and_nothing_is_asked_as_another(user: dict[str, Any], tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        world.server.on(JOBS, answer(TRAIN))
        assert await offered(world, tmp_path, user) == []
        assert world.server.seen == []

    play(scenario)
