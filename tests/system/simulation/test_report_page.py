"""The page of a report: whole scenarios, hostile names and large ones."""

import csv
from html.parser import HTMLParser
from itertools import pairwise

import pytest
from click.testing import CliRunner
from msgspec.structs import replace
from tests.system.simulation.test_simulation import FLAVOR, JOB, NODES, queue, scenario

from muster.cli.commands.forecasts.simulate import command
from muster.simulation.outcome.nodelog import NodeLog
from muster.simulation.outcome.page import render_report, write_page
from muster.simulation.outcome.record import Waiting
from muster.simulation.outcome.report import write_report
from muster.simulation.simulate import simulate

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(1)>"
VOID = {"meta"}


class Reader(HTMLParser):
    """Reads a page strictly: each element ends in its turn."""

    def __init__(self):
        super().__init__()
        self.open, self.tags, self.ids, self.hrefs, self.attributes, self.text = [], [], [], [], set(), []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}
        named = dict(attrs)
        self.ids += [named["id"]] if "id" in named else []
        self.hrefs += [named["href"]] if "href" in named else []
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def read(text):
    reader = Reader()
    reader.feed(text)
    reader.close()
    assert reader.open == []
    return reader


def play(tmp_path, text):
    file = tmp_path / "scenario.yaml"
    file.write_text(text)
    return simulate(str(file))


def burst(name, count, queued=None, *, at="0"):
    where = f"    queue: {queued}\n" if queued else ""
    return f"""
  - name: "{name}"
    arrivals: {{burst: {{at: [{at}], count: {count}}}}}
    runTime: 10
{where}    template:{JOB}"""


HUGE = burst("huge", 1, "a").replace("runTime: 10\n", "runTime: 10\n    size: 8\n")
TWO_QUEUES = scenario(
    NODES % 4 + "  work:" + burst("lent", 8, "a") + burst("own", 4, "b", at="5"),
    FLAVOR + queue("a", 2) + queue("b", 2),
)


def test_a_page_is_well_formed_and_answers_all_questions(tmp_path):
    page = read(render_report(play(tmp_path, TWO_QUEUES)))
    assert page.ids[:-1] == ["use", "waiting", "waits", "fairness", "losses", "nodes"]
    assert page.hrefs == [f"#{one}" for one in page.ids[:-1]]
    assert {one for one in page.attributes if one.startswith("on") or one in ("src", "style")} == set()


def test_waits_are_those_of_jobs_that_could_run(tmp_path):
    """The huge job waits for ever, so it would be the longest wait of its queue, and of its size."""
    report = play(tmp_path, scenario("  work:" + burst("w", 3, "a") + HUGE, FLAVOR + queue("a", 2)))
    assert [(one.name, one.never) for one in report.waiting] == [("huge-0", True)]
    text = render_report(report)
    assert "Without the 1 that could never run." in text
    assert "With the 1 that could never run." in text
    assert "5-16" not in text, "no row of the tables has its size"


def test_a_report_of_jobs_that_could_never_run_has_no_waits(tmp_path):
    report = play(tmp_path, scenario("  work:" + HUGE, FLAVOR + queue("a", 2)))
    assert "waits" not in read(render_report(report)).ids


def test_hostile_names_are_text(tmp_path):
    report = play(tmp_path, TWO_QUEUES)
    log = NodeLog()
    log.start(0, {HOSTILE: 1}, 0.0)
    timeline = replace(
        report.timeline,
        quotas={**report.timeline.quotas, (HOSTILE, HOSTILE, HOSTILE): report.timeline.quotas["a", "default", "cpu"]},
        jobs={HOSTILE: report.timeline.jobs["a"]},
        demand={(HOSTILE, HOSTILE): report.timeline.demand["a", "cpu"]},
    )
    jobs = [replace(job, name=HOSTILE, work=HOSTILE, queue=HOSTILE) for job in report.jobs]
    waiting = [Waiting(f"huge {HOSTILE}", HOSTILE, never=True)]
    text = render_report(replace(report, scenario=HOSTILE, timeline=timeline, jobs=jobs, waiting=waiting, nodes=log))
    page = read(text)
    assert page.tags.count("script") == 1
    assert "img" not in page.tags
    assert f"Simulation of {HOSTILE}" in page.text
    assert f"huge {HOSTILE} could never run: {HOSTILE}" in page.text
    assert text.count("<script") == 1


def test_stays_on_nodes_are_those_of_jobs(tmp_path):
    report = play(tmp_path, TWO_QUEUES)
    log = report.nodes
    stays = sorted(zip(log.nodes, log.starts, log.ends, strict=True))
    assert len(set(log.jobs)) == 12
    assert log.names == ["n-0", "n-1", "n-2", "n-3"]
    for (node, _, end), (other, start, _) in pairwise(stays):
        assert node != other or end <= start, "a node of one CPU has one job at a time"


