"""What all tests share: the long form of tests that have one, and how hypothesis searches."""

from collections.abc import Generator

import pytest
from hypothesis import HealthCheck, settings

# Machines differ and are shared: a slow draw is no failure, and neither is a slow example.
settings.register_profile("muster", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
settings.register_profile("long", settings.get_profile("muster"), derandomize=False, max_examples=1000)

LONG_SECONDS = 2 * 3600


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="run the long form of crash, fault and property tests")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    long = config.getoption("--long")
    settings.load_profile("long" if long else "muster")
    if long and config.getoption("timeout") is None:  # of tests that do not name a limit of their own
        config.option.timeout = LONG_SECONDS


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """What a test logged goes to another process, as text: names of files need not be any."""
    report = yield
    report.sections = [(name, text.encode(errors="backslashreplace").decode()) for name, text in report.sections]
    return report


@pytest.fixture
def long(request: pytest.FixtureRequest) -> bool:
    """Whether the long form of a test is asked for."""
    return bool(request.config.getoption("--long"))
