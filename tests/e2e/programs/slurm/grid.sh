#!/bin/sh
#SBATCH -a 0-7:2
rates="0.1 0.2 0.3 0.4"
set -- $rates
shift $((SLURM_ARRAY_TASK_ID / SLURM_ARRAY_TASK_STEP))
srun python -c "import os, sys; print(os.environ['SLURM_ARRAY_TASK_ID'], sys.argv[1])" "$1"
