#!/bin/bash
#SBATCH -n 1
#SBATCH -c 4
#SBATCH -t 10
export OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK
export OMP_PLACES=cores
srun -c "$SLURM_CPUS_PER_TASK" sh -c 'echo "$OMP_NUM_THREADS threads, $OMP_PLACES"'
