"""Where a worker takes the values of secrets from. An action only names them: a log cannot forget a value.

This keeps values out of the log. It does not keep actions from each other: they run as the worker's user, so whatever that user can
read on the machine, an action can read as well.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
"""What a secret may be called: so that a name is never a path."""

ENVIRONMENT_PREFIX = "HEADWAY_SECRET_"


class SecretMissing(LookupError):
    """The worker has no value for a secret; the message names it and where it was looked for, never a value."""


class SecretSource:
    """Values from files `directory/NAME` (one newline at the end is left out), then from `HEADWAY_SECRET_<NAME>` in `environ`.

    In the variable's name everything but letters and digits is an underscore, and letters are capitals.
    """

    def __init__(self, directory: Path | None = None, environ: Mapping[str, str] | None = None) -> None:
        self._directory = directory
        self._environ = {} if environ is None else environ

    def value(self, name: str) -> str:
        """The value of `name`. Raises SecretMissing."""
        if NAME.fullmatch(name) is None:
            raise SecretMissing(
                f"{name[:128]!r} is no name of a secret: letters, digits, '_', '-' and '.', at most 128, no '.' or '-' first"
            )
        variable = ENVIRONMENT_PREFIX + re.sub(r"[^A-Za-z0-9]", "_", name).upper()
        if self._directory is not None:
            path = self._directory / name
            try:
                return path.read_text(encoding="utf-8").removesuffix("\n")
            except FileNotFoundError:
                pass  # the environment may have it
            except (OSError, UnicodeDecodeError) as error:
                why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
                raise SecretMissing(f"secret {name!r} cannot be read on this worker: {why}") from error
        if variable in self._environ:
            return self._environ[variable]
        where = f"the variable {variable}"
        if self._directory is not None:
            where = f"a file {name!r} in the worker's secrets directory, or {where}"
        raise SecretMissing(f"secret {name!r} is missing on this worker; it is taken from {where}")
