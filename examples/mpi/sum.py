"""The sum of all ranks, by mpi4py:

muster run --workers 4 -- mpirun python examples/mpi/sum.py
"""

from mpi4py import MPI

world = MPI.COMM_WORLD
total = world.allreduce(world.Get_rank())
print(f"{MPI.Get_processor_name()}: rank {world.Get_rank()} of {world.Get_size()}, sum {total}", flush=True)
