"""What the words around numbers say: captions of matrices, conventions, in several languages."""
# ruff: noqa: E501 - a pattern has one line

import re

# Names of steps and givens that are words: after "=" or an operator they are symbols.
ROLE_WORDS = frozenset(
    [
        "scores", "score", "weights", "output", "outputs", "mixed", "masked", "scaled", "mask",
        "attn", "attention", "query", "queries", "key", "keys", "value", "values", "input", "inputs",
        "context", "hidden", "activated", "logits", "probs", "embeddings", "out", "result",
        "exponentials", "sums", "normalised", "base", "head", "gamma", "beta", "eps", "epsilon", "mu",
        "sigma", "normalized", "encoding", "variance", "mean", "rms",
    ]
)  # fmt: skip

# In order of precedence: a caption "softmax of the scaled scores" is of the weights.
_ATTENTION_CAPTIONS: tuple[tuple[str, str], ...] = (
    *((f"W_{name}", rf"^\W*(?:(?:the|initial\w*|die|le[s]?|la[s]?|los)\s+)*(?:weights?|gewichte?|poids|pesos)(?:\s+(?:matrix|matrices))?\s+(?:for|of|für|der|des|pour|de|para)\W+(?:(?:the|die|les?|las?|los)\s+)*(?:{word})\W*$")
      for name, word in (("Q", "quer(?:y|ies)|anfragen?|requêtes?|consultas?"), ("K", "keys?|schlüssel|clés?|claves?"), ("V", "values?|werte?|valeurs?|valores?"))),
    ("mask", r"^\W*(?:(?:the|a|causal|attention|look-?ahead|die|le|la)\s+)*(?:mask|maske|masque|máscara)\W*$|掩码矩阵"),
    ("mixed", r"weighted (?:sum|average|values|mean)|context vectors?|\bmix(?:ed|ing|ture)?\b|\bblend|new vectors|gewichtete[sn]? (?:summe|werte|mittel)|gemittelt|\baveraged\b|average (?:of )?the values|moyenne pondérée|media ponderada|tổng có trọng số|взвешенн\w+ сумм|somma pesata|média ponderada|soma ponderada|gewogen som|加重和|重み付き(?:和|平均)|가중합|multipl\w+ (?:\w+ ){0,4}(?:with|by|times) (?:the )?(?:v|values)\b|kontextvektor|somme pondérée|suma ponderada|vector(?:es)? de contexto|加权和|上下文向量"),
    ("exponentials", r"exponential|exponiert|exponentielle|exponencial|指数"),
    ("sums", r"\b(?:together|row sums?|sums?|total|in total|altogether|zusammen|summen?|insgesamt|ensemble|au total|somme|juntos|suma|en total)\b|合计|总和|之和"),
    ("weights", r"(?:attention|aufmerksamkeits)[- ]?(?:weights?|gewichte?|probabilit|matrix|pattern|distribution)|\bweights\b|\bgewichte\b|soft-?max|probabilit|wahrscheinlichkeit|poids|pesos|权重|概率|trọng số chú ý|вес[аоы]?в?\s+внимания|веса\b|pesi\b|gewichten\b|注意重み|アテンション重み|重み(?:行列)?$|어텐션 가중치|가중치$|xác suất"),
    ("masked", r"\bmasked\b|after mask|applying (?:the )?mask|maskiert|masqué|enmascarad|掩码后|屏蔽后"),
    ("scaled", r"scaled|divid|skaliert|geteilt|teilen|divis|échelle|escalad|divid|缩放|除以|масштаб|\bдел|scalat|schaal|geschaald|スケール|스케일|chia cho"),
    ("output", r"\boutputs?\b|\bergebnis|ausgabe|\bsortie|résultat|\bsalidas?\b|resultado|输出|结果|đầu ra|kết quả|\bвыход|результат|uscita|risultato|\bsaída|uitvoer|出力|출력|\bresult\b"),
    ("scores", r"scores?\b|dot[- ]products?|skalarprodukt|similarit|produits? scalaires?|productos? (?:escalar|punto)|puntuaci|得分|分数|点积|logits|energies|ähnlichkeit|điểm (?:số|chú ý)|\bđiểm\b|оцен[ко]|скалярн\w+ произведени|punteggi|prodott\w+ scalar|pontua[çc]|スコア|内積|점수|내적"),
    ("W_Q", r"(?:query|abfrage|anfrage)[- ]?(?:weight|matrix|projection|gewicht)|(?:weights?|matrix|projection|gewichte?|matrice|matriz)\b.{0,20}\b(?:quer|anfrage|requête|consulta)|查询(?:权重|矩阵)"),
    ("W_K", r"(?:key|schlüssel)[- ]?(?:weight|matrix|projection|gewicht)|(?:weights?|matrix|projection|gewichte?|matrice|matriz)\b.{0,20}\b(?:keys?|schlüssel|clé|clave)|键(?:权重|矩阵)"),
    ("W_V", r"(?:value|werte?)[- ]?(?:weight|matrix|projection|gewicht)|(?:weights?|matrix|projection|gewichte?|matrice|matriz)\b.{0,20}\b(?:values?|werte|valeur|valor)|值(?:权重|矩阵)"),
    ("Q", r"\bquer(?:y|ies)\b|anfragen?\b|abfragen?\b|requêtes?|consultas?|查询|truy vấn|запрос|interrogazion|クエリ|쿼리"),
    ("K", r"\bkeys?\b|schlüssel|\bclés?\b|\bclaves?\b|键|\bkhóa\b|\bkhoá\b|ключ|chiav[ei]|\bchaves?\b|sleutels?|キー|(?<![가-힣])키(?![가-힣])"),
    ("V", r"\bvalues?\b|\bwerte?\b|valeurs?|valores?|值|giá trị|значени|\bvalori\b|waarden?|バリュー|밸류"),
    ("X", r"\binputs?\b|embeddings?|\bembedded\b|eingabe|entrées?|entradas?|输入|嵌入|đầu vào|\bвход|ingress[oi]|invoer|入力|입력|\btokens?\b|word vectors|wortvektoren"),
)  # fmt: skip
_CAPTIONS = [(role, re.compile(pattern, re.IGNORECASE)) for role, pattern in _ATTENTION_CAPTIONS]

