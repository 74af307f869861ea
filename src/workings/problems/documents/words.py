"""What the words around numbers say: captions of matrices, conventions, in several languages."""
# ruff: noqa: E501 - a pattern has one line

import re

# In order of precedence: a caption "softmax of the scaled scores" is of the weights.
_ATTENTION_CAPTIONS: tuple[tuple[str, str], ...] = (
    ("mask", r"^\W*(?:(?:the|a|causal|attention|look-?ahead|die|le|la)\s+)*(?:mask|maske|masque|máscara)\W*$|掩码矩阵"),
    ("mixed", r"weighted (?:sum|average|values|mean)|context vectors?|mixture|new vectors|gewichtete (?:summe|werte)|kontextvektor|somme pondérée|suma ponderada|vector(?:es)? de contexto|加权和|上下文向量"),
    ("exponentials", r"exponential|exponiert|exponentielle|exponencial|指数"),
    ("sums", r"\b(?:together|row sums?|sums?|total|in total|altogether|zusammen|summen?|insgesamt|ensemble|au total|somme|juntos|suma|en total)\b|合计|总和|之和"),
    ("weights", r"(?:attention|aufmerksamkeits)[- ]?(?:weights?|gewichte?|probabilit|matrix|pattern|distribution)|\bweights\b|\bgewichte\b|soft-?max|probabilit|wahrscheinlichkeit|poids|pesos|权重|概率"),
    ("masked", r"\bmasked\b|after mask|applying (?:the )?mask|maskiert|masqué|enmascarad|掩码后|屏蔽后"),
    ("scaled", r"scaled|divid|skaliert|geteilt|teilen|divis|échelle|escalad|divid|缩放|除以"),
    ("output", r"\boutputs?\b|\bergebnis|ausgabe|\bsortie|résultat|\bsalidas?\b|resultado|输出|结果"),
    ("scores", r"scores?\b|dot[- ]products?|skalarprodukt|similarit|produits? scalaires?|productos? (?:escalar|punto)|puntuaci|得分|分数|点积|logits|energies|ähnlichkeit"),
    ("W_Q", r"(?:query|abfrage|anfrage)[- ]?(?:weight|matrix|projection|gewicht)|(?:weights?|matrix|projection|gewichte?|matrice|matriz)\b.{0,20}\b(?:quer|anfrage|requête|consulta)|查询(?:权重|矩阵)"),
    ("W_K", r"(?:key|schlüssel)[- ]?(?:weight|matrix|projection|gewicht)|(?:weights?|matrix|projection|gewichte?|matrice|matriz)\b.{0,20}\b(?:keys?|schlüssel|clé|clave)|键(?:权重|矩阵)"),
    ("W_V", r"(?:value|werte?)[- ]?(?:weight|matrix|projection|gewicht)|(?:weights?|matrix|projection|gewichte?|matrice|matriz)\b.{0,20}\b(?:values?|werte|valeur|valor)|值(?:权重|矩阵)"),
    ("Q", r"\bquer(?:y|ies)\b|anfragen?\b|abfragen?\b|requêtes?|consultas?|查询"),
    ("K", r"\bkeys?\b|schlüssel|\bclés?\b|\bclaves?\b|键"),
    ("V", r"\bvalues?\b|\bwerte?\b|valeurs?|valores?|值"),
    ("X", r"\binputs?\b|embeddings?|eingabe|entrées?|entradas?|输入|嵌入|\btokens?\b|word vectors|wortvektoren"),
)  # fmt: skip
_CAPTIONS = [(role, re.compile(pattern, re.IGNORECASE)) for role, pattern in _ATTENTION_CAPTIONS]

