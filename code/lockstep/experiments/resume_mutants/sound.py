"""Sound variants of the example loops: unusual, and right.

Each resumes as its own undisturbed run, so the exam must fail none of them.
"""

from collections.abc import Callable
from typing import NamedTuple

from lockstep.grading.mutants import Replacements, replaced

from .forked import source_of
from .planted import EXAMPLES, LOOPS


class Variant(NamedTuple):
    """A loop with changes in some modules."""

    loop: str
    name: str
    changes: dict[str, Replacements]

    @property
    def sources(self) -> dict[str, str]:
        """The changed modules' sources, by name."""
        return {
            module: replaced(source_of(module), pairs)
            for module, pairs in self.changes.items()
        }


MODEL = {
    "plain_loop": "data, model = Samples(), Model()  # or yours\n",
    "accelerate_loop": (
        "data, model = Samples(), Model()  # or yours, with observe(model)\n"
    ),
    "lightning_loop": (
        "self.model = Model()  # or yours, with observe(self.model)\n"
    ),
}
LOSS = {
    "plain_loop": 'ddp(**micro)["loss"]',
    "accelerate_loop": 'wrapped(**batch)["loss"]',
    "lightning_loop": 'self.model(**batch)["loss"]',
}
OPTIMIZER = {
    "plain_loop": "optimizer = torch.optim.AdamW(model.parameters(), 3e-3)\n",
    "accelerate_loop": (
        "optimizer = torch.optim.AdamW(model.parameters(), 3e-3)\n"
    ),
    "lightning_loop": (
        "self.optimizer = torch.optim.AdamW(self.model.parameters(), 3e-3)\n"
    ),
}
INDENT = {"plain_loop": 4, "accelerate_loop": 4, "lightning_loop": 8}
NAME = dict.fromkeys(LOOPS, "model") | {"lightning_loop": "self.model"}
RATE = "        return min(1.0, (step + 1) / 5) * (1 - step / self.steps)\n"


def after_model(loop: str, *lines: str) -> tuple[tuple[str, str], ...]:
    """Return the change that adds lines after the model, which they call
    `model`."""
    old, space = MODEL[loop], " " * INDENT[loop]
    added = "".join(space + line + "\n" for line in lines)
    if NAME[loop] != "model":
        added = f"{space}model = {NAME[loop]}\n{added}"
    return ((old, old + added),)


def with_loss(loop: str, *new: str) -> tuple[tuple[str, str], ...]:
    """Return the change that puts lines before the loss and computes it by the
    last one, which call the model `net` and its input `batch`."""
    was = LOSS[loop]
    model, batch = was.removesuffix(')["loss"]').split("(**")
    (line,) = (
        line
        for line in source_of(EXAMPLES + loop).splitlines(keepends=True)
        if was in line
    )
    space = line[: len(line) - len(line.lstrip())]
    *before, loss = (
        text.replace("net(", f"{model}(").replace("batch", batch)
        for text in new
    )
    added = "".join(f"{space}{text}\n" for text in before)
    return ((line, added + line.replace(was, f"({loss})")),)


def everywhere(
    name: str, change: Callable[[str], Replacements]
) -> list[Variant]:
    """Return a variant of each loop; `change` maps a loop to its changes."""
    return [
        Variant(loop, name, {EXAMPLES + loop: change(loop)}) for loop in LOOPS
    ]


def shared(name: str, module: str, *pairs: tuple[str, str]) -> list[Variant]:
    """Return variants that change a module that the loops share."""
    return [Variant(loop, name, {module: pairs}) for loop in LOOPS]