# Output (weights times V): how it is made, not what it is.
_PRODUCT_REMARK = re.compile(
    r"(?<=\S)\s*\([^()]*(?:\btimes\b|\bmal\b|\bfois\b|\bpor\b|[·×*@乘])[^()]*\)"
)

_UNSCALED = re.compile(
    r"\bno(?:t|)\s+(?:be\s+)?scal(?:ing|ed?)\b|\bunscaled\b|without\s+(?:the\s+|any\s+)?(?:scal|square\s+root|divi|√)"
    r"|leave[s]?\s+(?:out\s+)?the\s+(?:scaling|division|square\s+root)|(?:skip|omit|drop)s?\s+(?:the\s+)?(?:scal|divi|square)"
    r"|ohne\s+(?:skalierung|division|die\s+wurzel|teilung)|nicht\s+skaliert|keine\s+skalierung"
    r"|sans\s+(?:mise\s+à\s+l|la\s+division|division|racine|facteur)|sin\s+(?:escalar|escalado|dividir|la\s+raíz|división)"
    r"|(?:forget|ignor\w*|neglect\w*|disregard\w*|never mind|don't (?:need|use|bother with))\s+(?:about\s+)?(?:the\s+)?[^.!?\n]{0,24}"
    r"(?:scal|√|sqrt|square root|\bd_k\b)|(?:lass|lässt|lassen)\s+(?:wir\s+)?(?:die\s+)?(?:skalierung|wurzel|division)\s+weg|(?:bỏ qua|không)\s+(?:phép\s+)?(?:chia|tỉ lệ)"
    r"|без\s+(?:масштаб|делени)|sem\s+(?:escal|divi)|senza\s+(?:scal|divi|la radice)|zonder\s+(?:schal|del)|スケーリング(?:は|を)?(?:しない|行わない|省略)"
    r"|不(?:进行)?缩放|没有缩放|无缩放|(?:do(?:es)?|did|will) not (?:scale|divide)|(?:do|does|did|wo)n't (?:scale|divide)",
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
# What is said outright, sentence by sentence: scores are divided by a root, later tokens are hidden.
_ROOT_DIVISION = re.compile(
    r"(?:divi[ds]\w*|geteilt|teil(?:en|t)\b|skalier\w*|scal(?:ed?|ing)\b|escal\w*|除以|缩放|/|÷|1\)?/\(?)"
    r"[^.!?\n√]{0,80}?(?:√|sqrt|(?:square\s+)?root\s+of|wurzel\s+(?:aus|von)|racine\s+(?:carrée\s+)?de|raíz\s+(?:cuadrada\s+)?de)"
    r"\s*\(?\s*(d_?\{?[a-z]*\}?|\d+)",
    re.IGNORECASE,
)
# The same in any order, within a sentence: "durch √2 geteilt", "chia cho √2".
_DIVISION = re.compile(
    r"divi[ds]|geteilt|\bteil(?:en|t|e)\b|skalier|\bscal(?:e|ed|ing)\b|escal|\bchia\b|除以|除|缩放|割|나누|\bдел|раздел"
    r"|gede+l|\bdel(?:en|es|a|as|at)\b|dziel|\bböl",
    re.IGNORECASE,
)
_ROOT = re.compile(
    r"(?:√|\bsqrt|root\s+of|wurzel\s+(?:aus|von)|racine\s+(?:carrée\s+)?de|raíz\s+(?:cuadrada\s+)?de|radice\s+(?:quadrata\s+)?di"
    r"|raiz\s+(?:quadrada\s+)?de|wortel\s+(?:van|uit)|кор(?:ень|ня)\s+(?:квадратный\s+|квадратного\s+)?из|căn\s+bậc\s+hai\s+(?:của\s+)?)"
    r"\s*\(?\s*(d_?\{?[a-z]*\}?|\d+)",
    re.IGNORECASE,
)
_SCALING = re.compile(
    r"√|sqrt|square root|wurzel|racine|raíz|\bscal(?:e|ed|ing)\b|skalier|escalad|divid|除以|缩放",
    re.IGNORECASE,
)
_HIDES_LATER = re.compile(
    r"causal(?:ly)?[- ](?:self[- ]?attention|attention|mask\w*)|\bmask(?:ed|ing|s)?\s+(?:out\s+)?(?:the\s+)?(?:future|later|upper)"
    r"|(?:future|later|upper)\b[^.!?]{0,40}\bmask(?:ed|ing)?\b|look-?ahead\s+mask|masked\s+(?:self-?)?attention"
    r"|(?:cannot|can't|can not|may not|must not|not allowed to|never)\s+(?:see|look|attend|peek)[^.!?]{0,40}(?:later|future|ahead|next|come|after)"
    r"|(?:sees?|attends?|looks?)\s+(?:at\s+|to\s+)?only\s+(?:at\s+|to\s+)?(?:\w+\s+){0,4}(?:itself|earlier|previous|past|before)"
    r"|kausale[nrs]?\s+maske|maske\w*\s+[^.!?]{0,30}(?:zukünftig|später)|(?:zukünftig|später)\w*\s+[^.!?]{0,40}(?:maskiert|verdeckt|ausgeblendet)"
    r"|masques?\s+causa|ne\s+(?:peut|peuvent|voit|voient)\s+pas[^.!?]{0,40}(?:futur|suivant)|máscara\s+causal|no\s+(?:se\s+)?(?:ven|ve|puede\w*\s+ver)[^.!?]{0,40}(?:futur|siguiente|posterior)"
    r"|(?:no(?:body|ne|\s+one|\s+\w+)|kein\w*(?:\s+\w+)?)\s+(?:may|can|is\s+allowed\s+to|darf|kann|soll)\s+[^.!?,;]{0,40}?"
    r"(?:ahead|future|later|zukunft|spätere|nach\s+vorne)|(?:darf|dürfen|kann|können)\s+[^.!?,;]{0,30}?\bnicht\b[^.!?,;]{0,40}?(?:zukunft|zukünftig|spätere|nachfolgende)"
    r"|masqu\w+\s+(?:l(?:e|es|a)\s+)?(?:futurs?|(?:mots?|jetons?|tokens?|positions?)\s+(?:futur|suivant))|(?:enmascar|oculta)\w*\s+(?:el\s+|los\s+|las\s+)?(?:\w+\s+)?futur"
    r"|(?:che|ẩn|không\s+(?:được\s+)?(?:nhìn|thấy))\s+[^.!?]{0,30}(?:tương\s+lai|phía\s+sau)"
    r"|каузальн\w*\s+маск|маск\w*\s+[^.!?]{0,30}будущ|будущ\w*\s+[^.!?]{0,30}(?:закры|скры|маск)|не\s+(?:видит|видят|может)[^.!?]{0,30}(?:будущ|следующ)"
    r"|maschera\s+causale|máscara\s+causal|causale?\s+masker|因果マスク|未来の[^。]{0,20}(?:見えない|見ない|マスク)"
    r"|\btri[ul]\s*\(|因果(?:掩码|遮罩|注意力)|(?:看不到|不能看到?)[^。]{0,12}(?:未来|后面|之后)",
    re.IGNORECASE,
)
_NEGATED = re.compile(
    r"\b(?:no|not|without|unlike|forget|ignor\w*|neglect\w*|omit\w*|skip\w*|drop(?:s|ped|ping)?|leav\w+ out|usually|normally|typically|often|sometimes|in practice"
    r"|in the (?:original )?paper|the original|should|may|might|must we|do we|later(?!\\s+(?:word|token|position|one|key|part))|next(?!\\s+(?:word|token))|instead of|would|will|could|if|in contrast|whereas|n't)\b"
    r"|\b(?:ohne|nicht|kein\w*|später|sonst|würde|sans|pas|sin|si)\b|不(?:使用|需要|用)|没有|无",
    re.IGNORECASE,
)
_ADJECTIVES = (
    ("scaled", r"\b(?:scaled|skalierte?[nrs]?|escalad[oa]s?)\W*$"),
    ("masked", r"\b(?:masked|maskierte?[nrs]?|masqué[es]*|enmascarad[oa]s?)\W*$"),
)
# Other ways to compute attention or a variance than the ones that are judged.
_OTHER_METHOD = re.compile(
    r"\bcosine\b|\bkernel\b|feature map|linear attention|\balibi\b|relative (?:position|bias)|\btemperature\b|\bdrop-?out\b"
    r"|(?:instead of|replac\w+|without)\s+(?:the\s+|a\s+)?soft-?max|statt\s+(?:der\s+)?softmax|kosinus|temperatur|au lieu (?:de|du) softmax"
    r"|en lugar de(?:l)? softmax|余弦|温度|线性注意力",
    re.IGNORECASE,
)
_SAMPLE_VARIANCE = re.compile(
    r"sample\s+(?:variance|standard)|\bunbiased\b|bessel|divid\w+\s+by\s+\(?[nNd]\s*[-−–]\s*1|ddof\s*=\s*1|stichprobenvarianz"
    r"|erwartungstreu|variance\s+corrigée|non\s+biaisée|varianza\s+muestral|insesgad|样本方差|无偏",
    re.IGNORECASE,
)
_MASK = re.compile(
    r"\bmask|\bmasqu|\bcausal|kausal|máscara|enmascar|maschera|маск|каузал|mặt nạ|マスク|마스크|掩码|屏蔽|因果|autoregress",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"(?<=[.!?。])\s+|\n|。")
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
    "positions": re.compile(r"position|sinuso", re.IGNORECASE),
    "feed_forward": re.compile(r"feed[- ]?forward|\bffn\b|\bmlp\b|perceptron|relu|前馈", re.IGNORECASE),
    "attention": re.compile(r"attention|aufmerksamkeit|atención|注意力|query|queries", re.IGNORECASE),
}  # fmt: skip


