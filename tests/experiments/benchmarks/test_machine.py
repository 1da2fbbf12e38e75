"""Results name what they were measured with."""

import subprocess

import pytest

from lockstep.experiments.provenance import revision

RESULTS = "links.json", "trials.jsonl"


@pytest.fixture
def checkout(tmp_path):
    """Something that measures, and its result, in one commit."""

    def git(*words):
        who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        subprocess.run(["git", *who, *words], cwd=tmp_path, check=True)

    (tmp_path / "bench").mkdir()
    (tmp_path / "bench" / "links.py").write_text("MEASURES = 1\n")
    for name in RESULTS:
        (tmp_path / "bench" / name).write_text("{}\n")
    (tmp_path / "settings.toml").write_text("")
    git("init", "--quiet")
    git("add", ".")
    git("commit", "--quiet", "--message", "first")
    return tmp_path


def test_a_result_that_was_written_does_not_make_the_next_one_dirty(checkout):
    before = revision(checkout / "bench")
    for name in RESULTS:
        (checkout / "bench" / name).write_text("{1}\n")
    assert revision(checkout / "bench") == before
    assert len(before) == 12


@pytest.mark.parametrize("changed", ["bench/links.py", "settings.toml"])
def test_what_measures_was_changed(checkout, changed):
    before = revision(checkout / "bench")
    (checkout / changed).write_text("MEASURES = 2\n")
    assert revision(checkout / "bench") == f"{before}-dirty"


def test_a_folder_that_is_no_checkout_has_none(tmp_path):
    assert revision(tmp_path) == "unknown"
