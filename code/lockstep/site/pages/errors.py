"""Error messages on the site: a page for each, and the list of all of them.

The data are the files of `lockstep.explain.messages`, which the command reads
without this module. Here they are validated, and the build makes the pages
where the navigation has a place for their list.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

import yaml
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import Files
from pydantic import AfterValidator, Field, ValidationError, model_validator

from lockstep.explain.catalog import FOLDER, parsed
from lockstep.explain.patterns import Index, Pattern
from lockstep.practice.bank import Address, Strict, words
from lockstep.practice.figures import ROOT, template
from lockstep.site.pages import generated
from lockstep.site.pages.evidence import has_test, headings
from lockstep.site.pages.questions import names

HOME = "reliability/errors"
INDEX = f"{HOME}/index.md"
LIST = "<!-- error-list -->"  # where the index has its list
TEMPLATES = Path(__file__).parent / "templates"
GROUPS = {  # file: its heading in the list, in this order
    "nccl": "NCCL and its watchdog",
    "gloo": "Gloo",
    "cuda": "CUDA",
    "torch": "DDP, FSDP, autograd and optimizers",
    "torchrun": "torchrun and the store",
    "dataloader": "DataLoader",
    "checkpoint": "Checkpoints",
    "slurm": "Slurm",
    "kubernetes": "Kubernetes",
    "host": "GPUs, hosts, network and storage",
}
ROLES = {
    "cause": "This message is usually the cause.",
    "echo": "This message is an echo: something else failed first.",
    "either": "This message can be the cause or an echo.",
}
LAYERS = {
    "code": "Look at your code and its libraries first.",
    "peer": "Look at the other ranks first.",
    "gpu": "Look at the GPU first.",
    "network": "Look at the network first.",
    "storage": "Look at storage first.",
    "host": "Look at the node first.",
    "scheduler": "Look at the scheduler first.",
}
# What the reader of a command must know: where it has one of these words.
NOTES = {
    r"\blogs/|LOG_OF_RANK": (
        "`logs/` is the folder with the logs of all ranks. `torchrun --log-dir"
        " logs --redirects 3` writes those of a node's local rank 3 to"
        " `logs/…/attempt_0/3/stderr.log`."
    ),
    r"journalctl -k": (
        "Run `journalctl` on the suspect node, with root's rights. On"
        " Kubernetes, start it with `kubectl debug node/NODE -it"
        " --profile=sysadmin --image=busybox -- chroot /host journalctl -k`."
        " Add `-b -1` if the node has rebooted. Without journald, `sudo dmesg"
        " -T` prints the same lines, with less reliable times. The"
        " kernel prints the host's process ids, so match a container's process"
        " by the time."
    ),
    r"nvidia-smi --query-compute-apps": (
        "Run `nvidia-smi --query-compute-apps` on the host. The process ids"
        " are the host's, and inside a container it may list none."
    ),
    r"py-spy": (
        "`py-spy` needs the right to trace processes: root's rights on a node,"
        " the capability SYS_PTRACE in a container."
    ),
}


def _pattern(text: str) -> str:
    Pattern(text)  # raises a ValueError
    return text


class Check(Strict):
    """Something to look at, or a command and what to look for."""

    do: str = ""
    look: str = ""

    @model_validator(mode="after")
    def _something(self) -> Check:
        if not self.do and not self.look:
            raise ValueError("there is nothing to do and nothing to look at")
        return self


class Cause(Strict):
    """A cause, what tells it from the others, and its fix."""

    cause: str
    tells: str
    fix: str


class Message(Strict):
    """One error message, with all that its page says."""

    id: Annotated[str, Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")]
    title: str
    patterns: Annotated[
        tuple[Annotated[str, AfterValidator(_pattern)], ...],
        Field(min_length=1),
    ]
    example: str
    versions: str
    role: Literal["cause", "echo", "either"]
    layer: Literal[
        "code", "peer", "gpu", "network", "storage", "host", "scheduler"
    ]
    means: Annotated[str, words(60)]
    confirm: Annotated[tuple[Check, ...], Field(min_length=1)]
    causes: Annotated[tuple[Cause, ...], Field(min_length=1)]
    otherwise: str
    see: tuple[str, ...] = ()
    sources: tuple[Address, ...] = ()
    test: str = ""

    @model_validator(mode="after")
    def _witnessed(self) -> Message:
        if not self.sources and not self.test:
            raise ValueError("neither a source nor a test shows its wording")
        return self

    def shown(self) -> list[str]:
        """Return the lines of the example that the first pattern matches."""
        pattern = Pattern(self.patterns[0])
        lines = [" ".join(one.split()) for one in self.example.splitlines()]
        return [one for one in lines if pattern.match(one) is not None]


def messages(folder: Path = FOLDER, root: Path = ROOT) -> dict[str, Message]:
    """Return all messages by id, in the order of the groups.

    Raises:
        ValueError: some entry isn't sound; one line for each fault names the
            file, the entry and what is wrong.
    """
    found, faults = _read(folder)
    ids = [one.id for _, one in found]
    for path, one in found:
        wrong = list(_unsound(one, ids, root))
        faults += [f"{path.name}: {one.id}: {line}" for line in wrong]
    faults += _confused(found)
    if faults:
        raise ValueError("\n".join(faults))
    return {one.id: one for _, one in found}


def groups(folder: Path = FOLDER) -> dict[str, list[Message]]:
    """Return the messages by group; a group without a file isn't there."""
    found: dict[str, list[Message]] = {}
    for path, one in _read(folder)[0]:
        found.setdefault(path.stem, []).append(one)
    return found


