import subprocess
import sys

import pytest

# In a process of its own: limits that were lowered do not come back.
PROGRAM = """
import resource
from muster.runtime.process.descriptors import allow_descriptors
resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard}))
allow_descriptors({wanted})
print(*resource.getrlimit(resource.RLIMIT_NOFILE))
"""


@pytest.mark.parametrize(
    ("soft", "hard", "wanted", "left"),
    [(256, 1024, 512, "512 1024"), (256, 1024, 4096, "1024 1024"), (512, 1024, 300, "512 1024")],
)
def test_open_files_are_allowed_as_far_as_may_be(soft, hard, wanted, left):
    program = PROGRAM.format(soft=soft, hard=hard, wanted=wanted)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == left
