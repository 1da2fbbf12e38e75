"""Whatever a trainer leaves behind is ended, and what it says is heard.

Trainers are forks of a Python that has loaded torch. One that is killed before
it can go on is a script without torch that speaks as a trainer does: a signal
reaches a fork only through the process that stands for it.
"""

import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch

from lockstep.exam.adapter import Adapter, Launch
from lockstep.exam.env_vars import ADDRESS
from lockstep.exam.launching import (
    ABORTED,
    KEPT,
    STALLED,
    Act,
    Ended,
    Step,
    launching,
)
from lockstep.exam.observe import observe

OBSERVED = """
import os, sys, time
import torch
from lockstep.exam.observe import observe
torch.manual_seed(0)
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.AdamW(model.parameters())
observe(model, optimizer, ids=lambda x: x[:, 0].long().tolist())
for k in range(6):
    model(torch.tensor([[float(k), 1.0]])).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    if len(sys.argv) > 1:
        with open(sys.argv[1], "wb") as file:
            file.write(bytes(10_000))
            file.flush()
            os.fsync(file.fileno())
print("all done")
"""
# Six steps as `observe` tells of them.
TOLD = f"""
import json, os, socket, time
examiner = socket.socket(socket.AF_UNIX)
examiner.connect(os.environ["{ADDRESS}"])
answers = examiner.makefile()
step = dict(event="step", rank=0, world=1, ids=[], before={{}}, drew=[])
for _ in range(6):
    examiner.sendall(json.dumps(step | {{"scale": None}}).encode() + b"\\n")
    while json.loads(answers.readline())["do"] == "hang":
        pass
print("all done")
"""
Run = Callable[..., Ended]


def begun(
    tmp_path: Path,
    code: str,
    *acts: Act,
    python: str | Path = sys.executable,
    args: Any = (),
) -> Any:
    """A launch of these lines of Python, under way."""
    words = [str(python), "-c", code, *map(str, args)]
    adapter = Adapter(tmp_path, "lines", lambda _: words, lambda _: [], {})
    return launching(adapter, Launch(tmp_path / "run"), [*acts], {})


def launched(tmp_path: Path, code: str, *acts: Act, **how: Any) -> Ended:
    """The same, to its end."""
    with begun(tmp_path, code, *acts, **how) as under_way:
        return under_way.wait(60)


@pytest.fixture
def run(tmp_path: Path, warm: Path) -> Run:
    """Launch lines of Python that use torch, and wait for their end."""
    return partial(launched, tmp_path, python=warm / "python")


def runs(process: psutil.Process) -> bool:
    """Whether it has not ended."""
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


def joined(steps: list[Step]) -> list[str]:
    """The weights that each begins with: those that the one before left."""
    weights: list[str] = [step.before["weights"] for step in steps]
    assert weights[1:] == [step.after for step in steps[:-1]]
    return weights


def test_a_launch_leaves_no_thread(tmp_path: Path) -> None:
    """A thread that waited on for a rank could take one of a later launch, by
    the number of its socket."""
    before = {*threading.enumerate()}
    with begun(tmp_path, TOLD) as under_way:
        assert under_way.wait(60).code == 0
    for thread in {*threading.enumerate()} - before:
        thread.join(10)
        assert not thread.is_alive()


def test_every_step_is_told_with_its_samples(run: Run) -> None:
    """Each optimizer step comes with the samples of its forward passes, and
    begins with the weights that the one before ended with."""
    ended = run(OBSERVED)
    assert ended.code == 0, ended.text
    assert [step.ids for step in ended.steps] == [(k,) for k in range(6)]
    weights = joined(ended.steps)
    assert len({*weights}) == 6
    assert ended.text.strip() == "all done"


def test_a_forward_pass_is_counted_in_distinct_samples(run: Run) -> None:
    """A trainer that passes two views of each sample through the model at once
    has micro-batches as large as one with a single view."""
    one = "[float(k), 1.0]"
    code = OBSERVED.replace(f"[{one}]", f"[{one}, [k + 9.0, 1.0], {one}]")
    ended = run(code)
    assert [step.ids for step in ended.steps] == [
        (k, k + 9, k) for k in range(6)
    ], ended.text
    assert [step.passes for step in ended.steps] == [(2,)] * 6


