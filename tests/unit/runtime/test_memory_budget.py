"""Inputs are weighed before they are parsed, and share the memory of the process."""

from __future__ import annotations

import copy
import gc
import json
import pickle
import threading
import tracemalloc

import pytest

from shared import memory_budget
from shared.memory_budget import BUDGET, LIGHT, MAX_INPUT, InputTooLarge, MemoryBudget, MemoryBusy, loads, weigh

HEAVY = json.dumps({"a": [[1]] * 20_000}).encode()


@pytest.mark.parametrize(
    "text",
    [
        b"[" + b"[]," * 100_000 + b"[]]",
        b"[" + b"{}," * 100_000 + b"{}]",
        b"[" + b'{"a":1},' * 50_000 + b"1]",
        b"[" + b"[[1],[1]]," * 50_000 + b"1]",
        b"[" + b'"ab",' * 100_000 + b"1]",
        b"[" + b"1.5," * 100_000 + b"1]",
        b"[" + b"[" * 500 + b"]" * 500 + b"]",
        b"{" + b",".join(b'"%x":1' % number for number in range(100_000)) + b"}",
        json.dumps("x" * 2_000_000).encode(),
        json.dumps("ü" * 1_000_000, ensure_ascii=False).encode(),
        json.dumps("x\U0001f600" * 200_000, ensure_ascii=False).encode(),
        json.dumps("x" * 900_000 + "\U0001f600", ensure_ascii=False).encode(),
    ],
    ids=lambda text: text[:16].decode(errors="replace"),
)
def test_weight_is_not_less_than_the_memory_of_a_text(text: bytes) -> None:
    gc.collect()
    tracemalloc.start()
    json.loads(text)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak <= max(weigh(text), LIGHT)


def test_a_heavy_document_counts_while_it_is_in_memory() -> None:
    before = BUDGET.used
    document = loads(HEAVY)
    assert BUDGET.used == before + weigh(HEAVY) > before
    del document
    assert BUDGET.used == before
    assert loads(HEAVY, keep=False) == json.loads(HEAVY)
    assert BUDGET.used == before


def test_copies_of_a_document_are_plain_mappings() -> None:
    document = loads(HEAVY)
    for copied in (copy.copy(document), copy.deepcopy(document), pickle.loads(pickle.dumps(document))):
        assert type(copied) is dict
        assert copied == document == json.loads(HEAVY)
    assert json.dumps(document).encode() == HEAVY


@pytest.mark.parametrize("text", [b"", b"{", b"[" * 1_000_000, b"\xff" * 10_000])
def test_an_invalid_text_leaves_the_budget_as_it_was(text: bytes) -> None:
    before = BUDGET.used
    with pytest.raises((ValueError, RecursionError)):
        loads(text)
    gc.collect()
    assert BUDGET.used == before


def test_a_text_that_is_too_heavy_is_not_parsed() -> None:
    with pytest.raises(InputTooLarge, match="has 3000003 bytes and needs more than 48 MiB of memory"):
        loads(b"[" + b"[]," * 1_000_000 + b"1]")


def test_an_input_waits_for_others() -> None:
    budget = MemoryBudget(100, seconds=60)
    budget.acquire(60)
    waiting = threading.Thread(target=budget.acquire, args=(50,))
    waiting.start()
    budget.release(60)
    waiting.join(60)
    assert budget.used == 50


def test_an_input_that_waits_too_long_is_refused() -> None:
    budget = MemoryBudget(100, seconds=0.05)
    with budget.reserved(60), pytest.raises(MemoryBusy, match="other inputs use"), budget.reserved(50):
        pass
    assert budget.used == 0


def test_the_budget_holds_the_heaviest_input() -> None:
    assert memory_budget.BUDGET.size >= 2 * MAX_INPUT
