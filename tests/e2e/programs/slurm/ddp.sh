#!/bin/bash
#SBATCH -J ddp
#SBATCH -N 2
#SBATCH --ntasks-per-node=2
#SBATCH --gpus-per-node=2
#SBATCH -c 2
#SBATCH --mem=2G
#SBATCH -o logs/%x-%j.out
#SBATCH -e logs/%x-%j.err
#SBATCH --mail-type=END,FAIL
#SBATCH --mail-user=ada@example.org

set -euo pipefail
export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
export MASTER_PORT=$((10000 + SLURM_JOB_ID % 10000))
cd "$SLURM_SUBMIT_DIR"
echo "gpus of the first node: $SLURM_JOB_GPUS"
# Every task finds its rank in SLURM_PROCID, and its device by SLURM_LOCALID.
srun python meet.py
