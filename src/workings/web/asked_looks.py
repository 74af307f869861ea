"""What the page may ask of runs: an input of a bounded size, heads to switch off, a cell."""

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from workings.web.asked import Asked, RunName

LONGEST_INPUT = 20_000  # characters
LARGEST_PICTURE = 900_000  # characters of base64, in a request of 1 MB
MOST_TOKENS = 200  # of a completion

Number: TypeAlias = Annotated[int, Field(ge=1, le=4096)]
Place: TypeAlias = Annotated[int, Field(ge=0, lt=512)]
Scene: TypeAlias = Annotated[int, Field(ge=1, le=200)]
Part: TypeAlias = Literal["encoder", "decoder", "cross"]


class Off(Asked):
    """A head to switch off."""

    part: Part
    layer: Number
    head: Number


class Look(Asked):
    """An input for a run: a text; for a captioner a drawn scene by number, or a picture."""

    run: RunName
    text: Annotated[str, Field(max_length=LONGEST_INPUT)] = ""
    scene: Scene = 1
    picture: Annotated[str, Field(max_length=LARGEST_PICTURE)] | None = None
    off: list[Off] = Field(default=[], max_length=64)


class MapAsked(Look):
    """One head's map."""

    part: Part | Literal["alignment"]
    layer: Number = 1
    head: Number = 1


class DerivationAsked(Look):
    """One cell of a head's weights, counted from 0."""

    part: Part
    layer: Number
    head: Number
    row: Place
    column: Place


class Complete(Look):
    """How to go on with a text; a temperature of 0 takes the likeliest."""

    tokens: Annotated[int, Field(ge=1, le=MOST_TOKENS)] = 40
    temperature: Annotated[float, Field(ge=0, le=10, allow_inf_nan=False)] = 0.0
    seed: Annotated[int, Field(ge=0, le=2**31)] = 0


class CellsAsked(Look):
    """A cell of a group, both counted from 1; none: the one that varies most."""

    group: Number = 1
    cell: Number | None = None


class RunAsked(Asked):
    """A run."""

    run: RunName
