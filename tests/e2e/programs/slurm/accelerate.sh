#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=2
#SBATCH --export=ALL,TOKENIZERS_PARALLELISM=false

export GPUS_PER_NODE=2
head_node=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1)
export LAUNCHER="accelerate launch \
    --num_machines $SLURM_NNODES \
    --num_processes $((SLURM_NNODES * GPUS_PER_NODE)) \
    --main_process_ip $head_node \
    --main_process_port 29501 \
    --machine_rank \$SLURM_PROCID"
srun bash -c "$LAUNCHER meet.py"
