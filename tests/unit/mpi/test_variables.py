"""What launchers of MPI read of the environment."""

from pathlib import Path

import pytest

from muster.mpi.variables import daemon_variables, launcher_variables


def launcher(interface):
    return launcher_variables(Path("/t/shell"), Path("/t/open"), Path("/t/hydra"), 4, interface)


@pytest.mark.parametrize(
    ("shell", "hosts", "file"),
    [
        ("OMPI_MCA_plm_rsh_agent", "OMPI_MCA_orte_default_hostfile", "/t/open"),
        ("PRTE_MCA_plm_ssh_agent", "PRTE_MCA_prte_default_hostfile", "/t/open"),
        ("HYDRA_LAUNCHER_EXEC", "HYDRA_HOST_FILE", "/t/hydra"),
        ("I_MPI_HYDRA_BOOTSTRAP_EXEC", "I_MPI_HYDRA_HOST_FILE", "/t/hydra"),
    ],
)
def test_each_family_finds_the_remote_shell_and_its_own_form_of_the_hosts(shell, hosts, file):
    told = launcher("eth0")
    assert (told[shell], told[hosts]) == ("/t/shell", file)


def test_hydra_is_told_the_interface_that_other_pods_reach_and_intel_the_slots():
    told = launcher("eth0")
    assert (told["HYDRA_IFACE"], told["I_MPI_HYDRA_IFACE"], told["I_MPI_PERHOST"]) == ("eth0", "eth0", "4")
    assert not {"HYDRA_IFACE", "I_MPI_HYDRA_IFACE"} & launcher("").keys()


def test_only_workers_of_one_machine_meet_on_its_loopback_interface():
    assert daemon_variables("lo")["OMPI_MCA_btl_tcp_if_include"] == "lo"
    assert not {"OMPI_MCA_btl_tcp_if_include", "FI_TCP_IFACE", "UCX_TLS"} & daemon_variables("eth0").keys()


def test_daemons_know_no_file_of_rank_0():
    assert "/t/" not in "".join(daemon_variables("lo").values())
