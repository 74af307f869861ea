"""Texts and translations as fast as can be, and just those that the model itself would write."""

from collections.abc import Iterator, Sequence
from importlib.util import find_spec

from jaxtyping import Float, Int
from torch import Tensor, nn

from workings.decode.beam import Hypothesis, beam_search, limit_of_each
from workings.decode.sample import Sampling, generate
from workings.hub.ctranslate2 import Engine
from workings.hub.ctranslate2_layers import SINUSOIDS
from workings.hub.ctranslate2_translator import TranslationEngine
from workings.layers.positions import SinusoidalPositions
from workings.models.language import LanguageModel, TransformerLanguageModel
from workings.models.transformer_translator import TransformerTranslator
from workings.models.translators import Sentences, Translator
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
        if not isinstance(model, TransformerLanguageModel) or not _free(model):
            return False
        endless = not isinstance(model.positions, SinusoidalPositions)
        likeliest = how.temperature == 0 and how.repetition == 1.0
        return likeliest and len(prompt) == 1 and (endless or prompt.shape[1] + tokens <= SINUSOIDS)


class FastestSearch:
    """Searches for translations: by CTranslate2 where that finds the same ones, else by torch.

    It stands where `decode.beam.beam_search` does, without the model, and gives the `best` of what
    that finds: to be sure of fewer takes less time.
    """

    def __init__(self, model: Translator, best: int = 1) -> None:
        self.model, self.best = model, best
        self._engine: TranslationEngine | None = None

    def __call__(
        self,
        source: Sentences,
        *,
        stop: int,
        longest: int | Sequence[int],
        beams: int,
        length_penalty: float,
    ) -> list[list[Hypothesis]]:
        """Find for each source the best translations, best first."""
        how = {"longest": longest, "beams": beams, "length_penalty": length_penalty}
        if not self.by_engine(source, max(limit_of_each(longest, len(source.ids))), beams):
            return beam_search(self.model, source, stop=stop, best=self.best, **how)  # type: ignore[arg-type]
        if self._engine is None or self._engine.stop != stop:
            self._engine = TranslationEngine(self.model, stop)
        return self._engine.search(source, best=min(self.best, beams), **how)  # type: ignore[arg-type]

    def by_engine(self, source: Sentences, longest: int, beams: int) -> bool:
        """Decide: it must be there, able to keep so many beams and positions, and nobody look."""
        model = self.model
        if not isinstance(model, TransformerTranslator) or not _free(model):
            return False
        keeps = beams >= 1 and 2 * beams <= model.target_embedding.num_embeddings
        reads = int(source.lengths.min()) > 1  # it passes over a source that is just its stop
        return keeps and reads and longest >= 1 and max(longest, source.ids.shape[1]) <= SINUSOIDS


def _free(model: nn.Module) -> bool:
    """Whether a model may be left to the engine: it is there, and nobody looks inside."""
    on_cpu = not next(model.parameters()).is_cuda
    return find_spec("ctranslate2") is not None and on_cpu and not traced()
