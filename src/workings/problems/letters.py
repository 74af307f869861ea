"""Letters of other books: names that the givens, settings and steps of a kind also go by.

A name is renamed only if the kind does not have it and its usual name is absent. Spellings that
differ in signs or capital letters alone, such as `Wq` for W_Q, need no entry.
"""

import re
from collections.abc import Collection, Mapping
from typing import Any

from workings.problems.kinds import Kind, Step
from workings.problems.spellings import find_choice, find_name, fold

# The other names of givens and settings, in every kind that has the usual name.
_COMMON: dict[str, tuple[str, ...]] = {
    "X": ("input", "inputs", "x_t", "embeddings"),
    "context": ("memory", "encoder_output", "encoder_states", "encoder_hidden_states"),
    "W_Q": ("W_query",),
    "W_K": ("W_key",),
    "W_V": ("W_value",),
    "Q": ("query", "queries"),
    "K": ("keys", "key"),
    "V": ("values", "value"),
    "heads": ("num_heads", "n_heads", "nhead", "n_head"),
    "kv_heads": ("num_kv_heads", "n_kv_heads", "kv_groups"),
    "gamma": ("g", "weight", "gain"),
    "beta": ("b", "bias", "shift"),
    "b": ("bias",),
    "eps": ("epsilon",),
    "temperature": ("T", "tau", "temp", "t"),
    "logits": ("z", "u", "x", "a", "scores"),
    "probabilities": ("p", "q", "probs", "y_hat", "predictions"),
    "targets": ("target", "label", "labels", "class", "classes", "correct", "t"),
    "Y": ("one_hot", "y_true"),
    "h0": ("h_prev", "h_init", "h_{t-1}", "initial_state", "h", "s0"),
    "c0": ("c_prev", "c_init", "c_{t-1}", "c"),
    "activation": ("nonlinearity", "activation_function", "f"),
    "vocabulary": ("vocab", "words"),
    "dY": ("upstream", "dout", "dO", "dZ", "delta", "G"),
    "doutput": ("upstream", "dout", "dO", "dY", "dZ", "dmixed"),
    "dh": ("dh_T",),
    "dprobabilities": ("dp", "upstream", "dout", "g"),
    "label_smoothing": ("smoothing", "epsilon", "eps"),
    "batch": ("batch_size",),
    "n": ("length", "seq_len", "sequence_length", "N", "L"),
    "d": ("d_model", "width", "dim", "hidden_size"),
    "W_1": ("W_in", "W_up"),
    "W_2": ("W_out", "W_down"),
    "W_3": ("W_gate",),
}
_RNN = {
    "W_x": "W_xh",
    "U": "W_xh",
    "W_ih": "W_xh",
    "W_hx": "W_xh",
    "W_in": "W_xh",
    "W_h": "W_hh",
    "W": "W_hh",
    "W_rec": "W_hh",
    "W_y": "W_hy",
    "V": "W_hy",
    "W_ho": "W_hy",
    "W_yh": "W_hy",
    "W_hq": "W_hy",
    "W_out": "W_hy",
    "b_h": "b",
    "c": "b_y",
    "b_q": "b_y",
    "b_o": "b_y",
    "b_out": "b_y",
}
_LSTM = {
    "W_y": "W_hy",
    **{f"{matrix}_{other}": f"{matrix}_c" for matrix in "WUb" for other in ("C", "c_tilde", "u")},
    "W_xh": "W_x",
    "W_ih": "W_x",
    "W_hh": "W_h",
}
_GRU = {
    "W_y": "W_hy",
    **{f"{matrix}_{other}": f"{matrix}_n" for matrix in "WUb" for other in ("h", "h_tilde", "c")},
    **{f"{matrix}_u": f"{matrix}_z" for matrix in "WUb"},
}
_MODEL = {
    **dict.fromkeys(("T", "A", "transition", "transitions", "transition_matrix"), "P"),
    **dict.fromkeys(("pi", "initial", "p0"), "start"),
}
_TEXTS = {
    **dict.fromkeys(
        ("hypothesis", "hyp", "translation", "output", "prediction", "system"), "candidate"
    ),
    **dict.fromkeys(("reference", "ref", "refs"), "references"),
    **dict.fromkeys(("n", "N", "max_n", "order"), "max_order"),
}
_OPTIMIZER = {
    **dict.fromkeys(("lr", "eta", "alpha", "rate", "step_size"), "learning_rate"),
    **dict.fromkeys(("w", "theta", "params", "x"), "W"),
    **dict.fromkeys(("g", "G", "grad", "grads", "gradient", "dtheta"), "dW"),
    "m": "m0",
    "v": "v0",
    "velocity": "velocity0",
    "u": "velocity0",
    "step": "t",
    "mu": "momentum",
    "beta": "momentum",
    "b1": "beta_1",
    "b2": "beta_2",
}
_SIZES = {"h": "heads", "num_layers": "layers", "n_layers": "layers", "L": "layers"}
_ADDITIVE = {
    **dict.fromkeys(("q", "query", "s_{t-1}", "s_t"), "s"),
    **dict.fromkeys(("K", "keys", "h"), "H"),
    **dict.fromkeys(("W_a", "W_q", "W_1", "W"), "W_s"),
    **dict.fromkeys(("U_a", "W_k", "W_2", "U"), "W_h"),
    **dict.fromkeys(("v_a", "w_v", "V"), "v"),
}
_DECODER = {
    "X": "Y",
    "U": "W_ys",
    "W": "W_ss",
    "C": "W_cs",
    "W_hh": "W_ss",
    **dict.fromkeys(("W_xh", "W_xs", "W_x", "W_y"), "W_ys"),
    **dict.fromkeys(("W_ch", "W_c", "W_hs"), "W_cs"),
}
GIVENS: dict[str, dict[str, str]] = {
    "attention": {
        "S": "scores",
        "E": "X",
        "h": "heads",
        "C": "context",
        "Z": "context",
        "Y": "context",
    },
    "sampling": {
        **dict.fromkeys(("probabilities", "probs"), "p"),
        "k": "top_k",
        "nucleus": "top_p",
        "threshold": "top_p",
    },
    "rnn": _RNN,
    "rnn_gradient": _RNN,
    "rnn_jacobian": {name: usual for name, usual in _RNN.items() if usual[-1] != "y"},
    "bidirectional_rnn": _RNN,
    "encoder_decoder": _RNN,
    "encoder_decoder.decoder": _DECODER,
    "encoder_decoder.attention": {k: v for k, v in _ADDITIVE.items() if v not in "sH"},
    "lstm": _LSTM,
    "lstm_gradient": {"X": "x", **{k: v for k, v in _LSTM.items() if v != "W_hy"}},
    "bidirectional_lstm": _LSTM,
    "gru": _GRU,
    "bidirectional_gru": _GRU,
    "additive": _ADDITIVE,
    "positions": {
        **dict.fromkeys(("n", "length", "positions", "seq_len"), "count"),
        **dict.fromkeys(("d", "d_model", "dim"), "width"),
        "N": "base",
    },
    "lm_head": {**dict.fromkeys(("x", "X"), "H"), **dict.fromkeys(("W", "W_U", "W_E"), "E")},
    "embedding": {
        **dict.fromkeys(("id", "indices", "sentence", "text"), "ids"),
        **dict.fromkeys(("W", "W_E", "table"), "E"),
        "PE": "P",
    },
    "conv1d": {
        **dict.fromkeys(("kernel", "filter", "K", "k", "F"), "W"),
        "signal": "X",
        "pool": "pooling",
    },
    "batch_norm": {"running_var": "running_variance"},
    "bleu": _TEXTS,
    "rouge_l": {
        **{other: usual for other, usual in _TEXTS.items() if usual == "candidate"},
        "ref": "reference",
    },
    "edit_distance": {
        **dict.fromkeys(("candidate", "hyp", "prediction", "target", "b"), "hypothesis"),
        **dict.fromkeys(("ref", "source", "a"), "reference"),
        "substitution_cost": "substitution",
    },
    "optimizer_step": _OPTIMIZER,
    "beam_search": {
        **_MODEL,
        **dict.fromkeys(("beam_width", "beam_size", "num_beams", "k", "B", "width"), "beams"),
        **dict.fromkeys(("max_length", "max_len", "steps", "times", "n"), "length"),
        "eos": "stop",
        "end": "stop",
        "alpha": "length_penalty",
    },
    "sentence": {**_MODEL, "text": "sentence"},
    "kv_cache": _SIZES,
    "cost": {"h": "heads", "k": "kernel"},
    "layers": {"n": "length", "channels": "width", "d": "width"},
}
_OUTPUTS = {"p": "probabilities", "y_hat": "probabilities", "L": "loss", "a": "sum", "z": "sum"}
STEPS: dict[str, dict[str, str]] = {
    "attention": {
        **dict.fromkeys(("A", "attention_weights", "softmax", "alpha"), "weights"),
        "S": "scores",
        "raw_scores": "scores",
        "scaled_scores": "scaled",
        "masked_scores": "masked",
        "exp": "exponentials",
        "Z": "mixed",
    },
    "attention_gradient": {"dA": "dweights", "dS": "dscores", "A": "weights", "S": "scores"},
    "softmax": {"p": "probabilities"},
    "lm_head": {"u": "logits", "z": "logits", "p": "probabilities"},
    "cross_entropy": {"p": "probabilities", "L": "loss", "dz": "dlogits"},
    "softmax_jacobian": {"p": "probabilities", "J": "jacobian", "dz": "dlogits"},
    "rnn": _OUTPUTS,
    "rnn_gradient": {"a": "sum", "z": "sum", "da": "dsum", "dz": "dsum"},
    "lstm": {"C": "c", "c_tilde": "g"},
    "gru": {"h_tilde": "n"},
    "additive": {"e": "scores", "alpha": "weights", "c": "mixed"},
    "layer_norm": {"mu": "mean", "var": "variance"},
    "batch_norm": {"mu": "mean", "var": "variance"},
    "positions": {"PE": "encoding", "P": "encoding"},
    "edit_distance": {"D": "table"},
}
_EVERY_STEP = {
    "normalized": "normalised",
    "x_hat": "normalised",
    "sigma2": "variance",
    "var": "variance",
    "exps": "exponentials",
    "exp": "exponentials",
    "softmax": "probabilities",
}
_PARTS = {
    "fwd": "forward",
    "bwd": "backward",
    "attn": "attention",
    "self": "self_attention",
    "cross": "cross_attention",
    "ffn": "feed_forward",
}
_GATES = {"lstm": "ifgco", "gru": "zrnhc"}  # with the other letters of the candidate
_OPTIONAL_STEPS = frozenset({"exponentials", "sums", "probabilities", "tanh_c"})
TOP_LEVEL_KEYS = (
    *("title", "kind", "vectors", "tokens", "context_tokens", "rounded", "given", "claim"),
)
_STACKED = ("X", "H", "Q", "K", "V", "Y")
_NUMBERED = re.compile(r"(?P<name>[A-Za-z]+)_?(?P<number>[1-9][0-9]{0,2})")


