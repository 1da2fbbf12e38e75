"""Published rates of accelerators, by name, each with its source."""

# The rates that a layout needs; the command has an option for each.
RATES = (
    "peak_flops",
    "memory",
    "memory_bandwidth",
    "node_bandwidth",
    "network_bandwidth",
)

# Shares of the nominal rate that collectives reach. NCCL's rings reach 370 of
# the 450 GB/s that an H100's NVLink has one way (NVIDIA/nccl-tests#212), and
# 365 of the 400 GB/s of a node's eight NICs; eight MI300X reach 313 of
# the 448 GB/s of their links (both: Bekman, ml-engineering, network). Four
# nodes reached those 365 GB/s and one node reaches as much, so a card may reach
# more. These shares apply wherever only the nominal rate is published.
NVLINK = 370 / 450
INFINITY_FABRIC = 312.912 / 448
CARD = 365 / 400

ML = "Bekman, ml-engineering, "
ACCELERATORS = ML + "compute/accelerator"
NETWORK = ML + "network"
MIG = "memory: twice NVIDIA/mig-parted's instance of half a GPU, "
TPU = "https://docs.cloud.google.com/tpu/docs/"


def accelerator(
    bf16: float,
    fp8: float,
    memory: float,
    reads: float,
    link: float,
    card: float,
    gpus_per_node: int = 8,
) -> dict:
    """Return an accelerator's rates, without those that are 0: not published.

    `bf16` and `fp8` are dense TFLOP/s. `memory` is what software can
    use, in GB: less than the memory chips hold. `reads`, the memory's
    bandwidth, is in GB/s. `link` and `card` are the GB/s one way that
    collectives reach in a node and through the accelerator's share of the
    node's NICs. `gpus_per_node` counts the accelerators that the
    vendor's own links connect.
    """
    rates = {
        "peak_flops": bf16 * 1e12,
        "peak_flops_fp8": fp8 * 1e12,
        "memory": memory * 1e9,
        "memory_bandwidth": reads * 1e9,
        "node_bandwidth": link * 1e9,
        "network_bandwidth": card * 1e9,
        "gpus_per_node": gpus_per_node,
    }
    return {name: rate for name, rate in rates.items() if rate}


HARDWARE: dict = {
    "v100": accelerator(125, 0, 16, 900, 150 * NVLINK, 6.25 * CARD),
    "v100-32gb": accelerator(125, 0, 32, 900, 150 * NVLINK, 6.25 * CARD),
    "a100": accelerator(312, 0, 80, 2039, 235, 25 * CARD),
    "a100-40gb": accelerator(312, 0, 40, 1555, 235, 25 * CARD),
    "l40s": accelerator(362, 733, 48, 864, 32 * NVLINK, 0),
    "rtx4090": accelerator(165.2, 330.3, 24, 1008, 32 * NVLINK, 0),
    "rtx5090": accelerator(209.5, 419, 32, 1792, 64 * NVLINK, 0),
    "h100": accelerator(989, 1979, 80, 3350, 370, 50 * CARD),
    "h800": accelerator(989, 1979, 80, 3350, 160, 40),
    "h200": accelerator(989, 1979, 141, 4800, 370, 50 * CARD),
    "b200": accelerator(2250, 4500, 180, 8000, 682, 50 * CARD),
    "b300": accelerator(2250, 4500, 270, 8000, 682, 100 * CARD),
    "gb200": accelerator(2500, 5000, 186, 8000, 680, 50 * CARD, 72),
    "gb300": accelerator(2500, 5000, 278, 8000, 680, 100 * CARD, 72),
    "mi300x": accelerator(1307.4, 2614.9, 192, 5300, 312.912, 50 * CARD),
    "mi325x": accelerator(1307.4, 2614.9, 256, 6000, 312.912, 50 * CARD),
    "mi355x": accelerator(
        2500, 5000, 288, 8000, 535.5 * INFINITY_FABRIC, 50 * CARD
    ),
    "tpu-v5e": accelerator(197, 0, 16, 819, 200 * NVLINK, 3.125 * CARD, 256),
    "tpu-v5p": accelerator(459, 0, 95, 2765, 600 * NVLINK, 6.25 * CARD, 8960),
    "tpu-v6e": accelerator(918, 0, 32, 1638, 400 * NVLINK, 12.5 * CARD, 256),
    "tpu7x": accelerator(
        2307, 4614, 192, 7380, 600 * NVLINK, 12.5 * CARD, 9216
    ),
    "trainium2": accelerator(667, 1299, 96, 2900, 512 * NVLINK, 25 * CARD, 16),
}
# Where the numbers of each are published.
SOURCES: dict = {
    "v100": "NVIDIA, Tesla V100 data sheet; NVLink 2: " + NETWORK + "; four"
    " 100 Gb/s cards for eight GPUs, as in a DGX-1",
    "a100": "NVIDIA, A100 data sheet; 235 GB/s of NVLink's 300: "
    + NETWORK
    + "; eight 200 Gb/s cards, as in a DGX A100",
    "l40s": ACCELERATORS + ", after NVIDIA's page; PCIe 4 x16; the network is"
    " the server's",
    "rtx4090": "karpathy/llm.c, llmc/mfu.h, after NVIDIA's Ada white paper;"
    " PCIe 4 x16; the network is the server's",
    "rtx5090": "NVIDIA, RTX Blackwell white paper, with FP32 accumulation; PCIe"
    " 5 x16; the network is the server's",
    "h100": ACCELERATORS + ", after NVIDIA's page; eight 400 Gb/s cards, as in"
    " a DGX H100",
    "h800": "as H100's; links: DeepSeek-AI 2025, arXiv 2505.09343, 4.3, where"
    " 160 of 200 GB/s and 40 of 50 GB/s are reached",
    "h200": ACCELERATORS + ", after NVIDIA's page; links as H100's",
    "b200": ACCELERATORS + ", after the DGX B200 data sheet; links: " + NETWORK,
    "b300": ACCELERATORS
    + ", after the DGX B300 data sheet; "
    + MIG
    + "135 GB; NVLink as B200's; eight 800 Gb/s cards, as in a DGX B300",
    "gb200": ACCELERATORS + ", after NVIDIA's page; 680 GB/s of NVLink's 900"
    " and a 400 Gb/s card a GPU: " + NETWORK,
    "gb300": "as GB200's, with B300's card; " + MIG + "139 GB",
    "mi300x": "AMD, MI300X data sheet; memory: "
    + ACCELERATORS
    + "; links: "
    + NETWORK,
    "mi325x": "AMD, MI325X data sheet; memory: " + ACCELERATORS + "; links as"
    " MI300X's",
    "mi355x": ACCELERATORS + ", after AMD's page; links: " + NETWORK,
    "tpu-v5e": TPU + "v5e; network: a pod's 6.4 Tb/s over 256 chips",
    "tpu-v5p": TPU + "tpu7x, which compares all three",
    "tpu-v6e": TPU + "tpu7x, which compares all three",
    "tpu7x": TPU + "tpu7x",
    "trainium2": "AWS Neuron documentation, Trainium2 architecture; links: "
    + NETWORK,
}
