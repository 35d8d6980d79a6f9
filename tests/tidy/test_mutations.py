"""The catalogue of mutations fits the code, and a sample of it turns its tests red. All of it: `infra/mutate`."""

from pathlib import Path

import pytest

from tests.mutations.catalogue import InvalidCatalogue, Mutation, defects, read_catalogue
from tests.mutations.trial import Trial, Verdict, try_all

ROOT = Path(__file__).parents[2]
SAMPLE = 5
EVERY = read_catalogue(ROOT)


def test_every_mutation_can_be_made_and_names_a_test_that_exists():
    assert defects(ROOT, EVERY) == []
    assert len(EVERY) > 3 * SAMPLE


def test_no_two_mutations_are_the_same_breakage():
    breakages = [(mutation.file, mutation.find, mutation.replace, mutation.test) for mutation in EVERY]
    assert len(set(breakages)) == len(breakages)


@pytest.mark.slow
def test_a_sample_of_the_mutations_is_noticed():
    sample = EVERY[:: max(1, len(EVERY) // SAMPLE)][:SAMPLE]
    trials = list(try_all(ROOT, sample, jobs=2))
    unnoticed = [(trial.mutation.name, trial.verdict.value, trial.output) for trial in trials if not noticed(trial)]
    assert unnoticed == []


def noticed(trial: Trial) -> bool:
    return trial.verdict in (Verdict.RED, Verdict.HANGS)


@pytest.mark.slow
def test_a_mutation_that_changes_nothing_stays_green_and_one_that_breaks_the_start_is_not_judged(tmp_path):
    (tmp_path / "events").mkdir()
    (tmp_path / "tests").mkdir()
    (tmp_path / "events" / "sum.py").write_text("def added(a, b):\n    return a + b\n")
    (tmp_path / "tests" / "test_sum.py").write_text(
        "from events.sum import added\n\n\ndef test_sum():\n    assert added(2, 2) == 4\n"
    )
    (tmp_path / "pyproject.toml").write_text('[tool.pytest.ini_options]\naddopts = "--import-mode=importlib"\n')

    def breaking(find: str, replace: str) -> Mutation:
        return Mutation(
            "x.toml", "", f"{find} to {replace}", "events/sum.py", find, replace, "tests/test_sum.py::test_sum"
        )

    mutations = [breaking("a + b", "a - b"), breaking("a + b", "a * b"), breaking("def added", "def subtracted")]
    verdicts = [trial.verdict for trial in try_all(tmp_path, mutations, jobs=1)]
    assert verdicts == [Verdict.RED, Verdict.GREEN, Verdict.UNJUDGED]
    assert (tmp_path / "events" / "sum.py").read_text().endswith("return a + b\n"), "the tree itself is untouched"


def test_a_find_that_is_not_there_once_is_refused():
    mutation = Mutation("x.toml", "", "twice", "f", "a", "b", "t")
    with pytest.raises(InvalidCatalogue, match="stands 2 times in f"):
        mutation.applied_to("a a")