def rename_letters(table: Mapping[str, Any], kind: Kind) -> dict[str, Any]:
    """Return the table of a problem with the usual names of its givens, settings and steps."""
    claim = table.get("claim")
    renamed = _rename(table, kind, kind.name, {*TOP_LEVEL_KEYS, *kind.setting_names})
    if isinstance(renamed.get("given", {}), Mapping):
        renamed["given"] = _stack_vectors(
            _rename_givens(renamed.get("given", {}), kind), kind, renamed
        )
        _name_words(renamed, kind)
        _name_targets(renamed["given"], kind)
    if isinstance(claim, Mapping):
        letters = {**_EVERY_STEP, **STEPS.get(kind.name, {})}
        renamed["claim"] = _rename_steps(_rename_parts(claim, kind.prefixes), letters)
    return renamed


def find_given(name: str, kind: Kind) -> str | None:
    """Return the usual name of a given matrix; None if the kind has none of this name.

    The weights of single gates and vectors such as `x_1` keep their names.

    >>> from workings.problems.kinds import KINDS
    >>> find_given("b_h", KINDS["rnn"]), find_given("x", KINDS["rnn"])
    ('b', 'X')
    """
    if name in kind.matrices:
        return name
    if name in TOP_LEVEL_KEYS or name in kind.setting_names:
        return None
    known = {*kind.matrices, *kind.setting_names}
    if _is_gate(name, kind) or _find_vector(name, kind):
        return name
    usual = find_name(name, known, _list_letters(kind, kind.name, known))
    return usual if usual in kind.matrices else None


