"""The writer of new and changed objects."""

import asyncio
import threading
from types import SimpleNamespace
from typing import Any

from muster.cluster.apiserver.decode import ReadAhead
from muster.cluster.apiserver.verbs.write import Writer


def test_big_objects_are_validated_one_at_a_time_even_if_their_requests_end() -> None:
    release, began = threading.Event(), list[str]()
    unused: Any = None
    call: Any = SimpleNamespace(request=SimpleNamespace(body=ReadAhead(b"")))

    def validate(name: str) -> list[Any]:
        began.append(name)
        release.wait(10)
        return []

    async def main() -> None:
        writer = Writer(unused, unused, unused, unused, unused)
        requests = [asyncio.create_task(writer._require_valid(call, name, validate, name)) for name in ("a", "b")]
        for request in requests[:1] * 2:
            await asyncio.sleep(0.01)
            request.cancel()
        await asyncio.sleep(0.05)
        validated = list(began)
        release.set()
        first, second = await asyncio.gather(*requests, return_exceptions=True)
        assert (validated, began) == (["a"], ["a", "b"])
        assert isinstance(first, asyncio.CancelledError)
        assert second is None

    asyncio.run(main())
