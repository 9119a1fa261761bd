"""Back up, restore and salvage a cluster's home directory.

The commands are `muster backup`, `muster restore` and `muster up --salvage`. A backup contains all objects at one
revision, the history of runs, and the keys of the cluster. So clients and pods of the old cluster can use the restored
one. A running server sends its objects from memory, so no write waits.
"""

import os
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import msgspec

from muster.cluster.apiserver.objects.headers import header_of
from muster.cluster.store import DataDirectoryError, Key, Store, history
from muster.cluster.store.database import FILE
from muster.cluster.store.directory import PKI, DataDirectory, sync
from muster.cluster.store.history import HistoryError
from muster.cluster.store.integrity import archive, mark
from muster.cluster.store.integrity.acceptance import LOG, admit, read_mark
from muster.cluster.store.integrity.archive import BEYOND, Backup
from muster.cluster.store.integrity.inspection import SEEN_BESIDE, Damage
from muster.cluster.store.integrity.pages import pages_of
from muster.cluster.store.integrity.salvage import Findings, list_living, salvage
from muster.cluster.store.journal import JournalRecord
from muster.runtime.process.privatefiles import write_private

PATH = "/muster/backup"  # where a server sends its objects
CONTENT_TYPE = "application/octet-stream"
_PIECE_BYTES = 256 * 1024
_LENGTH_BYTES = 4
_HISTORY = (history.FILE, f"{history.FILE}-wal")
_STAMP = "%Y-%m-%dT%H%M%S"

# How often to try to read a store next to a server that keeps writing. About half of the attempts find it sound.
_ATTEMPTS_BESIDE = 20
_PAUSE_BESIDE_SECONDS = 0.05


class _Message(msgspec.Struct, array_like=True):
    """One object of a backup that is being sent.

    The last message contains the number of objects and the revision of the store.
    """

    revision: int
    resource: str = ""
    namespace: str = ""
    name: str = ""
    body: bytes = b""
    count: int = 0


async def send(store: Store) -> AsyncIterator[bytes]:
    """Yield all current objects of a store, in pieces."""
    snapshot, encoder = store.everything(), msgspec.msgpack.Encoder()
    piece = bytearray()
    for entry in snapshot.entries:
        _append(piece, encoder.encode(_Message(entry.revision, *entry.key, entry.body)))
        if len(piece) >= _PIECE_BYTES:
            yield bytes(piece)
            piece.clear()
    _append(piece, encoder.encode(_Message(snapshot.revision, count=len(snapshot.entries))))
    yield bytes(piece)


def _append(piece: bytearray, content: bytes) -> None:
    piece += len(content).to_bytes(_LENGTH_BYTES, "big")
    piece += content


async def receive(pieces: AsyncIterator[bytes]) -> tuple[list[JournalRecord], int]:
    """Return the records that `send` sent, and their revision. Raises `DataDirectoryError` if the end is missing."""
    decoder, buffer = msgspec.msgpack.Decoder(_Message), bytearray()
    records: list[JournalRecord] = []
    async for piece in pieces:
        buffer += piece
        at = 0
        while len(buffer) - at >= _LENGTH_BYTES:
            end = at + _LENGTH_BYTES + int.from_bytes(buffer[at : at + _LENGTH_BYTES], "big")
            if end > len(buffer):
                break
            message = decoder.decode(buffer[at + _LENGTH_BYTES : end])
            if not message.resource and message.count == len(records):
                return sorted(records), message.revision
            key = Key(message.resource, message.namespace, message.name)
            records.append(JournalRecord(message.revision, key, False, None, message.body))
            at = end
        del buffer[:at]
    raise DataDirectoryError("the server did not send all objects; try again")


def read(home: Path) -> tuple[list[JournalRecord], int]:
    """Return the objects in a home without a running server, and their revision. Raises `DataDirectoryError`."""
    if not (home / FILE).exists():
        raise DataDirectoryError(f"there is nothing to back up in {home}")
    with _hold_lock(home):
        try:
            contents = admit(home, is_used=True)
        except Damage as damage:
            raise DataDirectoryError(f"the store in {home} is damaged: {damage}; see muster up --salvage") from damage
    if contents is None:
        raise DataDirectoryError(f"{home / FILE} is of an older release: start the server once to upgrade it")
    return [record._replace(previous=None) for record in list_living(contents.history.records)], contents.mark.revision


def check_beside_server(home: Path) -> None:
    """Raise `DataDirectoryError` if the next server would refuse the store, which a running server may be using now.

    If a server writes meanwhile, about every other attempt finds a sound store damaged. So damage counts only if each
    of many attempts to read finds it.
    """
    problem: Damage | OSError | None = None
    for _ in range(_ATTEMPTS_BESIDE):
        try:
            admit(home, is_used=False, suffix=f"{SEEN_BESIDE}-{os.getpid()}")
        except (Damage, OSError) as error:  # an OSError: the server has just removed its log
            problem = error
            time.sleep(_PAUSE_BESIDE_SECONDS)
        else:
            return
    raise DataDirectoryError(
        f"the store in {home} is damaged: {problem}. Nothing was changed: the server continues, and has all "
        f"objects in memory. Save them with `muster backup FILE`, then `muster down` and "
        f"`muster restore --force FILE`"
    ) from problem


