"""Write a verdict as text for a terminal, or as HTML for a page.

The browser runs this in MicroPython, too.
"""

from .scan import FLOOD


def text(found: dict, site: str = "") -> str:
    """Return the verdict for a terminal, the first fault first.

    Args:
        found: what `judge` returns.
        site: address of the handbook, if it has one.
    """
    lines = [found["headline"], ""]
    if found["known"]:
        lines.append(
            f"Confidence: {found['confidence']}, because {found['why']}."
        )
    elif found["why"] not in found["headline"]:
        lines.append(f"Why: {found['why']}.")
    if found["means"]:
        lines += ["", _one(found["means"])]
    if found["frame"]:
        lines.append(f"Raised in: {found['frame']}")
    for shown in found["evidence"]:
        lines += ["", _place(shown), f"    {shown['text'][:300]}"]
    if found["known"] and found["check"]:
        lines += ["", "Check first:"]
        for number, one in enumerate(found["check"][:3], 1):
            lines.append(f"  {number}. {_check(one)}")
    if found["known"] and found["causes"]:
        lines += ["", "Likely causes:"]
        for one in found["causes"][:3]:
            lines.append(
                f"  - {_one(one['cause'])} {_one(one.get('tells', ''))}"
            )
    if found["page"]:
        lines += ["", f"More in the handbook: {site}{found['page']}"]
    if found["hang"]:
        lines += ["", "Collectives, by the watchdogs:"] + _works(found["hang"])
    if found["dumps"]:
        lines += ["", "Flight recorder:"] + _groups(found["dumps"])
    if found.get("stacks"):
        lines += ["", "Stacks:"] + _stacks(found["stacks"])
    if found["echoes"]:
        lines += ["", "Also in the logs:"]
        for one in found["echoes"][:8]:
            lines.append("  " + _echo(one))
        if len(found["echoes"]) > 8:
            lines.append(f"  and {len(found['echoes']) - 8} other messages")
    if found["exits"]:
        lines += ["", "Exit codes:"] + _exits(found["exits"])
    if found["questions"]:
        lines += ["", "Ask these four questions:"]
        for number, one in enumerate(found["questions"], 1):
            lines.append(f"  {number}. {one['ask']}")
            lines.append(f"     {one['how']}")
    return "\n".join(lines)


def _one(words: str) -> str:
    return " ".join(str(words).split())


def _place(shown: dict) -> str:
    when = f" at {shown['time']}" if shown["time"] else ""
    return f"{shown['file']}, line {shown['line']}{when}:"


def _check(one: dict) -> str:
    look = _one(one.get("look", ""))
    if not one.get("do"):
        return look
    return (
        f"{_one(one['do'])}\n     Look for: {look}" if look else _one(one["do"])
    )


def _ranks(ranks: list) -> str:
    if not ranks:
        return ""
    if len(ranks) > 6:
        return f", on {len(ranks)} ranks"
    names = ", ".join([str(rank) for rank in ranks])
    return f", on rank{'' if len(ranks) == 1 else 's'} {names}"


def _echo(one: dict) -> str:
    more = " or more" if one["count"] >= FLOOD else ""
    times = f" ({one['count']} times{more})" if one["count"] > 1 else ""
    return f"{one['role']}: {one['title']}{times}{_ranks(one['ranks'])}"


def _works(hang: dict) -> list:
    lines = []
    for work in hang["works"][:16]:
        words = [f"rank {work['rank']}:"]
        if "seq" in work:
            words.append(f"waited for {work.get('op', 'collective')}")
            words.append(f"number {work['seq']},")
        if "enqueued" in work:
            words.append(f"last enqueued {work['enqueued']},")
        if "completed" in work:
            words.append(f"last completed {work['completed']},")
        lines.append("  " + " ".join(words).strip(","))
    if len(hang["works"]) > 16:
        lines.append(f"  and {len(hang['works']) - 16} other ranks")
    for rank in hang["absent"][:16]:
        lines.append(f"  rank {rank}: nothing")
    return lines


def _exits(exits: list) -> list:
    lines = []
    for one in exits[:16]:
        who = "a process" if one["rank"] is None else f"rank {one['rank']}"
        where = f" on {one['node']}" if one["node"] else ""
        signal = f" ({one['signal']})" if one["signal"] else ""
        lines.append(f"  {who}{where}: {one['code']}{signal}")
    if len(exits) > 16:
        lines.append(f"  and {len(exits) - 16} other processes")
    return lines


