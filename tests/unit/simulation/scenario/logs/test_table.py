"""Tables of jobs and of nodes."""

import pytest

from muster.simulation.scenario.logs.formats import JOBS, NODES
from muster.simulation.scenario.logs.jobs import LeftOut, LogError, Role, TracedJob
from muster.simulation.scenario.logs.table import (
    ColumnError,
    check_columns,
    merge_columns,
    read_jobs,
    read_nodes,
)
from muster.simulation.scenario.model import ComputedColumn, JobColumns

SIMPLE = JobColumns(submit="at", run_time="for", pods="n", requests={"cpu": "cpus"}, id="id")
HEAD = "id,at,for,n,cpus\n"


def read(text, columns=SIMPLE, header=(), origin=None, left_out=None, quoted=True):
    lines = text.splitlines(keepends=True)
    return list(read_jobs(lines, columns, header, origin, left_out or LeftOut(), quoted=quoted))


def test_a_line_is_a_job():
    assert read(HEAD + "a,10,60,4,2.5\n") == [TracedJob(10.0, 60.0, "a", (Role(4, (("cpu", 2500),)),))]


def test_columns_may_stand_in_any_order_and_among_others():
    assert read("x,n,cpus,for,id,at\n?,4,2.5,60,a,10\n") == read(HEAD + "a,10,60,4,2.5\n")


def test_a_table_without_a_line_of_names_is_read_by_those_of_the_trace():
    assert read("a,10,60,4,2.5\n", header=("id", "at", "for", "n", "cpus")) == read(HEAD + "a,10,60,4,2.5\n")


@pytest.mark.parametrize("delimiter", [";", "\t"])
def test_a_table_of_a_spreadsheet_may_have_other_delimiters(delimiter):
    line = "a,2026-03-29 03:10:00+02:00,60,4,2.5\n"
    rows = (line + ",,,,\n").replace(",", delimiter)
    assert read(HEAD.replace(",", delimiter) + rows) == read(HEAD + line)
    assert read(rows, header=HEAD.strip().split(",")) == read(HEAD + line)
    quoted = line.replace("a,", f'"a{delimiter}b",').replace(",", delimiter)
    assert read(HEAD.replace(",", delimiter) + quoted)[0].name == f"a{delimiter}b"


def test_numbers_of_a_table_with_semicolons_may_have_decimal_commas():
    columns = merge_columns(SIMPLE, JobColumns(node_selector={"model": ComputedColumn(column="models", separator=",")}))
    text = "models,id,at,for,n,cpus\nx,a,10.5,60,4,1.2E1\n".replace(",", ";").replace(".", ",").replace("x", "1,5")
    [job] = read(text, columns)
    assert job == TracedJob(10.5, 60.0, "a", (Role(4, (("cpu", 12_000),), (("model", ("1", "5")),)),))
    with pytest.raises(LogError, match="line 2: at: '10,5' is no number"):
        read(HEAD + 'a,"10,5",60,4,1\n')
    with pytest.raises(LogError, match=r"line 2: at: '1\.000,5' is no number"):
        read((HEAD + "a,x,60,4,1\n").replace(",", ";").replace("x", "1.000,5"))


def test_a_decimal_comma_does_not_separate_the_cells_of_a_table_without_names():
    columns = JobColumns(submit="at", run_time="for")
    assert read("1,5;2\n", columns, header=("at", "for")) == [TracedJob(1.5, 2.0, "1", (Role(1),))]


@pytest.mark.parametrize("delimiter", [";", "\t", "|", ","])
def test_the_first_line_may_name_the_delimiter(delimiter):
    text = (HEAD + "a,10,60,4,2.5\n").replace(",", delimiter)
    assert read(f"sep={delimiter}\r\n{text}") == read(HEAD + "a,10,60,4,2.5\n")
    with pytest.raises(LogError, match="line 2: there is no column for, but id, at"):
        read(f"sep={delimiter}\nid{delimiter}at\n")
    with pytest.raises(LogError, match="line 3: has 1 fields instead of 5"):
        read(f"sep={delimiter}\n{HEAD.replace(',', delimiter)}a")


