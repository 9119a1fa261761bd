#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks=2
#SBATCH --time=00:00:40
#SBATCH --signal=B:USR1@30
#SBATCH --requeue
#SBATCH --open-mode=append

# The script gets the signal, and passes it on to its step.
trap 'echo "time is nearly up"; kill -USR1 $step' USR1
srun python save_at_signal.py &
step=$!
wait $step
wait $step
echo "the step ended with $?"