def _groups(dumps: dict) -> list:
    lines = []
    agreeing = 0
    for group in dumps["groups"]:
        first = group["first"]
        if not first and not group["absent"]:
            agreeing += 1
            continue
        lines.append(f"  {group['name']}: {len(group['last'])} dumps")
        if group["absent"]:
            lines.append(f"    no dump{_ranks(group['absent'])}")
        if not first:
            lines.append("    the dumps agree on every collective")
            continue
        lines.append(f"    {first['title']}: {first['why']}")
        for one in first["did"][:8]:
            lines.append(
                f"    rank {one['rank']}: {one['op']} {one['sizes']}"
                f" {one['state']} {one['frame']}"
            )
    if agreeing:
        groups = "group" if agreeing == 1 else "groups"
        lines.append(
            f"  {agreeing} {groups}: the dumps agree on every collective"
        )
    if dumps.get("torchfrtrace"):
        lines.append("  torchfrtrace printed:")
        lines += ["    " + one for one in dumps["torchfrtrace"].split("\n")]
    lines.append(f"  Limits: {dumps['limits']}")
    return lines


def _stacks(stacks: dict) -> list:
    lines = []
    for row in stacks["rows"][:16]:
        who = f"rank {row['rank']}" if row["rank"] is not None else ""
        who = who or f"process {row['pid']}"
        waits = f"waits in {row['waits']}, from " if row["waits"] else ""
        lines.append(f"  {who}: {waits}{row['frame']}")
    return lines


def escaped(words: object) -> str:
    """Return text as HTML."""
    text = str(words)
    for char, name in (
        ("&", "&amp;"),
        ("<", "&lt;"),
        (">", "&gt;"),
        ('"', "&quot;"),
    ):
        text = text.replace(char, name)
    return text


def html(found: dict, site: str = "") -> str:
    """Return the verdict as a fragment of HTML.

    Args:
        found: what `judge` returns.
        site: address of the handbook, if it has one.
    """
    kind = "known" if found["known"] else "unknown"
    said = (
        f'<div class="explain-verdict explain-{kind}">'
        f'<p class="explain-headline"><strong>{escaped(found["headline"])}'
        "</strong></p>"
    )
    why = found["why"]
    if found["known"]:
        why = f"Confidence: {found['confidence']}, because {why}"
    said += f"<p>{escaped(why)}.</p>"
    if found["means"]:
        said += f"<p>{_code(found['means'])}</p>"
    if found["frame"]:
        said += f"<p>Raised in <code>{escaped(found['frame'])}</code></p>"
    for shown in found["evidence"]:
        said += (
            f"<p>{escaped(_place(shown))}</p>"
            f"<pre><code>{escaped(shown['text'])}</code></pre>"
        )
    if found["known"] and found["check"]:
        said += "<p><strong>Check first</strong></p><ol>"
        for one in found["check"][:3]:
            do = (
                f"<code>{escaped(_one(one['do']))}</code> "
                if one.get("do")
                else ""
            )
            said += f"<li>{do}{_code(one.get('look', ''))}</li>"
        said += "</ol>"
    if found["known"] and found["causes"]:
        said += "<p><strong>Likely causes</strong></p><ul>"
        for one in found["causes"][:3]:
            said += f"<li>{_code(one['cause'])} {_code(one.get('tells', ''))}"
            if one.get("fix"):
                said += f" Fix: {_code(one['fix'])}"
            said += "</li>"
        said += "</ul>"
    if found["page"] and not site:
        said += f"<p>More in the handbook: {escaped(found['page'])}</p>"
    elif found["page"]:
        said += (
            f'<p><a href="{escaped(site + found["page"])}">Everything about'
            f" {escaped(found['title'])}</a></p>"
        )
    for title, lines in (
        (
            "Collectives, by the watchdogs",
            found["hang"] and _works(found["hang"]),
        ),
        ("Exit codes", found["exits"] and _exits(found["exits"])),
        ("Flight recorder", found["dumps"] and _groups(found["dumps"])),
        ("Stacks", found.get("stacks") and _stacks(found["stacks"])),
    ):
        if lines:
            body = escaped("\n".join([line[2:] for line in lines]))
            said += (
                f"<p><strong>{title}</strong></p><pre><code>{body}</code></pre>"
            )
    if found["echoes"]:
        said += "<p><strong>Also in the logs</strong></p><ul>"
        for one in found["echoes"][:12]:
            said += f"<li>{escaped(_echo(one))}</li>"
        said += "</ul>"
    if found["questions"]:
        said += "<p><strong>Ask these four questions</strong></p><ol>"
        for one in found["questions"]:
            said += f"<li>{escaped(one['ask'])} {_code(one['how'])}</li>"
        said += "</ol>"
    return said + "</div>"


def _code(words: object) -> str:
    """Return text as HTML; what stands between backquotes is code."""
    said, code = "", False
    for part in escaped(_one(str(words))).split("`"):
        said += f"<code>{part}</code>" if code else part
        code = not code
    return said


STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; padding: 0 1rem;
  max-width: 46rem; }
pre { background: #8882; overflow-x: auto; overflow-wrap: anywhere;
  padding: .6rem; white-space: pre-wrap; }
.explain-headline { font-size: 1.25rem; }
"""


def document(found: dict, site: str = "") -> str:
    """Return the verdict as one page that needs no other file."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escaped(found['headline'])}</title>"
        f"<style>{STYLE}</style></head><body>{html(found, site)}"
        "</body></html>\n"
    )
