"""NVIDIA's GPUs, by a library that plays the driver's, and by the driver's files."""

import os
import shutil
import subprocess
import sys

import pytest

from muster.cluster.nodes.gpus import nvidia
from muster.cluster.nodes.gpus.device import NVIDIA, Gpu

# Two GPUs: the second has fallen off the bus if the environment says so (15: GPU_IS_LOST).
LIBRARY = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define LOST(handle) ((handle) == (void *)2 && getenv("PLAYED_LOST"))
typedef struct { unsigned long long total, free, used; } memory;
int nvmlInitWithFlags(unsigned flags) {
  FILE *begun = getenv("PLAYED_BEGUN") ? fopen(getenv("PLAYED_BEGUN"), "a") : NULL;
  if (begun) { fputs("begun\n", begun); fclose(begun); }
  return getenv("PLAYED_BROKEN") ? 9 : 0;
}
int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = 2; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle) {
  *handle = (void *)(unsigned long)(index + 1);
  return LOST(*handle) ? 15 : 0;
}
int nvmlDeviceGetName(void *handle, char *name, unsigned size) { strncpy(name, "NVIDIA H200", size); return 0; }
int nvmlDeviceGetMinorNumber(void *handle, unsigned *minor) { *minor = handle == (void *)1 ? 1 : 0; return 0; }
int nvmlDeviceGetUUID(void *handle, char *text, unsigned size) {
  strncpy(text, handle == (void *)1 ? "GPU-one" : "GPU-two", size);
  return 0;
}
int nvmlDeviceGetMemoryInfo(void *handle, memory *found) {
  found->total = 150754820096ull;
  found->used = handle == (void *)1 ? 5000 : 0;
  return LOST(handle) ? 15 : 0;
}
typedef struct { unsigned gpu, memory; } rates;
int nvmlDeviceGetUtilizationRates(void *handle, rates *found) {
  found->gpu = handle == (void *)1 ? 42 : 0;
  found->memory = 1;
  return handle == (void *)1 ? 0 : 3; /* NOT_SUPPORTED */
}
typedef struct { unsigned pid; unsigned long long memory; unsigned instance, compute; } process;
int nvmlDeviceGetComputeRunningProcesses_v3(void *handle, unsigned *count, process *found) {
  unsigned room = *count;
  *count = handle == (void *)1 ? 2 : 0;
  if (room < *count) return 7; /* INSUFFICIENT_SIZE */
  if (*count) { found[0].pid = 10; found[0].memory = 4000; found[1].pid = 11; found[1].memory = -1; }
  return 0;
}
int nvmlDeviceGetRemappedRows(void *handle, unsigned *one, unsigned *two, unsigned *pending, unsigned *failed) {
  *one = *two = *pending = 0;
  *failed = handle == (void *)1 && getenv("PLAYED_WORN") != NULL;
  return handle == (void *)1 ? 0 : 3; /* NOT_SUPPORTED */
}
char *nvmlErrorString(int code) { return "played"; }
"""

ASK = """
from pathlib import Path
from sys import argv
from muster.cluster.nodes.gpus import nvidia
gpus = nvidia.discover(Path(argv[1]))
problems = nvidia.find_problems(gpus)
for gpu in gpus:
    print(gpu.name, gpu.model, gpu.memory, gpu.uuid, gpu.file, problems[gpu.name], sep="|")
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """A folder with the library."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler makes the library that plays the driver's")
    folder = tmp_path_factory.mktemp("nvml")
    (folder / "played.c").write_text(LIBRARY)
    build = [compiler, "-shared", "-fPIC", "-o", str(folder / "libnvidia-ml.so.1"), str(folder / "played.c")]
    subprocess.run(build, check=True)
    return folder


def asked(library, root, program=ASK, **environment):
    """What a process finds that has the library."""
    given = os.environ | {"LD_LIBRARY_PATH": str(library)} | environment
    done = subprocess.run(
        [sys.executable, "-c", program, str(root)], env=given, capture_output=True, text=True, check=True
    )
    return [line.split("|") for line in done.stdout.splitlines()]


@pytest.fixture
def root(tmp_path):
    """A machine with the driver, whose files know three GPUs."""
    for bus, text in {
        "0000:01:00.0": "Model: \t\t NVIDIA A100\nIRQ: 42\nGPU UUID: \t GPU-a\nDevice Minor: \t 3\n",
        "0000:81:00.0": "",
        "0000:41:00.0": "Model: NVIDIA A100\n",
    }.items():
        place = tmp_path / "proc/driver/nvidia/gpus" / bus
        place.mkdir(parents=True)
        (place / "information").write_text(text)
    return tmp_path


def test_the_library_tells_number_model_memory_and_health(library, root):
    assert asked(library, root) == [
        ["0", "NVIDIA H200", "150754820096", "GPU-one", "/dev/nvidia1", ""],
        ["1", "NVIDIA H200", "150754820096", "GPU-two", "/dev/nvidia0", ""],
    ]


def test_one_that_is_lost_is_there_and_ill(library, root):
    assert asked(library, root, PLAYED_LOST="1")[1] == [
        "1",
        "",
        "0",
        "",
        "",
        "the driver does not find it: GPU is lost",
    ]


def test_one_whose_memory_has_failed_for_good_is_ill(library, root):
    worn, well = asked(library, root, PLAYED_WORN="1")
    assert (worn[-1], well[-1]) == ("its memory has failed for good: no spare rows are left", "")


def test_the_library_begins_once_for_a_look_at_all(library, root, tmp_path):
    begun = tmp_path / "begun"
    assert len(asked(library, root, PLAYED_BEGUN=str(begun))) == 2
    assert begun.read_text().splitlines() == ["begun"] * 2, "once to find them, once to see how they are"


USE = """
from pathlib import Path
from sys import argv
from muster.cluster.nodes.gpus import nvidia
for name, state in nvidia.read_states(nvidia.discover(Path(argv[1]))).items():
    print(name, state.busy, state.memory, [tuple(one) for one in state.processes], sep="|")
"""


def test_the_library_tells_what_is_used(library, root):
    assert asked(library, root, USE) == [["0", "420", "5000", "[(10, 4000), (11, None)]"], ["1", "0", "0", "[]"]]
    assert asked(library, root, USE, PLAYED_BROKEN="1") == [], "the driver's files do not tell"
    assert [name for name, *_ in asked(library, root, USE, PLAYED_LOST="1")] == ["0"]


def test_without_the_library_files_tell_what_there_is(library, root, tmp_path):
    found = [
        ["0", "NVIDIA A100", "0", "GPU-a", "/dev/nvidia3", ""],
        ["1", "NVIDIA A100", "0", "", "", ""],
        ["2", "", "0", "", "", ""],
    ]
    assert asked(tmp_path, root) == asked(library, root, PLAYED_BROKEN="1") == found


def test_a_machine_without_a_driver_is_not_asked(tmp_path):
    assert nvidia.discover(tmp_path) == []
    (tmp_path / "proc/driver/nvidia").mkdir(parents=True)
    assert nvidia.discover(tmp_path) == []
    assert nvidia.find_problems([Gpu(NVIDIA, 0)]) == {"0": ""}
