"""What rank 0 writes for `mpirun` and for the remote shell."""

from pathlib import Path

from muster.mpi.hosts import Hosts
from muster.mpi.launch import write_files

HOSTS = Hosts("sum-workers-0-{}.sum", workers=3, slots=2, port=14000)


def test_nobody_else_reads_the_identity(tmp_path: Path):
    write_files(tmp_path, HOSTS, b"key")
    identity = tmp_path / "identity.pem"
    assert identity.read_bytes() == b"key"
    assert identity.stat().st_mode & 0o777 == 0o600