_UNSCALED = re.compile(
    r"\bno(?:t|)\s+(?:be\s+)?scal(?:ing|ed?)\b|\bunscaled\b|without\s+(?:the\s+|any\s+)?(?:scal|square\s+root|divi|√)"
    r"|leave[s]?\s+(?:out\s+)?the\s+(?:scaling|division|square\s+root)|(?:skip|omit|drop)s?\s+(?:the\s+)?(?:scal|divi|square)"
    r"|ohne\s+(?:skalierung|division|die\s+wurzel|teilung)|nicht\s+skaliert|keine\s+skalierung"
    r"|sans\s+(?:mise\s+à\s+l|la\s+division|division|racine|facteur)|sin\s+(?:escalar|escalado|dividir|la\s+raíz|división)"
    r"|不(?:进行)?缩放|没有缩放|无缩放|do(?:es)? not (?:scale|divide)",
    re.IGNORECASE,
)
_CAUSAL = re.compile(
    r"\bcausal|look(?:ing)?\s+ahead|\bdecoder\b|future\s+(?:tokens|positions|words)|may\s+not\s+(?:see|look)"
    r"|masked\s+self|autoregressive|kausal|zukünftig|vorausschau|causale|futurs?\b|enmascarad|futuros?\b|因果|未来",
    re.IGNORECASE,
)  # fmt: skip
_NOT_CAUSAL = re.compile(
    r"no(?:t|n)?[- ](?:causal|mask)|without\s+(?:a\s+|the\s+)?mask|ohne\s+maske", re.IGNORECASE
)
_COLUMNS = re.compile(
    r"(?:token|word|vector|input|wort|vektor)s?\W+(?:\w+\W+){0,4}(?:is|are|as|ist|sind|als)\W+(?:\w+\W+){0,2}(?:columns?|spalten?)"
    r"|column\s+vectors|spaltenvektor|one\s+column\s+per|eine\s+spalte\s+(?:je|pro)|vecteurs?\s+colonnes?|vectores?\s+columna|列向量|每列",
    re.IGNORECASE,
)
_ROWS = re.compile(
    r"one\s+row\s+per|row\s+vectors|eine\s+zeile\s+(?:je|pro)|une\s+ligne\s+par|una\s+fila\s+por|行向量|每行",
    re.IGNORECASE,
)
_HEAD = re.compile(
    r"\b(?:head|kopf|tête|cabeza)\s*(?:no\.?\s*)?#?(\d)\b|头\s*(\d)|第\s*(\d)\s*个?头",
    re.IGNORECASE,
)
_TIME = re.compile(
    r"\bt\s*=\s*(\d{1,3})\b|\b(?:time\s*step|timestep|time|tick|step|zeitschritt|schritt|pas|paso)\s*(?:t\s*=\s*)?(\d{1,3})\b|第\s*(\d{1,3})\s*步",
    re.IGNORECASE,
)
_KINDS = {
    "lstm": re.compile(r"\blstm\b|long short|forget gate|vergessens|porte d.oubli|puerta de olvido|遗忘门", re.IGNORECASE),
    "gru": re.compile(r"\bgru\b|gated recurrent|reset gate|update gate|重置门|更新门", re.IGNORECASE),
    "rnn": re.compile(r"\brnn\b|recurrent|elman|rekurrent|récurrent|recurrente|循环(?:神经)?网络", re.IGNORECASE),
    "layer_norm": re.compile(r"layer[- ]?norm|schichtnorm|normali[sz]|层归一化|normalización|normalisierung", re.IGNORECASE),
    "positions": re.compile(r"position", re.IGNORECASE),
    "feed_forward": re.compile(r"feed[- ]?forward|\bffn\b|\bmlp\b|perceptron|relu|前馈", re.IGNORECASE),
    "attention": re.compile(r"attention|aufmerksamkeit|atención|注意力|query|queries", re.IGNORECASE),
}  # fmt: skip


def find_caption_role(caption: str) -> str | None:
    """Return the step or given of attention that a caption names.

    >>> find_caption_role("Attention weights:"), find_caption_role("die skalierten Werte")
    ('weights', 'scaled')
    """
    for role, pattern in _CAPTIONS:
        if pattern.search(caption):
            return role
    return None


def says_unscaled(text: str) -> bool:
    """Return True if a text says that scores are not divided."""
    return bool(_UNSCALED.search(text)) or bool(re.search(r"leave\s+the\s+division\s+out", text))


def says_causal(text: str) -> bool:
    """Return True if a text speaks of a mask that hides later tokens."""
    return bool(_CAUSAL.search(text)) and not _NOT_CAUSAL.search(text)


def find_vectors(text: str) -> str | None:
    """Return "columns" or "rows" if a text says which of them the tokens are."""
    columns, rows = bool(_COLUMNS.search(text)), bool(_ROWS.search(text))
    return None if columns == rows else "columns" if columns else "rows"


def find_head(heading: str) -> int | None:
    """Return the number of the head that a heading announces."""
    match = _HEAD.search(heading)
    return int(next(filter(None, match.groups()))) if match else None


def find_time(heading: str) -> int | None:
    """Return the time step that a heading announces."""
    match = _TIME.search(heading)
    return int(next(filter(None, match.groups()))) if match else None


def find_kinds(text: str) -> set[str]:
    """Return the kinds of problem that a text speaks of."""
    return {kind for kind, pattern in _KINDS.items() if pattern.search(text)}
