"""All constants of a layout's time and memory, each with its source.

`python -m lockstep.experiments.published_runs.fit` fits them to published runs.
"""

FITTED = "fitted on the published runs"
COUNTED = "counted: torchtitan's policy saves every second product of a block"
# By name: the value, its source, and what it stands for.
CONSTANTS: dict = {
    "matmul_v100": (0.698, FITTED, "share of a V100's peak that products reach"),
    "matmul_a100": (0.735, FITTED, "the same of an A100's peak"),
    "matmul_h100": (0.605, FITTED, "the same of an H100's peak, in bf16"),
    "matmul_fp8": (0.684, FITTED, "the same of an H100's peak, in FP8"),
    "matmul_tpu": (0.892, FITTED, "the same of a TPU's peak"),
    "attention_v100": (0.07, FITTED, "attention's share, without a flash kernel"),
    "attention_a100": (0.483, FITTED, "attention's share, with FlashAttention"),
    "attention_h100": (0.465, FITTED, "the same, with cuDNN's kernel"),
    "attention_torch": (0.16, FITTED, "the same, with PyTorch's kernel"),
    "operand_passes": (0.7, FITTED, "times that a product's operands move"),
    "elementwise_passes": (12.7, FITTED, "times that a block's tensors move"),
    "layer_gap": (0.00012, FITTED, "seconds of a layer without a kernel"),
    "expert_gap": (0.0038, FITTED, "the same of a layer with experts"),
    "exposed_tensor": (2.05, FITTED, "of a tensor collective's time at full rate"),
    "exposed_tensor_fused": (0.177, FITTED, "the same, overlapped with products"),
    "exposed_expert": (0.19, FITTED, "of the time of experts' all-to-alls"),
    "hidden_share": (0.973, FITTED, "of computing, for FSDP, DP and CP"),
    "straggling": (0.003, FITTED, "of the step, for each doubling of nodes"),
    "selective_share": (0.37, COUNTED, "of the products computed again"),
    "context_memory": (0.44e9, FITTED, "bytes of CUDA's context"),
    "group_memory": (0.94e9, FITTED, "bytes of NCCL's buffers, a kind of group"),
    "fragmented": (0.115, FITTED, "of the bytes that come and go"),
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
    "tpu-v5e": "tpu",
}
# By kind of run: how far 90 % of the rows of a source are from the model's
# answer at most, fitted without that source, as a factor; and the rows.
WIDTHS: dict = {
    "dense": (1.2, 53),
    "fp8": (1.2, 16),
    "moe": (1.5, 10),
    "other": (1.35, 7),
    "memory": (1.33, 27),
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
    "matrix products": 0.05,
    "attention": 0.2,
    "elementwise kernels": 0.2,
    "gaps between kernels": 0.5,
    "communication in the layers": 0.4,
    "the pipeline's bubble": 0.1,
    "data-parallel communication": 0.3,
    "stragglers": 0.5,
}
VALUES = {name: CONSTANTS[name][0] for name in CONSTANTS}
