"""Moments as options of commands: `--at`, `--from`, `--to`."""

from __future__ import annotations

from typing import Any, Final

import click

from streams.moments import BadMoment, Moment, parse_moment


class MomentType(click.ParamType):
    """The type of an option that names a moment; the value is a `streams.moments.Moment`."""

    name = "SEQ|TIME"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Moment:
        """See click. Fails with the usage error of a moment that cannot be read."""
        if isinstance(value, Moment):
            return value
        try:
            return parse_moment(str(value))
        except BadMoment as error:
            self.fail(error.message, param, ctx)


MOMENT: Final = MomentType()
