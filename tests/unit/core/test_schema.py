"""Tables become dataclasses, or errors that name the file, the key, and the nearest valid one."""

from dataclasses import dataclass
from typing import Literal

import pytest

from dpeval.errors import ConfigError
from dpeval.schema import Place, build, sweep

PLACE = Place("m.toml", "defense[0]", "[[defense]]\nuse = 'x'\nepsilon = 'three'\n")


@dataclass(frozen=True, kw_only=True)
class Knobs:
    epsilon: float = 1.0
    steps: int = 10
    mode: Literal["fast", "slow"] = "fast"
    taps: tuple[str, ...] = ()
    delta: float | None = None
    secure: bool = False

    def __post_init__(self) -> None:
        if self.epsilon <= 0:
            raise ValueError(f"epsilon: expected a positive number, got {self.epsilon}")


def test_a_misspelt_key_is_answered_with_the_nearest_one() -> None:
    with pytest.raises(ConfigError, match=r"m\.toml: defense\[0\]\.epsilom: unknown key; did you mean 'epsilon'\?"):
        build(Knobs, {"epsilom": 1.0}, PLACE)


def test_a_number_given_as_text_is_refused_with_file_line_and_key() -> None:
    with pytest.raises(ConfigError, match=r"m\.toml:3: defense\[0\]\.epsilon: expected a number, got 'three' \(str\)"):
        build(Knobs, {"epsilon": "three"}, PLACE)


@pytest.mark.parametrize(
    "table", [{"epsilon": "1e-5"}, {"steps": 1.5}, {"steps": True}, {"secure": 1}, {"mode": "medium"}]
)
def test_nothing_is_coerced_silently(table: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="expected"):
        build(Knobs, table, PLACE)


def test_whole_numbers_serve_as_numbers() -> None:
    assert build(Knobs, {"epsilon": 3, "delta": 0}, PLACE) == Knobs(epsilon=3.0, delta=0.0)


def test_a_value_that_the_plugin_refuses_is_placed() -> None:
    with pytest.raises(ConfigError, match=r"defense\[0\]: epsilon: expected a positive number, got -1"):
        build(Knobs, {"epsilon": -1}, PLACE)


def test_lists_sweep_where_one_value_is_expected_and_only_there() -> None:
    found = sweep(Knobs, {"epsilon": [1, 3, 8], "taps": ["a", "b"], "mode": ["fast", "slow"]}, PLACE)
    assert [(k.epsilon, k.mode) for k in found] == [(e, m) for e in (1.0, 3.0, 8.0) for m in ("fast", "slow")]
    assert {k.taps for k in found} == {("a", "b")}


def test_a_list_of_lists_sweeps_over_lists() -> None:
    assert [k.taps for k in sweep(Knobs, {"taps": [["a"], ["b", "c"]]}, PLACE)] == [("a",), ("b", "c")]


def test_an_empty_sweep_is_refused() -> None:
    with pytest.raises(ConfigError, match="sweeps over nothing"):
        sweep(Knobs, {"epsilon": []}, PLACE)


def test_a_required_key_is_asked_for_by_name() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Needs:
        source: str

    with pytest.raises(ConfigError, match=r"defense\[0\]\.source: this key is required \(text\)"):
        build(Needs, {}, PLACE)