def test_forward_passes_in_a_closure_are_seen(run: Run) -> None:
    """An optimizer that is given a closure runs the forward pass within its
    step, as Lightning has it; samples, rate and state are told all the same."""
    line = "    model(torch.tensor([[float(k), 1.0]])).sum().backward()\n"
    assert line in OBSERVED
    code = OBSERVED.replace(line, "").replace(
        "optimizer.step()",
        "optimizer.step(lambda: (lambda y: (y.backward(), y)[1])"
        "(model(torch.tensor([[float(k), 1.0]])).sum()))",
    )
    ended, plain = run(code), run(OBSERVED)
    assert ended.code == 0, ended.text
    for one, other in zip(ended.steps, plain.steps, strict=True):
        assert one.ids == other.ids
        assert one.after == other.after
        assert one.before["rates"] == other.before["rates"] == [1e-3]
        assert one.before["optimizer"] == other.before["optimizer"]


def test_a_step_without_samples_is_none(run: Run) -> None:
    """DCP takes a step with zero gradients before it loads an optimizer's
    state. The weights that a launch begins with are those loaded after it."""
    code = OBSERVED.replace(
        "for k in",
        "for p in model.parameters(): p.grad = torch.zeros_like(p)\n"
        "optimizer.step(); optimizer.zero_grad()\n"
        "model.load_state_dict({k: torch.ones_like(v) for k, v in"
        " model.state_dict().items()})\nfor k in",
    )
    ended = run(code)
    assert ended.code == 0, ended.text
    assert len(ended.steps) == 6
    weights = joined(ended.steps)
    plain = run(OBSERVED)
    assert weights[0] != plain.steps[0].before["weights"]


def test_samples_without_a_tensor_are_asked_for(run: Run) -> None:
    """A model that is given a dictionary needs `ids`, and is told so."""
    code = OBSERVED.replace(
        "model = torch.nn.Linear(2, 1)",
        "class Model(torch.nn.Linear):\n"
        "    def forward(self, batch): return super().forward(batch['x'])\n"
        "model = Model(2, 1)",
    ).replace("torch.tensor([[float(k), 1.0]])", "{'x': torch.ones(1, 2)}")
    ids = ", ids=lambda x: x[:, 0].long().tolist()"
    assert ids in code
    ended = run(code.replace(ids, ""))
    assert ended.code == 1
    assert "observe(model, ids=…)" in ended.last_words
    given = ", ids=lambda batch: [7]"
    assert run(code.replace(ids, given)).code == 0


def test_of_two_optimizers_the_last_one_counts(run: Run) -> None:
    """A step is over when the last optimizer of the model's weights has
    stepped. Which that is the exam is told, and asks if it is not."""
    two = OBSERVED.replace(
        "optimizer = torch.optim.AdamW(model.parameters())",
        "optimizer = torch.optim.AdamW([model.weight])\n"
        "other = torch.optim.SGD([model.bias], lr=0.1)",
    ).replace("optimizer.step()", "optimizer.step(); other.step()")
    one = "observe(model, optimizer, ids"
    assert one in two
    ended = run(two.replace(one, "observe(model, ids"))
    assert ended.code == 1
    assert "two optimizers step this model's weights" in ended.last_words
    ended = run(two.replace(one, "observe(model, other, ids"))
    assert ended.code == 0, ended.text
    joined(ended.steps)
    # A model that observes itself, as the exam's own does, is told later.
    later = two.replace(one, "observe(model, ids").replace(
        "for k in", "observe(model, other)\nfor k in"
    )
    assert run(later).steps == ended.steps


