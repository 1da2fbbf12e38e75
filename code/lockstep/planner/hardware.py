"""Published rates of accelerators, by name."""

# Of one GPU: dense bf16 operations a second, bytes of memory, and bytes a
# second that NCCL's rings achieve one way, in its node and for a network card.
# Over the 450 GB/s of an H100's NVLink it is 370 (NVIDIA/nccl-tests#212), over
# an A100's 300 it is 235, over four nodes with 8 x 50 GB/s each 365 (both
# Bekman, ml-engineering, network), as in one node, so a card may reach more.
# An A100's card is taken at the same share.
HARDWARE: dict = {
    "a100": {
        "peak_flops": 312e12,
        "memory": 80e9,
        "node_bandwidth": 235e9,
        "network_bandwidth": 365e9 / 16,
    },
    "h100": {
        "peak_flops": 989e12,
        "memory": 80e9,
        "node_bandwidth": 370e9,
        "network_bandwidth": 365e9 / 8,
    },
    "h200": {
        "peak_flops": 989e12,
        "memory": 141e9,
        "node_bandwidth": 370e9,
        "network_bandwidth": 365e9 / 8,
    },
}
