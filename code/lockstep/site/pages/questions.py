"""The question bank on the site: a page for each question, their index, and
what a browser asks them from: `assets/practice.json` has all that is asked, and
`assets/practice/ID.json` what is said in answer to one.

All of it is made at build time from the admitted questions, where the
navigation has a place for the index.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Callable, Iterable, Sequence
from itertools import zip_longest
from pathlib import Path
from textwrap import indent
from typing import Any, TypedDict
from urllib.parse import urlsplit

from markdown import Markdown
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.utils import get_relative_url

from lockstep.debugging.bugs import bugs
from lockstep.drills import drills
from lockstep.labs import labs
from lockstep.practice import rubric
from lockstep.practice.bank import (
    MARK,
    TOPICS,
    Admitted,
    Asked,
    Pushback,
    admitted,
    renamed,
)
from lockstep.practice.core_questions import KINDS, Core, core
from lockstep.practice.figures import ROOT, computed, given, template
from lockstep.practice.rounds import Round, rounds
from lockstep.site.pages import generated
from lockstep.site.pages.evidence import headings
from lockstep.site.pages.number_origins import vetted

HOME = "practice/questions"
INDEX = f"{HOME}/index.md"
BUNDLE = "assets/practice"
ROUNDS = "practice/rounds/index.md"  # which `site.rounds` makes
PLANNER = "planner/"
BUGS = "practice/find-the-bug.md#list"
TEMPLATES = Path(__file__).parent / "templates"

_LINK = re.compile(
    r"\]\((?!https?:|#)(?P<path>[^)#\s]+)(?P<anchor>#[^)\s]*)?\)"
)
_COMMENT = re.compile(r"\s*<!--.*?-->", re.S)
_ASKED = re.compile(r'plan\("([\w-]+)".*\)\.(\w+)', re.S)

Shown = Callable[[str], str]  # the text of a question to that of a page


def publish(
    files: Files, config: MkDocsConfig, repository: str
) -> generated.Groups:
    """Add the pages and the bundle, if the navigation names the index. Return
    the index page's groups: the questions of each topic, the core first.

    Args:
        repository: the address below which its files are shown.

    Raises:
        PluginError: a question is not whole, or a figure cannot be computed.
    """
    if not names(config.nav, INDEX):
        return {}
    try:
        traps = vetted(admitted())
        asked, found = list(vetted(core()).values()), list(traps.values())
        played = list(rounds().values()) if names(config.nav, ROUNDS) else []
        pages = {INDEX: index(asked, found, played)}
        every, near = [*asked, *found], beside(asked, traps)
        for one, after in zip_longest(every, every[1:]):
            address = f"{HOME}/{one.id}.md"
            filled = filling(address, repository)
            pages[address] = page(
                one, after, near.get(one.id, []), filled, repository
            )
        for address, text in pages.items():
            files.append(generated.page(config, address, text))
        told = bundle(every, files, config, repository)
        for name, given in told.items():
            content = json.dumps(given, ensure_ascii=False)
            files.append(File.generated(config, name, content=content))
    except ValueError as error:
        raise PluginError(f"questions: {error}") from None
    groups: dict[str, list[str]] = {}
    for one in sorted(every, key=lambda one: list(TOPICS).index(one.topic)):
        groups.setdefault(TOPICS[one.topic], []).append(f"{HOME}/{one.id}.md")
    return {INDEX: groups}


def moved(nav: Any) -> dict[str, str]:
    """Return the new page of each renamed question, by its earlier page, if the
    navigation names the index."""
    there = {*core(), *admitted()} if names(nav, INDEX) else set()
    return {
        f"{HOME}/{old}.md": f"{HOME}/{new}.md"
        for old, new in renamed().items()
        if new in there
    }


def names(nav: Any, page: str) -> bool:
    """Whether a navigation has a page in it."""
    if isinstance(nav, dict):
        nav = list(nav.values())
    if isinstance(nav, list):
        return any(names(part, page) for part in nav)
    return bool(nav == page)


def _template(text: str, planner: str, repository: str) -> str:
    """Compute the figures of a text, without what is for checks alone."""
    text = computed(text, planner, **given(repository))
    return _COMMENT.sub("", text).strip()


def filling(address: str, repository: str) -> Shown:
    """Return the function that makes a question's text the text of the page at
    `address`."""
    home = posixpath.dirname(address)
    url = address.removesuffix(".md") + "/"

    def relative(found: re.Match[str]) -> str:
        path = posixpath.relpath(found["path"], home)
        return f"]({path}{found['anchor'] or ''})"

    def filled(text: str) -> str:
        planner = get_relative_url(PLANNER, url)
        return _LINK.sub(relative, _template(text, planner, repository))

    return filled


def beside(
    asked: list[Core], traps: dict[str, Admitted]
) -> dict[str, list[Asked]]:
    """By id, the traps that sharpen a question of the core, and the questions
    that a trap sharpens.

    Raises:
        ValueError: a question is sharpened by a trap that is not there.
    """
    found: dict[str, list[Asked]] = {}
    for one in asked:
        if missing := {*one.sharpened} - traps.keys():
            raise ValueError(f"{one.id}: there is no question {min(missing)}")
        found[one.id] = [traps[name] for name in one.sharpened]
        for name in one.sharpened:
            found.setdefault(name, []).append(one)
    return found


def page(
    one: Asked,
    after: Asked | None,
    near: list[Asked],
    filled: Shown,
    repository: str,
) -> str:
    """Return the Markdown of a question's page, which leads to those near it
    and to the one after it."""
    name = "core.md" if isinstance(one, Core) else "question.md"
    return template((TEMPLATES / name).read_text("utf-8")).render(
        kinds=KINDS,
        near=near,
        one=one,
        after=after,
        topic=TOPICS[one.topic],
        shown=filled,
        tree=tree(one.pushbacks, filled),
        evidence=filled(evidence(one, repository)),
        folded=lambda text: indent(text, "    "),
        line=lambda text: " ".join(text.split()),
        where=_where,
    )


def tree(pushed: Iterable[Pushback], filled: Shown) -> str:
    """Pushbacks, each folded with its reply and what follows."""
    parts = []
    for one in pushed:
        inside = filled(one.reply)
        if one.then:
            inside += "\n\n" + tree(one.then, filled)
        ask = " ".join(filled(one.ask).split())
        parts.append(f'??? question "{ask}"\n\n{indent(inside, "    ")}')
    return "\n\n".join(parts)


def evidence(one: Asked, repository: str) -> str:
    """Return the answer's evidence, as a list with links of docs/."""
    held, lines = one.evidence, []
    if held.tests:
        lines.append("Tests, all of which `make test-all` requires to pass:\n")
    for test in held.tests:
        path, _, name = test.partition("::")
        lines.append(f"- [`{path}`]({repository}/{path}): `{name}`")
    seen = [f"- [{_place(target)}]({target})" for target in held.pages]
    for kind, found, numbers in (
        ("Lab", labs, held.labs),
        ("Drill", drills, held.drills),
    ):
        for number in numbers:
            known = found()[number]
            target = f"practice/{kind.lower()}s/{known.notebook}.md"
            title = f"{kind} {number.upper()}: {known.title}"
            seen.append(f"- [{title}]({target})")
    for number in held.bugs:
        seen.append(f"- [Bug {number}: {bugs()[number].title}]({BUGS})")
    if seen:
        lines += ["\nWhere it is run and told:\n", *seen]
    if held.plans:
        lines.append("\nWhat the planner was asked, with its inputs:\n")
    for plan in held.plans:
        asked = _ASKED.search(plan)
        name = f"`{asked[1]}`, `{asked[2]}`" if asked else "a figure"
        lines.append(f"- {name}: {{{{ {plan} }}}}")
    if held.sources:
        lines.append("\nPrimary sources, and what they say:\n")
    for source in held.sources:
        says = " ".join(source.says.split())
        lines.append(f"- [{_where(source.url)}]({source.url}): {says}")
    return "\n".join(lines)


