"""Error messages: their data are sound, and one line names a bad entry."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from lockstep.site.pages import errors

SOUND: dict[str, Any] = {
    "id": "disk-on-fire",
    "title": "Disk on fire",
    "patterns": ["disk {name:word} is on fire"],
    "example": "kernel: disk sda is on fire\n",
    "versions": "Linux 6",
    "role": "cause",
    "layer": "storage",
    "means": "The disk burns.",
    "confirm": [{"do": "ls -l /dev/sda", "look": "Smoke."}],
    "causes": [{"cause": "Heat.", "tells": "Smell.", "fix": "Water."}],
    "otherwise": "Look at the room.",
    "sources": ["https://example.com/fire"],
}
OTHER = SOUND | {
    "id": "sda-on-fire",
    "patterns": ["kernel: disk sda is on fire today"],
    "example": "kernel: disk sda is on fire today",
}


def fault(folder: Path, *entries: dict[str, Any]) -> str:
    """What is said of a file with these entries."""
    (folder / "host.yml").write_text(yaml.safe_dump(list(entries)), "utf-8")
    with pytest.raises(ValueError, match=r"\.yml: ") as caught:
        errors.messages(folder)
    return str(caught.value)


def test_every_message_is_sound() -> None:
    """Each entry has a unique id, patterns that match its own example before
    any other entry's, links and tests that exist, and a source or a test."""
    assert len(errors.messages()) >= 80
    assert set(errors.groups()) == set(errors.GROUPS)


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"id": "Disk on fire"}, "Disk on fire: id: String should match"),
        ({"role": "victim"}, "disk-on-fire: role: Input should be 'cause'"),
        ({"color": "red"}, "disk-on-fire: color: Extra inputs are not"),
        ({"confirm": [{}]}, "disk-on-fire: confirm.0: there is nothing to do"),
        (
            {"patterns": ["on {what}"]},
            "disk-on-fire: patterns.0: 'on {what}' needs 8 literal",
        ),
        (
            {"patterns": ["disk {name:words} is on fire"]},
            "disk-on-fire: patterns.0: 'disk {name:words} is on fire': {name:",
        ),
        ({"sources": []}, "disk-on-fire: neither a source nor a test"),
        (
            {"example": "the disk is fine"},
            "disk-on-fire: its first pattern matches no line of its example",
        ),
        (
            {"see": ["reliability/fire.md"]},
            "disk-on-fire: see: no such page, reliability/fire.md",
        ),
        (
            {"see": ["reliability/failures/index.md#fire"]},
            "disk-on-fire: see: reliability/failures/index.md has no #fire",
        ),
        (
            {"test": "tests/site/test_errors.py::test_fire"},
            "disk-on-fire: no such test, tests/site/test_errors.py::test_f",
        ),
    ],
)
def test_bad_entry_is_named_in_one_line(
    change: dict[str, Any], line: str, tmp_path: Path
) -> None:
    """The line names the file, the entry and what is wrong with it."""
    said = fault(tmp_path, SOUND | change)
    assert said.startswith(f"host.yml: {line}")
    assert "\n" not in said


def test_entries_must_not_share_an_id(tmp_path: Path) -> None:
    said = fault(tmp_path, SOUND, SOUND)
    assert said.count("host.yml: disk-on-fire: two entries have this id") == 2


def test_longer_pattern_of_another_entry_takes_the_example(
    tmp_path: Path,
) -> None:
    """The most specific pattern answers first, so that another entry's longer
    pattern would explain this entry's example."""
    said = fault(tmp_path, SOUND | {"example": OTHER["example"]}, OTHER)
    assert said == (
        "host.yml: disk-on-fire: sda-on-fire matches its example first:"
        " kernel: disk sda is on fire today"
    )


def test_unknown_group_and_broken_yaml_are_named(tmp_path: Path) -> None:
    (tmp_path / "fire.yml").write_text("[]")
    assert fault(tmp_path, SOUND).startswith("fire.yml: fire isn't a group")
    (tmp_path / "fire.yml").unlink()
    (tmp_path / "host.yml").write_text("- id: [")
    with pytest.raises(ValueError, match=r"^host.yml: while parsing"):
        errors.messages(tmp_path)


def test_page_shows_message_sign_by_sign() -> None:
    """The title is the message itself, whatever signs it has."""
    one = errors.Message.model_validate(
        SOUND | {"title": "[rank_0]: *** <disk> `sda` on fire ***"}
    )
    text = errors.page(one, "https://example.com/blob/main")
    title = next(x for x in text.splitlines() if x.startswith("# "))
    assert title == (r"# \[rank\_0\]: \*\*\* \<disk\> \`sda\` on fire \*\*\*")
    assert "```{ .text .wrapped }\nkernel: disk sda is on fire\n```" in text
    assert "```{ .console .wrapped }\n    $ ls -l /dev/sda\n" in text


def test_index_lists_every_message() -> None:
    """The list has each message once, with what it means."""
    text = errors.listed(f"# Errors\n\n{errors.LIST}\n")
    for one in errors.messages().values():
        assert text.count(f"]({one.id}.md): ") == 1


SAMPLE = """\
2026-11-29 03:12:07 INFO step 4022 loss 2.31 grad_norm 0.8
Traceback (most recent call last):
ValueError: bad sample
[2026-11-29] OVERFLOW! Attempted loss scale: 4096, reducing to 2048
--- Original Traceback
srun: job 184223 requeue
EXT4-fs (sda1): Remounting filesystem read-only
"""
RANK = "logs/job/attempt_0/3/stderr.log"  # as torchrun writes it


MESSAGES = errors.messages()
LOGS = "\n".join([*(one.example for one in MESSAGES.values()), SAMPLE])
SEARCHES = [  # commands that search logs or the kernel's log for a text
    pytest.param(one, check.do, id=f"{one.id}-{number}")
    for one in MESSAGES.values()
    for number, check in enumerate(one.confirm)
    if re.match(
        r"sudo journalctl -k \| grep |grep .*(logs/|LOG|slurm-)", check.do
    )
]


def searched(command: str, folder: Path, log: str) -> str:
    """What a command prints where the only rank's log has this text."""
    path = folder / RANK
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(log, "utf-8")
    names = r"\b(LOG_OF_RANK_\d+|TORCHRUN_LOG\w*|slurm-JOBID\.out)"
    command = re.sub(names, RANK, command).replace("OLD_LOGS/", "logs/")
    command = command.replace("sudo journalctl -k", f"cat {RANK}")
    done = subprocess.run(
        ["bash", "-c", command], cwd=folder, capture_output=True, text=True
    )
    assert not done.stderr, done.stderr
    return done.stdout


@pytest.mark.parametrize(("one", "command"), SEARCHES)
def test_a_search_finds_what_it_looks_for(
    one: errors.Message, command: str, tmp_path: Path
) -> None:
    """A command finds its entry's own message in a log of torchrun's, if that
    is what it searches; any other text is one that logs have."""
    stages = command.split(" | ")
    search = " | ".join(stages[: 2 if stages[0].startswith("sudo") else 1])
    pattern = re.findall(r"'(.*?)'", search + "''")[0].replace("\\", "")
    own = "\n".join([one.title, *one.patterns])
    literals = re.split(r"[^\w :()-]+", pattern)
    others = " -rL " in command  # it lists the logs without the text
    if any(len(part) > 8 and part in own for part in literals):
        assert bool(searched(search, tmp_path, one.example)) is not others
    assert bool(searched(command, tmp_path, LOGS)) is not others
