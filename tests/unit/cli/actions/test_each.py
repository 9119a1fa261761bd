"""Acting on several names: order, failures, and how many at a time."""

import asyncio

import click
import pytest

from muster.actions.errors import UserError
from muster.cli.actions.each import AT_ONCE, act_on_each
from muster.runtime.eventloop import drive, has_loop
from muster.runtime.transport import TransportError


def act(names, action):
    return drive(act_on_each(names, action))


def test_a_few_names_need_no_event_loop(capsys):
    async def greet(name):
        assert not has_loop()
        return f"{name} greeted"

    act(["a", "b", "a"], greet)
    assert capsys.readouterr().out == "a greeted\nb greeted\n"


def test_many_names_are_acted_on_at_once(capsys):
    names = [str(number) for number in range(3 * AT_ONCE)]
    running: set[str] = set()
    most = 0

    async def greet(name):
        nonlocal most
        running.add(name)
        most = max(most, len(running))
        await asyncio.sleep(0)
        for _ in range(int(name) % 3):
            await asyncio.sleep(0)
        running.discard(name)
        return name

    act([*names, *names], greet)
    assert sorted(capsys.readouterr().out.split(), key=int) == names
    assert most == AT_ONCE


def test_each_outcome_is_printed_when_it_is_known(capsys):
    """Also if the first name never has one, because the user interrupts or the server is gone."""

    async def greet(name):
        if name == "29":
            await asyncio.sleep(0)
            raise TransportError("it is gone")
        if name == "0":
            await asyncio.sleep(0.05)
            raise TransportError("it is gone")
        return name

    with pytest.raises(TransportError):
        act(map(str, range(30)), greet)
    assert capsys.readouterr().out.split() == [str(number) for number in range(1, 29)]


@pytest.mark.parametrize("count", [3, 30])
def test_a_failure_is_printed_and_the_others_go_on(capsys, count):
    async def greet(name):
        if name == "1":
            raise UserError("is shy")
        return name

    with pytest.raises(click.exceptions.Exit):
        act(map(str, range(count)), greet)
    printed = capsys.readouterr()
    assert printed.out.split() == [str(number) for number in range(count) if number != 1]
    assert printed.err == "Error: 1: is shy\n"


@pytest.mark.parametrize("count", [3, 300])
def test_a_server_that_cannot_be_reached_ends_it(count):
    begun = []

    async def greet(name):
        begun.append(name)
        raise TransportError("it is gone")

    with pytest.raises(TransportError):
        act(map(str, range(count)), greet)
    assert len(begun) <= AT_ONCE