def test_a_row_of_blank_cells_is_no_job():
    left_out = LeftOut()
    assert len(read(HEAD + " ,\t, , ,\n \na,10,60,4,2\n", left_out=left_out)) == 1
    assert left_out.jobs == 0


def test_an_empty_cell_requests_nothing():
    assert read(HEAD + "a,10,60,4,\n")[0].roles == (Role(4, ()),)


def test_quoted_cells_may_hold_commas_and_lines():
    [job] = read(HEAD + '"a, b\nc",10,60,4,1\n')
    assert job.name == "a, b\nc"


def test_a_value_is_computed_from_columns():
    columns = JobColumns(
        submit=ComputedColumn(column="at", unit="h"),
        run_time=ComputedColumn(column="end", minus="at", unit="h"),
        pods="nodes",
        requests={
            "cpu": ComputedColumn(column="cpus", per="nodes", unit="m"),
            "memory": ComputedColumn(column="mem", times=2, unit="Mi"),
        },
        priority=ComputedColumn(column="class", values={"high": 7.0}),
        node_selector={"model": ComputedColumn(column="models", separator="|"), "zone": "zone"},
    )
    text = "at,end,nodes,cpus,mem,class,models,zone\n1,3,4,3001,10,high,A|B,z\n2,3,1,500,0,3,,\n"
    first, second = read(text, columns)
    pods = Role(4, (("cpu", 751), ("memory", 20 << 20)), (("model", ("A", "B")), ("zone", ("z",))))
    assert first == TracedJob(3600.0, 7200.0, "2", (pods,), priority=7)
    assert second == TracedJob(7200.0, 3600.0, "3", (Role(1, (("cpu", 500),)),), priority=3)


def test_dates_are_times_of_utc_unless_they_say_another_zone():
    jobs = read(HEAD + "a,2023-03-01 00:00:00,1,1,1\nb,2023-03-01 08:00:00+08:00,1,1,1\n")
    assert [job.submit for job in jobs] == [1677628800.0, 1677628800.0]


@pytest.mark.parametrize("empty", ["", "nan", "None", "NULL"])
def test_a_job_without_a_run_time_never_ran_and_is_counted(empty):
    left_out = LeftOut()
    assert read(HEAD + f"a,10,{empty},4,2\nb,10,1,1,1\n", left_out=left_out)[0].name == "b"
    assert left_out.jobs == 1


def test_a_job_that_a_change_of_the_clock_ends_before_its_start_is_left_out():
    columns, left_out = merge_columns(SIMPLE, JobColumns(run_time=ComputedColumn(column="end", minus="at"))), LeftOut()
    head = "id,at,end,n,cpus\n"
    assert [job.name for job in read(head + "a,9000,5400,1,1\nb,9000,9060,1,1\n", columns, left_out=left_out)] == ["b"]
    assert left_out.jobs == 1
    with pytest.raises(LogError, match="line 2: end: a time of -3601 s is negative"):
        read(head + "a,9000,5399,1,1\n", columns)


def test_an_amount_of_a_pair_may_have_a_suffix_of_slurm():
    columns = merge_columns(SIMPLE, JobColumns(requests={"memory": ComputedColumn(column="tres", key="mem")}))
    rows = 'a,0,1,1,"cpu=4,mem=1.5G"\nb,0,1,1,mem=4000M\nc,0,1,1,mem=7\n'
    amounts = [job.roles[0].requests for job in read("id,at,for,n,tres\n" + rows, columns)]
    assert amounts == [(("memory", amount),) for amount in (1536 << 20, 4000 << 20, 7)]
    with pytest.raises(LogError, match="tres: '4X' is no number"):
        read("id,at,for,n,tres\na,0,1,1,mem=4X\n", columns)
    of_unit = JobColumns(requests={"memory": ComputedColumn(column="tres", key="mem", unit="Mi")})
    with pytest.raises(LogError, match="tres: '4000M' is no number"):
        read("id,at,for,n,tres\nb,0,1,1,mem=4000M\n", merge_columns(SIMPLE, of_unit))


