"""GPUs in the API: the resources that pods request, and the GPUs that a process node reports."""

import msgspec

NVIDIA_GPU = "nvidia.com/gpu"
AMD_GPU = "amd.com/gpu"

# The annotation of a Node with its GPUs, as JSON.
GPUS_ANNOTATION = "muster.dev/gpus"

# The condition of a Node that is True while one of its GPUs is unhealthy. Its message names the GPUs and the reasons.
GPU_PROBLEM = "GPUProblem"


# The use of GPUs by a container, in the metrics of its pod: GPUs that work, and bytes of their memory.
GPU_USE = "muster.dev/gpu-use"
GPU_MEMORY_USE = "muster.dev/gpu-memory-use"


class GpuInfo(msgspec.Struct, frozen=True):
    """A GPU of a node.

    name: the name of the GPU in the status of a container.
    memory: the memory in bytes; 0 if unknown.
    ill: whether the GPU is unhealthy, so that no pod gets it.
    """

    name: str
    model: str = ""
    memory: int = 0
    ill: bool = False


def parse_gpus(text: str) -> tuple[GpuInfo, ...]:
    """Return the GPUs in an annotation; empty if it is unreadable."""
    try:
        return tuple(msgspec.json.decode(text, type=list[GpuInfo])) if text else ()
    except msgspec.MsgspecError:
        return ()


def is_gpu(resource: str) -> bool:
    """Return whether a resource counts GPUs of any vendor."""
    return resource.partition("/")[2] == "gpu"