SHARDED = """
import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from lockstep.exam.task import Model, Samples
dist.init_process_group("gloo")
torch.manual_seed(0)
model = Model()
fully_shard(model.second)
fully_shard(model)
optimizer = torch.optim.AdamW(model.parameters())
samples = Samples()
for k in range(3):
    batch = [samples[4 * k + 2 * dist.get_rank() + i] for i in range(2)]
    x, labels = (torch.stack([s[n] for s in batch]) for n in ("x", "labels"))
    model(x, labels)["loss"].backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def test_sharded_weights_are_seen_as_each_rank_holds_them(
    tmp_path: Path, warm: Path
) -> None:
    """FSDP gathers weights for a forward pass and frees them, which the exam
    must not prevent; a step begins with the part that the one before left."""
    script = tmp_path / "train.py"
    script.write_text(SHARDED)
    words = [str(warm / "torchrun"), "--standalone", "--nproc-per-node=2"]
    words.append(str(script))
    adapter = Adapter(tmp_path, "sharded", lambda _: words, lambda _: [], {})
    with launching(adapter, Launch(tmp_path / "run"), [], {}) as under_way:
        ended = under_way.wait(60)
    assert ended.code == 0, ended.text
    for rank in range(2):
        steps = ended.ranks[rank]
        assert len({*joined(steps)}) == 3


def test_an_evaluation_does_not_count(run: Run) -> None:
    """Samples that go through the model without gradients, or in evaluation
    mode, are not taken for trained on, whether a step follows or not."""
    line = "    optimizer.step()\n"
    assert line in OBSERVED
    code = OBSERVED.replace(
        line,
        "    with torch.no_grad():\n"
        "        model(torch.tensor([[70.0, 1.0]]))\n"
        "    model.eval()(torch.tensor([[80.0, 1.0]])).sum().backward()\n"
        "    model.train()\n" + line,
    )
    ended = run(code)
    assert ended.code == 0, ended.text
    assert [step.ids for step in ended.steps] == [(k,) for k in range(6)]


@pytest.mark.parametrize("fused", [False, True])
def test_a_step_that_is_skipped_is_told_as_such(run: Run, fused: bool) -> None:
    """A fused optimizer is called even then, and skips in its kernel."""
    code = (
        OBSERVED.replace(".parameters())", f".parameters(), fused={fused})")
        .replace("for k", "scaler = torch.amp.GradScaler('cpu')\nfor k")
        .replace("model(torch", "scaler.scale(model(torch")
        .replace(".sum()", ".sum() * [1, torch.inf][k == 2])")
        .replace("optimizer.step()", "scaler.step(optimizer); scaler.update()")
    )
    ended = run(code)
    assert ended.code == 0, ended.text
    assert [step.skipped for step in ended.steps] == [k == 2 for k in range(6)]
    assert [step.ids for step in ended.steps] == [(k,) for k in range(6)]


@pytest.mark.parametrize(("drawn_from", "same"), [(0, True), (1, False)])
def test_a_generator_counts_if_a_forward_pass_draws_from_it(
    run: Run, drawn_from: int, same: bool
) -> None:
    """On a GPU dropout draws from CUDA's generator, and a loader's iterator
    from the CPU's: where the latter stands is no state of dropout."""
    told = []
    for other in range(2):
        code = OBSERVED.replace(
            "for k in range(6):",
            f"""from lockstep.exam import observe as seen
two = [torch.Generator().manual_seed(s) for s in (0, {other})]
seen.generators = lambda: [one.get_state() for one in two]
def draw(*_):
    torch.rand((), generator=two[{drawn_from}])
model.register_forward_hook(draw, prepend=True)
for k in range(6):""",
        )
        ended = run(code)
        assert ended.code == 0, ended.text
        assert all(step.drew for step in ended.steps)
        told.append([step.random(step.drew) for step in ended.steps])
    assert len({*told[0]}) == 6  # it moves on
    assert (told[0] == told[1]) is same


def test_outside_an_exam_nothing_is_observed() -> None:
    """`observe` leaves a model alone where no exam is held."""
    model = torch.nn.Linear(2, 1)
    observe(model, torch.optim.SGD(model.parameters()))
    assert not model._forward_pre_hooks


def test_a_kill_strikes_at_its_step(tmp_path: Path) -> None:
    """SIGKILL comes before the process can go on from the step."""
    ended = launched(tmp_path, TOLD, Act(3, "kill"))
    assert len(ended.steps) == 3
    assert ended.code == -9
    assert "all done" not in ended.text


@pytest.mark.parametrize(
    ("act", "steps", "code", "said"),
    [("refuse", 2, 1, "File too large"), ("tear", 2, -25, "")],
)
def test_a_disk_that_is_full_and_a_write_that_is_torn(
    tmp_path: Path, run: Run, act: str, steps: int, code: int, said: str
) -> None:
    """From a step on a file cannot grow beyond a size: the write fails, or the
    process dies in the middle of it and leaves what fits."""
    path = tmp_path / "saved"
    ended = run(OBSERVED, Act(2, act, 0, 4096), args=[path])
    assert len(ended.steps) == steps
    assert ended.code == code
    assert said in ended.last_words
    assert path.stat().st_size == 4096