def _list_letters(kind: Kind, path: str, known: Collection[str]) -> dict[str, str]:
    """Return the usual name of each other name in a kind or in a part of it."""
    common = {
        other: usual for usual, others in _COMMON.items() if usual in known for other in others
    }
    return {**common, **GIVENS.get(path, GIVENS.get(kind.name, {}))}


def _rename_givens(given: Mapping[str, Any], kind: Kind) -> dict[str, Any]:
    """Rename the givens, also those of a part such as `[given.encoder]`."""
    known = {*kind.matrices, *kind.setting_names}
    given = _rename_gates({str(name): value for name, value in given.items()}, kind)
    if kind.name == "gru" and any(fold(str(name)) in ("Wz", "Wu") for name in given):
        known.discard("W_h")  # of all gates side by side; here it is the candidate's
    parts = {name.partition(".")[0] for name in known if "." in name}
    given = _rename_parts(given, parts)
    renamed = _rename(given, kind, kind.name, known | parts)
    for part in parts & renamed.keys():
        if isinstance(renamed[part], Mapping):
            renamed[part] = _rename_gates(renamed[part], kind)
            own = {name.removeprefix(f"{part}.") for name in known if name.startswith(f"{part}.")}
            renamed[part] = _rename(renamed[part], kind, f"{kind.name}.{part}", own)
    return renamed


