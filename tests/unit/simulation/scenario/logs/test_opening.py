"""The format of a log is what the scenario or the name of the file says."""

import gzip

import pytest

from muster.simulation.scenario.logs.jobs import LogError
from muster.simulation.scenario.logs.opening import find_format, read_node_table, read_trace
from muster.simulation.scenario.model import JobColumns, NodeColumns, NodePool, Trace


@pytest.mark.parametrize(
    ("file", "named", "format"),
    [
        ("jobs.csv", "", "csv"),
        ("logs/Jobs.CSV.gz", "", "csv"),
        ("JOBS.CSV.GZ", "", "csv"),
        ("jobs.tsv", "", "csv"),
        ("ran.jsonl", "", "history"),
        ("lublin-256.swf.gz", "", "swf"),
        ("log.txt", "", "swf"),
        ("jobs.csv", "helios", "helios"),
    ],
)
def test_a_log_has_a_format(file, named, format):
    assert find_format(Trace(file=file, format=named)) == format


def test_a_packed_log_may_have_a_name_in_capitals(tmp_path):
    file = tmp_path / "JOBS.CSV.GZ"
    file.write_bytes(gzip.compress(b"at,for\n0,60\n"))
    trace = Trace(file=file.name, columns=JobColumns(submit="at", run_time="for"))
    assert [job.run_time for job in read_trace(file, trace)] == [60.0]


def test_a_step_of_slurm_is_no_job(tmp_path):
    file = tmp_path / "sacct.csv"
    head = "JobID|User|Partition|Submit|Start|End|Timelimit|NNodes|AllocCPUS|AllocTRES\n"
    job = "%s|%s|2026-01-05T08:00:00|2026-01-05T09:00:00|2026-01-05T10:00:00||1|8|cpu=8\n"
    steps = "".join(job % (step, "|") for step in ("1.batch", "1.0")) + job.replace("T10", "T01") % ("1.1", "|")
    file.write_text(head + job % ("1", "ada|gpu") + steps + job % ("2_3", "ada|gpu"))
    jobs = read_trace(file, Trace(file=file.name, format="sacct"))
    assert ([job.name for job in jobs], jobs.left_out) == (["1", "2_3"], 0)


@pytest.mark.parametrize(
    ("memory", "mebibytes"),
    [
        ("4Gn", 4096),
        ("2000Mc", 8000),
        ("1Tc", 4 << 20),
        ("16G", 8192),
        ("3000", 1500),
        ("1.5Gn", 1536),
        ("512Kn", 0.5),
        ("4gn", 4096),
        ("2000mC", 8000),
        ("0n", None),
        ("", None),
        ("Unknown", None),
        ("UNLIMITED", None),
        ("16?n", None),
    ],
)
def test_the_memory_of_a_job_of_slurm_is_that_of_each_node(tmp_path, memory, mebibytes):
    jobs = read_slurm(tmp_path, memory)
    expected = None if mebibytes is None else mebibytes * 1024**2
    assert [dict(role.requests).get("memory") for job in jobs for role in job.roles] == [expected]


def read_slurm(tmp_path, memory, columns=None):
    file = tmp_path / "sacct.csv"
    head = "JobID|User|Partition|Submit|Start|End|Timelimit|NNodes|AllocCPUS|AllocTRES|ReqMem\n"
    file.write_text(f"{head}1|a|p|2026-01-05T08:00:00|2026-01-05T09:00:00|2026-01-05T10:00:00||2|8|cpu=8|{memory}\n")
    return list(read_trace(file, Trace(file=file.name, format="sacct", columns=columns or JobColumns())))


def test_memory_of_slurm_that_is_none_is_named(tmp_path):
    with pytest.raises(LogError, match=r"ReqMem: '4 GB' is no amount of memory such as 4Gn, 2000Mc or 16G"):
        read_slurm(tmp_path, "4 GB")


def test_the_requests_of_the_scenario_leave_out_the_memory_of_slurm(tmp_path):
    [job] = read_slurm(tmp_path, "4Gn", JobColumns(requests={"cpu": "AllocCPUS"}))
    assert job.roles[0].requests == (("cpu", 8000),)


@pytest.mark.parametrize("name", ["zero.swf", "zero.csv", "zero.jsonl"])
def test_a_log_whose_line_does_not_end_is_not_read_to_its_end(tmp_path, name):
    file = tmp_path / name
    with file.open("wb") as stream:
        stream.truncate(1 << 40)  # without any block on the disk
    trace = Trace(file=name, columns=JobColumns(submit="at", run_time="for"))
    with pytest.raises(LogError, match=r"line 1: the line is longer than 16 MiB: this is not a log of this format$"):
        read_trace(file, trace)


def test_a_table_of_nodes_whose_line_does_not_end_is_not_read_to_its_end(tmp_path):
    file = tmp_path / "zero.csv"
    with file.open("wb") as stream:
        stream.truncate(1 << 40)
    with pytest.raises(LogError, match=r"line 1: the line is longer than 16 MiB: this is not a log of this format$"):
        read_node_table(file, NodePool(file=file.name, columns=NodeColumns(name="n", allocatable={"cpu": "c"})))
