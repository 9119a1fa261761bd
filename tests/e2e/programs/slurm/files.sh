#!/bin/bash
#SBATCH --job-name=align
#SBATCH --array=1-3%2
#SBATCH --cpus-per-task=2
#SBATCH --mem-per-cpu=100M
#SBATCH --output=align_%A_%a.log

# Task N works on the N-th line of the list.
sample=$(sed -n "${SLURM_ARRAY_TASK_ID}p" samples.txt)
echo "$SLURM_ARRAY_TASK_ID of $SLURM_ARRAY_TASK_COUNT: $sample with $SLURM_CPUS_PER_TASK CPUs"