def test_a_write_that_stalls_holds_its_process(
    tmp_path: Path, run: Run
) -> None:
    """A write beyond a size never ends, though the process lives on; the launch
    is killed when the other ranks have had some time."""
    path = tmp_path / "saved"
    ended = run(OBSERVED, Act(2, "stall", 0, 4096), args=[path])
    assert len(ended.steps) == 2
    assert ended.code == -9
    assert ended.seconds_after_act > STALLED
    assert path.stat().st_size == 4096


SAVING = (
    TOLD.replace("import json", "import pathlib, sys, json")
    .replace("    while json", "    taken += 1\n    while json")
    .replace("for _ in", "taken, root = 0, pathlib.Path(sys.argv[1])\nfor _ in")
    .replace(
        'print("all done")',
        '    if taken % 2 == 0:\n        save()\nprint("all done")',
    )
)
SAVED_AS = """
def save():
    for name in "abc":
        (root / f"{taken}{name}").write_text("whole")
        time.sleep(0.05)
"""


def test_a_kill_strikes_between_files(tmp_path: Path) -> None:
    """All processes are killed when the second file of a save has been begun:
    the first is whole, and the third does not exist. A file that was there
    before does not count, nor does one that takes its inode."""
    code = SAVED_AS + SAVING
    root = tmp_path / "run"
    act = Act(4, "between", None, files=2)
    ended = launched(tmp_path, code, act, args=[root])
    assert ended.acted == ["between"]
    assert ended.code == -9
    names = sorted(path.name for path in root.iterdir())
    assert names == ["2a", "2b", "2c", "4a", "4b"]
    assert (root / "4a").read_text() == "whole"


def test_a_published_checkpoint_is_noted_with_its_step(tmp_path: Path) -> None:
    """The examiner notes after how many steps a checkpoint was published. One
    that is published late, in the background, is waited for, and counts as the
    oldest that it can be."""
    root = tmp_path / "run"
    late = """
import threading
def save():
    name = str(taken)
    def later():
        time.sleep(0.4)
        (root / name).write_text("whole")
    threading.Thread(target=later).start()
"""
    for save in SAVED_AS, late:
        words = [sys.executable, "-c", save + SAVING, str(root)]
        adapter = Adapter(
            tmp_path, "a", lambda _, w=words: w,
            lambda folder: sorted(folder.glob("*")), {},
        )  # fmt: skip
        shutil.rmtree(root, ignore_errors=True)
        launch = Launch(root, save_every=2)
        with launching(adapter, launch, [], {}) as under_way:
            ended = under_way.wait(60)
        assert ended.published == [2, 4, 6]
        assert ended.saved(0) == 6


@pytest.mark.parametrize(
    ("start", "published", "taken", "saved"),
    [
        (0, [], 9, 0),
        (0, [4, 8], 9, 8),
        (0, [4, 10], 11, 8),  # in the background
        (0, [9], 11, 4),  # which may be that of step 4, come late
        (8, [4], 5, 12),
        (6, [2], 4, 8),
        (0, [4, 6, 8], 9, 8),  # one more, at an epoch's end
        (0, [4, 8, 12, 16, 18], 18, 18),
        (0, [4, 8, 12, 16], 18, 16),
        (16, [2], 2, 18),
    ],
)
def test_the_newest_published_step_is_never_overrated(
    start: int, published: list[int], taken: int, saved: int
) -> None:
    """What a launch must resume from is at most what was surely published."""
    step = Step(False, (), {}, "", (), (), None)
    ended = Ended([], ranks={0: [step] * taken}, save_every=4)
    ended.published = published
    assert ended.saved(start) == saved


