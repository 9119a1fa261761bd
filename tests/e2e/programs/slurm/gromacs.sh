#!/bin/bash
#SBATCH --job-name=md-protein
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=2
#SBATCH --cpus-per-task=2
#SBATCH --time=1-00
#SBATCH --partition=default
#SBATCH --exclusive

command -v module > /dev/null && module load gromacs
export OMP_NUM_THREADS=${SLURM_CPUS_PER_TASK:-1}
mpirun gmx_mpi mdrun -deffnm md -ntomp "$OMP_NUM_THREADS"
