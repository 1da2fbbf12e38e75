"""All constants of a layout's time and memory, each with its source.

`python -m lockstep.experiments.published_runs.fit` fits them to published runs.
"""

FITTED = "fitted on the published runs"
COUNTED = "counted: torchtitan's policy saves every second product of a block"
# By name: the value, its source, and what it stands for.
CONSTANTS: dict = {
    "matmul_v100": (0.704, FITTED, "share of a V100's peak that products reach"),
    "matmul_a100": (0.727, FITTED, "the same of an A100's peak"),
    "matmul_h100": (0.629, FITTED, "the same of an H100's peak, in bf16"),
    "matmul_h100_fp8": (0.669, FITTED, "the same of an H100's peak, in FP8"),
    "matmul_b200": (0.667, FITTED, "the same of a Blackwell GPU's peak, in bf16"),
    "matmul_b200_fp8": (0.688, FITTED, "the same, in FP8 and MXFP8"),
    "matmul_b200_fp4": (0.448, FITTED, "the same, in NVFP4"),
    "matmul_tpu": (0.866, FITTED, "the same of a TPU's peak, in bf16"),
    "matmul_tpu_fp8": (0.708, FITTED, "the same, in FP8"),
    "attention_v100": (0.0973, FITTED, "attention's share, without a flash kernel"),
    "attention_a100": (0.53, FITTED, "attention's share, with FlashAttention"),
    "attention_h100": (0.265, FITTED, "the same, with cuDNN's kernel"),
    "attention_b200": (0.259, FITTED, "the same on a Blackwell GPU"),
    "attention_tpu": (0.447, FITTED, "the same on a TPU"),
    "attention_torch": (0.16, FITTED, "the same, with PyTorch's kernel"),
    "operand_passes": (1.2, FITTED, "times that a product's operands move"),
    "elementwise_passes": (8.21, FITTED, "times that a block's tensors move"),
    "layer_gap": (3.63e-5, FITTED, "seconds of a layer without a kernel"),
    "expert_gap": (0.00218, FITTED, "the same of a layer with experts"),
    "exposed_tensor": (1.82, FITTED, "of a tensor collective's time at full rate"),
    "exposed_tensor_fused": (0.0264, FITTED, "the same, overlapped with products"),
    "exposed_expert": (0.233, FITTED, "of the time of experts' all-to-alls"),
    "hidden_share": (0.478, FITTED, "of computing, for FSDP, DP and CP"),
    "straggling": (0.00204, FITTED, "of the step, for each doubling of nodes"),
    "selective_share": (0.37, COUNTED, "of the products computed again"),
    "context_memory": (3.38e8, FITTED, "bytes of CUDA's context"),
    "group_memory": (9.79e8, FITTED, "bytes of NCCL's buffers, a kind of group"),
    "fragmented": (0.109, FITTED, "of the bytes that come and go"),
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
    "tpu-v5e": "tpu",
    "tpu-v5p": "tpu",
    "tpu-v6e": "tpu",
    "tpu7x": "tpu",
}
# By kind of run: how far 90 % of the rows of a source are from the model's
# answer at most, fitted without that source, as a factor; and the rows.
WIDTHS: dict = {
    "dense A100": (1.2, 37),
    "dense H100": (1.26, 23),
    "FP8": (1.184, 40),
    "MoE": (1.454, 36),
    "other": (1.273, 19),
    "memory": (1.235, 30),
}
# What the published runs span.
HULL: dict = {
    "gpus": (1, 16384),
    "sequence": (2048, 262144),
    "hidden": (1536, 25600),
    "micro_batch": (1, 16),
    "tp": (1, 16),
    "cp": (1, 16),
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
