"""What options share: bounds, and the fault of an option that other options rule out."""

from typing import Annotated

from pydantic import Field
from pydantic_core import PydanticCustomError

TEN_YEARS_S = 10 * 365 * 24 * 3600
Seconds = Annotated[int, Field(ge=0, le=TEN_YEARS_S)]
PositiveSeconds = Annotated[int, Field(ge=1, le=TEN_YEARS_S)]


def wrong_option(option: str, value: object, rule: str) -> PydanticCustomError:
    """The error of a check over several options: it names the one to change, as a path below the model that is checked."""
    return PydanticCustomError("option", "{rule}", {"option": option, "value": str(value), "rule": rule})
