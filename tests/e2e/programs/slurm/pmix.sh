#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks=4
srun --mpi=pmix gmx_mpi mdrun -deffnm npt
