"""`infra/mutate`: break the code in one place, run the test that must notice, for every mutation of the catalogue.

Exit codes: 0 each test noticed its mutation, 1 some mutation could not be judged, 3 some mutation stayed green.
"""

import argparse
import json
import os
import sys
from pathlib import Path

from tests.mutations.catalogue import InvalidCatalogue, Mutation, defects, read_catalogue
from tests.mutations.trial import Trial, Verdict, try_all

ROOT = Path(__file__).parents[2]
SOUND, UNJUDGED, UNNOTICED = 0, 1, 3


def main(arguments: list[str] | None = None) -> int:
    """Run the trials and say what they showed; returns the exit code."""
    parser = argparse.ArgumentParser(prog="infra/mutate", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="trials at a time")
    parser.add_argument(
        "-k", default="", metavar="TEXT", help="only mutations with TEXT in their file, id, words or test"
    )
    parser.add_argument("-o", choices=("text", "json"), default="text", dest="form", help="form of the output")
    options = parser.parse_args(arguments)
    if options.jobs < 1:
        parser.error(f"--jobs {options.jobs}: at least 1")
    try:
        every = read_catalogue(ROOT)
    except InvalidCatalogue as error:
        print(f"infra/mutate: {error}", file=sys.stderr)
        return UNJUDGED
    chosen = [mutation for mutation in every if options.k in _words_of(mutation)]
    if not chosen:
        print(f"infra/mutate: none of the {len(every)} mutations has {options.k!r} in it", file=sys.stderr)
        return UNJUDGED
    wrong = defects(ROOT, chosen)
    for line in wrong:
        print(f"infra/mutate: {line}", file=sys.stderr)
    if wrong:
        return UNJUDGED
    trials = []
    for trial in try_all(ROOT, chosen, min(options.jobs, len(chosen))):
        trials.append(trial)
        if options.form == "text":
            _say(trial)
    if options.form == "json":
        print(json.dumps(_summary(trials), indent=2))
    else:
        counts = _summary(trials)["verdicts"]
        print(f"{len(trials)} mutations: " + ", ".join(f"{count} {verdict}" for verdict, count in counts.items()))
    return exit_code(trials)


def exit_code(trials: list[Trial]) -> int:
    """What these trials come to."""
    verdicts = {trial.verdict for trial in trials}
    if Verdict.GREEN in verdicts:
        return UNNOTICED
    return UNJUDGED if Verdict.UNJUDGED in verdicts else SOUND


def _words_of(mutation: Mutation) -> str:
    return " ".join((mutation.source, mutation.id, mutation.what, mutation.file, mutation.test))


def _say(trial: Trial) -> None:
    mutation = trial.mutation
    print(f"{trial.verdict:8}  {mutation.name}  ({mutation.test.partition('::')[2]})", flush=True)
    if trial.output:
        print("\n".join(f"          {line}" for line in trial.output.splitlines()), flush=True)


def _summary(trials: list[Trial]) -> dict:
    verdicts = [trial.verdict for trial in trials]
    return {
        "mutations": [
            {
                "id": trial.mutation.id,
                "what": trial.mutation.what,
                "file": trial.mutation.file,
                "test": trial.mutation.test,
                "verdict": trial.verdict.value,
                "output": trial.output,
            }
            for trial in trials
        ],
        "verdicts": {verdict.value: verdicts.count(verdict) for verdict in Verdict if verdict in verdicts},
    }


if __name__ == "__main__":
    sys.exit(main())