def _read(folder: Path) -> tuple[list[tuple[Path, Message]], list[str]]:
    """Return the entries that can be read, with their file, and the other
    entries' faults."""
    found: list[tuple[Path, Message]] = []
    faults: list[str] = []
    order = list(GROUPS)
    paths = sorted(folder.glob("*.yml"))
    faults += [
        f"{path.name}: {path.stem} isn't a group; the groups are"
        f" {', '.join(order)}"
        for path in paths
        if path.stem not in order
    ]
    paths = [path for path in paths if path.stem in order]
    for path in sorted(paths, key=lambda one: order.index(one.stem)):
        try:
            entries = parsed(path.read_text("utf-8"))
        except yaml.YAMLError as error:
            faults.append(f"{path.name}: {' '.join(str(error).split())}")
            continue
        for number, entry in enumerate(entries, 1):
            name = entry.get("id", f"entry {number}")
            try:
                found.append((path, Message.model_validate(entry)))
            except ValidationError as error:
                faults += [
                    f"{path.name}: {name}: {line}" for line in _told(error)
                ]
    return found, faults


def _told(error: ValidationError) -> Iterator[str]:
    """One line for each field that has a fault: the first one."""
    seen = set()
    for one in error.errors():
        if (field := one["loc"][:1]) not in seen:
            seen.add(field)
            place = ".".join(str(part) for part in one["loc"])
            said = one["msg"].removeprefix("Value error, ")
            yield f"{place}: {said}" if place else said


def _unsound(one: Message, ids: list[str], root: Path) -> Iterator[str]:
    """Yield an entry's faults, besides those of its form."""
    if ids.count(one.id) > 1:
        yield "two entries have this id"
    if not one.shown():
        yield "its first pattern matches no line of its example"
    for target in one.see:
        path, _, anchor = target.partition("#")
        folder, name = posixpath.split(path)
        if folder == HOME and name.removesuffix(".md") in ids and not anchor:
            continue
        page = root / "docs" / path
        if not page.is_file():
            yield f"see: no such page, {path}"
        elif anchor not in {"", *headings(page)}:
            yield f"see: {path} has no #{anchor}"
    if one.test and not has_test(one.test, root):
        yield f"no such test, {one.test}"


def _confused(found: list[tuple[Path, Message]]) -> Iterator[str]:
    """Each example that another entry would answer to before its own."""
    index = Index([one.model_dump() for _, one in found])
    for number, (path, one) in enumerate(found):
        for line in one.shown():
            first = index.match(line, index.words)[0][0]
            if first != number:
                yield (
                    f"{path.name}: {one.id}: {found[first][1].id} matches its"
                    f" example first: {line[:60]}"
                )


def publish(
    files: Files, config: MkDocsConfig, repository: str
) -> generated.Groups:
    """Add a page for each message, if the navigation names their list. Return
    the list's groups.

    Args:
        repository: the address below which its files are shown.

    Raises:
        PluginError: some entry isn't sound.
    """
    if not names(config.nav, INDEX):
        return {}
    try:
        found = messages()
    except ValueError as error:
        raise PluginError(f"error messages: {error}") from None
    for one in found.values():
        text = page(one, repository)
        files.append(generated.page(config, f"{HOME}/{one.id}.md", text))
    return {
        INDEX: {
            GROUPS[group]: [f"{HOME}/{one.id}.md" for one in within]
            for group, within in groups().items()
        }
    }


def page(one: Message, repository: str) -> str:
    """Return the Markdown of a message's page."""
    path, _, test = one.test.partition("::")
    return template((TEMPLATES / "error.md").read_text("utf-8")).render(
        one=one,
        role=ROLES[one.role],
        layer=LAYERS[one.layer],
        notes=[
            note
            for word, note in NOTES.items()
            if any(re.search(word, check.do) for check in one.confirm)
        ],
        example=one.example.rstrip("\n"),
        see=[(_title(link), posixpath.relpath(link, HOME)) for link in one.see],
        test=test,
        test_link=f"{repository}/{path}",
        escaped=escaped,
    )


def listed(markdown: str) -> str:
    """Return the index's Markdown with the list of all messages."""
    parts = []
    for group, found in groups().items():
        parts.append(f"## {GROUPS[group]} {{ #{group} }}\n")
        for one in found:
            means = _first_sentence(one.means)
            parts.append(f"- [{escaped(one.title)}]({one.id}.md): {means}")
        parts.append("")
    return markdown.replace(LIST, "\n".join(parts))


def escaped(text: str) -> str:
    """Return a message as Markdown shows it, sign by sign."""
    return "".join(
        f"\\{sign}" if sign in "\\`*_[]<>#" else sign for sign in text
    )


def _first_sentence(text: str) -> str:
    return " ".join(text.split()).partition(". ")[0].rstrip(".") + "."


def _title(link: str) -> str:
    path, _, anchor = link.partition("#")
    found = headings(ROOT / "docs" / path)
    return found.get(anchor) or next(iter(found.values()), path)
