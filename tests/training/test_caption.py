"""Captioners through the engine, on scenes that are drawn here."""

import json
from itertools import islice

import numpy as np
import pytest
import torch

from workings.cli import main
from workings.config import build, override
from workings.data.captions import CaptionedImage
from workings.data.scenes import generate_scenes
from workings.distributed import ProcessGroup
from workings.errors import UserError
from workings.interpret.attention_maps import caption_attention
from workings.models.captioning import ImageBatch
from workings.recipes import CaptionRecipe
from workings.tasks import captioning
from workings.tasks.captioning import Captioning
from workings.training.errors import check_trainable
from workings.training.runs import load, resume, train_recipe

pytest.importorskip("PIL")


@pytest.fixture(scope="module")
def captions(tmp_path_factory):
    """One coloured square each, left or right, as files with a table of captions."""
    from PIL import Image

    folder, draw = tmp_path_factory.mktemp("pictures"), np.random.default_rng(0)
    lines = ["image,caption"]
    colours = {"red": (220, 30, 30), "green": (30, 160, 60), "blue": (40, 80, 220)}
    for k in range(150):
        colour, side = draw.choice(list(colours)), draw.choice(["left", "right"])
        pixels = np.full((32, 32, 3), 235, np.uint8)
        x, y = draw.integers(1, 7) + (16 if side == "right" else 0), draw.integers(2, 22)
        pixels[y : y + 8, x : x + 8] = colours[colour]
        Image.fromarray(pixels).save(folder / f"{k}.png")
        lines += [f"{k}.png,a {colour} square on the {side}", f"{k}.png,{colour} on the {side}"]
    (folder / "captions.txt").write_text("\n".join(lines) + "\n")
    return folder / "captions.txt"


def recipe_for(captions, *changes):
    width = "d_ff" if "transformer" in changes else "hidden_size"
    table = {
        "task": "caption",
        "seed": 1,
        "data": {"set": str(captions), "image_size": 32, "validation": 0.1},
        "model": {
            "kind": "recurrent",
            "channels": [16, 32, 32],
            "d_model": 24,
            width: 32,
            "dropout": 0.0,
        },
        "search": {"beams": 2, "max_length": 12},
        "train": {"epochs": 14, "batch_size": 15, "learning_rate": 0.005, "schedule": "cosine"},
    }
    return build(CaptionRecipe, override(table, changes))