def _place(target: str) -> str:
    """Return a page and its section, by the text of their headings."""
    path, _, anchor = target.partition("#")
    found = headings(ROOT / "docs" / path)
    title = next(iter(found.values()), path)
    section = found.get(anchor, "")
    return f"{title}: {section}" if section and section != title else title


def _where(url: str) -> str:
    """Shorten an address to the project and its number, or the host."""
    parts = urlsplit(url)
    place = parts.path.strip("/").split("/")
    if parts.netloc == "github.com" and len(place) >= 4:
        if place[2] in ("issues", "pull"):
            return f"{place[1]} #{place[3]}"
        return f"{place[1]}, {place[-1]}"
    return f"{parts.netloc.removeprefix('www.')}/{place[-1]}".rstrip("/")


def index(asked: list[Core], traps: list[Admitted], played: list[Round]) -> str:
    """Return the Markdown of the index: by topic, and in it by level."""
    topics, order = list(TOPICS), list(rubric.load().levels)

    def place(one: Asked) -> tuple[int, int]:
        return topics.index(one.topic), order.index(one.level)

    return template((TEMPLATES / "questions.md").read_text("utf-8")).render(
        core=sorted(asked, key=place),
        rows=sorted(traps, key=place),
        rounds=sorted(played, key=place),
        topics=TOPICS,
        kinds=KINDS,
        renamed=json.dumps({**renamed()}),
    )


