"""Choose the environment of MPI's launchers and their daemons. Pure.

The variables of all families are set at once, because a launcher reads only its own: Open MPI 4 (`OMPI_MCA_`), PRRTE
of Open MPI 5 (`PRTE_MCA_`), Hydra of MPICH (`HYDRA_`) and of Intel MPI (`I_MPI_`). A variable that the user has set
wins.
"""

from pathlib import Path

LOOPBACK = "lo"


def launcher_variables(
    shell: Path, open_mpi_hosts: Path, hydra_hosts: Path, slots: int, interface: str
) -> dict[str, str]:
    """Return the variables of the launcher. interface: the network interface of the pod, or "" if it is not known."""
    paths = {
        "MUSTER_REMOTE_SHELL": shell,
        "OMPI_MCA_plm_rsh_agent": shell,
        "OMPI_MCA_orte_default_hostfile": open_mpi_hosts,
        "PRTE_MCA_plm_ssh_agent": shell,
        "PRTE_MCA_prte_default_hostfile": open_mpi_hosts,
        "HYDRA_LAUNCHER_EXEC": shell,
        "HYDRA_HOST_FILE": hydra_hosts,
        "I_MPI_HYDRA_BOOTSTRAP_EXEC": shell,
        "I_MPI_HYDRA_HOST_FILE": hydra_hosts,
    }
    variables = {
        # Daemons start no others: the remote shell is on rank 0 alone.
        "OMPI_MCA_plm_rsh_no_tree_spawn": "1",
        "PRTE_MCA_plm_ssh_no_tree_spawn": "1",
        "HYDRA_LAUNCHER": "ssh",
        "I_MPI_HYDRA_BOOTSTRAP": "ssh",
        "I_MPI_PERHOST": str(slots),  # Intel MPI counts a host's cores, whatever the file says
    }
    # Hydra tells its daemons the host name of the launcher, which other pods cannot look up; with this, its address.
    reached = {"HYDRA_IFACE": interface, "I_MPI_HYDRA_IFACE": interface} if interface else {}
    return {name: str(path) for name, path in paths.items()} | variables | reached | daemon_variables(interface)


def daemon_variables(interface: str) -> dict[str, str]:
    """Return the variables of daemons and processes on every worker. interface: that of the pod, or ""."""
    variables = {
        # A pod is the user's own machine, and in most images its user is root.
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "PRTE_ALLOW_RUN_AS_ROOT": "1",
        "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        # Several workers share a machine, and each would bind its processes to the same first cores.
        "OMPI_MCA_hwloc_base_binding_policy": "none",
        "PRTE_MCA_hwloc_default_binding_policy": "none",
        "I_MPI_PIN": "0",
    }
    if interface != LOOPBACK:
        return variables
    # Workers of one machine meet on its loopback interface, which all of them pass over otherwise.
    return variables | {
        "OMPI_MCA_oob_tcp_if_include": LOOPBACK,
        "OMPI_MCA_btl_tcp_if_include": LOOPBACK,
        "FI_TCP_IFACE": LOOPBACK,
        "UCX_TLS": "^shm",  # UCX takes workers of one machine for one host, but each has its own memory
    }
