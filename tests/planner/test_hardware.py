"""The accelerators that the planner knows."""

import json

import pytest

from lockstep.cli import main
from lockstep.planner.constants import FAMILIES
from lockstep.planner.hardware import CARD, HARDWARE, NVLINK, SOURCES

EVERY = {"peak_flops", "memory", "memory_bandwidth", "node_bandwidth"}
EVERY |= {"gpus_per_node"}
SOMETIMES = {"peak_flops_fp8", "network_bandwidth"}


@pytest.mark.parametrize("name", sorted(HARDWARE))
def test_an_accelerator_has_its_rates_and_a_source(name: str) -> None:
    """Each accelerator has a peak, a memory, and its links' rates, all above 0
    and of a plausible size, and a source for them."""
    rates = HARDWARE[name]
    assert rates.keys() >= EVERY
    assert rates.keys() <= EVERY | SOMETIMES
    assert SOURCES[name.removesuffix("-32gb").removesuffix("-40gb")]
    assert 1e14 < rates["peak_flops"] < 1e16
    assert rates.get("peak_flops_fp8", 2e16) > rates["peak_flops"]
    assert 16e9 <= rates["memory"] <= 288e9
    # An accelerator reads its whole memory in 6 to 60 ms.
    assert 5e-3 < rates["memory"] / rates["memory_bandwidth"] < 0.06
    assert rates["node_bandwidth"] < rates["memory_bandwidth"] / 4
    assert rates.get("network_bandwidth", 0) < rates["node_bandwidth"]
    assert rates["gpus_per_node"] in (8, 16, 72, 256, 8960, 9216)


@pytest.mark.parametrize(
    ("name", "mebibytes"),
    [
        ("a100", 81920),
        ("h100", 81559),
        ("h200", 143771),
        ("b200", 183359),
        ("gb200", 189471),
        ("b300", 275040),
        ("gb300", 284208),
    ],
)
def test_a_gpus_memory_leaves_the_same_share_of_what_nvidia_smi_shows(
    name: str, mebibytes: int
) -> None:
    """A data sheet's GB are nearly the GiB that nvidia-smi shows. The planner
    takes them as 10^9 bytes, so CUDA and NCCL have 6 to 7 % on every GPU. The
    288 GB of a B300's memory chips would leave them nothing."""
    share = HARDWARE[name]["memory"] / (mebibytes * 2**20)
    assert 0.93 < share < 0.94


def test_every_source_belongs_to_an_accelerator() -> None:
    assert SOURCES.keys() <= HARDWARE.keys()


def test_links_reach_a_share_of_their_nominal_rate() -> None:
    """NCCL reaches 82 % of NVLink and 91 % of a node's NICs; where no
    measurement is published, the nominal rate counts at these shares."""
    assert pytest.approx(0.822, abs=1e-3) == NVLINK
    assert pytest.approx(0.9125) == CARD
    assert HARDWARE["v100"]["node_bandwidth"] == pytest.approx(123e9, rel=0.01)
    assert HARDWARE["b300"]["network_bandwidth"] == pytest.approx(91.25e9)


def test_hardware_without_a_network_rate_plans_one_node(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """NVIDIA sells an RTX 4090 as a card, so its network rate depends on the
    server: a run in one node needs none, a larger run asks for it."""
    asked = ["plan", "run", "--preset=llama3-8b", "--sequence=4096"]
    asked += ["--global-batch=64", "--zero-stage=3", "--json"]
    asked += ["--hardware=rtx4090"]
    assert main([*asked, "--gpus=8"]) == 0
    assert json.loads(capsys.readouterr().out)["total_bytes"] > 0
    assert main([*asked, "--gpus=16"]) == 2
    assert "--network-bandwidth is 0" in capsys.readouterr().err
    assert main([*asked, "--gpus=16", "--network-bandwidth=25e9"]) == 0


@pytest.mark.parametrize("name", sorted(HARDWARE))
def test_the_command_knows_each_accelerator(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["plan", "run", "--preset=llama3-8b", "--sequence=4096", "--json"]
    asked += ["--gpus=8", "--global-batch=64", f"--hardware={name}"]
    assert main(asked) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["total_bytes"] > 0
    # Seconds need a published run, or an efficiency.
    assert (found["step_seconds"] is not None) == (name in FAMILIES)
    assert main([*asked, "--efficiency=0.4"]) == 0
    assert json.loads(capsys.readouterr().out)["step_seconds"] > 0
