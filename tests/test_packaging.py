"""What is published: metadata, files of the wheel, workflows, containers, and how to install it."""

import email
import json
import re
import shutil
import subprocess
import tarfile
import tomllib
import zipfile
from pathlib import Path

import index_readme
import pytest
import yaml
from hatchling import build
from markdown_it import MarkdownIt
from twine.commands.check import check

from workings import __version__
from workings.errors import _EXTRAS, REPOSITORY, install_command

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
DEVELOPMENT_EXTRAS = {"bench", "dev", "docs", "fuzz", "release"}
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def read(name):
    return (ROOT / name).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def dist(tmp_path_factory):
    """Build the wheel and the source distribution."""
    folder = tmp_path_factory.mktemp("dist")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        return folder / build.build_wheel(str(folder)), folder / build.build_sdist(str(folder))


def read_metadata(wheel):
    with zipfile.ZipFile(wheel) as archive:
        name = next(n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
        return email.message_from_bytes(archive.read(name))


# -- wheel and source distribution -----------------------------------------------------------------


def test_distributions_pass_the_check_of_the_package_index(dist, capsys):
    assert check([str(path) for path in dist], strict=True) is False, capsys.readouterr().out


def test_wheel_has_all_files_that_the_package_reads(dist):
    with zipfile.ZipFile(dist[0]) as archive:
        names = set(archive.namelist())
    sources = {
        "workings": ROOT / "src" / "workings",
        "workings/builtin_recipes": ROOT / "recipes",
        "workings/lectures": ROOT / "lectures",
    }
    for target, folder in sources.items():
        files = (f for f in folder.rglob("*") if f.is_file() and f.suffix != ".pyc")
        assert {f"{target}/{f.relative_to(folder).as_posix()}" for f in files} <= names


def test_source_distribution_can_be_built_and_tested(dist):
    with tarfile.open(dist[1]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    for name in ("tools/index_readme.py", "recipes/emoji.toml", "lectures/L2-self.toml"):
        assert name in names
    assert {"tests/conftest.py", "docs/index.md", "Makefile", "constraints.txt"} <= names
    assert not {name for name in names if name.startswith((".venv", ".git/", "node_modules"))}


def test_readme_on_the_package_index_has_absolute_links_to_existing_files(dist):
    metadata = read_metadata(dist[0])
    text = metadata.get_payload()
    tokens = [t for block in MarkdownIt().parse(text) for t in block.children or ()]
    addresses = [str(t.attrGet("href") or t.attrGet("src")) for t in tokens if t.attrs]
    assert len(addresses) > 10
    for address in addresses:
        match = re.fullmatch(rf"{REPOSITORY}/(?:blob|raw)/v{metadata['Version']}/(.+)", address)
        assert match, address
        assert (ROOT / match[1]).exists()


def test_relative_links_become_absolute():
    text = "[a](docs/a.md#b), ![c](d.png), [e](https://example.org), [f](#g), `x[1](2)`"
    absolute = index_readme.make_links_absolute(text, "https://host/repo", "v1")
    assert absolute.startswith(
        "[a](https://host/repo/blob/v1/docs/a.md#b), ![c](https://host/repo/raw/v1/d.png), "
        "[e](https://example.org), [f](#g)"
    )


# -- metadata --------------------------------------------------------------------------------------


def test_repository_has_one_address():
    assert PROJECT["urls"]["Repository"] == REPOSITORY
    assert all(url.startswith(REPOSITORY) for url in PROJECT["urls"].values())
    citation = yaml.safe_load(read("CITATION.cff"))
    assert (citation["repository-code"], citation["version"]) == (REPOSITORY, __version__)


def test_base_install_is_numpy_alone_and_all_leaves_large_packages_out():
    assert [re.match(r"\w+", name)[0] for name in PROJECT["dependencies"]] == ["numpy"]
    [everything] = EXTRAS["all"]
    assert not {"baselines", "fast", "vision"} & set(re.findall(r"\w+", everything))


def _torch_bound():
    documented = read("docs/install.md").partition("## Tested versions")[2]
    newest = max(int(minor) for minor in re.findall(r"torch 2\.(\d+)", documented))
    return f"<2.{newest + 1}"


def test_torch_is_bounded_by_the_tested_version():
    assert f"torch>=2.6,{_torch_bound()}" in EXTRAS["models"]


def test_every_python_that_is_claimed_is_tested():
    prefix = "Programming Language :: Python :: "
    claimed = {c.removeprefix(prefix) for c in PROJECT["classifiers"] if prefix in c} - {"3"}
    for path in WORKFLOWS:
        matrix = yaml.safe_load(path.read_text())["jobs"]["test"]["strategy"]["matrix"]
        assert matrix["python"] == ["3.11", "3.12", "3.13", "3.14"]
        assert len(matrix["system"]) == 3
        assert claimed <= set(matrix["python"])
    documented = read("docs/install.md").partition("## Tested versions")[2]
    runs = [line for line in documented.splitlines() if re.match(r"\| 3\.\d", line)]
    done = "".join(line for line in runs if "not yet" not in line)
    assert claimed == set(re.findall(r"\b3\.\d+", done))


# -- how to install it -----------------------------------------------------------------------------


def test_extras_exist_and_are_documented():
    assert set(_EXTRAS.values()) <= set(EXTRAS)
    section = read("docs/install.md").partition("## Extras")[2].partition("\n## ")[0]
    table = set(re.findall(r"`([\w-]+)`", " ".join(re.findall(r"(?m)^\|([^|]*)\|", section))))
    assert table == set(EXTRAS) - DEVELOPMENT_EXTRAS


def test_documents_give_the_install_command_of_the_error_messages():
    commands = {install_command(extra) for extra in ("", *EXTRAS)}
    others = (
        rf'pip install "torch{_torch_bound()}" --index-url \S+',  # torch without CUDA
        r"pip install --require-hashes -r locks/(all|release)\.txt",
        r"pip install --no-deps --no-build-isolation \.",
        r'pip install "workings-[\d.]+-py3-none-any\.whl\[all\]"',
    )
    found = 0
    documents = (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("docs/**/*.ipynb"))
    for path in documents:
        for command in re.findall(r"pip install [^`#\n]*", path.read_text(encoding="utf-8")):
            command = command.strip()
            found += command in commands
            assert command in commands or any(re.fullmatch(o, command) for o in others), path
    assert found >= 4


def test_only_one_place_of_the_source_has_an_install_command():
    places = [
        path.relative_to(ROOT / "src" / "workings").as_posix()
        for path in (ROOT / "src").rglob("*")
        if path.suffix in {".py", ".js", ".html"} and "pip install" in path.read_text("utf-8")
    ]
    assert places == ["errors.py"]


# -- workflows and containers ----------------------------------------------------------------------


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_actions_are_pinned_and_permissions_are_minimal(path):
    workflow = yaml.safe_load(path.read_text())
    assert workflow["permissions"] == {"contents": "read"}
    needed = {
        "attest": {"attestations": "write", "contents": "read", "id-token": "write"},
        "publish": {"id-token": "write"},
    }
    for name, job in workflow["jobs"].items():
        assert job.get("permissions", {}) == needed.get(name, {})
        for step in job["steps"]:
            assert re.search(r"@(v\d+|release/v\d+|[0-9a-f]{40})$", step.get("uses", "a@v1")), step


def list_commands(path, job):
    return [s["run"] for s in yaml.safe_load(path.read_text())["jobs"][job]["steps"] if "run" in s]


@pytest.mark.skipif(shutil.which("make") is None, reason="no make")
def test_make_installs_a_browser_only_if_asked_to(tmp_path):
    """With an apt-get that only notes how it was called, and no chromium."""
    fake = tmp_path / "apt-get"
    fake.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/calls\n')
    fake.chmod(0o755)

    def make(*options):
        command = [shutil.which("make"), "-C", str(ROOT), "chromium", *options]
        environment = {"PATH": str(tmp_path)}
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True)

    assert "make test BROWSER=install" in make().stdout
    assert not (tmp_path / "calls").exists()
    make("BROWSER=install")
    assert "install --yes --no-install-recommends chromium" in (tmp_path / "calls").read_text()


def test_workflow_runs_the_commands_of_the_makefile():
    makefile = read("Makefile")
    commands = "\n".join(list_commands(ROOT / ".github/workflows/test.yml", "test"))
    base_tests = re.search(r"(?m)^BASE_TESTS := (.*)", makefile)[1]
    whole_suite = re.search(r"(?m)^test:.*\n(?:\t@.*\n)*\t\$\(BIN\)/(python .*)", makefile)[1]
    assert f"python -m pytest -q {base_tests}\n" in commands
    assert whole_suite in commands
    assert '--editable ".[all,dev]"' in commands
    assert "--editable '.[all,dev]'" in makefile


def test_release_builds_tests_and_publishes():
    jobs = yaml.safe_load(read(".github/workflows/release.yml"))["jobs"]
    needs = [jobs[name]["needs"] for name in ("test", "attest", "publish")]
    assert needs == ["build", "test", "attest"]
    assert not any("checkout" in step.get("uses", "") for step in jobs["test"]["steps"])


def test_release_is_built_from_the_lock_and_has_provenance_and_a_bill_of_materials():
    path = ROOT / ".github/workflows/release.yml"
    build_commands = list_commands(path, "build")
    locked = "python -m pip install --require-hashes --requirement locks/release.txt"
    assert [c for c in build_commands if "pip install" in c] == [locked]
    assert any(c.startswith("python -m build --no-isolation") for c in build_commands)
    assert any("cyclonedx-py requirements locks/all.txt" in c for c in build_commands)
    jobs = yaml.safe_load(path.read_text())["jobs"]
    uses = {step["uses"].partition("@")[0]: step["with"] for step in jobs["attest"]["steps"]}
    for action in ("actions/attest-build-provenance", "actions/attest-sbom"):
        assert uses[action]["subject-path"] == "dist/*"
    assert jobs["publish"]["steps"][-1]["with"] == {"attestations": True}
    assert jobs["build"]["steps"][1]["with"]["python-version"] == "3.11"


# -- locks: hashes of all packages -----------------------------------------------------------------


def normalize(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def read_pins(path):
    """Return the pinned version and the number of hashes of each package of a file."""
    pins = {}
    for entry in re.split(r"\n(?=[\w])", path.read_text(encoding="utf-8")):
        if match := re.match(r"([\w.-]+)==([^\s;]+)", entry):
            hashes = re.findall(r"--hash=sha256:[0-9a-f]{64}\b", entry)
            pins[normalize(match[1])] = (match[2], len(hashes))
    return pins


def list_requirements(extra):
    """Return the names of the packages that an extra names, those of its own extras included."""
    names = set()
    for requirement in EXTRAS[extra]:
        name, extras = re.match(r"([\w.-]+)(?:\[([\w,-]+)\])?", requirement).groups()
        if name == "workings":
            names |= set().union(*map(list_requirements, extras.split(",")))
        else:
            names.add(normalize(name))
    return names


LOCKS = {"base": (), "all": ("all",), "dev": ("all", "dev"), "release": ("release",)}


@pytest.mark.parametrize("name", LOCKS)
def test_lock_has_a_hash_of_every_package_in_the_version_of_the_constraints(name):
    path = ROOT / "locks" / f"{name}.txt"
    constraints, pins = read_pins(ROOT / "constraints.txt"), read_pins(path)
    missing = {"numpy"}.union(*map(list_requirements, LOCKS[name])) - set(pins)
    assert not missing, "pin them in constraints.txt, and run `make lock`"
    for package, (version, num_hashes) in pins.items():
        assert num_hashes, f"{package} has no hash: run `make lock`"
        tested = constraints.get(package, ("not pinned",))[0]
        assert version.partition("+")[0] == tested, f"{package}: run `make lock`"


@pytest.mark.parametrize("name", LOCKS)
def test_lock_names_no_index_and_no_file(name):
    text = (ROOT / "locks" / f"{name}.txt").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    assert not [line for line in lines if re.search(r"://|^-|^ +--(?!hash=)| @ ", line)]


def test_torch_is_locked_without_cuda():
    pins = read_pins(ROOT / "locks" / "all.txt")
    assert pins["torch"][0].endswith("+cpu")
    assert not [package for package in pins if package.startswith("nvidia")]


def test_build_back_end_is_pinned_and_locked():
    project = tomllib.loads(read("pyproject.toml"))
    [requirement] = project["build-system"]["requires"]
    name, _, version = requirement.partition("==")
    assert read_pins(ROOT / "locks" / "release.txt")[name][0] == version


def test_containers_are_built_by_the_makefile():
    dockerfile, makefile = read("Dockerfile"), read("Makefile")
    container = json.loads(read(".devcontainer/devcontainer.json"))
    docker_command = re.search(r"(?m)^RUN (make .*)", dockerfile)[1]
    for command in (docker_command, container["postCreateCommand"]):
        target = command.removeprefix("make .venv/")
        assert f"\n$(VENV)/{target}:" in makefile
    index = container["containerEnv"]["PIP_EXTRA_INDEX_URL"]
    assert f"--index-url {index}" in read("docs/install.md")
    assert f"PIP_EXTRA_INDEX_URL={index}" in dockerfile
    instructions = re.findall(r"(?m)^([A-Z]+) ", dockerfile)
    assert instructions[0] == "FROM"
    assert instructions.index("USER") < instructions.index("ENTRYPOINT")
    port = re.search(r"(?m)^EXPOSE (\d+)", dockerfile)[1]
    assert f"default={port}" in read("src/workings/cli/serve.py")
    assert container["forwardPorts"] == [int(port)]
