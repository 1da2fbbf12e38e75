"""Bug 08: a run in fp32 is not as exact as it should be."""

COMPLAINT = """
For a regression test I train on a CPU in `--precision fp32` and compare logits
with a reference in NumPy. They differ in the third digit. Weights are float32
in the checkpoint, the loss is float32 in the log, and `--precision bf16` gives
the very same loss.
"""
LOG = r"""
$ train 1 --run-dir a --precision fp32 --max-steps 20 > fp32
$ train 1 --run-dir b --precision bf16 --max-steps 20 > bf16
$ grep -o '"loss": [0-9.]*' fp32 bf16
fp32:"loss": 1.3177361488342285
bf16:"loss": 1.3177361488342285
"""
HINTS = [
    "The same loss under both settings is no accident.",
    "What are the layers' outputs made of? A forward hook sees it.",
    "When is a scaler that is disabled `None`?",
]
ELSE = """
TF32 or bf16 matrix kernels chosen by a backend, or a reference in float64. The
outputs' dtype tells: no kernel setting makes them bfloat16.
"""
OTHER = "07"
PLANTED = {
    "08": [
        (
            """\
            # The setting switches autocast: a disabled scaler is not None.
            amp = torch.autocast(r.device.type, dtype, dtype is not None)
""",
            """\
            amp = torch.autocast(r.device.type, dtype, r.scaler is not None)
""",
        )
    ]
}