def _rename_parts(table: Mapping[str, Any], parts: Collection[str]) -> Mapping[str, Any]:
    """Rename the parts of a problem: `fwd` is forward, `dec` decoder."""
    names = {name: _PARTS.get(name, name) for name in table if isinstance(table[name], Mapping)}
    usual = {name: part for name, part in names.items() if part in parts and part not in table}
    return {usual.get(name, name): value for name, value in table.items()}


def _rename_gates(given: Mapping[str, Any], kind: Kind) -> Mapping[str, Any]:
    """Rename the weights of gates: W_xi and W_hi, or W_ix and W_ih, are W_i and U_i."""
    gates = _find_gates(kind)
    if not gates:
        return given
    spelled = {fold(name): name for name in given if isinstance(name, str)}
    for for_x, for_h in (("Wx{}", "Wh{}"), ("W{}x", "W{}h"), ("Wi{}", "Wh{}")):
        own = [g for g in gates if {for_x.format(g), for_h.format(g)} <= spelled.keys()]
        if len(own) > 2:
            names = {spelled[for_x.format(g)]: f"W_{g}" for g in own}
            names |= {spelled[for_h.format(g)]: f"U_{g}" for g in own}
            return {names.get(name, name): value for name, value in given.items()}
    if gates == _GATES["gru"] and spelled.keys() & {"Wz", "Wu"}:  # the candidate's have no letter
        names = {"W": "W_n", "U": "U_n", "b": "b_n"}
    else:
        names = {"W": "W_x", "U": "W_h"} if {"W", "U"} <= given.keys() else {}
    return {names.get(name, name): value for name, value in given.items()}


def _rename(
    table: Mapping[str, Any], kind: Kind, path: str, known: Collection[str]
) -> dict[str, Any]:
    if table.keys() <= set(known):
        return dict(table)
    letters = _list_letters(kind, path, known)
    usual_names: dict[Any, Any] = {}
    for name in table:
        usual = find_name(name, known, letters) if isinstance(name, str) else None
        is_free = usual is not None and usual not in table and usual not in usual_names.values()
        usual_names[name] = usual if is_free else name
    return {usual_names[name]: value for name, value in table.items()}


def _rename_steps(claim: Mapping[str, Any], letters: Mapping[str, str]) -> dict[str, Any]:
    renamed: dict[str, Any] = {}
    for name, value in claim.items():
        name = str(name)  # in Python, it may be anything
        if isinstance(value, Mapping):
            renamed[name] = _rename_steps(value, letters)
        elif name == "again" and isinstance(value, list):
            renamed[name] = [
                _rename_steps(part, letters) if isinstance(part, Mapping) else part
                for part in value
            ]
        else:
            is_word = len(fold(name)) > 1  # capital letters count in symbols
            others = letters if is_word else {}
            usual = letters.get(name) or find_name(name, set(others.values()), others) or name
            renamed[usual if usual not in claim else name] = value
    return renamed


def find_step_names(
    claimed: Collection[tuple[str, int]], steps: Collection[Step], part_name: str | None
) -> dict[str, str]:
    """Return the keys of steps by claimed keys that are spelled otherwise.

    `Scores` is scores, and `h_2` at the top is h of the time 2.
    """
    known = {step.key for step in steps if step.is_claimable}
    names, taken = dict[str, str](), {key for key, _ in claimed}
    for key in taken - known:
        usual = _find_step(key, known, has_times=part_name == "t")
        if usual and usual not in taken:
            names[key] = usual
    return names


def _find_step(key: str, known: Collection[str], has_times: bool) -> str | None:
    name, _, part = key.rpartition(".")
    if not name or not part.isdecimal():
        name, part = key, ""
        numbered = _NUMBERED.fullmatch(fold(key)) if has_times else None
        if numbered:
            name, part = numbered["name"], numbered["number"]
    end = f".{part}" if part else ""
    names = {other.removesuffix(end) for other in known if other.endswith(end)}
    usual = find_name(name, names | _OPTIONAL_STEPS, {})
    return usual and usual + end


