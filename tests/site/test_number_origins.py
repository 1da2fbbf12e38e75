"""A number in an answer has an origin, or it is refused."""

import pytest

from lockstep.practice.bank import admitted
from lockstep.practice.core_questions import core
from lockstep.practice.figures import computed, given
from lockstep.site.pages.number_origins import typed, vetted
from tests.practice.specimen import specimen

PLAN = 'plan("memory", params=2e9, dp=8, zero_stage=0).total_bytes'


@pytest.mark.parametrize(
    "text",
    [
        "It holds 32 GB.",
        "It takes 2.63 s beside `2.63 s`.",
        "It takes `2.63 s`.",
        "It is `0.97`.",
        "An error of 10⁻⁷ is fine.",
        "It sends [1.5](concepts/memory/index.md) as much as 1.5 did.".replace(
            "1.5", "987.5"
        ),
        "In a lab 64 GPUs do.",
        "{{ 32 }} GB.",
        "{{ 4 * 8 }} GB are {{ 7 * 9 }}.",
        "{% set x = 32.5 %}{{ x }} GB.",
        "{{ 37 * " + PLAN + ".value }} GB.",
        "It holds 32. <!-- from: docs/recorded/collectives-wire.txt -->",
        "It holds 1.5. <!-- from: docs/recorded/no-such.txt -->",
    ],
)
def test_a_typed_number_is_refused(text: str) -> None:
    assert list(typed(specimen(strong=text)))


@pytest.mark.parametrize(
    "text",
    [
        f"It holds {{{{ {PLAN} }}}}.",
        f"It is {{{{ (100 * {PLAN}.value / 2**30) | round(3) }}}}.",
        "Of 2 billion parameters {{ 2e9 / 8 }} are mine.",  # as asked
        "It has 2e9 parameters, or {{ 3 * (8 - 1) }}.",
        "Rank 3, ranks 4 to 7, step 20, lab 08, section 4.2.2, epoch 5.",
        "H100, fp32, ZeRO-3, Llama 3 70B, 1F1B, #172596, 2.13.0, torch 2.13.",
        "Since 2.13, and in 2025, `--shutdown-timeout=100` ends with `75`.",
        "It sends [1.50](concepts/collectives/in-depth.md#wire), so 1.50.",
        "It sends 1.50. <!-- from: docs/recorded/collectives-wire.txt -->",
        "The default is [600 s](https://docs.pytorch.org/docs/stable/).",
        "It is 0 or 1, and 100 % of it.",
    ],
)
def test_a_number_with_an_origin_is_none_of_ours(text: str) -> None:
    assert list(typed(specimen(strong=text))) == []


def test_the_bank_has_no_typed_number() -> None:
    """No question that is published has a typed number; the first that has
    one is named with its file."""
    for found in (admitted(), core()):
        assert vetted(found) is found
    bad = {"specimen": specimen(say="It holds 32 GB.")}
    why = r"^specimen\.yml: say: 32 is typed; compute it or quote it$"
    with pytest.raises(ValueError, match=why):
        vetted(bad)


def test_a_number_may_be_what_a_source_is_cited_to_say() -> None:
    strong = "It waits 30 s."
    url = "https://docs.pytorch.org/"
    for says, good in (("It waits 30 s.", True), ("It waits.", False)):
        sources = [{"url": url, "says": says}]
        one = specimen(strong=strong, evidence__sources=sources)
        assert bool(list(typed(one))) != good


def test_a_pushback_gives_its_reply_a_number_and_no_other_text() -> None:
    reply = {"ask": "And on 96?", "reply": "On 96 as well."}
    assert list(typed(specimen(pushbacks=[reply]))) == []
    assert list(typed(specimen(pushbacks=[reply], say="On 96.")))
    deep = reply | {"then": [{"ask": "Why?", "reply": "It is 96."}]}
    assert list(typed(specimen(pushbacks=[deep]))) == []
    [line] = typed(specimen(pushbacks=[{"ask": "Why?", "reply": "It is 96."}]))
    assert line == "pushbacks.1.reply: 96 is typed; compute it or quote it"


def filled(text: str) -> str:
    return computed(text, "", **given("https://example.org"))


def test_a_recorded_number_is_linked_to_its_file() -> None:
    text = '{{ recorded("benchmarks/result.json", "settings.ranks") }}'
    assert filled(text) == (
        '<a class="figure" href="https://example.org/code/lockstep/'
        'experiments/benchmarks/result.json">2</a>'
    )
    text = '{{ recorded("benchmarks/links.json", "links.0.ranks").value + 1 }}'
    assert filled(text) == "3"


def test_a_printed_number_is_linked_to_the_page_that_shows_it() -> None:
    text = '{{ printed("collectives-wire", "^all_gather +([.0-9]+)") }}'
    assert filled(text) == "[0.75](concepts/collectives/in-depth.md#wire)"


def test_an_artifact_is_shown_as_it_was_printed_and_gives_its_numbers() -> None:
    call = r'{{ artifact("profiling-read", "^late +(rank.+)") }}'
    asked = filled(f"Read it.\n{call}")
    head, *lines, end = asked.split("\n\n")[-1].strip().splitlines()
    assert (head, end) == ("```text", "```")
    assert [line.split()[:2] for line in lines] == [
        ["rank", "0"],
        ["rank", "1"],
    ]
    number = lines[0].split()[2]  # milliseconds
    strong = f"A step takes {number} ms."
    assert list(typed(specimen(strong=strong, question=call))) == []
    assert list(typed(specimen(strong=strong)))


@pytest.mark.parametrize(
    ("call", "why"),
    [
        ('artifact("profiling-read", "^never")', "has nothing of .never"),
        (
            'recorded("benchmarks/result.json", "settings.no")',
            "has no settings.no",
        ),
        (
            'recorded("benchmarks/no.json", "settings")',
            "no.json has no settings",
        ),
        (
            'recorded("benchmarks/links.json", "links.99")',
            "has no links.99",
        ),
        (
            'recorded("benchmarks/result.json", "date")',
            "date of .* is no number",
        ),
        ('printed("collectives-wire", "gathered")', "has 0 of gathered"),
        ('printed("collectives-wire", "all_[a-z]+")', "has 3 of all_"),
        ('printed("no-such", "1")', "no-such.txt has 0 of 1"),
    ],
)
def test_what_was_not_recorded_is_refused(call: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        filled(f"{{{{ {call} }}}}")
