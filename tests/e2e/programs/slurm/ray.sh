#!/bin/bash
#SBATCH --job-name=ray
#SBATCH --nodes=3
#SBATCH --tasks-per-node=1
#SBATCH --cpus-per-task=2

nodes=$(scontrol show hostnames "$SLURM_JOB_NODELIST")
read -r -d '' -a nodes <<< "$nodes"
head=${nodes[0]}
srun --nodes=1 --ntasks=1 -w "$head" ray start --head --node-ip-address="$head" --port=6379 --block &
for ((i = 1; i < SLURM_JOB_NUM_NODES; i++)); do
    srun --nodes=1 --ntasks=1 -w "${nodes[$i]}" ray start --address "$head:6379" --block &
done
RAY_ADDRESS=$head:6379 ray status
