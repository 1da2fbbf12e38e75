"""Bug 17: whatever I change, the accuracy stays where it was."""

COMPLAINT = """
Accuracy is about 0.25 with any learning rate, any number of steps and any
batch. I commented out `r.scaler.step` by mistake and found it after two days,
since the numbers were the same. Is something wrong with the optimizer?
"""
LOG = r"""
$ train 1 --run-dir a --learning-rate 1e-2 > last
$ grep -o '"accuracy": [0-9.]*' last
"accuracy": 0.252
$ train 1 --run-dir b --learning-rate 1e-4 > last
$ grep -o '"accuracy": [0-9.]*' last
"accuracy": 0.253
"""
HINTS = [
    "There are four classes. What does a guess score?",
    "Take the smallest thing that could learn: does it?",
    "Where do the labels come from?",
]
ELSE = """
Gradients that never arrive, a learning rate of zero, labels shifted against
features. The same loop on labels that can be learned tells them apart.
"""
OTHER = "16"
PLANTED = {
    "17": [
        (
            "labeled by a linear teacher that can be learned.",
            "of 32 features and four classes.",
        ),
        (
            "    y = (x @ torch.randn(32, 4, generator=rng)).argmax(1)\n",
            "    y = torch.randint(4, (n + held_out,), generator=rng)\n",
        ),
    ]
}
