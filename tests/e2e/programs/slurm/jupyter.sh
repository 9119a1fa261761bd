#!/bin/bash
#SBATCH --job-name=notebook
#SBATCH --time=8:00:00
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=2
#SBATCH --output=jupyter-%j.log

port=$(shuf -i 8000-9999 -n 1)
node=$(hostname -s)
cat << END
Tunnel: ssh -N -L $port:$node:$port $USER@login
END
jupyter lab --no-browser --ip="$node" --port="$port"
