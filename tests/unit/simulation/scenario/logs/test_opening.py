"""The format of a log is what the scenario or the name of the file says."""

import gzip

import pytest

from muster.simulation.scenario.logs.opening import find_format, read_trace
from muster.simulation.scenario.model import JobColumns, Trace


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
