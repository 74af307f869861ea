"""Letters of other books: names that the givens, settings and steps of a kind also go by.

A name is renamed only if the kind does not have it and its usual name is absent.
"""

from collections.abc import Mapping
from typing import Any

from workings.problems.kinds import Kind

_RNN = {
    "W_x": "W_xh",
    "U": "W_xh",
    "W_ih": "W_xh",
    "W_h": "W_hh",
    "W": "W_hh",
    "W_y": "W_hy",
    "V": "W_hy",
    "W_ho": "W_hy",
    "b_h": "b",
    "c": "b_y",
}
_TEXTS = {"hypothesis": "candidate", "translation": "candidate", "reference": "references"}
_OPTIMIZER = {"lr": "learning_rate", "eta": "learning_rate", "w": "W", "g": "dW", "grad": "dW"}
GIVENS: dict[str, dict[str, str]] = {
    "softmax": {"z": "logits", "u": "logits", "x": "logits", "scores": "logits"},
    "cross_entropy": {"z": "logits", "p": "probabilities", "y": "Y"},
    "softmax_jacobian": {"z": "logits", "p": "probabilities", "dp": "dprobabilities"},
    "sampling": {"probabilities": "p", "k": "top_k"},
    "rnn": _RNN,
    "rnn_gradient": _RNN,
    "rnn_jacobian": {name: usual for name, usual in _RNN.items() if usual[-1] != "y"},
    "bidirectional_rnn": _RNN,
    "encoder_decoder": _RNN,
    "lstm": {"W_C": "W_c", "U_C": "U_c", "b_C": "b_c"},
    "lstm_gradient": {"W_C": "W_c", "U_C": "U_c", "b_C": "b_c", "X": "x"},
    "gru": {"W_h": "W_n", "U_h": "U_n", "b_h": "b_n"},
    "additive": {"W_a": "W_s", "U_a": "W_h", "v_a": "v"},
    "attention_gradient": {"dmixed": "doutput", "dO": "doutput"},
    "batch_norm": {"running_var": "running_variance"},
    "bleu": _TEXTS,
    "rouge_l": {"hypothesis": "candidate"},
    "edit_distance": {"candidate": "hypothesis"},
    "optimizer_step": _OPTIMIZER,
}
_OUTPUTS = {"p": "probabilities", "y_hat": "probabilities", "L": "loss", "a": "sum", "z": "sum"}
STEPS: dict[str, dict[str, str]] = {
    "attention": {"A": "weights", "S": "scores"},
    "attention_gradient": {"dA": "dweights", "dS": "dscores", "A": "weights", "S": "scores"},
    "softmax": {"p": "probabilities"},
    "lm_head": {"u": "logits", "z": "logits", "p": "probabilities"},
    "cross_entropy": {"p": "probabilities", "L": "loss", "dz": "dlogits"},
    "softmax_jacobian": {"p": "probabilities", "J": "jacobian", "dz": "dlogits"},
    "rnn": _OUTPUTS,
    "rnn_gradient": {"a": "sum", "z": "sum", "da": "dsum", "dz": "dsum"},
    "lstm": {"C": "c", "c_tilde": "g"},
    "gru": {"h_tilde": "n"},
    "additive": {"e": "scores", "alpha": "weights", "α": "weights", "c": "mixed"},
    "layer_norm": {"mu": "mean", "var": "variance"},
    "batch_norm": {"mu": "mean", "var": "variance"},
}
_EVERY_STEP = {"normalized": "normalised"}


def rename_letters(table: Mapping[str, Any], kind: Kind) -> dict[str, Any]:
    """Return the table of a problem with the usual names of its givens, settings and steps."""
    given, claim = table.get("given"), table.get("claim")
    renamed = _rename(table, GIVENS.get(kind.name, {}), set(kind.options))
    if isinstance(given, Mapping):
        renamed["given"] = _rename_givens(given, kind)
    if isinstance(claim, Mapping):
        renamed["claim"] = _rename_steps(claim, {**_EVERY_STEP, **STEPS.get(kind.name, {})})
    return renamed


def find_given(name: str, kind: Kind) -> str | None:
    """Return the usual name of a given matrix; None if the kind has none of this name.

    >>> from workings.problems.kinds import KINDS
    >>> find_given("b_h", KINDS["rnn"]), find_given("x", KINDS["rnn"])
    ('b', 'X')
    """
    usual = GIVENS.get(kind.name, {}).get(name, name.upper() if len(name) == 1 else name)
    return next((known for known in (name, usual) if known in kind.matrices), None)


def _rename_givens(given: Mapping[str, Any], kind: Kind) -> dict[str, Any]:
    """Rename the givens, also those of a part such as `[given.encoder]`."""
    letters, known = GIVENS.get(kind.name, {}), {*kind.matrices, *kind.setting_names}
    letters = {**{name.lower(): name for name in kind.matrices if len(name) == 1}, **letters}
    if kind.name == "gru" and "W_z" in given:
        known.discard("W_h")  # of all gates side by side; here it is the candidate's
    parts = {name.partition(".")[0] for name in known if "." in name}
    renamed = _rename(given, letters, known)
    for part in parts & renamed.keys():
        if isinstance(renamed[part], Mapping):
            own = {name.removeprefix(f"{part}.") for name in known if name.startswith(f"{part}.")}
            renamed[part] = _rename(renamed[part], letters, own)
    return renamed


def _rename(
    table: Mapping[str, Any], letters: Mapping[str, str], known: set[str]
) -> dict[str, Any]:
    def find(name: str) -> str:
        usual = letters.get(name, name)
        is_free = name not in known and usual in known and usual not in table
        return usual if is_free else name

    return {find(name) if isinstance(name, str) else name: value for name, value in table.items()}


def _rename_steps(claim: Mapping[str, Any], letters: Mapping[str, str]) -> dict[str, Any]:
    renamed: dict[str, Any] = {}
    for name, value in claim.items():
        if isinstance(value, Mapping):
            renamed[name] = _rename_steps(value, letters)
        elif name == "again" and isinstance(value, list):
            renamed[name] = [
                _rename_steps(part, letters) if isinstance(part, Mapping) else part
                for part in value
            ]
        else:
            usual = letters.get(name, name)
            renamed[usual if usual not in claim else name] = value
    return renamed
