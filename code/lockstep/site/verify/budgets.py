"""What a page may cost its reader, measured by Lighthouse in Chromium.

    SITE_URL=http://127.0.0.1:PORT/ mkdocs build --site-dir FOLDER
    python -m lockstep.site.verify.budgets FOLDER --port PORT

Lighthouse counts milliseconds, so the machine must be idle: each page is loaded
three times and the median counts. Accessibility, best practices and SEO do not
depend on the machine; CI holds the pages to those, and to their weight.
"""

from __future__ import annotations

import argparse
import functools
import gzip
import json
import os
import shutil
import statistics
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

# One page of each template; the pages of a kind differ by their text alone.
PAGES = (
    "",
    "handbook/",
    "concepts/parallelism/",  # the most diagrams
    "planner/",
    "practice/cards/",
    "practice/interview-map/",
    "practice/labs/lab-03-sharding/",
    "labs/lab-03-sharding/",  # a notebook
    "reference/api/trainer/step/",
)
FORMS = ("desktop", "mobile")
EXACT = ("accessibility", "best-practices", "seo")
LEAST = {"desktop": 1.00, "mobile": 0.95}  # of performance
LIGHTHOUSE = Path("node_modules/lighthouse/cli/index.js")
CHROMIUM_FLAGS = "--headless=new --no-sandbox --disable-gpu"
_PLAIN = (".png", ".wasm", ".gz")  # what GitHub Pages sends as it is


class Compressed(SimpleHTTPRequestHandler):
    """Sends a site as GitHub Pages does: compressed, and kept ten minutes."""

    protocol_version = "HTTP/1.1"

    def handle(self) -> None:
        with suppress(ConnectionError):  # the browser has left the page
            super().handle()

    def do_GET(self) -> None:
        path = Path(self.translate_path(self.path))
        path = path / "index.html" if path.is_dir() else path
        status = 200 if path.is_file() else 404
        path = path if status == 200 else Path(self.directory) / "404.html"
        data, plain = path.read_bytes(), path.suffix in _PLAIN
        self.send_response(status)
        self.send_header("Content-Type", self.guess_type(path))
        self.send_header("Cache-Control", "max-age=600")
        if not plain:
            data = compressed(data)
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None: ...


@functools.cache
def compressed(data: bytes) -> bytes:
    """Compress a file's bytes as a server does."""
    return gzip.compress(data, compresslevel=6)


@contextmanager
def served(folder: Path, port: int = 0) -> Iterator[str]:
    """Serve a built site below the address that is yielded."""
    handler = functools.partial(Compressed, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", port), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def lighthouse(
    address: str, form: str, categories: Sequence[str]
) -> dict[str, Any]:
    """Lighthouse's report of a page.

    Raises:
        RuntimeError: it gave none, and why.
    """
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium")
    command = [
        *("node", str(LIGHTHOUSE), address, "--quiet", "--output=json"),
        f"--only-categories={','.join(categories)}",
        f"--chrome-flags={CHROMIUM_FLAGS}",
        *(["--preset=desktop"] if form == "desktop" else []),
    ]
    if "performance" not in categories:
        command.append("--throttling-method=provided")  # a third of the time
    result = subprocess.run(
        command,
        env=os.environ | {"CHROME_PATH": str(chromium)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    if result.returncode:
        raise RuntimeError(result.stderr)
    report: dict[str, Any] = json.loads(result.stdout)
    if "runtimeError" in report:
        raise RuntimeError(report["runtimeError"]["message"])
    return report


def scores(report: dict[str, Any]) -> dict[str, float]:
    """From 0 to 1, by category."""
    return {
        name: category["score"] or 0.0
        for name, category in report["categories"].items()
    }


def failures(report: dict[str, Any]) -> list[str]:
    """Return the audits that cost points, with what was found."""
    weights = {
        audit["id"]: audit["weight"]
        for category in report["categories"].values()
        for audit in category["auditRefs"]
    }
    return [
        f"{name}: {audit['title']} {json.dumps(audit.get('details'))[:600]}"
        for name, audit in report["audits"].items()
        if weights.get(name) and (audit["score"] or 0) < 1
    ]


def _show(name: str, form: str, loads: list[dict[str, float]]) -> bool:
    median = {
        category: statistics.median(load[category] for load in loads)
        for category in ("performance", *EXACT)
    }
    good = all(median[name] == 1 for name in EXACT)
    good &= median["performance"] >= LEAST[form]
    numbers = " ".join(f"{100 * score:4.0f}" for score in median.values())
    print(f"{numbers}  {form:8}{name or '(home)'}{'' if good else '  <'}")
    return good


def main() -> int:
    """Print the medians; fail where one is below its budget."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, help="the built site")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument(
        "--loads", type=int, default=3, help="loads of each page"
    )
    parser.add_argument("--pages", nargs="*", default=PAGES)
    given = parser.parse_args()
    print("perf a11y best  seo")
    good = True
    with served(given.folder, given.port) as address:
        for page in given.pages:
            for form in FORMS:
                loads = [
                    scores(
                        lighthouse(
                            address + page, form, ["performance", *EXACT]
                        )
                    )
                    for _ in range(given.loads)
                ]
                good &= _show(page, form, loads)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
