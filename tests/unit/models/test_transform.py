"""Transforms: stored by name and fields; noise of each example from its own generator."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch

from dpeval.errors import StoreError
from dpeval.models.transform import Identity, Transform, from_json, normal_like, to_json


def test_a_transform_comes_back_from_its_description():
    assert from_json(to_json(Identity())) == Identity()
    assert to_json(Identity()) == {"class": "dpeval.models.transform:Identity", "fields": {}}


@pytest.mark.parametrize(
    "name", ["no_such_module_here:X", "dpeval.models.transform:Nothing", "dpeval.models.fit:CHUNK"]
)
def test_what_is_no_transform_is_refused_by_name(name):
    with pytest.raises(StoreError, match=name.split(":")[0]):
        from_json({"class": name, "fields": {}})


def test_noise_of_an_example_does_not_depend_on_its_neighbours():
    def generators(*seeds):
        return [torch.Generator().manual_seed(s) for s in seeds]

    x = torch.zeros(3, 4, 5)
    together = normal_like(x, generators(1, 2, 3))
    assert torch.equal(normal_like(x[:1], generators(2))[0], together[1])
    assert not torch.equal(together[0], together[1])


def test_a_transform_must_say_what_it_does():
    @dataclass(frozen=True)
    class Nothing(Transform):
        pass

    with pytest.raises(TypeError, match="abstract"):
        Nothing()
