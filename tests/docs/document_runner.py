"""Run documents with the installed package, in a process of its own: `DocumentRunner` starts it.

The process imports the package that was built and installed, not the source tree. Each line of its
standard input names a document and an empty folder to run it in; the answer is the traceback of the
block that failed. Commands run in this process, because torch takes seconds to load.
"""

import io
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import traceback
import urllib.request
import warnings
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from tempfile import mkdtemp

REPORTING_VERBS = ("check", "diff")  # exit status 1: something is wrong or differs
PROCESS_STARTERS = ("torchrun ", "workings compare ")
MAX_SPLIT = {"train": 200}  # pairs of a shortened split; 24 in the others


class DocumentRunner:
    """The process that runs documents, as its parent sees it."""

    def __init__(self, package: Path, *, short: bool) -> None:
        scripts = f"{package / 'bin'}{os.pathsep}{Path(sys.executable).parent}"
        environment = os.environ | {
            "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(package),
        }
        command = [sys.executable, __file__, str(package), "short" if short else "full"]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self._process = subprocess.Popen(
            command, env=environment, cwd=package, text=True, encoding="utf-8", **pipes
        )

    def run(self, document: Path, folder: Path) -> str:
        """Run a document in a folder; return the traceback of its failure, or nothing."""
        self._process.stdin.write(json.dumps([str(document), str(folder)]) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


class Session:
    """Run one document's blocks in the current folder."""

    def __init__(self, runs: "RunCache") -> None:
        self.runs = runs
        self.names = {"__name__": "__main__"}

    def run(self, document: Path) -> None:
        from torchvision_check import hide_broken_torchvision

        from documents import read_blocks

        for block in read_blocks(document):
            if block.name:
                Path(block.name).write_text(block.text, encoding="utf-8")
            elif block.language == "python" and not block.not_run:
                if "import transformers" in block.text or "from transformers" in block.text:
                    hide_broken_torchvision()
                code = compile(block.text, f"{document}:{block.line}", "exec")
                exec(code, self.names)  # noqa: S102 - our own documents
            elif block.language == "sh" and not block.not_run:
                lines = block.commands()
                if any(line.startswith(PROCESS_STARTERS) for line in lines):
                    self.run_in_shell(lines)
                else:
                    for line in lines:
                        self.run_line(line)

    def run_in_shell(self, lines: list[str]) -> None:
        """Run commands that train in processes of their own, unless trainings are to be short."""
        if not self.runs.short:
            program = "\n".join(["set -e", *lines])
            subprocess.run(program, shell=True, check=True, stdout=sys.stderr)

    def run_line(self, line: str) -> None:
        from commands import split

        words = split(line)
        if words[1] == "serve":
            serve(words[1:])
        elif words[1] == "train" and "--repeat" not in words:
            self.runs.train(words[1:])
        else:
            self.run_command(words[1:])

    def run_command(self, words: list[str]) -> None:
        from commands import parse_command, split_redirection

        from workings.cli import main

        words, redirected = split_redirection(words)
        with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
            status = main([words[0], "--threads", "1", *words[1:]])
        expected = (0, 1) if words[0] in REPORTING_VERBS else (0,)
        if words[0] == "check" and "nothing to check" in err.getvalue():
            expected = (2,)  # an exercise that is still to be filled in
        assert status in expected, f"{words}\n{err.getvalue()}"
        arguments = vars(parse_command(words))
        file = arguments.get("out") or arguments.get("problem")
        assert Path(file).exists() if file else out.getvalue() + err.getvalue(), words
        if redirected:
            Path(redirected).write_text(out.getvalue(), encoding="utf-8")


def serve(words: list[str]) -> None:
    """Serve the page on a free port, request it once, and interrupt the server."""
    from workings.cli import main

    class Output(io.StringIO):
        page = None

        def flush(self) -> None:
            if self.page is None:
                self.page = ""
                threading.Thread(target=self.request_page).start()

        def request_page(self) -> None:
            try:
                link = next(word for word in self.getvalue().split() if word.startswith("http"))
                opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
                with opener.open(link) as response:
                    self.page = response.read().decode("utf-8")
            finally:
                signal.raise_signal(signal.SIGINT)

    with redirect_stdout(Output()) as output:
        assert main([*words, "--port", "0", "--no-open"]) in (0, 130)
    assert "<title>" in output.page


class RunCache:
    """Trainings, each done once: the same command in another document copies its run."""

    def __init__(self, *, short: bool) -> None:
        self.short, self.folder, self.trained = short, Path(mkdtemp()), {}

    def train(self, words: list[str]) -> None:
        from commands import parse_command

        from workings.builtin import find_recipe
        from workings.config import load_table

        arguments = parse_command(words)
        if arguments.data is not None:  # small files, which the document has written
            self.run_in_silence([*words, *(["--minutes", "0.03"] if self.short else [])])
            return
        if arguments.start_from is not None:  # the result depends on more than the recipe
            self.run_in_silence([*words, *(["--train.epochs", "1"] if self.short else [])])
            return
        recipe = find_recipe(arguments.recipe)
        out = Path(arguments.out or f"runs/{Path(arguments.recipe).stem}")
        key = recipe.read_text(encoding="utf-8"), *arguments.changes
        if key in self.trained and not arguments.trackers:
            shutil.copytree(self.trained[key], out)
            return
        is_language = load_table(recipe).get("task") == "language"
        steps = ["--data.eval_every", "3"] if is_language else []
        changes = ["--train.epochs", "1", *steps] if self.short else []
        self.run_in_silence([*words, *changes])
        self.trained[key] = shutil.copytree(out, self.folder / str(len(self.trained)))

    def run_in_silence(self, words: list[str]) -> None:
        from workings.cli import main

        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()) as err:
            status = main([*words, "--threads", "1"])
        assert status == 0, f"{words}\n{err.getvalue()}"


