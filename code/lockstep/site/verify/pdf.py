"""A page of the built site as a PDF, as a browser prints it.

python -m lockstep.site.verify.pdf SITE PAGE FILE
"""

from __future__ import annotations

import argparse
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from lockstep.site.verify.budgets import served

PAPER = "A4"


def printed(page: Page) -> bytes:
    """Print the page in a tab as a PDF with an outline."""
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    return page.pdf(
        format=PAPER, prefer_css_page_size=True, tagged=True, outline=True
    )


@contextmanager
def tab(site: Path) -> Iterator[tuple[str, Page]]:
    """Serve a built site; yield its address and a tab of Chromium."""
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium")
    with served(site) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium, chromium_sandbox=False
        )
        yield address, browser.new_page()
        browser.close()


def main() -> None:
    """Print one page."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("site", type=Path, help="the folder of the built site")
    parser.add_argument("page", help="its address in the site: handbook/")
    parser.add_argument("file", type=Path)
    given = parser.parse_args()
    with tab(given.site) as (address, page):
        page.goto(address + given.page)
        pdf = printed(page)
    given.file.parent.mkdir(parents=True, exist_ok=True)
    given.file.write_bytes(pdf)


if __name__ == "__main__":
    main()
