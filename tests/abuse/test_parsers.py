"""Every parser of outside input, on generated input: a declared error or a result, within 512 MiB and 2 CPU seconds."""

from __future__ import annotations

import ast
import json
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from types import FrameType

import hypothesis
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import events
import functions
import shared
from tests.support.parsers import LONGEST, PARSERS, Parser
from tests.support.until import HANGS

MEMORY = 512 * 2**20
"""Bytes that parsing one input may add to the process."""
CPU = 2.0
"""Seconds of processor time that one input may take."""

_ELSEWHERE = {
    "events.capture": "captures, which a user names",
    "events.inputs": "captured objects of the API server, for `capture` on a user's machine",
    "shared.charts.engine": "tests/unit/addons/test_charts_engines.py has a chart with notes that are no JSON",
    "shared.components.catalog": "settings of the installation",
    "shared.components.certificates": "Secrets in namespaces of providers, which administrators own",
    "shared.dead_letters": "tests/unit/runtime/test_dead_letters.py exchanges stored letters",
    "shared.download.registry": "tests/unit/download/test_registry.py has hostile registries",
    "shared.download.web": "tests/unit/download/test_web.py has hostile servers",
    "shared.helm_charts.store": "records, which nobody else can write",
    "shared.providers.error_reporting": "variables of providers, which administrators own",
    "shared.releases.sources.s3": "tests/abuse/test_store.py has lying object stores",
    "shared.releases.store": "records, which nobody else can write",
    "shared.runtime.assumed": "objects that this process has written",
    "shared.sandbox.confine": "arguments of the function that starts the program",
    "shared.sandbox.workers": "tests/abuse/test_sandbox.py has hostile workers",
}
"""Modules that parse a format, but are not in the registry: whose input it is, or where hostile input is tested."""

_PRIMITIVES = {
    ("json", "loads"),
    ("bounded_yaml", "load"),
    ("bounded_yaml", "load_all"),
    ("yaml", "load_all"),
    ("tarfile", "open"),
    ("gzip", "GzipFile"),
    ("gzip", "decompress"),
    ("zlib", "decompressobj"),
    ("x509", "load_pem_x509_certificates"),
    ("ElementTree", "fromstring"),
}


class TooSlow(Exception):
    """A parser used more processor time than an input may take."""


