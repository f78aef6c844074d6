"""Checks that hold for every plug-in, before it is run: frozen, documented, plain fields, a source."""

from __future__ import annotations

import dataclasses
import inspect
import pickle

from dpeval.identity import key_of, plugin_identity
from dpeval.plugin import Attack, Defense
from dpeval.testing.bench import require


def is_frozen_dataclass(plugin: Defense | Attack) -> None:
    """It is a frozen keyword-only dataclass."""
    cls = type(plugin)
    parameters = getattr(cls, "__dataclass_params__", None)
    require(
        parameters is not None and parameters.frozen, f"{cls.__name__} is not @dataclass(frozen=True, kw_only=True)"
    )
    positional = [f.name for f in dataclasses.fields(plugin) if f.init and not f.kw_only]  # type: ignore[arg-type]
    require(not positional, f"fields {positional} are not keyword-only; use @dataclass(frozen=True, kw_only=True)")


def is_documented(plugin: Defense | Attack) -> None:
    """It says what it does and which paper or page it implements."""
    cls = type(plugin)
    own = cls.__dict__.get("__doc__") or ""
    require(bool(own.strip()) and not own.startswith(f"{cls.__name__}("), f"{cls.__name__} has no docstring of its own")
    source = getattr(cls, "source", "")
    require(
        isinstance(source, str) and bool(source),
        f"{cls.__name__}.source is empty; name the paper or page it implements",
    )


def has_an_identity(plugin: Defense | Attack) -> None:
    """Its fields are plain values, so that results can be told apart and stored."""
    try:
        key_of(plugin_identity(plugin))
    except TypeError as error:
        require(False, f"{type(plugin).__name__}: {error}; use numbers, text, tuples and nested frozen dataclasses")


def can_be_sent_to_a_worker(plugin: Defense | Attack) -> None:
    """It can be sent to another process."""
    try:
        same = pickle.loads(pickle.dumps(plugin)) == plugin  # noqa: S301 - our own bytes, in memory
    except Exception as error:  # noqa: BLE001 - whatever pickle raises is the message
        require(False, f"{type(plugin).__name__} cannot be sent to a worker process: {error}")
        return
    require(same, f"{type(plugin).__name__} is not equal to its copy")


def says_why_not(plugin: Defense | Attack) -> None:
    """``unfit`` is a method with the signature of the base."""
    base = Defense if isinstance(plugin, Defense) else Attack
    mine, theirs = inspect.signature(type(plugin).unfit), inspect.signature(base.unfit)
    require(len(mine.parameters) == len(theirs.parameters), f"unfit{mine}: expected unfit{theirs}")


SHAPE_CHECKS = (is_frozen_dataclass, is_documented, has_an_identity, can_be_sent_to_a_worker, says_why_not)
