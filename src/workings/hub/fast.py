"""Going on with a prompt as fast as can be, with the text that the model itself would write."""

from collections.abc import Iterator
from importlib.util import find_spec

from jaxtyping import Float, Int
from torch import Tensor

from workings.decode.sample import Sampling, generate
from workings.hub.ctranslate2 import SINUSOIDS, Engine
from workings.layers.positions import SinusoidalPositions
from workings.models.language import LanguageModel, TransformerLanguageModel
from workings.trace import traced


class Fastest:
    """Goes on with prompts: by CTranslate2 where that writes the same text, else by torch.

    It stands where `decode.sample.generate` does, without the model. The first prompt that the
    engine can take has the model converted, which for a small one takes milliseconds.
    """

    def __init__(self, model: LanguageModel) -> None:
        self.model = model
        self._engine: Engine | None = None

    def __call__(
        self, prompt: Int[Tensor, "batch time"], tokens: int, how: Sampling
    ) -> Iterator[tuple[Int[Tensor, " batch"], Float[Tensor, "batch vocabulary"]]]:
        """Give each token as soon as it is chosen, with the scores it had."""
        if not self.by_engine(prompt, tokens, how):
            return generate(self.model, prompt, tokens, how)
        if self._engine is None:
            self._engine = Engine(self.model)
        return self._engine.generate(prompt, tokens)

    def by_engine(self, prompt: Int[Tensor, "batch time"], tokens: int, how: Sampling) -> bool:
        """Decide: it must be there, its text the same as ours, and nobody look inside."""
        model = self.model
        if find_spec("ctranslate2") is None or traced():
            return False
        if not isinstance(model, TransformerLanguageModel) or model.embedding.weight.is_cuda:
            return False
        endless = not isinstance(model.positions, SinusoidalPositions)
        likeliest = how.temperature == 0 and how.repetition == 1.0
        return likeliest and len(prompt) == 1 and (endless or prompt.shape[1] + tokens <= SINUSOIDS)
