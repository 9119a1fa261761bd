"""Where outcomes are read from."""

import sys
import types

import pytest

from muster.sdk.calls import Outcome, list_returned_ranks, outcome_of, pack_call, read_outcomes
from muster.sdk.errors import Error
from muster.sdk.worker import OUTCOME, perform


@pytest.fixture
def directory(tmp_path):
    found = tmp_path / "call"
    found.mkdir(mode=0o700)
    (found / OUTCOME.format(rank=1)).write_bytes(perform(pack_call(abs, (-5,), {}), lambda: 1.0))
    return found


def test_each_rank_has_left_one_or_none(directory):
    nothing, something = read_outcomes(directory, 2)
    assert nothing is None
    assert something.value("train", 1) == 5
    assert outcome_of(directory, 0) is None
    assert outcome_of(directory, 1).value("train", 1) == 5


def test_a_call_that_raised_may_be_made_again(directory):
    (directory / OUTCOME.format(rank=0)).write_bytes(perform(pack_call(abs, ("x",), {}), lambda: 1.0))
    (directory / OUTCOME.format(rank=12)).write_bytes(perform(pack_call(abs, (-1,), {}), lambda: 1.0))
    (directory / "outcome-2.part").write_bytes(b"")  # it is being written
    assert list_returned_ranks(directory, ()) == {1, 12}
    assert list_returned_ranks(directory, {12}) == {1}


def test_a_caller_whose_working_directory_is_gone_is_told(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend("")
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(Error, match="the working directory is no longer there"):
        pack_call(abs, (1,), {})


def test_a_function_of_the_main_program_of_a_spawned_process_is_sent_with_its_code(monkeypatch):
    """A process of `multiprocessing` has the main program under a name that no other process can import."""
    main = types.ModuleType("__mp_main__")
    exec("def double(x): return 2 * x\ndef run(x): return double(x)", main.__dict__)
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "__mp_main__", main)
        call = pack_call(main.run, (4,), {})
    assert Outcome.of(perform(call, lambda: 1.0)).value("train", 0) == 8


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o755])
def test_a_directory_that_is_open_to_others_is_not_read(directory, mode):
    directory.chmod(mode)
    for reading in (
        lambda: read_outcomes(directory, 2),
        lambda: outcome_of(directory, 1),
        lambda: list_returned_ranks(directory, ()),
    ):
        with pytest.raises(
            Error, match=r"results are read only from where no other user can put any: .* open to others"
        ):
            reading()


def test_what_is_gone_has_left_nothing(tmp_path):
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "gone", tmp_path / "file"):
        assert read_outcomes(path, 2) == [None, None]
        assert outcome_of(path, 0) is None
        assert list_returned_ranks(path, ()) == set()
