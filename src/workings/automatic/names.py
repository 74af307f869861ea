"""Names that columns of texts, labels, sentences and languages often have."""

# By priority: the first name that a table has is taken.
TEXT_NAMES = (
    "text", "texts", "review", "sentence", "content", "comment", "message", "body", "tweet",
    "document", "utterance", "query", "question", "post", "sms", "article", "news",
    "description", "abstract", "title", "headline", "summary", "phrase", "input", "prompt",
    "feedback", "story", "paragraph", "lyrics", "name",
)  # fmt: skip
LABEL_NAMES = (
    "label", "labels", "class", "category", "sentiment", "target", "topic", "intent", "emotion",
    "polarity", "rating", "stars", "score", "genre", "tag", "type", "section", "department",
    "language", "lang", "y", "output", "spam", "is_spam", "toxic", "stance", "group", "product",
    "subject",
)  # fmt: skip
SOURCE_NAMES = (
    "source", "src", "input", "from", "original",
)  # fmt: skip
TARGET_NAMES = (
    "target", "tgt", "trg", "output", "to", "translation", "reference",
)  # fmt: skip
# Columns that are neither.
OTHER_NAMES = (
    "id", "ids", "idx", "index", "uid", "uuid", "guid", "key", "row", "number", "no", "date",
    "time", "datetime", "timestamp", "created", "created_at", "updated", "url", "link", "uri",
    "email", "user", "user_id", "username", "author", "image", "split",
)  # fmt: skip
LANGUAGE_CODES = (
    "ar", "az", "bg", "bn", "ca", "cs", "cy", "da", "de", "el", "en", "eo", "es", "et", "eu",
    "fa", "fi", "fr", "ga", "gl", "gu", "he", "hi", "hr", "hu", "hy", "id", "is", "it", "ja",
    "ka", "kk", "km", "ko", "lt", "lv", "mk", "ml", "mn", "mr", "ms", "my", "nb", "ne", "nl",
    "no", "pa", "pl", "pt", "ro", "ru", "sk", "sl", "sq", "sr", "sv", "sw", "ta", "te", "th",
    "tl", "tr", "uk", "ur", "uz", "vi", "zh",
)  # fmt: skip
LANGUAGE_NAMES = {
    "english": "en", "eng": "en", "french": "fr", "fra": "fr", "fre": "fr", "german": "de",
    "deu": "de", "ger": "de", "spanish": "es", "spa": "es", "italian": "it", "ita": "it",
    "portuguese": "pt", "por": "pt", "russian": "ru", "rus": "ru", "chinese": "zh", "zho": "zh",
    "cmn": "zh", "japanese": "ja", "jpn": "ja", "korean": "ko", "kor": "ko", "arabic": "ar",
    "ara": "ar", "turkish": "tr", "tur": "tr", "dutch": "nl", "nld": "nl", "polish": "pl",
    "pol": "pl", "czech": "cs", "ces": "cs", "hindi": "hi", "hin": "hi",
}  # fmt: skip
