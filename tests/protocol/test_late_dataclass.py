from __future__ import annotations

import dataclasses
from dataclasses import KW_ONLY
from typing import Any

import pytest

from pykbroker_protocol import late_dataclass

LATE = late_dataclass.dataclass


def declared(dataclass: Any, field: Any) -> tuple[Any, Any, Any]:
    """Returns the same three classes, declared with the given decorator."""

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Truck:
        name: str
        wheels: int = 6
        cargo: list[str] = field(default_factory=list)

    @dataclass(slots=True)
    class Counter:
        """Counts."""

        step: int
        _: KW_ONLY
        start: int = 1
        count: int = field(init=False, default=0)
        next: int = field(init=False)

        def __post_init__(self) -> None:
            self.next = self.start + self.step

    @dataclass
    class Plain:
        x: int = 3

    return Truck, Counter, Plain


@pytest.fixture(params=[late_dataclass, dataclasses], ids=["late", "ordinary"])
def classes(request: pytest.FixtureRequest) -> tuple[Any, Any, Any]:
    return declared(request.param.dataclass, request.param.field)


def test_eq_hash_and_repr_use_all_fields(classes: Any) -> None:
    truck, counter, plain = classes
    assert truck(name="a") == truck(name="a", wheels=6, cargo=[])
    assert truck(name="a") != truck(name="b")
    assert repr(truck(name="a")).endswith("Truck(name='a', wheels=6, cargo=[])")
    assert hash(truck(name="a", cargo=())) == hash(truck(name="a", cargo=()))
    assert counter(1) == counter(1)
    assert plain() == plain(3)


def test_fields_that_are_not_in_the_constructor_have_their_default(classes: Any) -> None:
    _, counter, _ = classes
    made = counter(2, start=5)
    assert (made.step, made.start, made.count, made.next) == (2, 5, 0, 7)
    with pytest.raises(TypeError):
        counter(2, 5)


def test_default_factories_are_called_for_each_instance(classes: Any) -> None:
    truck, _, _ = classes
    truck(name="a").cargo.append("sand")
    assert truck(name="b").cargo == []


def test_frozen_and_slots_reject_assignments(classes: Any) -> None:
    truck, counter, _ = classes
    made = truck(name="a")
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.name = "b"
    assert not hasattr(made, "__dict__")
    assert not hasattr(counter(1), "__dict__")
    with pytest.raises(AttributeError):
        counter(1).colour = "red"


def test_dataclasses_replace_and_fields_work(classes: Any) -> None:
    truck, _, _ = classes
    assert dataclasses.replace(truck(name="a"), wheels=4) == truck(name="a", wheels=4)
    assert [it.name for it in dataclasses.fields(truck(name="a"))] == ["name", "wheels", "cargo"]


def test_a_missing_or_unknown_field_raises_type_error(classes: Any) -> None:
    truck, _, _ = classes
    for mistake in ({}, {"name": "a", "color": "red"}):
        with pytest.raises(TypeError):
            truck(**mistake)


def test_methods_are_generated_at_the_first_instantiation() -> None:
    truck, _, _ = declared(LATE, late_dataclass.field)
    assert "__eq__" not in vars(truck)
    assert truck(name="a") == truck(name="a")
    assert "__eq__" in vars(truck)


def test_instantiating_a_subclass_generates_the_methods_of_its_bases() -> None:
    @LATE(frozen=True, slots=True, kw_only=True)
    class Vehicle:
        name: str
        wheels: int = 4

    @LATE(frozen=True, slots=True, kw_only=True)
    class Tanker(Vehicle):
        litres: int

    tanker: Any = Tanker
    vehicle: Any = Vehicle
    assert tanker(name="a", litres=9) == tanker(name="a", wheels=4, litres=9)
    assert vehicle(name="b").wheels == 4
