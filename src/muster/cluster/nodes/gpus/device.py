"""What a GPU is to a node."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from muster.api.ours.gpus import AMD_GPU, NVIDIA_GPU


@dataclass(frozen=True, slots=True)
class Family:
    """The GPUs of one maker.

    resource: what pods ask for. label: the label of a node that says which model.
    variable: tells a program which of them it has, by number.
    settings: what makes the numbers mean the same to every program.
    prefix: what the name of a GPU begins with where there are those of several families.
    """

    resource: str
    label: str
    variable: str
    settings: Mapping[str, str] = field(default_factory=dict)
    prefix: str = ""


# Numbers are the positions on the PCI bus, which do not change while the machine runs; more programs parse them than
# UUIDs.
NVIDIA = Family(NVIDIA_GPU, "nvidia.com/gpu.product", "CUDA_VISIBLE_DEVICES", {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"})
AMD = Family(AMD_GPU, "amd.com/gpu.product-name", "ROCR_VISIBLE_DEVICES", prefix="amd-")
FAMILIES = (NVIDIA, AMD)


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU.

    number: by which programs are told of it. model, uuid: as its driver says; memory: in bytes; 0 and "" are unknown.
    place: where its driver shows it, in files. played: there is none, it is made up for a rehearsal.
    """

    family: Family
    number: int
    model: str = ""
    memory: int = 0
    uuid: str = ""
    place: str = ""
    played: bool = False

    @property
    def name(self) -> str:
        """What it is called among those of the machine; records on disk hold it."""
        return f"{self.family.prefix}{self.number}"
