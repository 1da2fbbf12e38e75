"""Explorables, as somebody uses them: by keyboard, link and address."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from lockstep.explore import page as explore
from lockstep.explore.settings import Choice, read
from tests.conftest import daily

from .conftest import Site
from .test_browser import (
    WIDER_THAN_THE_SCREEN,
    Visit,
    browser,  # noqa: F401 - a fixture
)

pytestmark = pytest.mark.xdist_group("site-pictures")

# Each explorable with a page that shows it.
SHOWN = {
    "loader": "reference/explorables/",
    "sharded-step": "concepts/sharding/in-depth/",
    "stragglers": "concepts/hardware/in-depth/",
    "restart": "",
    "ring": "concepts/collectives/in-depth/",
    "buckets": "concepts/data-parallelism/in-depth/",
    "layouts": "concepts/parallelism/",
    "causal-mask": "concepts/context-parallelism/",
    "checkpoint": "reliability/checkpointing/in-depth/",
    "data-path": "concepts/data-at-scale/",
    "memory-step": "concepts/memory/in-depth/",
    "pipeline": "concepts/pipeline-parallelism/in-depth/",
    "router": "concepts/mixture-of-experts/",
    "formats": "concepts/low-precision/",
    "launches": "concepts/compile/",
    "loss-scale": "concepts/low-precision/",
    "second-launch": "reliability/resume-exam/in-depth/",
}
PHONE: Any = {"width": 360, "height": 800}
# A grid of samples, and the slowest to compute.
# What they say is held without a browser, in tests/explore.
every = pytest.mark.parametrize("name", daily(SHOWN, "restart", "layouts"))


def figure(page: Page, name: str) -> Locator:
    """The explorable, scrolled to, once Python has answered in it."""
    found = page.locator(f"figure#{name}")
    page.wait_for_load_state("networkidle")
    if found.get_attribute("data-lazy") is not None:
        found.evaluate("one => one.scrollIntoView()")
        expect(found).to_have_attribute("data-ready", "")
        found.get_by_role("button").first.press("Enter")
        found.locator("summary").press("Enter")
    reach(found, "")
    return found


def reach(found: Locator, text: str) -> None:
    """Scroll to an explorable until it shows these settings: while a diagram
    above is drawn, the browser returns to the heading in the address."""
    for _ in range(10):
        found.evaluate("one => one.scrollIntoView()")
        try:
            expect(found).to_have_attribute("data-shown", text, timeout=3_000)
        except AssertionError:
            continue
        return
    expect(found).to_have_attribute("data-shown", text)


def told(name: str, text: str) -> str:
    """What it says of these settings."""
    one = explore.module(name)
    return str(one.draw(read(one.SETTINGS, text)).told)


def test_every_explorable_is_used_here() -> None:
    """None is left out of the tests below."""
    assert {name.replace("_", "-") for name in explore.NAMES} == SHOWN.keys()


@every
@pytest.mark.parametrize("scheme", daily(["light", "dark"], "dark"))
def test_an_explorable_answers_the_keyboard(
    browser: Browser,  # noqa: F811
    site: Site,
    name: str,
    scheme: Any,
) -> None:
    """Each setting is changed by the keyboard alone; drawing, numbers and words
    follow, and the address holds what was changed, for the next visit."""
    with Visit(browser, site, color_scheme=scheme) as visit:
        page = visit.open(SHOWN[name])
        shown = figure(page, name)
        as_it_was = shown.get_by_role("button").first
        for setting in explore.module(name).SETTINGS:
            # Else one setting may undo another's effect.
            as_it_was.press("Enter")
            expect(shown).to_have_attribute("data-shown", "")
            field = shown.locator(f"[name={setting.name}]")
            before = shown.get_attribute("data-shown")
            first = shown.locator(".explore-drawing").inner_html()
            onward = "ArrowDown" if type(setting) is Choice else "ArrowRight"
            at_first = setting.values[0] == setting.default
            field.focus()
            field.press(onward if at_first else "ArrowLeft")
            expect(shown).not_to_have_attribute("data-shown", before or "")
            text = shown.get_attribute("data-shown") or ""
            assert f"{setting.name}:" in text
            expect(shown.locator(".explore-told")).to_have_text(
                told(name, text)
            )
            assert shown.locator(".explore-drawing").inner_html() != first
        address = page.url
        assert f"{name}=" in address
        again = visit.open(address.removeprefix(site.address))
        shown = again.locator(f"figure#{name}")
        again.wait_for_load_state("networkidle")
        reach(shown, text)
        expect(shown.locator(".explore-told")).to_have_text(told(name, text))
        visit.assert_clean(name)


@every
def test_a_set_scene_is_shown_by_its_button_and_by_a_link(
    browser: Browser,  # noqa: F811
    site: Site,
    name: str,
) -> None:
    """On a phone, where nothing is wider than the screen: each button shows its
    scene, and so does a link of the text that leads to it."""
    with Visit(browser, site, viewport=PHONE) as visit:
        page = visit.open(SHOWN[name])
        shown = figure(page, name)
        for key, _, text in explore.module(name).SCENES:
            page.locator(f"#{name}-{key}").click()
            expect(shown).to_have_attribute("data-shown", text)
            expect(shown.locator(".explore-told")).to_have_text(
                told(name, text)
            )
        for link in page.locator(f"article a[href^='#{name}-']").all():
            scene = page.locator(link.get_attribute("href") or "")
            page.locator(f"#{name} button").first.click()
            link.click()
            text = scene.get_attribute("data-set") or ""
            expect(shown).to_have_attribute("data-shown", text)
        assert page.evaluate(WIDER_THAN_THE_SCREEN) == []
        visit.assert_clean(name)


@every
def test_without_javascript_the_default_is_drawn_and_told(
    browser: Browser,  # noqa: F811
    site: Site,
    name: str,
) -> None:
    """The picture is there, with its description for a screen reader, and no
    form that would not answer."""
    with Visit(browser, site, java_script_enabled=False) as visit:
        page = visit.page
        page.goto(site.address + SHOWN[name])
        shown = page.locator(f"figure#{name}")
        expect(shown.locator("form")).to_be_hidden()
        drawn = shown.locator("svg:visible")
        expect(drawn).to_have_count(1)
        expect(drawn).to_have_attribute("role", "img")
        assert told(name, "") in (drawn.get_attribute("aria-label") or "")
        expect(shown.locator(".explore-told")).to_have_text(told(name, ""))


@every
def test_it_loads_when_it_comes_near_and_answers_within_100_ms(
    browser: Browser,  # noqa: F811
    site: Site,
    name: str,
) -> None:
    """A visit that does not scroll to an explorable, or that changes nothing on
    the home page's, loads no Python, and one that does asks no other server. A
    change is drawn within 100 ms, in some quiet moment of a minute: what a busy
    machine adds is not the picture's."""
    with Visit(browser, site, viewport={"width": 1200, "height": 60}) as visit:
        page, asked = visit.page, []
        page.on("request", lambda request: asked.append(request.url))
        page.goto(site.address + SHOWN[name], wait_until="networkidle")
        assert not [one for one in asked if "micropython" in one]
        figure(page, name)
        assert [one for one in asked if one.endswith("micropython.wasm")]
        assert all(one.startswith(site.address) for one in asked)
        times = page.evaluate(
            """async (name) => {
              const times = [], begun = performance.now();
              const busy = () => Math.min(...times) >= 100;
              while (busy() && performance.now() - begun < 60000) {
                const start = performance.now();
                await askPython("lockstep.explore.page", name, "", 660);
                times.push(performance.now() - start);
                await new Promise((next) => setTimeout(next, 100));
              }
              return times;
            }""",
            name,
        )
        assert min(times) < 100, times
