"""Listens at port 443 of an address and leads each connection to the port that a file names: a Service without kubelet.

`python -m tests.cluster.forwarding ADDRESS FILE`
"""

import asyncio
import sys
from contextlib import suppress
from pathlib import Path


async def _pass_on(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await source.read(65536):
            target.write(data)
            await target.drain()
    target.close()


async def main(address: str, file: Path) -> None:
    async def lead(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            inner, outer = await asyncio.open_connection("127.0.0.1", int(file.read_text()))
        except (OSError, ValueError):
            writer.close()
            return
        await asyncio.gather(_pass_on(reader, outer), _pass_on(inner, writer))

    server = await asyncio.start_server(lead, address, 443)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
