"""Every test has passed that a mark of a page, a question or a round names, or
an error message.

    python -m lockstep.site.verify.passed_proofs [REPORTS]

reads the JUnit reports that pytest wrote into a folder. A test that was
skipped, as those that need a GPU are without one, is named and is no fault.
"""

import argparse
import sys
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

from lockstep.practice.core_questions import CORE
from lockstep.practice.rounds import ROUNDS
from lockstep.site.pages.errors import Message, messages
from lockstep.site.pages.evidence import REPORTS, ending, outcomes
from lockstep.site.pages.proof_marks import ROOT, cited


def unproven(
    pages: Iterable[Path],
    ended: dict[str, list[str]],
    root: Path = ROOT,
    told: Iterable[Message] = (),
) -> Iterator[tuple[str, str]]:
    """Yield the tests that marks or error messages name and that did not pass:
    what to say of each, and how it ended."""
    for page in pages:
        for test in cited(page.read_text("utf-8"), root):
            if (how := ending(test.id, ended, root)) != "passed":
                yield f"{page.relative_to(root)}: {test.id} {how}", how
    for one in told:
        if one.test and (how := ending(one.test, ended, root)) != "passed":
            yield f"{one.id}: {one.test} {how}", how


def main(arguments: list[str] | None = None) -> int:
    """Check the marks of all pages against the reports of this build."""
    parser = argparse.ArgumentParser(description="What marks of pages name")
    parser.add_argument("reports", type=Path, nargs="?", default=REPORTS)
    folder = parser.parse_args(arguments).reports
    if not (reports := sorted(folder.glob("*.xml"))):
        print(f"{folder} holds no report: run `make evidence`")
        return 1
    written = (place.glob("*.yml") for place in (CORE, ROUNDS))
    pages = sorted(chain((ROOT / "docs").rglob("*.md"), *written))
    told = messages().values()
    found = dict(unproven(pages, outcomes(reports), ROOT, told))
    faults = [line for line, how in found.items() if how != "was skipped"]
    for line in found:
        print(line)
    print(f"{len(pages)} pages, {len(faults)} marks whose tests did not pass")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