class ReplyJson(TypedDict):
    """A pushback: what is asked, how to meet it, and what follows; HTML."""

    ask: str
    reply: str
    then: list[ReplyJson]


class AnswerJson(TypedDict):
    """A question's own file: named parts of the answer, and pushbacks; HTML."""

    parts: list[list[str]]  # pairs of a name and its HTML
    pushbacks: list[ReplyJson]


class QuestionJson(TypedDict):
    """A question in the file of all questions."""

    id: str
    topic: str  # a key of `topics`
    level: str  # one of `levels`
    title: str
    question: str  # HTML
    page: str  # its address below the site's root
    tier: str
    kind: str
    pushed: int  # pushbacks, with those that follow


class BankJson(TypedDict):
    """The file of all questions, and of the rubric that scores them."""

    topics: dict[str, str]  # by key; those that have questions first
    renamed: dict[str, str]  # the present id by each earlier id
    levels: Sequence[str]  # from the lowest
    stages: list[dict[str, Any]]
    lines: list[dict[str, Any]]  # of the rubric; `links` are addresses
    questions: list[QuestionJson]


def bundle(
    found: Sequence[Asked],
    files: Files,
    config: MkDocsConfig,
    repository: str,
) -> dict[str, BankJson | AnswerJson]:
    """Return what a browser asks from, by file name: one `BankJson`, the core
    first, and an `AnswerJson` per question. Addresses begin at the site's root.

    Raises:
        ValueError: a link leads to no page.
    """
    writer = Writer(files, config, repository)
    answers = {f"{BUNDLE}/{one.id}.json": writer.answer(one) for one in found}
    return {f"{BUNDLE}.json": writer.bank(found), **answers}


class Writer:
    """Writes questions as HTML and plain data for the browser."""

    def __init__(
        self, files: Files, config: MkDocsConfig, repository: str
    ) -> None:
        self.files, self.repository = files, repository
        self.markdown = Markdown(
            extensions=config.markdown_extensions,
            extension_configs=config.mdx_configs,
        )

    def bank(self, found: Sequence[Asked]) -> BankJson:
        """Return all questions, without their answers, and the rubric."""
        scored = rubric.load()
        held = [one.topic for one in found]
        return {
            "topics": {
                topic: TOPICS[topic]
                for topic in sorted(TOPICS, key=lambda topic: topic not in held)
            },
            "renamed": {**renamed()},
            "levels": scored.levels,
            "stages": [
                stage.model_dump(mode="json") for stage in scored.stages
            ],
            "lines": [
                line.model_dump(mode="json", by_alias=True)
                | {"links": [self.address(link) for link in line.links]}
                for line in scored.lines
            ],
            "questions": [self.question(one) for one in found],
        }

    def question(self, one: Asked) -> QuestionJson:
        """Return a question without its answer."""
        return {
            "id": one.id,
            "topic": one.topic,
            "level": one.level,
            "title": one.title,
            "question": self.html(one.question),
            "page": f"{HOME}/{one.id}/",
            "tier": one.tier,
            "kind": getattr(one, "kind", one.tier),
            "pushed": count(one.pushbacks),
        }

    def answer(self, one: Asked) -> AnswerJson:
        """Return the answer to a question, and the pushbacks that follow."""
        return {
            "parts": [
                [name, self.html(of)] for name, of in one.parts().items()
            ],
            "pushbacks": [self.reply(push) for push in one.pushbacks],
        }

    def reply(self, one: Pushback) -> ReplyJson:
        """Return a pushback with all that follows it."""
        return {
            "ask": self.html(one.ask),
            "reply": self.html(one.reply),
            "then": [self.reply(push) for push in one.then],
        }

    def html(self, text: str) -> str:
        """Return Markdown as HTML, with its figures and addresses filled in."""
        text = _template(MARK.sub("", text), PLANNER, self.repository)
        text = _LINK.sub(
            lambda link: (
                f"]({self.address(link['path'])}{link['anchor'] or ''})"
            ),
            text,
        )
        return self.markdown.reset().convert(text)

    def address(self, target: str) -> str:
        """Return the address of a page below the site's root, with its anchor.

        Raises:
            ValueError: there is no such page.
        """
        path, mark, anchor = target.partition("#")
        if (file := self.files.get_file_from_path(path)) is None:
            raise ValueError(f"there is no page {path}")
        return file.url + mark + anchor


def count(pushed: Iterable[Pushback]) -> int:
    """Return the number of pushbacks, with those that follow."""
    return sum(1 + count(one.then) for one in pushed)
