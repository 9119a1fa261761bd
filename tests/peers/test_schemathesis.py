"""schemathesis makes requests of what our own OpenAPI documents promise, right and wrong: none may be our fault.

No answer of 500 and above, none that does not come, nothing in the server's log. A request of every third operation
here; `--long` makes 100,000, of all.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase
from tests.peers.conftest import open_session

REQUESTS, LONG_REQUESTS = 350, 100_000
ANSWER_SECONDS = 20
# What is asked for is mostly there: a request for what is not ends early.
NAMES = {"namespace": "default", "name": "fuzzed"}
# A stream goes on by design.
STREAMING = ("watch", "follow")


class Fuzzer:
    """Sends requests as the admin, and counts the answers by code."""

    def __init__(self, kubeconfig: Path, home: Path) -> None:
        self.url, self.session = open_session(kubeconfig, home)
        self.codes: Counter[int] = Counter()

    def operations(self) -> Iterator[Any]:
        """Every operation of every document."""
        paths = self.session.get(f"{self.url}/openapi/v3").json()["paths"]
        for path in sorted(paths):
            document = self.session.get(self.url + paths[path]["serverRelativeURL"]).json()
            schema = schemathesis.openapi.from_dict(_readable(document))
            schema.config.update(base_url=self.url)
            yield from (found.ok() for found in schema.get_all_operations())

    def send(self, case: Any) -> None:
        """One request, of which the server must make something."""
        for name, value in NAMES.items():
            if name in case.path_parameters and sum(self.codes.values()) % 4:
                case.path_parameters[name] = value
        request = case.as_transport_kwargs(base_url=self.url)
        request["params"] = {k: v for k, v in (request.get("params") or {}).items() if k not in STREAMING}
        answer = self.session.request(**request | {"timeout": ANSWER_SECONDS})
        self.codes[answer.status_code] += 1
        assert answer.status_code < 500, f"{answer.status_code}: {answer.text[:500]}\n{request}"


def _readable(document: Any) -> Any:
    """The document without patterns that Go's engine has and Python's has not."""
    if isinstance(document, list):
        return [_readable(each) for each in document]
    if not isinstance(document, dict):
        return document
    return {
        name: _readable(value)
        for name, value in document.items()
        if not (name == "pattern" and isinstance(value, str) and "(?i)" in value)
    }


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_no_request_is_too_much(own_server: Any, tmp_path: Path, long: bool) -> None:
    fuzzer = Fuzzer(own_server.kubeconfig, tmp_path)
    operations = list(fuzzer.operations())[:: 1 if long else 3]
    each = -(-(LONG_REQUESTS if long else REQUESTS) // len(operations))
    for operation in operations:
        _fuzz(operation, fuzzer, each)
    assert sum(fuzzer.codes.values()) >= (LONG_REQUESTS if long else REQUESTS)
    assert {200, 400, 404, 422} <= fuzzer.codes.keys()
    assert "Traceback" not in own_server.log.read_text()


def _fuzz(operation: Any, fuzzer: Fuzzer, examples: int) -> None:
    @hypothesis.seed(20)
    @hypothesis.settings(
        max_examples=examples,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
    )
    @hypothesis.given(case=operation.as_strategy())
    def requested(case: Any) -> None:
        fuzzer.send(case)

    requested()
