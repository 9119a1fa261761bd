"""What the values of sbatch's options mean."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.slurm import values
from muster.slurm.options import OptionError
from muster.slurm.values import Notice

DAY, HOUR, MINUTE = 86400, 3600, 60


@pytest.mark.parametrize(
    ("parse", "text", "expected"),
    [
        (values.count, "4", 4),
        (values.parse_nodes, "4", 4),
        (values.parse_nodes, "2-4", 2),
        (values.parse_mebibytes, "4000", 4000),
        (values.parse_mebibytes, "512M", 512),
        (values.parse_mebibytes, "16G", 16384),
        (values.parse_mebibytes, "16gb", 16384),
        (values.parse_mebibytes, "1T", 1 << 20),
        (values.parse_mebibytes, "1K", 1),
        (values.parse_mebibytes, "2049K", 3),
        (values.parse_mebibytes, "0", 0),
        (values.parse_seconds, "90", 90 * MINUTE),
        (values.parse_seconds, "90:30", 90 * MINUTE + 30),
        (values.parse_seconds, "2:00:00", 2 * HOUR),
        (values.parse_seconds, "1-12", DAY + 12 * HOUR),
        (values.parse_seconds, "1-12:30", DAY + 12 * HOUR + 30 * MINUTE),
        (values.parse_seconds, "1-00:00:05", DAY + 5),
        (values.parse_seconds, "0", None),
        (values.parse_seconds, "unlimited", None),
        (values.parse_dependencies, "afterok:a:b,afterany:c,afternotok:d", ("a:ok", "b:ok", "c:any", "d:fail")),
        (values.parse_begin, "now", ""),
        (values.parse_begin, "now+90", "+90s"),
        (values.parse_begin, "now+2hours", "+7200s"),
        (values.parse_begin, "now+1week", "+604800s"),
        (values.parse_begin, "16:00", "16:00"),
        (values.parse_begin, "Noon", "12:00"),
        (values.parse_begin, "2026-01-31T16:00:30", "2026-01-31T16:00:30"),
        (values.parse_gpus, "4", (4, "")),
        (values.parse_gpus, "a100:4", (4, "a100")),
        (values.parse_gpus, "a100:2,v100:1", (3, "a100,v100")),
        (values.generic_resources, "gpu", (1, "")),
        (values.generic_resources, "gpu:4", (4, "")),
        (values.generic_resources, "gpu:a100", (1, "a100")),
        (values.generic_resources, "gpu:a100:2,gpu:v100:1", (3, "a100,v100")),
        (values.generic_resources, "gres:gpu:2", (2, "")),
        (values.generic_resources, "none", (0, "")),
        (values.parse_signal, "USR1", Notice("USR1", 60, to_script=False)),
        (values.parse_signal, "SIGUSR1@90", Notice("USR1", 90, to_script=False)),
        (values.parse_signal, "B:term@120", Notice("TERM", 120, to_script=True)),
        (values.parse_signal, "10@5", Notice("USR1", 5, to_script=False)),
    ],
)
def test_a_value_means(parse, text, expected):
    assert parse(text) == expected


@pytest.mark.parametrize(
    ("parse", "text", "complaint"),
    [
        (values.count, "0", "'0' is no number of at least 1"),
        (values.count, "four", "'four' is no number of at least 1"),
        (values.parse_nodes, "4-2", "'4-2': the second number is the smaller one"),
        (values.parse_mebibytes, "16Gi", "'16Gi' is no memory, as 4000 (MB), 512M or 16G"),
        (
            values.parse_seconds,
            "2h",
            "'2h' is no time: minutes, minutes:seconds, hours:minutes:seconds, or days-hours",
        ),
        (values.parse_gpus, "a100", "'a100' is no number of at least 1"),
        (
            values.generic_resources,
            "lscratch:100",
            "'lscratch:100': of generic resources, Muster knows only gpu, as gpu:4 or gpu:a100:4",
        ),
        (values.parse_dependencies, "afterok", "'afterok' names no job: expected afterok:JOB"),
        (
            values.parse_dependencies,
            "after:a",
            "'after': a job waits for ends of others: afterok, afternotok, afterany",
        ),
        (
            values.parse_dependencies,
            "afterok:a?afterok:b",
            "'afterok:a?afterok:b': a job waits for all of its dependencies; separate them with commas",
        ),
        (values.parse_begin, "01/31", "'01/31' is no time: now+2hours, 16:00, noon, 2026-01-31 or 2026-01-31T16:00"),
        (values.parse_signal, "NEVER@5", "'NEVER@5' is not [B:]SIGNAL[@SECONDS], as USR1@60 or B:TERM@120"),
        (values.parse_signal, "USR1@", "'USR1@' is not [B:]SIGNAL[@SECONDS], as USR1@60 or B:TERM@120"),
    ],
)
def test_what_means_nothing_is_said(parse, text, complaint):
    with pytest.raises(OptionError) as refused:
        parse(text)
    assert str(refused.value) == complaint


@given(
    st.text(),
    st.sampled_from(
        [values.parse_nodes, values.parse_mebibytes, values.parse_seconds, values.parse_gpus, values.parse_signal]
    ),
)
def test_any_text_has_a_meaning_or_a_complaint(text, parse):
    with suppress(OptionError):
        parse(text)
