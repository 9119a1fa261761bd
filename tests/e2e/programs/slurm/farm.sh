#!/bin/bash
#SBATCH --ntasks=2
#SBATCH --cpus-per-task=1

# Two simulations run at a time; the others wait for their turn.
for seed in 1 2 3 4 5 6; do
    srun --exclusive --ntasks=1 --nodes=1 simulate "$seed" &
done
wait
