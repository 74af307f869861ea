"""Compare `workings train --task classify` with the baselines of scikit-learn on data of one's own.

    python bench/own_data.py [--only sentences] [--splits 3] [--minutes 2]

Four sets of labeled texts, each shuffled and divided again for each split:

- sentences: positive and negative sentences of film reviews, 3,000 rows to train on.
- genres: 40 words around the name of a genre in a review of IMDB, without all names of genres; four
  classes, 10,000 rows with those of the test, as long as the texts of AG News.
- persons: captions of Multi30k, about a dozen words, that name a man, a woman, a boy or a girl,
  without these words; 10,000 rows.
- reviews: whole reviews of IMDB's training part, some 230 words, positive or negative; 5,000 rows.

Test rows are 2,000 others. The command gets a folder with train.csv and test.csv and nothing else.
The baselines are naive Bayes, TF-IDF with logistic regression, and NBSVM (Wang and Manning, 2012),
all with words and bigrams. CPU seconds are of the whole command, the choice of a model included.
Needs `pip install '.[baselines]'` and the data in WORKINGS_DATA. Writes results/own-data.json,
where sets that are not measured again stay as they are.
"""

import argparse
import csv
import gzip
import json
import os
import random
import re
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.svm import LinearSVC

from report import RESULTS, environment, save, show, versions
from workings.data import Example, Splits
from workings.tasks.baselines import BASELINES, WORD_PATTERN, evaluate_baseline
from workings.training.own_data import train_own_data

TEST_ROWS = 2000
WINDOW = 40  # words
GENRES = ("horror", "comedy", "drama", "documentary")
PERSONS = ("man", "woman", "boy", "girl")
Row = tuple[str, str]


def data_folder() -> Path:
    folder = os.environ.get("WORKINGS_DATA")
    if not folder:
        raise SystemExit("WORKINGS_DATA: expected the folder of the data")
    return Path(folder)


def read_lines(path: Path) -> Iterator[str]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        yield from file


def read_sentences() -> Iterator[Row]:
    for line in read_lines(data_folder() / "rt-polarity" / "mr.jsonl.gz"):
        row = json.loads(line)
        yield row["text"], str(row["label"])


def read_genres() -> Iterator[Row]:
    """Yield windows of the reviews that name one of the genres only."""
    pattern = re.compile(rf"\b({'|'.join(GENRES)})s?\b", re.IGNORECASE)
    for split in ("train", "test"):
        for line in read_lines(data_folder() / "imdb" / f"{split}.jsonl.gz"):
            text = json.loads(line)["text"].replace("<br />", " ")
            found = list(pattern.finditer(text))
            names = {match[1].lower() for match in found}
            if len(names) == 1:
                before = pattern.sub(" ", text[: found[0].start()]).split()
                after = pattern.sub(" ", text[found[0].end() :]).split()
                half = WINDOW // 2
                yield " ".join([*before[-half:], *after[:half]]), names.pop()


def read_persons() -> Iterator[Row]:
    """Yield captions that name one of the persons only."""
    pattern = re.compile(rf"\b({'|'.join(PERSONS)})\b", re.IGNORECASE)
    for line in read_lines(data_folder() / "multi30k" / "train.en.gz"):
        names = {match.lower() for match in pattern.findall(line)}
        if len(names) == 1:
            yield " ".join(pattern.sub(" ", line).split()), names.pop()


def read_reviews() -> Iterator[Row]:
    """Yield the labeled reviews of the training part."""
    for line in read_lines(data_folder() / "imdb" / "train.jsonl.gz"):
        row = json.loads(line)
        yield row["text"], str(row["label"])


SETS: dict[str, tuple[Callable[[], Iterator[Row]], int]] = {
    "sentences": (read_sentences, 3000),
    "genres": (read_genres, 8000),
    "persons": (read_persons, 10_000),
    "reviews": (read_reviews, 5000),
}