@pytest.fixture(scope="module")
def run(captions, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "squares"
    train_recipe(recipe_for(captions), folder, mode="quiet")
    return folder


def test_it_learns_to_say_what_is_there(run):
    result = json.loads((run / "result.json").read_text())
    assert result["test_exact"] == 100.0
    assert result["test_bleu_4"] > 99
    assert result["test_pictures"] == 15
    assert "150 images; none left out" in (run / "environment.json").read_text()
    report = (run / "report.html").read_text()
    assert "120 pictures of" in report


def test_what_is_read_back_says_the_same(run):
    task, again = load(run), load(run)
    pixels = task.load_test_set().pixels["test"]
    assert [c[0] for c in task.caption(pixels)] == [c[0] for c in again.caption(iter(pixels))]
    alone = next(task.caption(pixels[3:4]))[0]
    assert alone.text == list(task.caption(pixels))[3][0].text


def test_glances_are_where_the_weights_are(run):
    task = load(run)
    pixels = task.load_test_set().pixels["test"]
    for picture, found in zip(pixels[:5], task.caption(pixels[:5]), strict=True):
        message = caption_attention(task, picture, found[0], "it")
        assert " ".join(message.words) == found[0].text
        assert message.weights.shape == (len(message.words), 4, 4)
        np.testing.assert_allclose(message.weights.sum((1, 2)), 1, atol=1e-5)


def test_decoding_is_told_picture_by_picture_and_done_once(captions, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    heard = []
    for _ in range(2):
        Captioning.from_recipe(recipe_for(captions), lambda done, all_: heard.append((done, all_)))
        assert heard == [(k, 150) for k in range(1, 151)]


def test_a_captioner_that_does_not_look_shows_the_picture_alone(captions, tmp_path):
    task = Captioning.from_recipe(recipe_for(captions, "--model.attention", "none"))
    pixels = task.pixels["test"][0]
    found = next(task.caption([pixels]))[0]
    assert caption_attention(task, pixels, found, "it").weights is None
    with pytest.raises(UserError, match="this captioner has no attention"):
        caption_attention(task, pixels, found, "it", heads=[1])


def test_mirrored_pictures_are_called_by_the_other_side(captions):
    task = Captioning.from_recipe(recipe_for(captions, "--data.augment", "true"))
    task.batches(0)
    batch = list(range(40))
    about, target, _ = task.collate("train", batch, torch.device("cpu"))
    turned = 0
    for k, ids in zip(about.image_index.tolist(), target, strict=True):
        text = task.tokenizer.decode([t for t in ids.tolist() if t > 3])
        dark = (about.pixels[k].float().std(-1) > 20).nonzero()[:, 1].float().mean()
        assert ("left" in text) == (dark < 16), text
        turned += ("left" in text) != ("left" in task.pictures["train"][k].captions[0])
    assert 20 < turned < 60


def test_a_run_that_was_stopped_goes_on_bit_for_bit(captions, tmp_path):
    changes = ("--train.epochs", "2", "--data.augment", "true", "--model.dropout", "0.1")
    whole = train_recipe(recipe_for(captions, *changes), tmp_path / "whole", mode="quiet")
    half = tmp_path / "half"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Captioning, "evaluate", _stop_at_the_second)
        with pytest.raises(KeyboardInterrupt):
            train_recipe(recipe_for(captions, *changes), half, mode="quiet")
    assert list(half.glob("checkpoints/step-*"))
    again = resume(half, mode="quiet")
    for one, other in zip(whole.model.parameters(), again.model.parameters(), strict=True):
        assert torch.equal(one, other)


def _stop_at_the_second(task, *_):
    if task._epoch:
        raise KeyboardInterrupt
    return {"validation_loss": 100.0}


@pytest.mark.parametrize("changes", [("--model.kind", "transformer"), ("--model.encoder", "vgg")])
def test_every_kind_trains(captions, tmp_path, changes):
    few = ("--train.epochs", "1")
    task = train_recipe(recipe_for(captions, *changes, *few), tmp_path / "run", mode="quiet")
    assert torch.isfinite(torch.tensor(task.evaluate_on()["test_loss"]))


def test_student_forcing(captions, tmp_path):
    changes = ("--train.epochs", "12", "--scheduled_sampling.rate", "0.5")
    task = train_recipe(recipe_for(captions, *changes), tmp_path / "run", mode="quiet")
    found = [c[0].text for c in task.caption(task.pixels["test"])]
    said = [picture.captions for picture in task.pictures["test"]]
    assert sum(text in right for text, right in zip(found, said, strict=True)) >= 10  # of 15


def test_between_epochs_captions_may_be_as_long_as_the_search_lets_them(captions, monkeypatch):
    table = (
        "--tokenizer.kind",
        "characters",
        "--search.max_length",
        "70",
        "--train.metric",
        "bleu",
    )
    task, asked = Captioning.from_recipe(recipe_for(captions, *table)), []

    def captions_text(_part, _group, how):
        asked.append((how.max_length, how.beams))
        return [picture.captions[0] for picture in task.pictures["validation"]]

    monkeypatch.setattr(task, "_caption_split", captions_text)
    assert task.evaluate(ProcessGroup(torch.device("cpu")))["validation_bleu"] > 99
    assert asked == [(70, 1)]


def test_the_loss_is_a_mean_over_the_tokens_that_are_there(captions):
    table = ("--tokenizer.kind", "characters", "--data.augment", "true")
    task = Captioning.from_recipe(recipe_for(captions, *table))
    differs = 0
    for batch in task.batches(1):
        _, _, following = task.collate("train", batch, torch.device("cpu"))
        assert task.weight(batch) == int((following != 0).sum())
        differs += task.weight(batch) != sum(
            len(t) + 1 for k in batch for t in task._caption_ids["train"][k]
        )
    assert differs  # "left" is shorter than "right"


def test_the_verb(run, captions, tmp_path, capsys):
    photo = captions.parent / "7.png"
    assert main(["caption", str(run), str(photo)]) == 0
    one = capsys.readouterr().out
    assert one.strip() in load_captions_of(captions, "7.png")
    bad = tmp_path / "bad.png"
    bad.write_bytes(b"no picture")
    assert main(["caption", str(run), str(bad), str(photo)]) == 2
    message = capsys.readouterr()
    assert message.out == f"7.png\t{one}"
    assert "bad.png: not an image" in message.err
    assert main(["caption", str(run), str(photo), "--test", "1", "--n-best", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("\t")[0] for line in lines][:2] == ["7.png", "7.png"]
    assert len(lines) == 4
    for ending in ("html", "svg", "png", "json", "txt"):
        out = tmp_path / f"seen.{ending}"
        assert main(["caption", str(run), str(photo), "--show", "--out", str(out)]) == 0
        assert out.stat().st_size > 200
    capsys.readouterr()


def load_captions_of(captions, name):
    rows = (line.partition(",") for line in captions.read_text().splitlines())
    return [text for image, _, text in rows if image == name]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "no pictures"),
        (["--test", "99"], "there are 15 test pictures"),
        (["--test", "0"], "there are 15 test pictures"),
        (["missing.png"], "No such file"),
        (["--test", "1", "--n-best", "0"], "at least 1"),
        (["--test", "1", "--n-best", "2", "--temperature", "1"], "exclude each other"),
        (["--test", "1", "--n-best", "2", "--show"], "exclude each other"),
        (["--test", "1", "--test", "2", "--show"], "--show draws one picture"),
        (["--test", "1", "--show", "--head", "2"], "head 2"),
        (["--test", "1", "--out", "seen.html"], "--out needs --show"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_line(run, capsys, words, message):
    assert main(["caption", str(run), *words]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_it_measures_on_other_pictures(run, captions):
    found = load(run).evaluate_on(str(captions))
    assert found["test_pictures"] == 150
    assert found["test_exact"] > 95


def test_pictures_may_lie_elsewhere_than_their_captions(run, captions, tmp_path, capsys):
    few = tmp_path / "captions.txt"
    few.write_text("".join(captions.read_text().splitlines(keepends=True)[:21]))
    asked = ["evaluate", str(run), "--data", str(few)]
    assert main(asked) == 2
    assert "give the folder of the images" in capsys.readouterr().err
    assert main([*asked, "--images", str(captions.parent), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["test_pictures"] == 10
    assert main(["evaluate", str(run), "--images", str(captions.parent)]) == 2
    assert "and --data" in capsys.readouterr().err


def test_settings_that_fit_no_picture(captions):
    with pytest.raises(UserError, match=r"data.image_size = 4: 3 stages need 8"):
        recipe_for(captions, "--data.image_size", "4")
    with pytest.raises(UserError, match="there are no weights for residual"):
        recipe_for(captions, "--model.pretrained", "true")
    with pytest.raises(UserError, match="scheduled_sampling is for recurrent models"):
        recipe_for(captions, "--model.kind", "transformer", "--scheduled_sampling.rate", "0.1")


def test_scenes_can_be_learned_from():
    table = {
        "task": "caption",
        "data": {"set": "scenes", "image_size": 32},
        "model": {"size": "small"},
    }
    task = Captioning.from_recipe(build(CaptionRecipe, table))
    assert len(task.pictures["train"]) == 8000
    assert task.pictures["test"][0].captions == (next(generate_scenes("test")).caption,)
    loss = task.loss(task.batches(0)[0][:4], torch.device("cpu")).mean
    assert 2 < float(loss.detach()) < 6


@pytest.mark.parametrize("share", [0.0, 0.4, 0.6])
def test_a_shape_is_looked_at_if_its_place_has_half_of_the_largest_weight(monkeypatch, share):
    some = list(islice(generate_scenes("test", 0), 30))

    def weights(_model, about, target):
        """All on a corner where no shape is, and a share of it on the middle of the first shape."""
        found = torch.zeros(len(about.image_index), 1, target.shape[1], 64)
        for k, scene in enumerate(some):
            first = scene.shapes[0]
            found[k, 0, :, 0] = 1.0
            found[k, 0, scene.noun_indices[0], int(first.y * 8) * 8 + int(first.x * 8)] = share
        return [found]

    monkeypatch.setattr(captioning, "collect_cross_attention", weights)
    about = ImageBatch(torch.zeros(30, 64, 64, 3, dtype=torch.uint8), torch.arange(30))
    words = [list(range(len(scene.caption.split()))) for scene in some]
    seen = list(captioning.check_shape_attention(None, about, words, some))
    firsts = [
        found
        for found, place in zip(seen, (n for s in some for n in s.noun_indices), strict=True)
        if place == 3
    ]
    assert sum(firsts) == (30 if share >= 0.5 else 0)


def test_scenes_are_known_by_their_pictures():
    drawn = [
        CaptionedImage(f"test/{k}", (s.caption,))
        for k, s in enumerate(islice(generate_scenes("test", 4), 9))
    ]
    assert len(captioning.match_scenes(drawn, 4)) == 9
    assert captioning.match_scenes(drawn, 5) == []
    assert captioning.match_scenes([CaptionedImage("a.jpg", ("a dog",))], 4) == []


def test_one_vector_is_told_from_others(captions):
    with pytest.raises(UserError, match="2 images or more"):
        recipe_for(captions, "--model.attention", "none", "--train.batch_size", "1")
    recipe_for(captions, "--train.batch_size", "1")


def test_a_model_that_is_spread_out_does_not_write_between_epochs(captions):
    recipe = recipe_for(captions, "--train.metric", "exact", "--train.parallelism", "fsdp")
    task, device = Captioning.from_recipe(recipe), torch.device("cpu")
    check_trainable(task, recipe.train, device)
    with pytest.raises(UserError, match=r"train\.parallelism = 'ddp'"):
        check_trainable(task, recipe.train, device, distributed=True)
