"""Go on with a prompt, by a trained language model."""

import argparse

HELP = "go on with a prompt"
MOST = 10**6  # tokens: a book
MOST_BEAMS = 1000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the verb takes."""
    parser.add_argument("run_folder", metavar="RUN", help="the folder of the run")
    parser.add_argument("prompt", metavar="PROMPT", nargs="?", default="", help="how to begin")
    parser.add_argument("--tokens", type=int, default=200, metavar="N", help="at most (200)")
    parser.add_argument(
        "--temperature", type=float, default=0.8, metavar="T", help="0: the likeliest (0.8)"
    )
    parser.add_argument("--top-k", type=int, default=0, metavar="K", help="of the K likeliest")
    parser.add_argument("--top-p", type=float, default=1.0, metavar="P", help="of the likeliest P")
    parser.add_argument(
        "--min-p", type=float, default=0.0, metavar="P", help="at least P of the likeliest"
    )
    parser.add_argument(
        "--repetition", type=float, default=1.0, metavar="F", help="what was there counts F less"
    )
    parser.add_argument(
        "--seed", type=int, default=0, metavar="N", help="another one, another text"
    )
    parser.add_argument(
        "--stop", action="append", default=[], metavar="TEXT", help="end before this text"
    )
    parser.add_argument(
        "--beams", type=int, metavar="N", help="search for the N likeliest texts, and list them"
    )
    parser.add_argument(
        "--show", action="store_true", help="show the next token's probabilities at each place"
    )
    parser.add_argument(
        "--top", type=int, default=5, metavar="N", help="with --show: the N likeliest (5)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Write the text as it comes."""
    import sys

    from workings.decode.sample import Sampling
    from workings.errors import UserError
    from workings.hub.fast import Fastest
    from workings.tasks.completion import best
    from workings.tasks.language import Modelling
    from workings.train.runs import load_as
    from workings.views.plain import printable
    from workings.views.table import text_table

    if not (1 <= arguments.tokens <= MOST and arguments.top >= 1):
        raise UserError(f"--tokens and --top must be at least 1, --tokens at most {MOST:,}")
    if arguments.beams is not None and not 1 <= arguments.beams <= MOST_BEAMS:
        raise UserError(f"--beams {arguments.beams}: from 1 to {MOST_BEAMS:,}")
    if "" in arguments.stop:
        raise UserError("--stop: an empty text would end before it begins")
    how = Sampling(
        temperature=arguments.temperature,
        repetition=arguments.repetition,
        top_k=arguments.top_k,
        top_p=arguments.top_p,
        min_p=arguments.min_p,
        seed=arguments.seed,
    )
    task = load_as(Modelling, arguments.run_folder)
    for note in task.notes(arguments.prompt, arguments.tokens):
        sys.stderr.write(f"workings: note: {printable(note)}\n")
    if arguments.beams is not None:
        for text, log_probability in best(
            task.model, task.tokenizer, arguments.prompt, arguments.tokens, arguments.beams
        ):
            whole = printable(f"{arguments.prompt}{text}")
            sys.stdout.write(f"{log_probability:.3f}  {whole}\n")
        return 0
    by = Fastest(task.model)
    stream = task.stream(arguments.prompt, arguments.tokens, how, arguments.stop, arguments.top, by)
    if arguments.show:
        spelt = task.tokenizer.spelling
        rows = [
            (
                repr(spelt(told.token)),
                f"{told.probability:.3f}",
                "  ".join(f"{spelt(t)!r} {p:.3f}" for t, p in told.top),
            )
            for told in stream
            if told.token
        ]
        sys.stdout.write(text_table(("token", "p", "likeliest"), rows, left=3) + "\n")
        return 0
    # A terminal might obey what a text spells; a file or another program gets it as it is.
    write = printable if sys.stdout.isatty() else str
    sys.stdout.write(write(arguments.prompt))
    for told in stream:
        sys.stdout.write(write(told.text))
        sys.stdout.flush()
    sys.stdout.write("\n")
    return 0