def split_rows(rows: list[Row], count: int, seed: int) -> tuple[list[Row], list[Row]]:
    """Return training and test rows of one split; texts that occur twice are taken once."""
    unique = list(dict(rows).items())
    random.Random(seed).shuffle(unique)  # noqa: S311
    test, train = unique[:TEST_ROWS], unique[TEST_ROWS : TEST_ROWS + count]
    assert len(train) == count, f"{len(train):,} rows, expected {count:,}"
    return train, test


def train_command(train: list[Row], test: list[Row], minutes: float) -> dict[str, Any]:
    """Train on a folder as the command line does; return accuracy, model and CPU seconds."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "data"
        folder.mkdir()
        for part, rows in (("train", train), ("test", test)):
            with (folder / f"{part}.csv").open("w", newline="", encoding="utf-8") as file:
                csv.writer(file).writerows([("text", "label"), *rows])
        cpu, wall = time.process_time(), time.perf_counter()
        task = train_own_data("classify", folder, Path(name) / "run", minutes=minutes, mode="quiet")
        result = json.loads((Path(name) / "run" / "result.json").read_text())
        return {
            "accuracy": result["test_accuracy"],
            "model": task.recipe.model.kind,
            "cpu_seconds": round(time.process_time() - cpu, 1),
            "seconds": round(time.perf_counter() - wall, 1),
        }


def score_nbsvm(train: list[Row], test: list[Row]) -> float:
    """Return the accuracy of one linear SVM per class over naive Bayes' log ratios."""
    vectorizer = CountVectorizer(token_pattern=WORD_PATTERN, ngram_range=(1, 2), binary=True)
    x, held = (
        vectorizer.fit_transform([text for text, _ in train]),
        vectorizer.transform([text for text, _ in test]),
    )
    labels, truth = np.array([y for _, y in train]), np.array([y for _, y in test])
    names = np.unique(labels)
    scores = np.empty((len(test), len(names)))
    for k, name in enumerate(names):
        p, q = (1 + np.asarray(x[labels == name].sum(0)), 1 + np.asarray(x[labels != name].sum(0)))
        ratio = np.log(p / p.sum()) - np.log(q / q.sum())
        classifier = LinearSVC(C=0.1).fit(x.multiply(ratio).tocsr(), labels == name)
        scores[:, k] = classifier.decision_function(held.multiply(ratio).tocsr())
    return float((names[scores.argmax(1)] == truth).mean())


def measure(name: str, seed: int, minutes: float) -> dict[str, Any]:
    """Return the figures of one split."""
    read, count = SETS[name]
    train, test = split_rows(list(read()), count, seed)
    splits = Splits(
        name, tuple(Example(*row) for row in train), (), tuple(Example(*row) for row in test)
    )
    baselines = {title: evaluate_baseline(title, splits)["test_accuracy"] for title in BASELINES}
    baselines["NBSVM"] = score_nbsvm(train, test)
    ours = train_command(train, test, minutes)
    return {"split": seed, "workings": ours, "baselines": baselines}


def summarize(name: str, splits: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a row of the table: means over the splits, in percent."""

    def mean(values: Iterator[float]) -> float:
        return round(100 * statistics.mean(values), 2)

    titles = list(splits[0]["baselines"])
    return {
        "data": name,
        "rows": SETS[name][1],
        "workings": mean(s["workings"]["accuracy"] for s in splits),
        **{title: mean(s["baselines"][title] for s in splits) for title in titles},
        "CPU seconds": round(statistics.mean(s["workings"]["cpu_seconds"] for s in splits), 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--splits", type=int, default=3, metavar="N")
    parser.add_argument("--minutes", type=float, default=2.0, metavar="M")
    arguments = parser.parse_args()
    path = RESULTS / "own-data.json"
    before = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    measured = before.get("splits", {})
    for name in arguments.only:
        splits = [measure(name, seed, arguments.minutes) for seed in range(arguments.splits)]
        measured[name] = splits
    rows = [summarize(name, splits) for name, splits in measured.items()]
    show("Accuracy on 2,000 test rows, percent", rows)
    save(
        "own-data",
        {
            **environment(),
            **versions("scikit-learn"),
            "minutes": arguments.minutes,
            "test_rows": TEST_ROWS,
            "means": rows,
            "splits": measured,
        },
    )


if __name__ == "__main__":
    main()