def test_a_quote_is_a_character_where_the_format_has_no_quotes():
    assert read((HEAD + '"quick" test,10,60,4,2\n').replace(",", "|"), quoted=False)[0].name == '"quick" test'
    assert read('"id"|"at"|"for"|"n"|"cpus"\n"a|b"|10|60|4|2\n')[0].name == "a|b"


@pytest.mark.parametrize("word", ["Unknown", "UNLIMITED", "Partition_Limit"])
def test_what_stands_for_no_time_may_be_the_name_of_a_queue(word):
    columns = merge_columns(SIMPLE, JobColumns(queue="queue", limit="limit"))
    [job] = read(f"id,at,for,n,cpus,queue,limit\na,10,60,4,2.5,{word},{word}\n", columns)
    assert (job.queue, job.limit) == (word, None)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "line 1: the table is empty"),
        ("x" * 200_000, "line 1: field larger than field limit"),
        ("id,at,for,cpus\n", "line 1: there is no column n, but id, at, for, cpus"),
        (HEAD.replace("id", "n"), "line 1: there are 2 columns n"),
        (HEAD + "a,10,60,4\n", "line 2: has 4 fields instead of 5"),
        (HEAD + "\na,10,60,4,2\nb,10,60,4,2,9\n", "line 4: has 6 fields instead of 5"),
        (HEAD + "a,soon,60,4,2\n", "line 2: at: 'soon' is no number, span such as 1-02:30:00, or date and t"),
        (HEAD + "a,,60,4,2\n", "line 2: at: is empty"),
        (HEAD + "a,-1,60,4,2\n", "line 2: at: a time of -1 s is negative"),
        (HEAD + "a,10,-60,4,2\n", "line 2: for: a time of -60 s is negative"),
        (HEAD + "a,10,inf,4,2\n", "line 2: for: inf is too large"),
        (HEAD + "a,10,60,0,2\n", "line 2: n: 0 is no number of pods"),
        (HEAD + "a,10,60,,2\n", "line 2: n: 0 is no number of pods"),
        (HEAD + "a,10,60,1.5,2\n", "line 2: n: 1.5 is no number of pods"),
        (HEAD + "a,10,60,1e10,2\n", "line 2: n: 1e\\+10 is no number of pods"),
        (HEAD + "a,10,60,1,-2\n", "line 2: cpus: an amount of -2000 is negative"),
        (HEAD + "a,10,60,1,1e30\n", "line 2: cpus: an amount of 1e\\+33 is too large"),
        (HEAD + 'a,"10\n', "line 2: unexpected end of data"),
        (HEAD + "a" * 200_000 + ",10,60,1,1\n", "line 2: field larger than field limit"),
    ],
)
def test_a_line_that_is_no_job_is_named(text, problem):
    with pytest.raises(LogError, match=problem):
        read(text)


@pytest.mark.parametrize("level", ["1e99", "-1e10"])
def test_a_priority_has_32_bits(level):
    columns = merge_columns(SIMPLE, JobColumns(priority="cpus", requests={}))
    with pytest.raises(LogError, match=r"line 2: cpus: -?1e\+\d+ is no priority"):
        read(HEAD + f"a,10,60,1,{level}\n", columns)


@pytest.mark.parametrize("more", [JobColumns(priority="cpus", requests={}), JobColumns(gang="cpus", requests={})])
def test_a_priority_and_a_gang_are_whole_numbers(more):
    columns = merge_columns(SIMPLE, more)
    with pytest.raises(LogError, match=r"line 2: cpus: 2\.5 is no whole number"):
        read(HEAD + "a,10,60,4,2.5\n", columns)


def test_a_job_before_the_start_is_named():
    with pytest.raises(LogError, match="line 2: at: was submitted before the start, 11"):
        read(HEAD + "a,10,60,1,1\n", origin=11)


def test_a_division_by_zero_is_named():
    columns = merge_columns(SIMPLE, JobColumns(requests={"cpu": ComputedColumn(column="cpus", per="n")}, pods="id"))
    with pytest.raises(LogError, match="line 2: cpus: would be divided by zero"):
        read(HEAD + "1,10,60,0,1\n", columns)


