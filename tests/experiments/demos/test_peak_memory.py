"""What a page says of memory, counted again on small blocks."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.profiler import profile

from lockstep.experiments.demos.peak_memory import (
    GPT3,
    MODES,
    main,
    of_blocks,
    of_loss,
    planned,
)
from lockstep.instruments.peak import counted

SMALL = GPT3 | {"layers": 3, "hidden": 64, "heads": 4}
SMALL |= {"sequence": 128, "micro_batch": 2}
LAYERS, HEADS, TOKENS = 3, 4, 2 * 128


@pytest.mark.parametrize("name", MODES)
def test_blocks_keep_what_is_planned(name: str) -> None:
    """What torch's memory tracker counts as kept by a stack of blocks is what
    the planner says, to the byte, in every mode of recomputation."""
    mode = MODES[name]
    left_out = 2  # the loss, in 16 bits
    if mode.recompute != "full":  # mean and deviation of two norms
        left_out += LAYERS * 2 * 2 * TOKENS * 4
    if name == "flash":  # of each head the logarithm of a sum
        left_out += LAYERS * HEADS * TOKENS * 4
    assert of_blocks(mode, SMALL).kept == planned(mode, SMALL) + left_out


def test_recomputing_a_block_brings_all_of_it_back() -> None:
    """Recomputing blocks lowers the peak by what the other blocks no longer
    keep: the one that is recomputed is in memory whole."""
    full, none = (of_blocks(MODES[name], SMALL) for name in ("full", "none"))
    each = planned(MODES["full"], SMALL) / LAYERS  # a block's input
    # While the last block is recomputed, all of it is there: the peaks differ
    # by what the other blocks do not keep.
    spared = (LAYERS - 1) * (none.kept / LAYERS - each)
    assert none.peak - full.peak == pytest.approx(spared, rel=0.02)


def test_recomputing_lowers_the_peak_that_flash_attention_leaves() -> None:
    peaks = {name: of_blocks(MODES[name], SMALL).peak for name in MODES}
    assert peaks["flash, full"] < peaks["flash"] < peaks["none"]
    assert peaks["flash, full"] < peaks["full"] < peaks["none"]


def test_a_loss_peaks_at_twelve_bytes_a_logit() -> None:
    """A cross-entropy over 16-bit logits keeps 4 bytes a logit and peaks at 12.
    In eight recomputed pieces it peaks at an eighth of that."""
    tokens, hidden, vocab = 512, 8, 4096
    whole, in_pieces = (of_loss(n, tokens, hidden, vocab) for n in (1, 8))
    logits = tokens * vocab
    assert whole.kept / logits == pytest.approx(4, rel=0.01)
    assert whole.peak / logits == pytest.approx(12, rel=0.01)
    assert in_pieces.kept / logits < 0.01
    assert in_pieces.peak / logits == pytest.approx(12 / 8, rel=0.1)


def test_torchs_chunked_loss_never_holds_all_logits() -> None:
    """`F.linear_cross_entropy` with `LinearCrossEntropyOptions()` makes the
    loss of `F.cross_entropy` and peaks below one byte a logit instead of 12.
    Without options, it holds all logits as well."""
    torch.manual_seed(0)
    head = nn.Linear(64, 4096, bias=False)
    x, y = torch.randn(1024, 64), torch.randint(4096, (1024,))
    options = nn.LinearCrossEntropyOptions()

    def loss() -> Tensor:
        return F.linear_cross_entropy(x, head.weight, y, options=options)

    assert torch.allclose(loss(), F.cross_entropy(head(x), y))
    assert counted(head, loss).peak < 1024 * 4096

    def by_default() -> Tensor:
        return F.linear_cross_entropy(x, head.weight, y)

    assert counted(head, by_default).peak >= 12 * 1024 * 4096


def test_torchs_chunked_loss_repeats_no_product() -> None:
    """It computes gradients in the forward pass: three products for each of
    its four chunks, as without chunks, and none in the backward pass."""
    head = nn.Linear(64, 512, bias=False)
    x = torch.randn(256, 64, requires_grad=True)
    y = torch.randint(512, (256,))
    options = nn.LinearCrossEntropyOptions(batch_chunk_size=64)

    def products(run: Callable[[], object]) -> int:
        with profile() as found:
            run()
        return sum(one.count for one in found.key_averages() if "mm" in one.key)

    losses: list[Tensor] = []
    assert (
        products(
            lambda: losses.append(
                F.linear_cross_entropy(x, head.weight, y, options=options)
            )
        )
        == 3 * 4
    )
    assert products(losses[0].backward) == 0


def test_more_pieces_of_a_loss_leave_the_heads_gradient() -> None:
    """Three copies of it, in 16 bits, and the inputs with their gradient."""
    eight, many = of_loss(8), of_loss(64)
    assert many.peak == eight.peak
    copies = 3 * 2 * 4096 * 128256
    assert many.peak == pytest.approx(copies + 2 * 2 * 8192 * 4096, rel=1e-3)


def test_the_tables_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    main()
    blocks, loss = capsys.readouterr().out.split("\n\n")
    rows = [line.split() for line in blocks.splitlines()[1:]]
    assert [*MODES] == [" ".join(row[:-3]) for row in rows]
    assert rows[0][1:] == ["11.476", "11.476", "12.910"]
    # A seventeenth of what flash attention keeps, and a peak a twelfth lower.
    assert rows[2] == ["full", "0.201", "0.201", "4.454"]
    assert rows[3] == ["flash", "3.423", "3.426", "4.860"]
    assert loss.splitlines()[1].split() == ["whole", "4.270", "12.675"]