def test_sigterm_strikes_between_two_forward_passes(run: Run) -> None:
    """Where gradients are accumulated, SIGTERM reaches the process before the
    second forward pass of a step, and after the first."""
    code = OBSERVED.replace(
        "for k in",
        "import signal\nflag = []\n"
        "signal.signal(15, lambda *_: flag.append(1))\nfor k in",
    ).replace(
        "    optimizer.step()\n",
        "    seen = len(flag)\n"
        "    model(torch.tensor([[k + 10.0, 1.0]])).sum().backward()\n"
        "    if len(flag) > seen: sys.exit(75)\n"
        "    optimizer.step()\n",
    )
    ended = run(code, Act(2, "terminate", None, before=2))
    assert ended.code == 75, ended.text
    assert [step.passes for step in ended.steps] == [(1, 1), (1, 1)]


def test_of_a_long_output_the_ends_are_kept(tmp_path: Path) -> None:
    """A trainer that prints very much does not fill the examiner's memory, and
    its last words are kept."""
    code = (
        "print('begun')\n"
        "for _ in range(400): print('x' * 99_999)\n"
        "raise ValueError('the end')"
    )
    before = psutil.Process().memory_info().rss
    ended = launched(tmp_path, code)
    assert ended.text.startswith("begun")
    assert "ValueError: the end" in ended.text
    assert "bytes left out" in ended.text
    assert len(ended.text) < 4 * KEPT
    assert psutil.Process().memory_info().rss - before < 20 * KEPT


def test_temporary_files_go_with_the_launch(tmp_path: Path) -> None:
    """What a trainer leaves in the temporary folder, as torchrun does, is
    removed, and the folder's name leaves room for a socket's."""
    code = "import tempfile; print(tempfile.mkdtemp(prefix='torchelastic_'))"
    left = Path(launched(tmp_path, code).text.strip())
    assert left.name.startswith("torchelastic_")
    assert not left.exists()
    assert not left.parent.exists()
    assert len(str(left.parent)) < 40


def test_an_abort_at_the_end_is_explained(tmp_path: Path) -> None:
    """A process that aborts after its work, since a thread of gloo was still at
    work, is told what waits for that thread."""
    code = f"import os; os.write(2, b'{ABORTED}\\n'); os.abort()"
    assert "lockstep.pieces.attached" in launched(tmp_path, code).last_words
    own = f"print('ValueError: no'); {code}"
    assert launched(tmp_path, own).last_words == "ValueError: no"


def test_who_is_told_to_end_has_steps_to_do_so(run: Run) -> None:
    """After SIGTERM steps are slow, so that a trainer that looks for its flag
    after each step can still save and leave."""
    code = OBSERVED.replace(
        "for k in",
        "import signal\nflag = []\n"
        "signal.signal(15, lambda *_: flag.append(1))\nfor k in",
    ).replace("optimizer.zero_grad()", "if flag: sys.exit(75)")
    ended = run(code, Act(2, "terminate"))
    assert ended.code == 75, ended.text
    assert len(ended.steps) <= 3


def test_what_hangs_is_ended_when_its_time_is_up(
    tmp_path: Path, warm: Path
) -> None:
    """A rank that is put to sleep, and the launch is ended by the examiner."""
    hang, python = Act(1, "hang"), warm / "python"
    with begun(tmp_path, OBSERVED, hang, python=python) as under_way:
        while not under_way.ended.acted:
            assert under_way.process.poll() is None
            time.sleep(0.1)
        ended = under_way.wait(1)
        assert ended.out_of_time
        assert len(ended.steps) == 1
        assert not under_way.left()


def test_after_an_act_its_time_begins_anew(tmp_path: Path) -> None:
    """What comes late to the step at which it is told to hang is waited for as
    long as what comes early."""
    slow = TOLD.replace("for _ in", "time.sleep(1)\nfor _ in")
    with begun(tmp_path, slow, Act(1, "hang")) as under_way:
        ended = under_way.wait(600, patience=0.5)
    assert ended.out_of_time
    assert len(ended.steps) == 1
    assert ended.seconds_after_act > 0.5
    with begun(tmp_path, slow, Act(1, "hang")) as under_way:
        ended = under_way.wait(0.5, patience=60)
    assert not ended.acted  # it did not come that far


