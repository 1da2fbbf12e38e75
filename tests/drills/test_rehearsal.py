"""The rehearsal sees what is wrong in each cell, and says it in a line.

That the cut itself passes, launched by torchrun, is what the walkthrough page
runs and shows.
"""

import json
import os
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
import torch.distributed as dist

from lockstep.drills.rehearsal import __main__ as rehearsal
from lockstep.drills.rehearsal import cells, tools
from lockstep.grading.mutants import replaced
from tests import ranks


def typed(folder: Path, old: str = "", new: str = "", upto: int = 8) -> Path:
    """The first cells of the cut as somebody typed them, with one mistake."""
    file = folder / "interview.py"
    file.write_text(replaced(rehearsal.printed(upto), [(old, new)]))
    return file


def rehearse_as_rank(file: Path, upto: int, seconds: float) -> int:
    """What a rank does that the rehearsal has launched; says it in a file."""
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    dist.init_process_group = partial(
        dist.init_process_group,
        store=ranks.store(),
        rank=rank,
        world_size=world,
    )
    rehearsal.SECONDS = seconds  # type: ignore[attr-defined]
    os.environ["REHEARSAL"] = str(file.parent)
    sys.stdout = (file.parent / f"rank-{rank}.txt").open("w", 1)
    return rehearsal.main([str(file), "--as-rank", str(upto)])


def said(file: Path, upto: int, seconds: float = 60) -> list[str]:
    """The lines that two ranks print about cells 1 to `upto`."""
    with suppress(ranks.RankError):  # one has failed, the other died of that
        ranks.run_ranks(2, rehearse_as_rank, file, upto, seconds)
    texts = [(file.parent / f"rank-{r}.txt").read_text() for r in range(2)]
    return [line for text in texts for line in text.splitlines()]


def test_the_cut_holds_on_two_ranks(tmp_path: Path) -> None:
    lines = said(typed(tmp_path), upto=7)
    assert [line.split()[1] for line in lines] == [
        check.__name__ for check in rehearsal.CHECKS[:7]
    ]
    assert "WRONG" not in "".join(lines)


