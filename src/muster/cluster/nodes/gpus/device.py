"""Define a GPU of a node, and the families of GPUs (NVIDIA, AMD) with their names in Kubernetes and for programs."""

from collections.abc import Mapping

from msgspec import Struct, field

from muster.api.ours.gpus import AMD_GPU, NVIDIA_GPU


class Family(Struct, frozen=True):
    """The GPUs of one maker, and their names in Kubernetes and for programs.

    resource: the resource that pods request.
    label: the node's label that names the model.
    variable: the environment variable that lists a program's GPUs by number.
    settings: environment variables that make the numbers mean the same GPUs for every program.
    prefix: the start of a GPU's name, which distinguishes families.
    files: a pattern for the device files of all its GPUs, relative to the root of the file system.
    """

    resource: str
    label: str
    variable: str
    settings: Mapping[str, str] = field(default_factory=dict)
    prefix: str = ""
    files: str = ""


# A GPU's number is its position on the PCI bus, which does not change while the machine runs. More programs parse
# numbers than UUIDs.
NVIDIA = Family(
    NVIDIA_GPU,
    "nvidia.com/gpu.product",
    "CUDA_VISIBLE_DEVICES",
    {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"},
    files="dev/nvidia[0-9]*",
)
AMD = Family(AMD_GPU, "amd.com/gpu.product-name", "ROCR_VISIBLE_DEVICES", prefix="amd-", files="dev/dri/renderD[0-9]*")
FAMILIES = (NVIDIA, AMD)


class Gpu(Struct, frozen=True):
    """A GPU of a machine.

    number: the number by which programs identify the GPU.
    model, uuid, memory: as the driver reports them; memory in bytes. "" and 0 mean unknown.
    place: the directory of the driver's files about the GPU.
    file: the path of the device file; "" means unknown.
    played: whether the GPU is simulated.
    """

    family: Family
    number: int
    model: str = ""
    memory: int = 0
    uuid: str = ""
    place: str = ""
    file: str = ""
    played: bool = False

    @property
    def name(self) -> str:
        """The GPU's name, unique on its machine (`0` for NVIDIA, `amd-0` for AMD).

        Records on disk contain this name.
        """
        return f"{self.family.prefix}{self.number}"
