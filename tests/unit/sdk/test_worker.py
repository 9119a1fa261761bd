"""A call, from the one side to the other and back, without a cluster between."""

import functools
import importlib
import json
import os
import subprocess
import sys
import threading
import traceback

import pytest

from muster.sdk import worker
from muster.sdk.calls import Outcome, name_function, pack_call
from muster.sdk.errors import Error, JobFailedError
from muster.sdk.worker import pack_message, perform, unpack_message


class PeculiarError(Exception):
    """Pickled by its arguments, of which it keeps one."""

    def __init__(self, one, two):
        super().__init__(one)
        self.two = two


def made(function, *args, **kwargs):
    return Outcome.of(perform(pack_call(function, args, kwargs), lambda: 1.0))


def test_what_a_function_returns_comes_back():
    outside = 3
    assert made(lambda a, *, b: a + b + outside, 1, b=2).value("job", 0) == 6


def raising(kind, make=lambda: ()):
    def inner():
        raise kind(*make())

    return inner


def test_what_a_function_raises_comes_back_with_its_rank_and_traceback():
    with pytest.raises(KeyError, match="lost") as caught:
        made(raising(KeyError, lambda: ["lost"])).value("train", 2)
    [note] = caught.value.__notes__
    assert note.startswith("It was raised by rank 2 of job train:\n  File ")
    assert note.endswith("\nKeyError: 'lost'")
    assert "in inner" in note
    assert "in perform" not in note
    assert "".join(traceback.format_exception(caught.value)).count("Traceback") == 1


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (raising(PeculiarError, lambda: [1, 2]), "PeculiarError: 1"),
        (raising(ValueError, lambda: [threading.Lock()]), "ValueError: <unlocked"),
        (raising(SystemExit, lambda: [3]), "SystemExit: 3"),
        (raising(KeyboardInterrupt), "KeyboardInterrupt"),
    ],
)
def test_what_cannot_travel_or_would_end_the_caller_is_told(function, said):
    with pytest.raises(JobFailedError, match=f"train: rank 1 raised .*{said}") as caught:
        made(function).value("train", 1)
    assert "in inner" in caught.value.__notes__[0]


def test_who_leaves_without_trouble_returns_nothing():
    assert made(lambda: sys.exit(0)).value("job", 0) is None


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda: (one for one in "ab"), "train: rank 0: its result, a generator, cannot be pickled: TypeError: "),
        (threading.Lock, "train: rank 0: its result, a lock, cannot be pickled: TypeError: "),
    ],
)
def test_a_result_that_cannot_be_pickled_is_named(function, said):
    with pytest.raises(JobFailedError) as caught:
        made(function).value("train", 0)
    assert str(caught.value).startswith(said)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ((lambda lock: lock, (threading.Lock(),), {}), "argument 0 cannot be pickled: TypeError: "),
        ((lambda **_: 1, (), {"lock": threading.Lock()}), "argument lock cannot be pickled: TypeError: "),
        ((functools.partial(print, threading.Lock()), (), {}), "the function print cannot be pickled: TypeError: "),
    ],
)
def test_a_call_that_cannot_be_pickled_is_refused_with_the_part_that_cannot(call, said):
    with pytest.raises(Error) as caught:
        pack_call(*call)
    assert str(caught.value).startswith(said)


def test_another_python_on_the_worker_is_said():
    told, body = unpack_message(pack_call(print, (), {}))
    with pytest.raises(JobFailedError) as caught:
        Outcome.of(perform(pack_message(told | {"python": "3.2"}, bytes(body)), lambda: 1.0)).value("train", 0)
    said = f"the function was pickled by Python 3.2, and the worker has {worker.PYTHON}: give both the same version"
    assert str(caught.value) == f"train: rank 0: {said}"


def test_another_python_here_is_said_of_what_cannot_be_loaded():
    message = pack_message({"how": worker.RETURNED, "text": "", "python": "3.2", "at": 0.0}, b"rubbish")
    with pytest.raises(JobFailedError, match=r"cannot be loaded here: .* \(it was pickled by Python 3.2, and this is"):
        Outcome.of(message).value("train", 0)


def test_a_module_that_the_worker_lacks_is_named():
    message = pack_message({"python": worker.PYTHON, "path": sys.path}, b"cno_such_module\nx\n.")
    with pytest.raises(JobFailedError, match=r"worker cannot load the function: ModuleNotFoundError: .*no_such_mod"):
        Outcome.of(perform(message, lambda: 1.0)).value("train", 0)


def run_worker(directory, rank="0"):
    environment = os.environ | {"JOB_COMPLETION_INDEX": rank, "MUSTER_CALL": str(directory)}
    command = [sys.executable, "-P", worker.__file__, worker.ONCE]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)


def test_a_worker_finds_modules_where_its_caller_does(tmp_path, monkeypatch):
    (tmp_path / "beside.py").write_text("def double(x): return 2 * x\n")
    monkeypatch.syspath_prepend(tmp_path)
    beside = importlib.import_module("beside")
    (tmp_path / worker.CALL).write_bytes(pack_call(beside.double, (21,), {}))
    assert run_worker(tmp_path, "7").returncode == 0
    assert Outcome.of((tmp_path / "outcome-7").read_bytes()).value("job", 7) == 42


def test_an_earlier_outcome_of_a_rank_is_not_taken_for_the_one_of_now(tmp_path):
    (tmp_path / worker.CALL).write_bytes(pack_call(os._exit, (9,), {}))
    (tmp_path / "outcome-0").write_bytes(b"of an earlier attempt")
    assert run_worker(tmp_path).returncode == 9
    assert not (tmp_path / "outcome-0").exists()


def test_a_worker_without_its_call_says_where_it_should_be(tmp_path):
    done = run_worker(tmp_path)
    assert done.returncode == 1
    assert f"has left in {tmp_path}: " in done.stderr


def test_a_long_message_is_told_from_a_broken_one():
    body = os.urandom(1 << 20)
    told, rest = unpack_message(pack_message({"a": 1}, body))
    assert (told, bytes(rest)) == ({"a": 1}, body)
    assert json.loads(pack_message({"a": 1}).strip()) == {"a": 1}


def test_functions_are_called_by_their_names():
    assert name_function(functools.partial(print)) == "print"
    assert name_function(lambda: 0) == "<lambda>"
    assert name_function(PeculiarError) == "PeculiarError"
    assert name_function(type("Trial", (), {"__call__": print})()) == "Trial"
