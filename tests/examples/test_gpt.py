"""The GPT that ships as an example of a task."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from lockstep.examples import gpt
from lockstep.trainer.config import ConfigError, TrainConfig
from lockstep.trainer.extensions.audit import audit
from lockstep.trainer.extensions.options import Options
from tests import jobs, ranks

SETTINGS: dict[str, Any] = {
    "task": "lockstep.examples.gpt:task",
    "hidden_size": 32,
    "global_batch_size": 16,
    "micro_batch_size": 4,
    "max_steps": 40,
    "warmup_steps": 4,
    "learning_rate": 0.01,
    "checkpoint_every_steps": 10,
}


@pytest.fixture(scope="module")
def tokens(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("gpt") / "tokens.bin"
    # 300 windows of its own source; the whole package is more than a test
    # needs.
    gpt.prepare(path, [Path(gpt.__file__)] * 7)
    return path


def work(tokens: Path, settings: dict[str, Any], options: Options) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(gpt.TOKENS, str(tokens))
        return jobs.work(settings, options)


def train(
    world: int, tokens: Path, options: Options = jobs.PLAIN, **settings: Any
) -> dict[str, Any]:
    given = SETTINGS | settings
    return ranks.run_ranks(world, work, tokens, given, options)[0]


def test_the_loss_falls_and_a_resume_is_bitwise(tokens, tmp_path) -> None:
    """Forty steps on two ranks take the loss from that of a guess among 256
    bytes to less than two thirds of it, on held-out windows too. A run that
    was stopped at step 13 and launched again ends with the same weights."""
    last = train(2, tokens, run_dir=tmp_path / "run")
    first = jobs.only("step", tmp_path / "run", 0)[0]
    guess = np.log(256)
    assert first["loss"] == pytest.approx(guess, rel=0.1)
    assert last["loss"] < guess * 2 / 3
    assert last["bits_per_byte"] < 8 * 2 / 3
    train(2, tokens, run_dir=tmp_path / "two", stop_at_step=13)
    again = train(2, tokens, run_dir=tmp_path / "two")
    assert again["weights_sha256"] == last["weights_sha256"]
    assert audit(tmp_path / "two").proven


@pytest.mark.parametrize(
    "options",
    [Options(strategy="fsdp2"), Options(activation_checkpointing=True)],
    ids=["fsdp2", "recomputing"],
)
def test_shards_and_recomputation_change_nothing(
    options, tokens, tmp_path
) -> None:
    """FSDP2 and recomputed activations train the GPT as DDP does: the loss
    after three steps is the same up to the order of additions."""
    short = {"max_steps": 3, "dropout": 0.0}
    plain = train(2, tokens, run_dir=tmp_path / "plain", **short)
    last = train(2, tokens, options, run_dir=tmp_path / "other", **short)
    for name in ("loss", "bits_per_byte"):
        assert last[name] == pytest.approx(plain[name], rel=1e-4)


def test_tokens_are_the_bytes_of_the_files(
    tmp_path, capsys, monkeypatch
) -> None:
    """In the order given, a 0 after each; without files, those of the package
    in the order of their names, however the disk lists them."""
    (tmp_path / "a").write_text("alpha")
    (tmp_path / "b").write_text("β")
    target = tmp_path / "tokens.bin"
    paths = [str(tmp_path / name) for name in ("b", "a")]
    assert gpt.main([str(target), *paths]) == 0
    assert target.read_bytes() == "β\0alpha\0".encode()
    assert "9 tokens" in capsys.readouterr().out
    assert gpt.main([str(target)]) == 0
    assert Path(gpt.__file__).read_bytes() + b"\0" in target.read_bytes()
    monkeypatch.setattr(gpt, "PACKAGE", tmp_path)
    for letter in "gcbhafed":
        (tmp_path / f"{letter}.py").write_text(letter)
    assert gpt.main([str(target)]) == 0
    assert target.read_bytes().replace(b"\0", b"") == b"abcdefgh"
    assert gpt.main([]) == 2


def test_windows_cover_the_text_and_ask_for_what_follows(tokens) -> None:
    data, text = gpt.Windows(tokens, 16, 2, 5), tokens.read_bytes()
    index = np.stack([np.arange(3), np.array([4, 0, 2])])
    ids, x, y = data[index]
    assert ids.tolist() == [4, 0, 2]
    for i, read, asked in zip(ids, x, y, strict=True):
        at = (2 + int(i)) * 16
        assert bytes(read.tolist()) == text[at : at + 16]
        assert bytes(asked.tolist()) == text[at + 1 : at + 17]
    _, x, y = data[np.zeros((2, 0), int)]
    assert x.shape == y.shape == (0, 16)


def test_training_and_held_out_windows_are_apart(tokens, monkeypatch) -> None:
    """Together they are all windows that the text has, and no text is in
    both."""
    monkeypatch.setenv(gpt.TOKENS, str(tokens))
    task = gpt.task(TrainConfig(Path(), hidden_size=8), length=64)
    held = task.held_out
    assert (task.data.first, held.first) == (0, len(task.data))
    size = tokens.stat().st_size
    assert len(task.data) + len(held) == (size - 1) // 64
    last = np.array([[0], [len(held) - 1]])
    assert held[last][1].shape == (1, 64)


def test_the_fingerprint_changes_with_any_sample(tokens, tmp_path) -> None:
    """One other byte, length, place or number of windows is another
    fingerprint, and a copy of the file in another place is the same."""
    one = gpt.Windows(tokens, 16, 0, 9).fingerprint
    copy, other = tmp_path / "copy", tmp_path / "other"
    copy.write_bytes(tokens.read_bytes())
    other.write_bytes(tokens.read_bytes()[:-1] + b"!")
    assert gpt.Windows(copy, 16, 0, 9).fingerprint == one
    others = (other, 16, 0, 9), (copy, 8, 0, 9), (copy, 16, 1, 9)
    others = *others, (copy, 16, 0, 8)
    assert one not in [gpt.Windows(*each).fingerprint for each in others]


def test_a_worker_is_sent_a_path_and_no_tokens(tokens) -> None:
    """A dataset that has been read from is as small as before, for it goes to
    each loader worker that is not forked."""
    data = gpt.Windows(tokens, 16, 0, 9)
    index = np.array([[0, 0], [3, 8]])
    _, x, _ = data[index]
    sent = pickle.dumps(data)
    assert len(sent) < 1000 < tokens.stat().st_size
    assert pickle.loads(sent)[index][1].equal(x)


def test_no_position_sees_a_later_one(tokens, monkeypatch) -> None:
    monkeypatch.setenv(gpt.TOKENS, str(tokens))
    model = gpt.task(TrainConfig(Path(), hidden_size=8), length=12).model
    x = torch.randint(1, 255, (2, 12), dtype=torch.uint8)
    other = x.clone()
    other[:, 7:] = 9
    with torch.no_grad():
        one, two = model.eval()(x), model(other)
    assert one.shape == (2, 12, gpt.VOCAB)
    assert one[:, :7].equal(two[:, :7])
    assert not one[:, 7].equal(two[:, 7])


def test_the_loss_is_per_window() -> None:
    """A window counts as one sample, so that the trainer's mean over samples
    is the mean over bytes; an empty micro-batch counts nothing."""
    logits = torch.randn(3, 5, gpt.VOCAB)
    y = torch.randint(gpt.VOCAB, (3, 5))
    mean = torch.nn.functional.cross_entropy(logits.flatten(0, 1), y.flatten())
    assert gpt.nats(logits, y) / 3 == pytest.approx(mean)
    assert gpt.bits(logits, y) / 3 == pytest.approx(mean / np.log(2))
    assert gpt.nats(logits[:0], y[:0]) == 0


def test_a_file_of_tokens_has_to_be_named(tmp_path, monkeypatch) -> None:
    for path in (None, str(tmp_path)):
        if path:
            monkeypatch.setenv(gpt.TOKENS, path)
        else:
            monkeypatch.delenv(gpt.TOKENS, raising=False)
        with pytest.raises(ConfigError, match=r"python -m lockstep\.examples"):
            gpt.task(TrainConfig(tmp_path))
