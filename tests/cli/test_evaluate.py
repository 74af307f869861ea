"""`workings evaluate`: other searches, other data, and the record."""

import json
import shutil

import toys

from workings.cli import main
from workings.decode import beam_search


def test_another_search(pairs_run, tmp_path, capsys, monkeypatch):
    record, searches = tmp_path / "record.json", set()

    def search(*arguments, **options):
        searches.add((options["beams"], options["length_penalty"]))
        return beam_search(*arguments, **options)

    monkeypatch.setattr("workings.tasks.translation.beam_search", search)
    options = ["--beams", "3", "--length-penalty", "-3", "--json", "--record", str(record)]
    before = toys.result(pairs_run)
    assert main(["evaluate", str(pairs_run), *options]) == 0
    metrics, recorded = json.loads(capsys.readouterr().out), json.loads(record.read_text())
    assert searches == {(3, -3.0)}
    assert recorded["test_bleu"] == metrics["test_bleu"]
    assert recorded["recipe"]["search"]["length_penalty"] == -3
    assert recorded["best_epoch"] == before["best_epoch"]
    assert toys.result(pairs_run) == before
    assert main(["evaluate", str(pairs_run), "--record", str(record), "--data", "x.tsv"]) == 2
    assert "not for --data" in capsys.readouterr().err


def test_the_same_search_gives_the_same_metrics(pairs_run, capsys):
    assert main(["evaluate", str(pairs_run), "--json"]) == 0
    metrics = json.loads(capsys.readouterr().out)
    assert metrics["test_bleu"] == toys.result(pairs_run)["test_bleu"]


def test_classifiers_do_not_search(texts_run, capsys):
    assert main(["evaluate", str(texts_run), "--beams", "2"]) == 2
    assert "beams: beam search is for translators and captioners" in capsys.readouterr().err


def test_images_in_another_folder_than_their_captions(squares_run, squares, tmp_path, capsys):
    few = tmp_path / "captions.txt"
    few.write_text("".join(squares.read_text().splitlines(keepends=True)[:21]))
    command = ["evaluate", str(squares_run), "--data", str(few)]
    assert main(command) == 2
    assert "give the folder of the images" in capsys.readouterr().err
    assert main([*command, "--images", str(squares.parent), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["test_pictures"] == 10
    assert main(["evaluate", str(squares_run), "--images", str(squares.parent)]) == 2
    assert "--images needs --data" in capsys.readouterr().err


def test_only_captioners_read_images(texts_run, squares, capsys):
    command = ["evaluate", str(texts_run), "--data", "emoji", "--images", str(squares.parent)]
    assert main(command) == 2
    assert "a classifier reads no images: expected a captioner" in capsys.readouterr().err


def test_a_copied_run_is_evaluated(texts_run, tmp_path, capsys):
    run = shutil.copytree(texts_run, tmp_path / "copy")
    assert main(["evaluate", str(run)]) == 0
    assert "test accuracy 1.0000" in capsys.readouterr().out