def test_idle_nodes_are_rows_too(tmp_path):
    report = play(tmp_path, scenario(NODES % 3 + "  work:" + burst("w", 1)))
    assert report.nodes.names == ["n-0", "n-1", "n-2"]
    assert len(report.nodes) == 1
    text = "".join(read(render_report(report)).text)
    assert [name for name in report.nodes.names if name not in text] == []


def test_a_nodes_log_of_a_large_cluster_is_not_kept(tmp_path):
    report = play(tmp_path, scenario(NODES % 201 + "  work:" + burst("w", 3)))
    assert len(report.nodes) == 0
    assert "Jobs on nodes" not in read(render_report(report)).text


def test_the_timeline_adds_up_to_the_use_of_the_summary(tmp_path):
    report = play(tmp_path, TWO_QUEUES)
    write_report(report, tmp_path)
    with (tmp_path / "timeline.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert {row["of"] for row in rows} == {"quota", "jobs", "pods", "nodes"}
    for use in report.summary.use:
        mine = [row for row in rows if (row["of"], row["queue"], row["resource"]) == ("quota", use.queue, use.resource)]
        area = sum((float(row["end"]) - float(row["start"])) * float(row["used"]) for row in mine)
        assert area * 1000 / report.summary.seconds == pytest.approx(use.mean, abs=1)
    lost = sum(float(row["lost"]) * (float(row["end"]) - float(row["start"])) for row in rows if row["lost"])
    assert lost == pytest.approx(report.summary.total.lost)
    assert lost > 0


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(scenario("  work: []\n"), id="nothing"),
        pytest.param(scenario(NODES % 0 + "  work:" + burst("w", 2)), id="no nodes"),
        pytest.param(scenario("  work:" + burst("w", 2)), id="neither nodes nor queues"),
        pytest.param(
            scenario(NODES % 1 + "  work:" + burst("w", 2).replace("runTime: 10", "runTime: 0")), id="no time"
        ),
        pytest.param(scenario("  work:" + burst("w", 2, "a"), FLAVOR + queue("a", 1)), id="no nodes but a queue"),
        pytest.param(scenario("  work:" + burst("w", 2, "a"), FLAVOR + queue("a", 0)), id="a queue without quota"),
    ],
)
def test_a_scenario_with_little_in_it_has_a_page(tmp_path, text):
    report = play(tmp_path, text)
    write_report(report, tmp_path)
    write_page(report, tmp_path)
    read((tmp_path / "report.html").read_text())


def test_a_report_that_cannot_be_written_stops_the_command_before_the_simulation(tmp_path):
    (tmp_path / "file").touch()
    result = CliRunner().invoke(command, [str(tmp_path / "gone.yaml"), "--report", str(tmp_path / "file" / "x")])
    assert (result.exit_code, "Not a directory" in result.output) == (2, True)


def test_a_folder_that_takes_no_files_stops_the_command_before_the_simulation(tmp_path):
    result = CliRunner().invoke(command, [str(tmp_path / "gone.yaml"), "--report", "/proc/self"])
    assert (result.exit_code, "--report: /proc/self: " in result.output) == (2, True)


def test_a_page_of_many_jobs_is_small(tmp_path, long):
    jobs = 20_000 if long else 5_000
    text = scenario(NODES % 100 + "  work:" + burst("w", jobs))
    assert len(render_report(play(tmp_path, text))) < 150 * jobs


def test_a_page_shows_forecasts_beside_the_truth(tmp_path):
    """The limits of the jobs are three times as long as they run."""
    text = TWO_QUEUES.replace("    runTime: 10\n", "    runTime: 10\n    limit: 30\n")
    report = play(tmp_path, text)
    page, errors = read(render_report(report)), report.summary.queues["a"].forecast
    assert page.ids[2:4] == ["waits", "forecasts"]
    table = page.text[page.text.index("nine of ten within") + 1 :]
    assert table[:4] == ["a", "4", f"{errors.p50:.0%}", f"{errors.p90:.0%}"]


def test_a_comparison_has_a_page_with_links_to_all_reports(tmp_path):
    file, out = tmp_path / "scenario.yaml", tmp_path / "out"
    file.write_text(TWO_QUEUES.replace("name: s", f'name: "{HOSTILE[:9]}"'))
    sweep = ["--sweep", "clusterQueues.a.nominalQuota.cpu=1,2", "--seeds", "2"]
    done = CliRunner().invoke(command, [str(file), *sweep, "--report", str(out)])
    assert done.exit_code == 0, done.output
    page = read((out / "report.html").read_text())
    assert page.ids[:-1] == ["changes", "runs"]
    reports = [one for one in page.hrefs if not one.startswith("#")]
    assert len(reports) == 4
    assert all((out / one).exists() for one in reports)
    assert {one for one in page.attributes if one.startswith("on") or one in ("src", "style")} == set()
    assert "wait mean, all queues" in page.text
    assert "Differences" in page.text
