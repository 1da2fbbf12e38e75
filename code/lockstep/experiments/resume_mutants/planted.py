"""The faults that are planted: where, and which a seed draws."""

from difflib import unified_diff
from typing import NamedTuple

from .forked import source_of
from .operators import Edit, edits, sample

LOOPS = "plain_loop", "accelerate_loop", "lightning_loop"
EXAMPLES = "lockstep.examples."
IN_LOOP = {
    "plain_loop": frozenset({"train"}),
    "accelerate_loop": frozenset({"train"}),
    "lightning_loop": frozenset({
        f"Training.{name}" for name in (
            "__init__", "configure_optimizers", "on_fit_start",
            "train_dataloader", "training_step", "on_train_batch_end",
            "on_train_batch_start", "on_train_end", "save",
        )
    }),
}  # fmt: skip
SHARED = {
    "lockstep.pieces": frozenset({
        "Batches.__len__", "Batches.__iter__", "Run.__init__", "Run.restore",
        "Run.committed", "Run.save", "Run.finished", "attached",
    }),
    "lockstep.parallel.resume": frozenset({"share"}),
    "lockstep.trainer.checkpoint": frozenset({
        "Writer.finish", "Writer.write", "publish", "newest_good", "verify",
        "published", "rng_state", "set_rng_state", "seed_rank",
    }),
    "lockstep.examples.settings": frozenset({
        "Settings.rate", "Settings.end", "Settings.saves",
    }),
}  # fmt: skip


class Planted(NamedTuple):
    """A loop with one fault."""

    loop: str
    module: str
    edit: Edit

    @property
    def sources(self) -> dict[str, str]:
        """The changed module's source, by its name."""
        return {self.module: self.edit.applied(source_of(self.module))}

    @property
    def diff(self) -> str:
        """The fault as the lines that it changes."""
        was = source_of(self.module)
        lines = unified_diff(
            was.splitlines(), self.edit.applied(was).splitlines(), n=0
        )
        return "\n".join(line for line in [*lines][2:])


def planted(count: int, seed: int) -> list[Planted]:
    """Draw `count` faults, a third for each loop; half of them in the loop
    itself, if it has as many places, and no fault twice."""
    shared = {name: edits(source_of(name), SHARED[name]) for name in SHARED}
    each = count // len(LOOPS)
    found: list[Planted] = []
    for n, loop in enumerate(LOOPS):
        module = EXAMPLES + loop
        own = {module: edits(source_of(module), IN_LOOP[loop])}
        drawn = sample(own, each // 2, seed)
        rest = sample(shared, each - len(drawn), seed + n)
        for name, edit in rest:
            shared[name].remove(edit)
        found += [Planted(loop, *one) for one in drawn + rest]
    return found