@contextmanager
def limited() -> Iterator[None]:
    """Limits memory and processor time of the calling process, which must be a child of its own."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))

    def stop(_signal: int, _frame: FrameType | None) -> None:
        raise TooSlow

    signal.signal(signal.SIGPROF, stop)
    yield


def within_limits(parser: Parser, data: bytes) -> None:
    """Parses one input in the calling process, within the time that an input may take."""
    signal.setitimer(signal.ITIMER_PROF, CPU)
    try:
        parser.run(data)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _in_child(name: str, work: str, *arguments: object) -> None:
    """Runs `work(parser, *arguments)` of this module in a process with limits, and raises as it does."""
    context = get_context("forkserver")
    context.set_forkserver_preload([__name__])
    receiving, sending = context.Pipe(duplex=False)
    child = context.Process(target=_child, args=(sending, name, work, *arguments))
    child.start()
    sending.close()
    try:
        assert receiving.poll(HANGS), f"{name} hangs"
        failure = receiving.recv()
    except EOFError:
        child.join(HANGS)
        failure = f"{name} ended its process: exit code {child.exitcode}"
    finally:
        child.kill()
        child.join()
    assert not failure, failure


def _child(sending: object, name: str, work: str, *arguments: object) -> None:
    parser = next(one for one in PARSERS if one.name == name)
    try:
        with limited():
            globals()[work](parser, *arguments)
        failure = ""
    except BaseException as error:
        notes = "\n".join(getattr(error, "__notes__", ()))
        failure = f"{name}: {type(error).__name__}: {str(error)[:500]} {notes[:2000]}"
    sending.send(failure)  # type: ignore[attr-defined]


_KEYS = st.sampled_from(["metadata", "spec", "status", "data", "kind", "name", "type", "items", "object", "a", ""])
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | st.just("9" * 5000),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_KEYS | st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
)
_SURROGATE = b"\xed\xa0\x80"  # not valid in UTF-8
_PIECES = (
    *b"{ } [ ] ' \\ ${ $$ &a *a << !!int null true // .. %2e @ # ~1 999999999999999999999999".split(),
    *(b'"', b"\n", b"\0", b": ", b"- ", b"---\n", b"\xff\xfe", _SURROGATE),
)


def _changed(seeds: list[bytes]) -> st.SearchStrategy[bytes]:
    """Returns inputs that differ from the seeds in a few places."""

    @st.composite
    def change(draw: st.DrawFn) -> bytes:
        data = draw(st.sampled_from(seeds))
        for _ in range(draw(st.integers(1, 4))):
            start = draw(st.integers(0, len(data)))
            end = min(len(data), start + draw(st.integers(0, 12)))
            data = data[:start] + draw(st.sampled_from(_PIECES) | st.binary(max_size=8)) + data[end:]
        return data

    return change()


def generated(parser: Parser, examples: int, seed: int) -> None:
    """Runs a parser on generated inputs: any bytes, JSON with the usual names, and changed seeds."""
    inputs = st.binary(max_size=400) | _VALUES.map(lambda value: json.dumps(value).encode()) | _changed(parser.corpus())

    @hypothesis.seed(seed)
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate, Phase.shrink),
    )
    @given(inputs)
    def run(data: bytes) -> None:
        within_limits(parser, data)

    run()


_REPEATED = (
    *b"[ { [[], \\ a 9 ${ ${a ${a:- $ {{ / .. a, a=b, !a ( a[ .a @ <<: !!str % :// * a*".split(),
    *(
        b'"',
        b'{"a":',
        b" ",
        b"\n",
        b"- ",
        b"a: ",
        b"a: b\n",
        b"&a [*a]\n",
        b"---\n",
        b"a,b\n",
        b"? ",
        b'[a="',
        b"-----BEGIN A-----\n",
    ),
)


def _pumped(parser: Parser) -> Iterator[tuple[str, bytes]]:
    """Yields long inputs that grow in one way: nesting, repetition, long tokens."""
    for piece in _REPEATED:
        yield repr(piece), piece * (LONGEST // len(piece))
    for seed in parser.corpus():
        for piece in _REPEATED:
            middle = len(seed) // 2
            yield f"{piece!r} in a seed", seed[:middle] + piece * (LONGEST // len(piece)) + seed[middle:]


def pumped(parser: Parser) -> None:
    """Runs a parser on long inputs."""
    for what, data in _pumped(parser):
        try:
            within_limits(parser, data)
        except BaseException as error:
            error.add_note(f"input: {what}, {len(data)} bytes")
            raise


def kept(parser: Parser) -> None:
    """Runs a parser on the inputs of its corpus."""
    for data in parser.corpus():
        within_limits(parser, data)


@pytest.mark.parametrize("name", [parser.name for parser in PARSERS])
def test_generated_input(name: str, exhaustive: bool, seed: int) -> None:
    _in_child(name, "generated", 20_000 if exhaustive else 300, seed)


@pytest.mark.parametrize("name", [parser.name for parser in PARSERS])
def test_long_input(name: str) -> None:
    _in_child(name, "pumped")


@pytest.mark.parametrize("name", [parser.name for parser in PARSERS])
def test_corpus(name: str) -> None:
    _in_child(name, "kept")


@pytest.mark.parametrize("parser", PARSERS, ids=lambda parser: parser.name)
def test_seed_is_valid(parser: Parser) -> None:
    """Most code is reached from valid inputs only."""
    if b"BEGIN" not in parser.seeds[0]:  # no key is worth storing
        parser.parse(parser.seeds[0])


def eats(parser: Parser) -> None:
    parser.run(b"")
    within_limits(Parser("eats", lambda _: bytearray(2 * MEMORY)), b"")


def spins(parser: Parser) -> None:
    parser.run(b"")
    within_limits(Parser("spins", lambda _: [None for _ in iter(int, 1)]), b"")


def raises(parser: Parser) -> None:
    parser.run(b"")
    within_limits(Parser("raises", lambda data: data[1]), b"")


@pytest.mark.parametrize(
    ("work", "failure"), [("eats", "MemoryError"), ("spins", "TooSlow|MemoryError"), ("raises", "IndexError")]
)
def test_limits_hold(work: str, failure: str) -> None:
    with pytest.raises(AssertionError, match=failure):
        _in_child(PARSERS[0].name, work)


def _parsing_modules() -> set[str]:
    """Returns the modules that call a parser of a format."""
    found = set()
    for package in (shared, functions, events):
        root = Path(package.__path__[0])
        for file in root.rglob("*.py"):
            calls = {
                (node.func.value.id, node.func.attr)
                for node in ast.walk(ast.parse(file.read_text()))
                if isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and isinstance(node.func.value, ast.Name)
            }
            if calls & _PRIMITIVES:
                found.add(".".join((package.__name__, *file.relative_to(root).with_suffix("").parts)))
    return found


def test_every_parser_is_registered() -> None:
    """A module that parses a format is in the registry, or `_ELSEWHERE` gives a reason."""
    registered = {parser.module for parser in PARSERS}
    assert _parsing_modules() - registered - _ELSEWHERE.keys() == set()
    assert _ELSEWHERE.keys() & registered == set()
    for name in (*registered, *_ELSEWHERE):
        import_module(name)