def find_caption_role(caption: str) -> str | None:
    """Return the step or given of attention that a caption names.

    >>> find_caption_role("Attention weights:"), find_caption_role("die skalierten Werte")
    ('weights', 'scaled')
    """
    caption = _PRODUCT_REMARK.sub(" ", caption)
    roles = [role for role, pattern in _CAPTIONS if pattern.search(caption)]
    if roles[:2] == ["Q", "K"]:
        return None if "V" in roles else "scores"  # every query with every key
    return roles[0] if roles else None


def says_unscaled(text: str) -> bool:
    """Return True if a text says that scores are not divided."""
    return bool(_UNSCALED.search(text)) or bool(re.search(r"leave\s+the\s+division\s+out", text))


def says_causal(text: str) -> bool:
    """Return True if a text speaks of a mask that hides later tokens."""
    return bool(_CAUSAL.search(text)) and not _NOT_CAUSAL.search(text)


def find_adjective(label: str) -> str | None:
    """Return the step that a word right before a formula makes of it: scaled QK^T.

    >>> find_adjective("the scaled"), find_adjective("We divide")
    ('scaled', None)
    """
    matches = (role for role, pattern in _ADJECTIVES if re.search(pattern, label, re.IGNORECASE))
    return next(matches, None)


def find_root_division(text: str) -> str | None:
    """Return what a text says that scores are divided by the root of: `d_k` or a number.

    >>> find_root_division("We divide the dot products by √3."), find_root_division("x / 2")
    ('3', None)
    """
    text = text.replace("\v", " ")
    match = _ROOT_DIVISION.search(text)
    for sentence in _SENTENCE.split(text) if match is None else ():
        if _DIVISION.search(sentence) and not _NEGATED.search(sentence):
            match = match or _ROOT.search(sentence)
    return match[1].replace("{", "").replace("}", "") if match else None


