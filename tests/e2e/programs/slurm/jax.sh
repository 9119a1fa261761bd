#!/usr/bin/env bash
#SBATCH --ntasks 4
#SBATCH --nodes 2
#SBATCH --gpus-per-task 1
# JAX finds the coordinator by the first node of the step, and a port by the number of the job.
srun --label python jax_cluster.py