def test_processes_of_others_are_left_alone(tmp_path: Path) -> None:
    """A child that the examiner had before, such as a server of the test
    session, may begin others meanwhile."""
    server = subprocess.Popen(
        [sys.executable, "-c", "import subprocess, sys; input();"
         " subprocess.Popen(['sleep', '60']); print('begun', flush=True);"
         " input()"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert server.stdin
    assert server.stdout
    with begun(tmp_path, TOLD, Act(1, "hang")) as under_way:
        print(file=server.stdin, flush=True)
        assert server.stdout.readline() == "begun\n"
        (theirs,) = psutil.Process(server.pid).children()
        assert under_way.wait(0.1).out_of_time
    assert runs(theirs)
    theirs.kill()
    server.kill()
    server.communicate()


def test_an_exam_that_is_told_to_end_ends_its_launch(
    tmp_path: Path, warm: Path
) -> None:
    """At SIGTERM, as by `timeout` or a job that is canceled, the command ends
    the trainer, though it takes no step, and leaves."""
    pid = tmp_path / "pid"
    lines = (
        "import os, pathlib, time",
        f"pathlib.Path({str(pid)!r}).write_text(str(os.getpid()))",
        "time.sleep(600)",
    )
    words = [sys.executable, "-c", "\n".join(lines)]
    text = f"def command(launch): return {words!r}"
    (tmp_path / "a.py").write_text(text)
    exam = subprocess.Popen([warm / "lockstep", "exam", "a.py"], cwd=tmp_path)
    while not pid.exists() or not pid.read_text():
        assert exam.poll() is None
        time.sleep(0.1)
    trainer = psutil.Process(int(pid.read_text()))
    exam.terminate()
    assert exam.wait(30) == 143
    assert not runs(trainer)


def test_a_launch_that_is_broken_off_at_its_beginning_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A SIGTERM may come when the trainer has started and its examiner has not
    yet taken note of it."""
    begin, started = subprocess.Popen, []

    def broken_off(*args: Any, **kwargs: Any) -> Any:
        started.append(begin(*args, **kwargs))
        raise SystemExit(143)

    with monkeypatch.context() as patch:
        patch.setattr(subprocess, "Popen", broken_off)
        with pytest.raises(SystemExit):
            begun(tmp_path, "import time; time.sleep(600)").__enter__()
    assert not psutil.pid_exists(started[0].pid)


def test_processes_that_outlive_their_launcher_are_ended(
    tmp_path: Path,
) -> None:
    """A process in a session of its own, whose parent has gone, is found and
    killed; nothing stays behind, not even a zombie."""
    code = (
        "import subprocess, sys; p = subprocess.Popen([sys.executable, '-c',"
        " 'import time; time.sleep(600)'], start_new_session=True,"
        " env={'PATH': ''}); print(p.pid)"
    )
    ended = launched(tmp_path, code)
    assert ended.code == 0
    assert not psutil.pid_exists(int(ended.text))


def test_an_examiner_that_is_killed_leaves_nothing_training(
    tmp_path: Path, warm: Path
) -> None:
    """Where the examiner is gone, a process that takes a step ends itself."""
    slow = OBSERVED.replace(
        "optimizer.step()", "time.sleep(0.3); optimizer.step()"
    )
    slow = slow.replace("range(6)", "range(1000)")
    (tmp_path / "trainer.py").write_text(slow)
    (tmp_path / "examiner.py").write_text(
        "from pathlib import Path\n"
        "from lockstep.exam.adapter import Adapter, Launch\n"
        "from lockstep.exam.launching import Launching\n"
        f"words = {[str(warm / 'python'), str(tmp_path / 'trainer.py')]}\n"
        "a = Adapter(Path(), 'a', lambda _: words, lambda _: [], {})\n"
        f"launch = Launch(Path({str(tmp_path / 'run')!r}))\n"
        "it = Launching(a, launch, [], {})\n"
        "it.start()\n"
        "print(it.process.pid, flush=True)\n"
        "it.wait(600)\n"
    )
    examiner = subprocess.Popen(
        [sys.executable, tmp_path / "examiner.py"], stdout=subprocess.PIPE
    )
    assert examiner.stdout
    trainer = psutil.Process(int(examiner.stdout.readline()))
    os.kill(examiner.pid, 9)
    examiner.wait()
    psutil.wait_procs([trainer], timeout=60)
    deadline = time.monotonic() + 30
    while runs(trainer):
        assert time.monotonic() < deadline
        time.sleep(0.1)