def mentions_scaling(text: str) -> bool:
    """Return True if a text has a root, or a word for scaling or division."""
    return bool(_SCALING.search(text) or _DIVISION.search(text))


def hides_later_tokens(text: str) -> bool:
    """Return True if a sentence says that later tokens are hidden, and does not deny it.

    >>> hides_later_tokens("We use a causal mask."), hides_later_tokens("No causal mask is used.")
    (True, False)
    """
    for sentence in _SENTENCE.split(text):
        rest, count = _HIDES_LATER.subn(" ", sentence)
        if count and not _NEGATED.search(rest):
            return True
    return False


def mentions_mask(text: str) -> bool:
    """Return True if a sentence speaks of a mask and does not deny it."""
    return any(
        _MASK.search(sentence) and not _NEGATED.search(sentence)
        for sentence in _SENTENCE.split(text)
    )


def find_other_method(text: str) -> str:
    """Return the words that speak of another way to compute attention; "" if there are none.

    >>> find_other_method("At temperature 0.5 the weights are"), find_other_method("We scale.")
    ('temperature', '')
    """
    match = _OTHER_METHOD.search(text)
    return match[0] if match else ""


def says_sample_variance(text: str) -> bool:
    """Return True if a text says that a variance is divided by n − 1 on purpose."""
    return _SAMPLE_VARIANCE.search(text) is not None


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
