"""All constants of a layout's time and memory, each with its source.

`python -m lockstep.experiments.published_runs.fit` fits them to published runs.
"""

FITTED = "fitted on the published runs"
COUNTED = "counted: torchtitan's policy saves every second product of a block"
# By name: the value, its source, and what it stands for.
CONSTANTS: dict = {
    "matmul_v100": (
        0.716,
        FITTED,
        "share of a V100's peak that products reach",
    ),
    "matmul_a100": (0.727, FITTED, "the same of an A100's peak"),
    "matmul_h100": (0.65, FITTED, "the same of an H100's peak, in bf16"),
    "matmul_h100_fp8": (0.627, FITTED, "the same of an H100's peak, in FP8"),
    "matmul_b200": (
        0.607,
        FITTED,
        "the same of a Blackwell GPU's peak, in bf16",
    ),
    "matmul_b200_fp8": (0.622, FITTED, "the same, in FP8 and MXFP8"),
    "matmul_b200_fp4": (0.42, FITTED, "the same, in NVFP4"),
    "matmul_mi300x": (0.492, FITTED, "the same of an MI300X's peak, in bf16"),
    "matmul_mi300x_fp8": (0.345, FITTED, "the same, in FP8"),
    "matmul_tpu": (0.897, FITTED, "the same of a TPU's peak, in bf16"),
    "matmul_tpu_fp8": (0.714, FITTED, "the same, in FP8"),
    "attention_v100": (
        0.113,
        FITTED,
        "attention's share, without a flash kernel",
    ),
    "attention_a100": (0.578, FITTED, "attention's share, with FlashAttention"),
    "attention_h100": (0.352, FITTED, "the same, with cuDNN's kernel"),
    "attention_b200": (0.487, FITTED, "the same on a Blackwell GPU"),
    "attention_mi300x": (0.0586, FITTED, "the same on an MI300X"),
    "attention_tpu": (0.452, FITTED, "the same on a TPU"),
    "attention_h100_torch": (
        0.163,
        FITTED,
        "the same, PyTorch's kernel on an H100",
    ),
    "attention_b200_torch": (0.0439, FITTED, "the same on a Blackwell GPU"),
    "operand_passes": (0.698, FITTED, "times that a product's operands move"),
    "elementwise_passes": (13.9, FITTED, "times that a block's tensors move"),
    "layer_gap": (9.77e-5, FITTED, "seconds of a layer without a kernel"),
    "expert_gap": (0.00135, FITTED, "the same of a layer with experts"),
    "exposed_tensor": (
        1.21,
        FITTED,
        "of a tensor collective's time at full rate",
    ),
    "exposed_tensor_fused": (
        0.206,
        FITTED,
        "the same, overlapped with products",
    ),
    "exposed_expert": (0.232, FITTED, "of the time of experts' all-to-alls"),
    "hidden_share": (0.376, FITTED, "of computing, for FSDP, DP and CP"),
    "straggling": (0.00215, FITTED, "of the step, for each doubling of nodes"),
    "selective_share": (0.37, COUNTED, "of the products computed again"),
    "context_memory": (7.53e8, FITTED, "bytes of CUDA's context"),
    "group_memory": (
        1.10e9,
        FITTED,
        "bytes of NCCL's buffers, a kind of group",
    ),
    "fragmented": (0.156, FITTED, "of the bytes that come and go"),
}
# Accelerators with published runs, by whose constants they take.
FAMILIES = {
    "v100": "v100",
    "v100-32gb": "v100",
    "a100": "a100",
    "a100-40gb": "a100",
    "h100": "h100",
    "h800": "h100",
    "h200": "h100",
    "b200": "b200",
    "b300": "b200",
    "gb200": "b200",
    "gb300": "b200",
    "mi300x": "mi300x",
    "tpu-v5e": "tpu",
    "tpu-v5p": "tpu",
    "tpu-v6e": "tpu",
    "tpu7x": "tpu",
}
# By kind of run: the factor within which 90 % of the rows lie, each predicted
# by a model that was fitted without its source; and how many rows there are.
WIDTHS: dict = {
    "dense A100": (1.222, 37),
    "dense H100": (1.203, 29),
    "FP8": (1.493, 42),
    "MoE": (1.477, 36),
    "other": (1.282, 13),
    "memory": (1.185, 34),
}
# What the published runs span.
HULL: dict = {
    "gpus": (1, 16384),
    "sequence": (2048, 1048576),
    "hidden": (1536, 25600),
    "micro_batch": (1, 32),
    "tp": (1, 16),
    "cp": (1, 32),
    "pp": (1, 64),
    "ep": (1, 64),
}
# How far each part's time may be off, of what it is: the spread of its
# constants over the fits that leave one source out.
DOUBT: dict = {
    "matrix products": 0.06,
    "attention": 0.2,
    "elementwise kernels": 0.15,
    "gaps between kernels": 0.4,
    "communication in the layers": 0.15,
    "the pipeline's bubble": 0.06,
    "data-parallel communication": 0.4,
    "stragglers": 0.7,
}
VALUES = {name: CONSTANTS[name][0] for name in CONSTANTS}
