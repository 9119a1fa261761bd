"""A hint comes once."""

from muster.actions.hints import NO_GPUS, is_known, remember
from muster.actions.server.home import Home


def test_a_hint_is_remembered_in_the_home(tmp_path):
    home = Home(tmp_path)
    assert not is_known(home, NO_GPUS)
    remember(home, NO_GPUS)
    remember(home, NO_GPUS)
    assert is_known(home, NO_GPUS)
    assert not is_known(home, "another")


def test_a_user_without_a_home_gets_one(tmp_path):
    home = Home(tmp_path / "absent")
    remember(home, NO_GPUS)
    assert is_known(home, NO_GPUS)
    assert home.path.stat().st_mode & 0o777 == 0o700


def test_without_a_home_that_can_be_written_it_comes_again(tmp_path):
    (tmp_path / "file").touch()
    home = Home(tmp_path / "file" / "home")
    remember(home, NO_GPUS)
    assert not is_known(home, NO_GPUS)
