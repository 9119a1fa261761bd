"""GPUs in the words of the API: the resources that pods request, and what a process node reports of its own."""

import msgspec

NVIDIA_GPU = "nvidia.com/gpu"
AMD_GPU = "amd.com/gpu"

# Of a Node: which GPUs it has, as JSON.
GPUS_ANNOTATION = "muster.dev/gpus"

# The condition of a Node that is True while a GPU of its is ill; its message says which, and why, for people.
GPU_PROBLEM = "GPUProblem"


class GpuInfo(msgspec.Struct, frozen=True):
    """A GPU. name: by which the status of a container names it. memory: in bytes; 0 is unknown. ill: no pod gets it."""

    name: str
    model: str = ""
    memory: int = 0
    ill: bool = False


def told(text: str) -> tuple[GpuInfo, ...]:
    """Return the content of an annotation; nothing if it is unreadable."""
    try:
        return tuple(msgspec.json.decode(text, type=list[GpuInfo])) if text else ()
    except msgspec.MsgspecError:
        return ()


def is_gpu(resource: str) -> bool:
    """Return whether a resource counts GPUs, of whatever maker."""
    return resource.partition("/")[2] == "gpu"
