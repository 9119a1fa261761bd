"""The format of a log is what the scenario or the name of the file says."""

import pytest

from muster.simulation.scenario.logs.opening import find_format
from muster.simulation.scenario.model import Trace


@pytest.mark.parametrize(
    ("file", "named", "format"),
    [
        ("jobs.csv", "", "csv"),
        ("logs/Jobs.CSV.gz", "", "csv"),
        ("jobs.tsv", "", "csv"),
        ("ran.jsonl", "", "history"),
        ("lublin-256.swf.gz", "", "swf"),
        ("log.txt", "", "swf"),
        ("jobs.csv", "helios", "helios"),
    ],
)
def test_a_log_has_a_format(file, named, format):
    assert find_format(Trace(file=file, format=named)) == format
