"""The columns of published tables of clusters' jobs and nodes. Data only.

The columns are documented in the README of each data set, in the repositories that the comments name.
"""

from collections.abc import Mapping

from msgspec import Struct

from muster.simulation.scenario.logs.cells import SlurmMemory
from muster.simulation.scenario.model import Cell, ComputedColumn, JobColumns, NodeColumns

GPU, GPU_SHARE, MODEL = "nvidia.com/gpu", "alibabacloud.com/gpu-milli", "nvidia.com/gpu.product"


class JobTable(Struct, frozen=True):
    """The format of a table of jobs.

    header: the names of its columns, for files without a header line.
    step_column: the column that has a dot in the lines of job steps, which are skipped.
    quoted: whether quotes around a cell are removed.
    optional: the requests of a pod, by resource, from columns that the table may lack.
    """

    columns: JobColumns
    header: tuple[str, ...] = ()
    step_column: str = ""
    quoted: bool = True
    optional: Mapping[str, Cell] = {}


# github.com/alibaba/clusterdata, cluster-trace-gpu-v2023: thousandths of GPUs, of which a pod may use a part.
_OPENB = JobTable(
    JobColumns(
        submit="creation_time",
        run_time=ComputedColumn(column="deletion_time", minus="scheduled_time"),
        requests={
            "cpu": ComputedColumn(column="cpu_milli", unit="m"),
            "memory": ComputedColumn(column="memory_mib", unit="Mi"),
            GPU_SHARE: ComputedColumn(column="num_gpu", times="gpu_milli"),
        },
        node_selector={MODEL: ComputedColumn(column="gpu_spec", separator="|")},
        id="name",
    )
)

JOBS = {
    "openb": _OPENB,
    "pai2023": _OPENB,
    # github.com/alibaba/clusterdata, cluster-trace-gpu-v2020, pai_task_table: percents of a CPU and of a GPU, and GB.
    "pai2020": JobTable(
        JobColumns(
            submit="start_time",
            run_time=ComputedColumn(column="end_time", minus="start_time"),
            pods="inst_num",
            requests={
                "cpu": ComputedColumn(column="plan_cpu", per=100),
                "memory": ComputedColumn(column="plan_mem", unit="G"),
                GPU_SHARE: ComputedColumn(column="plan_gpu", times=10),
            },
            id="job_name",
        ),
        (
            "job_name",
            "task_name",
            "inst_num",
            "status",
            "start_time",
            "end_time",
            "plan_cpu",
            "plan_mem",
            "plan_gpu",
            "gpu_type",
        ),
    ),
    # github.com/S-Lab-System-Group/HeliosData, cluster_log.csv: GPUs and CPUs are totals over all nodes of a job.
    "helios": JobTable(
        JobColumns(
            submit="submit_time",
            run_time="duration",
            pods="node_num",
            requests={
                "cpu": ComputedColumn(column="cpu_num", per="node_num"),
                GPU: ComputedColumn(column="gpu_num", per="node_num"),
            },
            queue="vc",
            user="user",
            id="job_id",
        )
    ),
    # github.com/InternLM/AcmeTrace, trace_seren.csv and trace_kalos.csv: as in Helios, without virtual clusters.
    "acme": JobTable(
        JobColumns(
            submit="submit_time",
            run_time=ComputedColumn(column="end_time", minus="start_time"),
            pods="node_num",
            requests={
                "cpu": ComputedColumn(column="cpu_num", per="node_num"),
                GPU: ComputedColumn(column="gpu_num", per="node_num"),
            },
            user="user",
            id="job_id",
        )
    ),
    # slurm.schedmd.com/sacct.html, from `sacct -X -P`: CPUs and GPUs are totals over all nodes of a job.
    "sacct": JobTable(
        JobColumns(
            submit="Submit",
            run_time=ComputedColumn(column="End", minus="Start"),
            limit="Timelimit",
            pods="NNodes",
            requests={
                "cpu": ComputedColumn(column="AllocCPUS", per="NNodes"),
                GPU: ComputedColumn(column="AllocTRES", key="gres/gpu", per="NNodes"),
            },
            queue="Partition",
            user="User",
            id="JobID",
        ),
        step_column="JobID",
        quoted=False,
        optional={"memory": SlurmMemory(column="ReqMem", times="AllocCPUS", per="NNodes")},
    ),
    # github.com/alibaba/clusterdata, cluster-trace-v2026-spot-gpu, job_info_df.csv.
    "spot2026": JobTable(
        JobColumns(
            submit="submit_time",
            run_time="duration",
            pods="worker_num",
            requests={"cpu": "cpu_request", GPU: "gpu_request"},
            node_selector={MODEL: "gpu_model"},
            user="organization",
            priority=ComputedColumn(column="job_type", values={"HP": 100.0, "Spot": 0.0}),
            id="job_name",
        )
    ),
}

NODES = {
    "openb": NodeColumns(
        name="sn",
        allocatable={
            "cpu": ComputedColumn(column="cpu_milli", unit="m"),
            "memory": ComputedColumn(column="memory_mib", unit="Mi"),
            GPU: "gpu",
            GPU_SHARE: ComputedColumn(column="gpu", times=1000),
        },
        labels={MODEL: "model"},
    ),
    "spot2026": NodeColumns(
        name="node_name",
        allocatable={"cpu": "cpu_num", GPU: "gpu_capacity_num"},
        labels={MODEL: "gpu_model"},
    ),
}
NODES["pai2023"] = NODES["openb"]
