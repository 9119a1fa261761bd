#!/bin/bash -l
#SBATCH --nodes=1
#SBATCH --gres=gpu:2
#SBATCH --ntasks-per-node=2
#SBATCH --mem=0
#SBATCH --time=0-00:00:40
#SBATCH --signal=SIGUSR1@30

# Lightning saves and leaves when it gets this signal before the limit.
export NCCL_DEBUG=INFO
srun python save_at_signal.py
