"""Make the environment of MPI launchers and their daemons. Pure.

The variables of all MPI implementations are set together, because a launcher reads only its own: Open MPI 4
(`OMPI_MCA_`), PRRTE of Open MPI 5 (`PRTE_MCA_`), Hydra of MPICH (`HYDRA_`) and of Intel MPI (`I_MPI_`). A variable that
the user has set takes precedence.
"""

from pathlib import Path

LOOPBACK = "lo"


def launcher_variables(
    shell: Path, open_mpi_hosts: Path, hydra_hosts: Path, slots: int, interface: str
) -> dict[str, str]:
    """Return the environment variables of the launcher.

    interface: the network interface of the pod; "" if it is unknown.
    """
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
        # Daemons must not start further daemons, because only rank 0 has the remote shell.
        "OMPI_MCA_plm_rsh_no_tree_spawn": "1",
        "PRTE_MCA_plm_ssh_no_tree_spawn": "1",
        "HYDRA_LAUNCHER": "ssh",
        "I_MPI_HYDRA_BOOTSTRAP": "ssh",
        "I_MPI_PERHOST": str(slots),  # Intel MPI counts a host's cores, whatever the host file contains
    }
    # Without this, Hydra tells its daemons the host name of the launcher, which other pods cannot resolve.
    reached = {"HYDRA_IFACE": interface, "I_MPI_HYDRA_IFACE": interface} if interface else {}
    return {name: str(path) for name, path in paths.items()} | variables | reached | daemon_variables(interface)


def daemon_variables(interface: str) -> dict[str, str]:
    """Return the environment variables of daemons and processes on every worker.

    interface: the network interface of the pod; "" if it is unknown.
    """
    variables = {
        # In most images, the user of a pod is root, which is safe because the pod is isolated.
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "PRTE_ALLOW_RUN_AS_ROOT": "1",
        "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        # Workers may share a machine, and each would bind its processes to the same first cores.
        "OMPI_MCA_hwloc_base_binding_policy": "none",
        "PRTE_MCA_hwloc_default_binding_policy": "none",
        "I_MPI_PIN": "0",
    }
    if interface != LOOPBACK:
        return variables
    # Workers on one machine communicate over its loopback interface, which launchers skip by default.
    return variables | {
        "OMPI_MCA_oob_tcp_if_include": LOOPBACK,
        "OMPI_MCA_btl_tcp_if_include": LOOPBACK,
        "FI_TCP_IFACE": LOOPBACK,
        "UCX_TLS": "^shm",  # UCX takes workers on one machine for one host, but they do not share memory
    }
