"""What all tests share: the long form of tests that have one, and how hypothesis searches."""

import gc
import os
import signal
import zlib
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Machines differ and are shared: a slow draw is no failure, and neither is a slow example.
# Each run draws the same 50 examples of a property, because CI has half an hour. The long form draws others.
settings.register_profile(
    "muster", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True, max_examples=50
)
settings.register_profile("long", settings.get_profile("muster"), derandomize=False, max_examples=1000)

LONG_SECONDS = 2 * 3600

# The longest text that the id of a test shows, in characters.
LONGEST_ID = 1000

# The young are looked at less often than Python would: many tests make a server's worth of objects each.
COLLECTION_THRESHOLDS = (20_000, 10, 10)


# The part of a worker's share of a run in which the slow tests begin: the quick ones after it are left to idle workers.
SLOW_SHARE = 0.8

# What only `--all` runs, unless it is named: other programs, other clusters, days of users, and what is marked `slow`.
REST = ("tests/cluster", "tests/e2e", "tests/fuzz", "tests/peers")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--all", action="store_true", help="run what `pytest` alone leaves out: programs beside Muster, slow tests"
    )
    parser.addoption("--long", action="store_true", help="run the long form of crash, fault and property tests")
    parser.addoption("--pictures", metavar="DIR", help="keep pictures of the dashboard's pages in a folder")
    parser.addoption("--schedule", type=int, help="play this one of the schedules of interruptions")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    long = config.getoption("--long")
    settings.load_profile("long" if long else "muster")
    if long and config.getoption("timeout") is None:  # of tests that do not name a limit of their own
        config.option.timeout = LONG_SECONDS
    gc.set_threshold(*COLLECTION_THRESHOLDS)  # for pytest's collection, too
    _hear_signals()


def _hear_signals() -> None:
    """A script or nohup that starts the tests has these ignored, and so would be what the tests start."""
    for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, usual)


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Return the number of worker processes: three for two cores, as tests wait a third of their time.

    With `--all`, four for two cores: most tests of programs wait for these longer than they compute. A debugger needs
    the only process, and one file is sooner done than workers have started.
    """
    if config.getoption("usepdb") or [Path(name.partition("::")[0]).suffix for name in config.args] == [".py"]:
        return 0
    return len(os.sched_getaffinity(0)) * (4 if config.getoption("--all") else 3) // 2


def _is_usual(config: pytest.Config) -> bool:
    """Return whether the usual run is asked for: no test is named, and neither is `--all`."""
    return not config.getoption("--all") and [Path(name).name for name in config.args] == config.getini("testpaths")


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Name a long text after its parameter: an id goes to another process four times. None: pytest names the value."""
    return argname if isinstance(val, str | bytes) and len(val) > LONGEST_ID else None


def pytest_report_header(config: pytest.Config) -> str | None:
    return "the usual run: about 8 minutes on two cores; --all runs the rest, too" if _is_usual(config) else None


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out the folders of the rest. None: others decide."""
    left_out = _is_usual(config) and collection_path.relative_to(config.rootpath).as_posix() in REST
    return left_out or None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Spread the slow modules among the quick ones, so that all workers have both and the percentage tells the time.

    In the usual run, leave out the tests that are marked as slow.
    """
    if _is_usual(config):
        slow = [item for item in items if item.get_closest_marker("slow")]
        items[:] = [item for item in items if not item.get_closest_marker("slow")]
        config.hook.pytest_deselected(items=slow)
    if "PYTEST_XDIST_WORKER" in os.environ:
        workers = int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
        items.sort(key=lambda item: _place_module(item.path.relative_to(config.rootpath).as_posix(), workers))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Let each worker begin elsewhere in a folder: a module of which one has rewritten the assertions suits the others.

    `pytest_collection_modifyitems` gives all workers the same order again. The folders of `tests` keep their order:
    tests/cluster has tests of tests/system, and pytest's ids of these depend on where it sees them first.
    """
    report = yield
    is_inner = isinstance(collector, pytest.Directory) and collector.path != collector.config.rootpath / "tests"
    if "PYTEST_XDIST_WORKER" in os.environ and is_inner and report.passed:
        number = int(os.environ["PYTEST_XDIST_WORKER"].removeprefix("gw"))
        first = len(report.result) * number // int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
        report.result = [*report.result[first:], *report.result[:first]]
    return report


def _place_module(path: str, workers: int) -> tuple[float, str]:
    """Return where a test module begins, in shares of a worker, and its path; all workers need the same order."""
    worker, place = divmod(workers * zlib.crc32(path.encode()) / 2**32, 1)
    return worker + place * (1 if path.startswith("tests/unit/") else SLOW_SHARE), path


def pytest_collection_finish() -> None:
    """Set the collector of garbage for all tests: what there is before them stays, and need not be looked at again."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECTION_THRESHOLDS)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Generator[None, object, object]:
    """A command or a cluster sets the collector for its process: tests after it have that of all tests again."""
    done = yield
    if gc.get_threshold() != COLLECTION_THRESHOLDS:
        pytest_collection_finish()
    return done


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """What a test logged goes to another process, as text: names of files need not be any."""
    report = yield
    report.sections = [(name, text.encode(errors="backslashreplace").decode()) for name, text in report.sections]
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Limit the time of a second attempt, too: pytest-timeout sets its timer once for all attempts of a test."""
    if getattr(item, "execution_count", 1) > 1:  # set by pytest-rerunfailures
        limits = item.config.pluginmanager.get_plugin("timeout")._get_item_settings(item)
        item.config.hook.pytest_timeout_set_timer(item=item, settings=limits)


@pytest.fixture
def long(request: pytest.FixtureRequest) -> bool:
    """Whether the long form of a test is asked for."""
    return bool(request.config.getoption("--long"))