def _find_gates(kind: Kind) -> str:
    return next((gates for name, gates in _GATES.items() if name in kind.name), "")


def _is_gate(name: str, kind: Kind) -> bool:
    gates = _find_gates(kind)
    return bool(gates) and re.fullmatch(f"[WU][xhi{gates}]?[xh{gates}]?", fold(name)) is not None


def _find_vector(name: str, kind: Kind) -> tuple[str, int] | None:
    """Return the matrix and the number of a vector: X and 2 of `x_2`; None if it is none."""
    match = _NUMBERED.fullmatch(fold(name))
    letter = match["name"].upper() if match else ""
    is_matrix = letter in _STACKED and kind.matrices.get(letter, ("1",))[0] != "1"
    if not match or not is_matrix or name in kind.matrices:
        return None
    return letter, int(match["number"])


def _stack_vectors(given: dict[str, Any], kind: Kind, table: Mapping[str, Any]) -> dict[str, Any]:
    """Put vectors that are given one by one, `x_1`, `x_2`, …, into their matrix."""
    vectors_by_letter: dict[str, dict[int, str]] = {}
    for name in given:
        if (
            isinstance(name, str)
            and (vector := _find_vector(name, kind))
            and vector[0] not in given
        ):
            vectors_by_letter.setdefault(vector[0], {})[vector[1]] = name
    for letter, numbered in vectors_by_letter.items():
        vectors = [_flatten(given[numbered[k]]) for k in sorted(numbered)]
        is_whole = sorted(numbered) == list(range(1, len(numbered) + 1))
        if not is_whole or len({len(vector) for vector in vectors}) > 1:
            continue
        is_column = find_choice(table.get("vectors"), ("rows", "columns")) == "columns"
        rows = [list(row) for row in zip(*vectors, strict=True)] if is_column else vectors
        given = {name: value for name, value in given.items() if name not in numbered.values()}
        given[letter] = rows
    return given


def _flatten(value: Any) -> list[Any]:
    value = value.tolist() if hasattr(value, "tolist") else value
    if not isinstance(value, list):
        return [value]
    return [cell for row in value for cell in (row if isinstance(row, list) else [row])]


def _name_words(table: dict[str, Any], kind: Kind) -> None:
    """Move the names of words to where the kind expects them: tokens, vocabulary or ids."""
    given = table["given"]
    if kind.name in ("sampling", "sentence", "beam_search") and "tokens" not in table:
        for place in (table, given):
            name = next((name for name in ("vocabulary", "vocab") if name in place), None)
            if name:
                table["tokens"] = place.pop(name)
                break
    elif kind.name == "embedding" and "ids" not in given and "tokens" in table:
        given["ids"] = table["tokens"]
    elif "vocabulary" in kind.options and "vocabulary" not in {*table, *given}:
        words, vectors = table.get("tokens"), given.get("logits", given.get("H"))
        if isinstance(words, list) and len(words) > 1 and _is_vector(vectors):
            table["vocabulary"] = table.pop("tokens")  # of one vector, it names the numbers


def _name_targets(given: dict[str, Any], kind: Kind) -> None:
    """Tell targets, the classes from 1, from Y, a distribution over the classes for each."""
    if not {"targets", "Y"} <= kind.matrices.keys() or {"targets", "Y"} <= given.keys():
        return
    if "Y" in given:
        cells = _flatten(given["Y"])
        are_classes = all(isinstance(cell, int) and cell > 0 for cell in cells)
        if cells and are_classes and (len(cells) == 1 or max(cells) > 1):
            given["targets"] = given.pop("Y")
    elif "targets" in given:
        cells, rows = _flatten(given["targets"]), given["targets"]
        is_matrix = not _is_vector(rows) and isinstance(rows, list)
        inputs = (given.get(name) for name in ("logits", "probabilities", "X"))
        is_one = all(_is_vector(value) for value in inputs if value is not None)
        if is_matrix or (is_one and len(cells) > 1 and 0 in cells):
            given["Y"] = given.pop("targets")


def _is_vector(value: Any) -> bool:
    value = value.tolist() if hasattr(value, "tolist") else value
    rows = value if isinstance(value, list) else []
    is_flat = bool(rows) and not any(isinstance(row, list) for row in rows)
    return is_flat or len(rows) == 1 or all(isinstance(r, list) and len(r) == 1 for r in rows)