def shorten_experiments_and_datasets(cache: Path) -> None:
    """Make built-in data sets and experiments small: other tests run them in full."""
    from workings.data import captions, corpora, datasets, parallel
    from workings.data.splits import Splits
    from workings.experiments import core

    names, load, train_model = (
        datasets.BUILTIN_DATASETS["emoji-languages"](),
        parallel.load_emoji_names,
        core.train_model,
    )
    few = Splits(names.name, names.train[:280], names.validation[:70], names.test[:70])

    def load_few_pairs(*arguments, **options):
        splits = load(*arguments, **options)
        return {part: pairs[: MAX_SPLIT.get(part, 24)] for part, pairs in splits.items()}

    def train_shortly(*arguments, steps, **options):
        return train_model(*arguments, steps=min(steps, 20), **options)

    os.environ["XDG_CACHE_HOME"] = str(cache)
    corpora.MAX_BUILTIN_CHARACTERS = 80_000
    datasets.BUILTIN_DATASETS["emoji-languages"] = lambda: few
    parallel.load_emoji_names = load_few_pairs
    core.train_model = train_shortly
    captions.SCENES_PER_SPLIT.update(dict.fromkeys(captions.SCENES_PER_SPLIT, 16))


def run_requests(package: Path, *, short: bool) -> None:
    """Answer every line of standard input."""
    import workings

    assert Path(workings.__file__).is_relative_to(package), workings.__file__
    warnings.simplefilter("error")
    runs = RunCache(short=short)
    if short:
        shorten_experiments_and_datasets(runs.folder / "cache")
    answers, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        document, folder = json.loads(line)
        os.chdir(folder)
        try:
            Session(runs).run(Path(document))
            failure = ""
        except BaseException:
            failure = traceback.format_exc()
        answers.write(json.dumps(failure) + "\n")
        answers.flush()
    shutil.rmtree(runs.folder)


if __name__ == "__main__":
    run_requests(Path(sys.argv[1]), short=sys.argv[2] == "short")
