"""`import submitit` is `muster.submitit`, where this directory is on the path before the real one."""

import sys

import muster.submitit

sys.modules[__name__] = muster.submitit
