"""The kinds of sheet.

To add one, declare a `SheetKind` in the file of its family (or a new file, for a new family) and
put it in the family's tuple, which is registered in `SHEET_FAMILIES`. It needs

- `draw(rng, plan)`: the given matrices by name, vectors as rows, with numbers that are pleasant at
  every step: short decimals, no saturated softmax or sigmoid, no two inputs alike. `sampling.py`
  has the parts. Only `rng` may be a source of chance: the same seed gives the same sheet for ever.
- `describe(plan, problem)`: a sentence for each convention that a student could not know.
- `sizes`, `min_size`, `max_size` and `check_size`: every size that is not refused must work.
- `options`: further sizes.

The name of the kind and of every new option also go into the tables of `cli/make.py`.

Everything else comes from the steps of `problem_kind`: keys, tolerances, mistakes to plant, and
the choice of problems that tell the mistakes apart. The tests of sheets run over this registry.
"""

from workings.languages import gettext_noop
from workings.problems.sheets.attention_sheets import ATTENTION_SHEETS
from workings.problems.sheets.convolution_sheets import CONVOLUTION_SHEETS
from workings.problems.sheets.counting_sheets import COUNTING_SHEETS
from workings.problems.sheets.decoder_sheets import DECODER_SHEETS
from workings.problems.sheets.decoding_sheets import DECODING_SHEETS
from workings.problems.sheets.gradient_sheets import GRADIENT_SHEETS
from workings.problems.sheets.language_sheets import LANGUAGE_SHEETS
from workings.problems.sheets.layer_sheets import LAYER_SHEETS
from workings.problems.sheets.network_sheets import NETWORK_SHEETS
from workings.problems.sheets.recurrent_sheets import RECURRENT_SHEETS
from workings.problems.sheets.sequence_sheets import SEQUENCE_SHEETS
from workings.problems.sheets.sheet_kind import SheetKind
from workings.problems.sheets.text_sheets import TEXT_SHEETS

SHEET_FAMILIES: dict[str, tuple[SheetKind, ...]] = {
    gettext_noop("Attention"): (*ATTENTION_SHEETS, *DECODER_SHEETS),
    gettext_noop("Layers"): LAYER_SHEETS,
    gettext_noop("Language models"): LANGUAGE_SHEETS,
    gettext_noop("Recurrent networks"): (*RECURRENT_SHEETS, *NETWORK_SHEETS, *SEQUENCE_SHEETS),
    gettext_noop("Losses and gradients"): GRADIENT_SHEETS,
    gettext_noop("Convolution"): CONVOLUTION_SHEETS,
    gettext_noop("Decoding"): DECODING_SHEETS,
    gettext_noop("Scores of texts"): TEXT_SHEETS,
    gettext_noop("Counting"): COUNTING_SHEETS,
}
SHEET_KINDS: dict[str, SheetKind] = {
    kind.name: kind for kinds in SHEET_FAMILIES.values() for kind in kinds
}