def history_of(home: Path, now: datetime) -> bytes:
    """Return the history in a home without a running server; b"" if there is none. Raises `DataDirectoryError`."""
    if not (home / history.FILE).exists():
        return b""
    with _hold_lock(home):
        try:
            file = history.HistoryFile(home / history.FILE, now)
            try:
                return file.content()
            finally:
                file.close()
        except HistoryError as error:
            raise DataDirectoryError(str(error)) from error


def check_absent(file: Path, *, replace: bool) -> None:
    """Raise `DataDirectoryError` if a file exists, unless `replace` allows overwriting it."""
    if file.exists() and not replace:
        raise DataDirectoryError(f"there is a {file} already: name another file, or replace it with --force")


def save(file: Path, home: Path, records: list[JournalRecord], revision: int, ran: bytes) -> None:
    """Write a backup of these objects, the history of runs, and the keys in a home; then check it.

    ran: the content of the history file; b"" for none.

    Raises `OSError`, `DataDirectoryError`.
    """
    files = {f"{PKI}/{path.name}": path.read_bytes() for path in sorted((home / PKI).glob("*")) if path.is_file()}
    if ran:
        files[history.FILE] = ran
    partial = file.with_name(f"{file.name}.partial")
    partial.unlink(missing_ok=True)
    try:
        archive.write(partial, Backup(records, revision, files))
        partial.replace(file)
    finally:
        partial.unlink(missing_ok=True)
    sync(file.parent)


def restore(home: Path, backup: Backup, now: datetime, *, replace: bool) -> Path | None:
    """Replace a home's cluster by a backup; return the directory of the replaced files, or None if there were none.

    replace: whether existing files may be replaced.

    Raises `DataDirectoryError`, `OSError`.
    """
    with _hold_lock(home):
        occupied = [name for name in (FILE, LOG, mark.FILE, PKI, *_HISTORY) if _has_content(home / name)]
        if occupied and not replace:
            raise DataDirectoryError(f"{home} holds a cluster ({', '.join(occupied)}): --force keeps its files aside")
        aside = home / f"before-restore-{now:{_STAMP}}"
        revision = max(backup.revision, _read_newest_marked(home)) + BEYOND
        archive.install(home, Backup(backup.records, revision, {}), aside)
        keys = {Path(name).name: content for name, content in backup.files.items() if name.startswith(f"{PKI}/")}
        for name in (*([PKI] if keys else []), *_HISTORY):
            if (home / name).exists():
                (home / name).rename(aside / name)
        for name, content in keys.items():
            (home / PKI).mkdir(mode=0o700, exist_ok=True)
            write_private(home / PKI / name, content)
        if history.FILE in backup.files:
            write_private(home / history.FILE, backup.files[history.FILE])
        sync(home)
        if occupied:
            return aside
        aside.rmdir()
        return None


def _read_newest_marked(home: Path) -> int:
    """Return the newest revision in the mark of a home; 0 if no mark can be read."""
    try:
        marked = read_mark(home)
    except Damage:
        return 0
    return marked.revision if marked else 0


class Salvaged(msgspec.Struct, frozen=True):
    """The result of salvaging a damaged store."""

    damage: str
    findings: Findings
    aside: Path


def salvage_home(home: Path, now: datetime) -> Salvaged | None:
    """Replace a damaged store by its intact objects; return None if the store is not damaged.

    Raises `DataDirectoryError`, `OSError`.
    """
    with _hold_lock(home):
        try:
            admit(home, is_used=(home / PKI).exists())
        except Damage as damage:
            problem = str(damage)
        else:
            return None
        try:
            marked = read_mark(home)
        except Damage:
            marked = None
        findings = salvage(pages_of(_read_content(home / FILE), _read_content(home / LOG)), marked, _is_readable)
        if findings.is_unchecked:
            raise DataDirectoryError(
                f"the store in {home} is damaged ({problem}), and of an older release, whose objects have no "
                f"checksums: the server cannot tell which objects are undamaged. Nothing was changed; go back to a "
                f"backup: muster restore --force FILE"
            )
        aside = home / f"damaged-{now:{_STAMP}}"
        records = [record._replace(previous=None) for record in findings.living]
        archive.install(home, Backup(records, findings.newest + BEYOND, {}), aside)
        names = "".join(f"{' '.join(key)}\n" for key in findings.doubtful)
        write_private(aside / "lost-or-old", names.encode())
        return Salvaged(problem, findings, aside)


def _is_readable(key: Key, body: bytes) -> bool:
    try:
        header_of(key.resource, body)
    except (msgspec.MsgspecError, ValueError):
        return False
    return True


def _read_content(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""


def _has_content(path: Path) -> bool:
    return path.exists() and (path.is_dir() or path.stat().st_size > 0)


@contextmanager
def _hold_lock(home: Path) -> Iterator[None]:
    """Hold the lock of a home, so that no server can use it. Raises `DataDirectoryError`."""
    directory = DataDirectory(home)
    try:
        yield
    finally:
        directory.release()
