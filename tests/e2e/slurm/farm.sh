#!/bin/bash
#SBATCH --ntasks=4
#SBATCH --cpus-per-task=1

for seed in 1 2 3 4 5 6; do
    srun --exclusive --ntasks=1 --nodes=1 sh -c "echo seed $seed" &
done
wait
