"""An adapter that cannot be used is refused in one line that says why."""

from pathlib import Path

import pytest

from lockstep.cli import main
from lockstep.exam.adapter import AdapterError, Launch, load, reads


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1", "has no `command(launch)`"),
        ("1 / 0", "raises ZeroDivisionError"),
        ("import sys; sys.exit(0)", "raises SystemExit"),
        ("def command(launch): ...\nlacks = ['stop']", "is a dictionary"),
        ("def command(launch): ...\nlacks = {'ema': True}", "is a dictionary"),
    ],
)
def test_what_is_no_adapter_is_refused(
    tmp_path: Path, text: str, said: str
) -> None:
    path = tmp_path / "adapter.py"
    path.write_text(text)
    with pytest.raises(AdapterError, match=r"adapter\.py") as caught:
        load(path)
    assert said in str(caught.value)


def test_words_become_text_and_checkpoints_have_a_place(
    tmp_path: Path,
) -> None:
    """Numbers and paths of a command need not be made text, and without a word
    checkpoints are what lies in `checkpoints`, the oldest first."""
    path = tmp_path / "mine.py"
    path.write_text("def command(l): return ['run', l.ranks, l.run_dir]")
    adapter = load(path)
    assert adapter.name == "mine"
    assert adapter.command(Launch(Path("r"))) == ["run", "2", "r"]
    for name in "b", "a":
        (tmp_path / "checkpoints" / name).mkdir(parents=True)
    names = [found.name for found in adapter.checkpoints(tmp_path)]
    assert sorted(names) == ["a", "b"]


def test_unfinished_checkpoints_do_not_count(tmp_path: Path) -> None:
    """If an adapter doesn't list checkpoints, a folder counts only after it is
    renamed to its final name. Otherwise a background save would seem to be
    published while it is being written."""
    path = tmp_path / "mine.py"
    path.write_text("def command(launch): return ['run']")
    complete = {"step-8", "temperature-1", "8.pt", "template.pt"}
    unfinished = {"tmp", "8.pt.tmp", "tmp-8", "step_8_temp", ".step-8", "_8"}
    unfinished |= {"8.partial", "step-8.incomplete", "Unfinished-8"}
    for name in complete | unfinished:
        (tmp_path / "checkpoints" / name).mkdir(parents=True)
    found = load(path).checkpoints(tmp_path)
    assert {one.name for one in found} == complete


def test_what_a_command_reads_of_a_launch_is_known(tmp_path: Path) -> None:
    """A question about a setting applies where the command reads that setting,
    also by way of another adapter's command."""
    path = tmp_path / "mine.py"
    path.write_text("def command(launch): return [launch.ranks]")
    launch = Launch(tmp_path)
    assert reads(load(path), launch, "ranks")
    assert not reads(load(path), launch, "micro_batch")
    theirs = load("lockstep.examples.accelerate_loop_exam")
    assert reads(theirs, launch, "micro_batch")


def test_a_module_is_found_by_its_name() -> None:
    """An adapter that is installed need not be looked for."""
    found = load("lockstep.examples.plain_loop_exam")
    assert found.path.name == "plain_loop_exam.py"
    command = found.command(Launch(Path("r"), stop_at=8, precision="fp16"))
    assert command[6].endswith("plain_loop.py")
    asked = " ".join(command)
    assert "--stop-at 8" in asked
    assert "--fp16" in asked


STEP = """
import os
os.environ |= {"RANK": "0", "WORLD_SIZE": "2"}
from lockstep.exam.task import Model, Samples
import torch
model, (x, labels) = Model(), [t[None] for t in Samples()[0].values()]
model(x, labels)["loss"].backward()
torch.optim.SGD(model.parameters()).step()
"""


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["none.py"], "error: none.py: no such file, and no such module"),
        (["lockstep.nobody"], "error: lockstep.nobody: no such file, and"),
        (["ADAPTER", "--only", "speed"], "'speed' isn't a question; the"),
        (["ADAPTER", "--only", "fp16"], "'fp16' isn't a question; the"),
        (["ADAPTER", "--ranks", "3"], "3 ranks cannot share a batch of 16"),
        (["ADAPTER", "--html", "a.py/r.html"], "error: "),
        (["LACKS"], "'speed' is nothing that a trainer may lack"),
        (["ADAPTER", "--ranks", "0"], "0 ranks cannot share a batch of 16"),
        (["NO-WORDS"], "command(launch) raises TypeError"),
        (["A-STRING"], "a list of words is wanted, not a string"),
        (["TWO-RANKS", "--ranks", "1"], "asked for 1 ranks, it ran on 2"),
        (["TWO-RANKS"], "only 1 of 2 ranks told of a step"),
        (["NO-PROGRAM"], "cannot be launched: [Errno 2] No such file"),
        (["ADAPTER"], "exit code 3 after 0 steps: it cannot"),
    ],
)
def test_the_command_says_what_is_wrong_and_exits_with_2(
    tmp_path: Path,
    args: list[str],
    said: str,
    warm: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    leaves = (
        "import sys\ndef command(launch): return [sys.executable, '-c',"
        " 'import sys; print(\"it cannot\"); sys.exit(3)']\n"
    )
    words = [str(warm / "python"), "-c", STEP]
    texts = {
        "ADAPTER": leaves,
        "LACKS": leaves + "lacks = {'speed': 'why not'}",
        "NO-WORDS": "def command(launch): ...",
        "A-STRING": "def command(launch): return 'python train.py'",
        "TWO-RANKS": f"def command(launch): return {words!r}",
        "NO-PROGRAM": "def command(launch): return ['/no/such/program']",
    }
    monkeypatch.chdir(tmp_path)
    path = Path("a.py")
    path.write_text(texts.get(args[0], ""))
    args = ["a.py" if arg in texts else arg for arg in args]
    code = main(["exam", *args, "--folder", str(tmp_path / "exam")])
    assert code == 2
    assert said in capsys.readouterr().err