@pytest.mark.parametrize(
    ("columns", "field", "why"),
    [
        (JobColumns(submit="a"), "", "runTime is needed"),
        (JobColumns(submit=ComputedColumn(column="a", unit="Mi"), run_time="b"), "submit", "'Mi' is no unit of time"),
        (
            JobColumns(submit="a", run_time="b", requests={"cpu": ComputedColumn(column="c", unit="cores")}),
            "requests.cpu",
            "'cores' is no suffix",
        ),
    ],
)
def test_columns_that_are_wrong_are_named(columns, field, why):
    with pytest.raises(ColumnError, match=why) as refusal:
        check_columns(columns, ("submit", "run_time"))
    assert refusal.value.field == field


# The examples of the READMEs of the data sets.
PUBLISHED = {
    "openb": (
        (
            "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
            "openb-pod-0017,88000,327680,8,1000,V100M16|V100M32,Burstable,Succeeded,9437497,10769854,9437498\n"
        ),
        TracedJob(
            9437497.0,
            1332356.0,
            "openb-pod-0017",
            (
                Role(
                    1,
                    (("alibabacloud.com/gpu-milli", 8000), ("cpu", 88_000), ("memory", 327680 << 20)),
                    (("nvidia.com/gpu.product", ("V100M16", "V100M32")),),
                ),
            ),
        ),
    ),
    "pai2020": (
        "4f057009a5d481acec67b088,tensorflow,1.0,Terminated,1739162.0,1739200.0,600.0,29.296875,50.0,MISC\n",
        TracedJob(
            1739162.0,
            38.0,
            "4f057009a5d481acec67b088",
            (Role(1, (("alibabacloud.com/gpu-milli", 500), ("cpu", 6000), ("memory", 29296875000))),),
        ),
    ),
    "helios": (
        (
            "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n"
            "1425512,uVMrF,vchbv,16,64,2,FAILED,2020-06-09 18:41:27,2020-06-09 18:41:27,2020-06-09 18:45:36,249,0\n"
        ),
        TracedJob(
            1591728087.0,
            249.0,
            "1425512",
            (Role(2, (("cpu", 32_000), ("nvidia.com/gpu", 8))),),
            queue="vchbv",
            user="uVMrF",
        ),
    ),
    "acme": (
        (
            "job_id,user,node_num,gpu_num,cpu_num,type,state,submit_time,start_time,end_time,duration,queue,gpu_time\n"
            "5778432,u5907,1,8,128,Other,FAILED,2023-03-01 00:18:22+08:00,2023-03-01 00:18:54+08:00,"
            "2023-03-01 00:20:51+08:00,117,32,936.0\n"
        ),
        TracedJob(1677601102.0, 117.0, "5778432", (Role(1, (("cpu", 128_000), ("nvidia.com/gpu", 8))),), user="u5907"),
    ),
    "spot2026": (
        (
            "job_name,organization,gpu_model,cpu_request,gpu_request,worker_num,submit_time,duration,job_type\n"
            "437260,57,A100-SXM4-80GB,15,1,16,9589663,41060,Spot\n"
        ),
        TracedJob(
            9589663.0,
            41060.0,
            "437260",
            (
                Role(
                    16,
                    (("cpu", 15_000), ("nvidia.com/gpu", 1)),
                    (("nvidia.com/gpu.product", ("A100-SXM4-80GB",)),),
                ),
            ),
            user="57",
            priority=0,
        ),
    ),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_tables_that_clusters_publish_are_known(name):
    text, job = PUBLISHED[name]
    assert read(text, JOBS[name].columns, JOBS[name].header) == [job]


def test_the_nodes_that_clusters_publish_are_known():
    text = "sn,cpu_milli,memory_mib,gpu,model\nopenb-node-0228,128000,786432,8,G3\nopenb-node-0227,32000,262144,0,\n"
    gpus, plain = read_nodes(text.splitlines(keepends=True), NODES["openb"], ())
    assert gpus.allocatable == (
        ("alibabacloud.com/gpu-milli", 8000),
        ("cpu", 128_000),
        ("memory", 786432 << 20),
        ("nvidia.com/gpu", 8),
    )
    assert gpus.labels == (("nvidia.com/gpu.product", "G3"),)
    assert (plain.line, plain.name, plain.labels) == (3, "openb-node-0227", ())