MISTAKES = {
    "a batch that the ranks cannot make up": (
        1,
        " or batch < share or batch % share",
        "",
        "3 ranks x 16 do not divide 64",
    ),
    "a batch that grows with the ranks": (
        1,
        "return batch // share",
        "return 2",
        r"train on [32, 64, 128] samples a step",
    ),
    "an identity of the launch": (
        1,
        " if k not in OF_A_LAUNCH",
        "",
        "identity() holds run_dir",
    ),
    "an identity of nothing": (
        1,
        "k not in OF_A_LAUNCH",
        "False",
        "identity() lacks the seed",
    ),
    "an order for each rank": (
        2,
        "[cfg.seed, epoch]",
        "[cfg.seed, epoch, rank]",
        "take batch[rank::world]",
    ),
    "a dropped remainder": (
        2,
        "np.divmod(np.arange(at, at + batch), n)",
        "np.divmod(np.arange(at, at + batch), n - 1)",
        "the first 4000 draws hold",
    ),
    "an epoch like the one before": (
        2,
        "[cfg.seed, epoch]",
        "[cfg.seed, 0]",
        "the order is not the one that the audit knows",
    ),
    "a resume at the beginning": (
        2,
        "range(position, ",
        "range(0, ",
        "let the range begin at position",
    ),
    "a share that is not split": (
        2,
        "np.split(mine, accum)",
        "[mine]",
        "a micro-batch is not of 16",
    ),
    "labels by chance": (
        2,
        "(x @ torch.randn(32, 4, generator=rng)).argmax(1)",
        "torch.randint(4, (n + held_out,), generator=rng)",
        "let a teacher label",
    ),
    "replicas that begin apart": (
        3,
        "    torch.manual_seed(cfg.seed)\n",
        "",
        "seed before the layers are made",
    ),
    "an optimizer of another model": (
        3,
        "torch.optim.AdamW(model.parameters())",
        "torch.optim.AdamW(nn.Linear(32, 4).parameters())",
        "does not hold the model's parameters",
    ),
    "a rate without warm-up": (
        3,
        "* warm *",
        "*",
        "times (step + 1) / (warmup_steps + 1)",
    ),
    "a rank by its node": (
        4,
        "return dist.get_rank(), ",
        "return 0, ",
        "return what the group says",
    ),
    "a decision that stays on rank 0": (
        4,
        '    dist.broadcast_object_list(box, device=torch.device("cpu"))\n',
        "",
        "on_rank0() gives the ranks [0, None]",
    ),
    "replicas without DDP": (
        4,
        "nn.parallel.DistributedDataParallel(model.to(device))",
        "model.to(device)",
        "ranks hold different gradients",
    ),
    "a pass that is not wasted": (
        4,
        "    ddp.zero_grad()\n",
        "",
        "wrap() leaves the wasted pass behind",
    ),
    "a mean of means": (
        5,
        "loss * r.world / batch",
        "loss / batch",
        "step elsewhere than one batch of 64",
    ),
    "autocast by default": (
        5,
        "dtype is not None)",
        "True)",
        "fp32 was asked for, and {torch.bfloat16} computed",
    ),
    "a loss of the last micro-batch": (
        5,
        "total += loss.detach()",
        "total = loss.detach()",
        "does not return the share's summed loss and its ids",
    ),
    "a wait for data that nobody times": (
        5,
        'with r.log.phase("load"): own',
        "own",
        "no phase is named load",
    ),
    "NaN": (
        5,
        "            raise FloatingPointError",
        "            str",
        "a gradient of NaN is applied",
    ),
    "a save onto the final name": (
        6,
        'tmp, final = root / "tmp", root',
        "tmp = final = root",
        "rename it when it is whole",
    ),
    "an optimizer left behind": (
        6,
        "        part.load_state_dict(saved[name])\n",
        "        name == 'model' and part.load_state_dict(saved[name])\n",
        "load every part",
    ),
    "rank 0's RNG state for all": (
        6,
        'path / f"rank-{r.rank}.pt", "cpu"',
        'path / "rank-0.pt", "cpu"',
        "rank 1 draws other numbers than before",
    ),
    "a restore that does not say from what": (
        6,
        "**state, saved=state)",
        "**state)",
        "checkpoint_restored lacks saved",
    ),
    "a run that goes on from another": (
        6,
        "(now := getattr(r.cfg, name)) != was",
        "(now := was) != was",
        "it restores a run of another seed",
    ),
    "events of nobody": (
        7,
        'self.who = {"rank": rank, ',
        'self.who = {"rank": 0, ',
        "name the event, this rank and this attempt",
    ),
    "events of an earlier attempt": (
        7,
        "**what, **self.who}",
        "**self.who, **what}",
        "whatever a restored state says",
    ),
    "a record without the step": (
        7,
        'self.who["attempt"], step, position',
        'self.who["attempt"], position, position',
        "int64 words: magic, attempt, step",
    ),
    "a record that begins otherwise": (
        7,
        'int.from_bytes(b"LOCKSTEP")',
        'int.from_bytes(b"LOCKSTEP", "little")',
        "not [5498687660842304848, 0, 3, 192, 5",
    ),
    "answers that are counted twice": (
        7,
        "mine = slice(r.rank, None, r.world)",
        "mine = slice(None)",
        "1 of 1,001 answers is right, and evaluate() finds 2",
    ),
    "a digest of names": (
        7,
        "        digest.update(w.cpu().numpy().tobytes())\n",
        "",
        "does not see that a weight changed",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_named_in_its_cell(name: str, tmp_path: Path) -> None:
    cell, old, new, says = MISTAKES[name]
    lines = said(typed(tmp_path, old, new), upto=cell)
    (wrong,) = [line for line in lines if "WRONG" in line]
    assert wrong.startswith(f"{cell} ")
    assert says in wrong


def test_ranks_that_wait_for_each_other_are_given_up(tmp_path: Path) -> None:
    """Rank 0 waits for data that nobody sends."""
    forever = "box = [dist.recv(torch.zeros(1), 1)"
    file = typed(tmp_path, "box = [decide()", forever)
    (wrong,) = [line for line in said(file, 4, 3) if "WRONG" in line]
    assert wrong == (
        "4 ranks       WRONG: ranks wait for each other: all make the same"
        " calls"
    )


def test_an_error_has_its_line(tmp_path: Path) -> None:
    file = typed(tmp_path, "def build(cfg):", "def build(cfg, size):", upto=3)
    (wrong,) = [line for line in said(file, 3) if "WRONG" in line]
    assert wrong.startswith("3 model       WRONG: TypeError: build() missing")

    (tmp_path / "said").unlink()
    file = typed(tmp_path, "batch // share", "batch // shares", upto=1)
    at = file.read_text().split("shares")[0].count("\n") + 1
    (wrong,) = [line for line in said(file, 1) if "WRONG" in line]
    assert f"WRONG: line {at}: NameError: name 'shares'" in wrong


@pytest.mark.parametrize(
    ("upto", "last"),
    [
        (1, "1 of 8 cells pass; next, 2 data: toy, sampler"),
        (3, "3 of 8 cells pass; next, 4 ranks: join, on_rank0, wrap"),
    ],
)
def test_a_file_may_end_at_any_cell(
    upto: int, last: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = typed(tmp_path, upto=upto)
    assert rehearsal.main([str(file)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == upto + 1
    assert lines[-1] == last


def test_what_is_no_python_is_said_with_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "interview.py"
    file.write_text("import os\ndef join(:\n")
    assert rehearsal.main([str(file)]) == 1
    assert capsys.readouterr().out == "line 2: invalid syntax\n"
    with pytest.raises(SystemExit, match="2"):
        rehearsal.main([str(tmp_path / "none.py")])
    assert "no such file" in capsys.readouterr().err


def test_all_that_the_logs_lack_is_named(tmp_path: Path) -> None:
    (tmp_path / "events").mkdir()
    whole = {kind: dict.fromkeys(due) for kind, due in cells.LOGGED.items()}
    del whole["run_started"]["steps"], whole["checkpoint_saved"]
    with (tmp_path / "events" / "attempt-0-rank-0.jsonl").open("w") as log:
        for kind, fields in whole.items():
            log.write(json.dumps({"event": kind, **fields}) + "\n")
    assert cells.unlogged(tmp_path) == [
        "run_started lacks steps",
        "no event checkpoint_saved",
    ]


@pytest.mark.slow
@pytest.mark.timeout(400)  # three launches, on a machine that may be busy
def test_a_launch_that_begins_again_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, warm: Path
) -> None:
    monkeypatch.setenv("REHEARSAL", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(warm / "python"))
    forgetful = typed(tmp_path, "loss = restore(r)", "loss = 0, 0.0")
    with pytest.raises(tools.Wrong, match="it trains 25 steps twice"):
        cells.launch(rehearsal.load(forgetful))