LAZY = (
    'model.register_buffer("cache", torch.zeros(8), persistent=False)',
    "def fill(module, args, kwargs):",
    '    x = kwargs.get("x", args[0] if args else None)',
    "    module.cache = torch.arange(8.0) + len(x)",
    "model.register_forward_pre_hook(fill, with_kwargs=True)",
)
SETTINGS, PIECES = EXAMPLES + "settings", "lockstep.pieces"
CHECKPOINT = "lockstep.trainer.checkpoint"
BACKGROUND = (
    (
        "            Writer().finish(cfg, manifest, files, leaving=False)\n",
        "            import copy, threading\n\n"
        "            self.wait()\n"
        "            writer = Writer()\n"
        "            writer.group = self.aside\n"
        "            copies = copy.deepcopy((manifest, files))\n"
        "            self.thread = threading.Thread(\n"
        "                target=writer.finish, args=(cfg, *copies, False)\n"
        "            )\n"
        "            self.thread.start()\n",
    ),
    (
        "    def finished(self) -> None:\n",
        "    thread = None\n\n"
        "    def wait(self):\n"
        "        if self.thread:\n"
        "            self.thread.join()\n\n"
        "    def finished(self) -> None:\n",
    ),
    (
        "        self.attempt = 0\n",
        "        self.attempt = 0\n        self.aside = dist.new_group()\n",
    ),
    ("        yield run\n", "        yield run\n        run.wait()\n"),
)
SLOW = (
    "        path.write_bytes(data)\n",
    "        import time\n\n        time.sleep(0.3)\n"
    "        path.write_bytes(data)\n",
)
STATELESS = 'torch.manual_seed(int(batch["x"][0, 0]) * 97 + 1)'
VARIANTS = [
    *shared(
        "two steps with a learning rate of zero",
        SETTINGS,
        (
            RATE,
            f"        if step in (7, 8):\n            return 0.0\n{RATE}",
        ),
    ),
    *shared(
        "a learning rate of zero at first",
        SETTINGS,
        ("min(1.0, (step + 1) / 5)", "min(1.0, step / 5)"),
    ),
    *shared(
        "a rate that restarts each epoch",
        SETTINGS,
        ("(1 - step / self.steps)", "(1 - step % 6 / 6)"),
    ),
    *everywhere(
        "a buffer that each forward pass fills",
        lambda loop: after_model(loop, *LAZY),
    ),
    *everywhere(
        "two views of each sample",
        lambda loop: with_loss(
            loop, 'net(**batch)["loss"] + net(**batch)["loss"]'
        ),
    ),
    *shared("slow storage", CHECKPOINT, SLOW),
    *shared(
        "two checkpoints are kept",
        PIECES,
        ("def save(self, keep: int = 3)", "def save(self, keep: int = 2)"),
    ),
    Variant(
        "plain_loop",
        "EMA every third step",
        {
            EXAMPLES + "plain_loop": (
                (
                    "            ema.update_parameters(model)\n"
                    "            step += 1\n",
                    "            step += 1\n            if step % 3 == 0:\n"
                    "                ema.update_parameters(model)\n",
                ),
            )
        },
    ),
    *everywhere(
        "compiled in place",
        lambda loop: after_model(loop, 'model.compile(backend="eager")'),
    ),
    *everywhere(
        "a compiled layer",
        lambda loop: after_model(
            loop,
            'model.second = torch.compile(model.second, backend="aot_eager")',
        ),
    ),
    Variant(
        "plain_loop",
        "compiled around DDP",
        {
            EXAMPLES + "plain_loop": (
                (
                    "    settle(ddp, data)\n",
                    "    settle(ddp, data)\n"
                    '    ddp = torch.compile(ddp, backend="eager")\n',
                ),
            )
        },
    ),
    *everywhere(
        "SGD with momentum",
        lambda loop: (
            (
                OPTIMIZER[loop],
                OPTIMIZER[loop]
                .replace("AdamW", "SGD")
                .replace("3e-3", "3e-3, momentum=0.9"),
            ),
        ),
    ),
    *everywhere(
        "a frozen layer",
        lambda loop: after_model(loop, "model.first.requires_grad_(False)"),
    ),
    *everywhere(
        "dropout that follows from the samples",
        lambda loop: with_loss(loop, STATELESS, 'net(**batch)["loss"]'),
    ),
    *everywhere(
        "random numbers are drawn before each forward pass",
        lambda loop: with_loss(loop, "torch.rand(5)", 'net(**batch)["loss"]'),
    ),
    *shared("a background save", PIECES, *BACKGROUND),
    Variant(
        "plain_loop",
        "a background save to slow storage",
        {PIECES: BACKGROUND, CHECKPOINT: [SLOW]},
    ),
    Variant(
        "plain_loop",
        "micro-batches of different sizes",
        {SETTINGS: [("self.batch\n", "[1, len(share['x']) - 1]\n")]},
    ),
]
