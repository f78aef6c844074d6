"""The matrix file: strict, with names and places in every complaint."""

from pathlib import Path

import pytest

from dpeval.config import read_matrix
from dpeval.errors import ConfigError

BASE = """
name = "demo"
{top}
[data]
source = "synthetic:reviews"
text = "text"
label = "label"
{data}
[model]
source = "model"
[[defense]]
use = "none"
{defense}
[[attack]]
use = "mia-threshold"
{attack}
"""


def matrix(tmp_path: Path, **parts: str) -> Path:
    path = tmp_path / "matrix.toml"
    path.write_text(BASE.format(**({"top": "", "data": "", "defense": "", "attack": ""} | parts)), encoding="utf-8")
    return path


def test_defaults_are_three_seeds(tmp_path: Path) -> None:
    assert read_matrix(matrix(tmp_path)).seeds == (0, 1, 2)


def test_sweeps_become_labelled_variants(tmp_path: Path) -> None:
    found = read_matrix(matrix(tmp_path, defense="epochs = [1, 2]", attack='signal = ["loss", "entropy"]'))
    assert [d.label for d in found.defenses] == ["none epochs=1", "none epochs=2"]
    assert [a.label for a in found.attacks] == ["mia-threshold signal=loss", "mia-threshold signal=entropy"]


def test_every_setting_that_varies_is_in_the_label(tmp_path: Path) -> None:
    more = 'epochs = [1, 2]\nadapt = "head"\n[[defense]]\nuse = "none"\nepochs = 1'
    labels = [d.label for d in read_matrix(matrix(tmp_path, defense=more)).defenses]
    assert labels == ["none adapt=head epochs=1", "none adapt=head epochs=2", "none adapt=full epochs=1"]


def test_a_label_of_many_settings_leaves_out_the_defaults(tmp_path: Path) -> None:
    more = 'use = "dp-forward"\nlevel = "token"\nposition = "embedding"\nepsilon = [1, 8]\nclip = 2\nshuffled = true'
    plain = '\n[[defense]]\nuse = "dp-forward"'
    labels = [d.label for d in read_matrix(matrix(tmp_path, defense=f"\n[[defense]]\n{more}{plain}")).defenses]
    full = "dp-forward position=embedding {}clip=2 level=token shuffled=True"
    assert labels[1:] == [full.format("epsilon=1 "), full.format(""), "dp-forward"]


def test_two_tables_of_one_plugin_are_told_apart_by_what_differs(tmp_path: Path) -> None:
    found = read_matrix(matrix(tmp_path, defense='epochs = 1\n[[defense]]\nuse = "none"\nepochs = 3'))
    assert [d.label for d in found.defenses] == ["none epochs=1", "none epochs=3"]


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"top": "sedes = [1]"}, r"sedes: unknown key; did you mean 'seeds'\?"),
        ({"top": "seeds = [1, 1]"}, "each seed once"),
        ({"top": "seeds = []"}, "expected a list of whole numbers"),
        ({"top": 'seeds = ["0"]'}, "expected a list of whole numbers"),
        ({"top": "seeds = [-1]"}, "expected a list of whole numbers"),
        ({"data": "lable = 'x'"}, r"data\.lable: unknown key; did you mean 'label'\?"),
        ({"defense": "epoch = 1"}, r"defense\[0\]\.epoch: unknown key; did you mean 'epochs'\?"),
        ({"attack": 'signal = "los"'}, r"attack\[0\]\.signal: expected one of .*'loss'"),
        (
            {"attack": '[[attack]]\nuse = "mia-treshold"'},
            r"unknown attack 'mia-treshold'; did you mean 'mia-threshold'",
        ),
        ({"attack": '[[attack]]\nuse = "mia-threshold"'}, "occurs twice with the same settings"),
        ({"top": "seeds = [010]"}, "not valid TOML"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, parts: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        read_matrix(matrix(tmp_path, **parts))
    assert "matrix.toml" in str(caught.value)


def test_a_missing_table_is_named(tmp_path: Path) -> None:
    path = tmp_path / "m.toml"
    path.write_text('name = "x"\n', encoding="utf-8")
    with pytest.raises(ConfigError, match=r"the table \[data\] is missing"):
        read_matrix(path)


def test_other_formats_and_missing_files_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such matrix file"):
        read_matrix(tmp_path / "absent.toml")
    with pytest.raises(ConfigError, match=r"a matrix is a TOML file, got \.yaml"):
        read_matrix(tmp_path / "m.yaml")


def test_two_plugins_of_one_name_are_refused(tmp_path: Path) -> None:
    """Results are joined by label: under one name the claim of one would stand beside the numbers of the other."""
    two = 'name = "same"\n[[defense]]\nuse = "dp-adam"\nname = "same"\nepsilon = 1'
    with pytest.raises(ConfigError, match=r"defense: two of them would be called 'same'"):
        read_matrix(matrix(tmp_path, defense=two))


@pytest.mark.parametrize("name", ["3", '"a\\nb"', '" "', '""'])
def test_a_name_is_text_on_one_line(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="expected a name on one line"):
        read_matrix(matrix(tmp_path, defense=f"name = {name}"))
