"""clusterctl's variables. ES numbers are those of the acceptance list."""

from __future__ import annotations

import pytest

from shared.components.expressions import SubstitutionError
from shared.components.globs import prefix_lengths
from shared.components.substitute import substitute, variables


@pytest.mark.parametrize(
    ("text", "found"),
    [
        pytest.param("${A} ${ B} ${ C} ${ D }", {"A": None, "B": None, "C": None, "D": None}, id="ES1"),
        pytest.param("${A}\n x: ${B}${A}", {"A": None, "B": None}, id="ES1 several lines, repeated"),
        pytest.param(
            '${C:=default} ${B} ${A=foobar} ${E=""} ${D:=${A}}',
            {"C": "default", "B": None, "A": "foobar", "E": '""', "D": "${A}"},
            id="ES2",
        ),
        pytest.param("# a comment about ${A}", {"A": None}, id="comments count"),
        pytest.param("${A:=}", {"A": None}, id="an empty default is none"),
        pytest.param("${A/x/y}", {"A": "xy"}, id="any argument is a default"),
        pytest.param("${A:=x} ${A}", {"A": "x"}, id="the first occurrence counts"),
        pytest.param("${A} ${A:=x}", {"A": None}, id="also where it has no default"),
        pytest.param("${A:=a${B:=b}c}", {"A": "a${B}c"}, id="names alone of what is nested"),
        pytest.param("${\tA\n}", {"A": None}, id="any blanks"),
    ],
)
def test_variables_are_listed_with_their_defaults(text: str, found: dict[str, str | None]) -> None:
    assert variables(text) == found


@pytest.mark.parametrize(
    ("text", "values", "result"),
    [
        pytest.param("foo ${BAR}", {"BAR": "ba$r ${X}"}, "foo ba$r ${X}", id="ES3 values are not expanded again"),
        pytest.param("${A=d} ${B:=d} ${C:-d}", {}, "d d d", id="ES4"),
        pytest.param("${A=d}", {"A": "a"}, "a", id="a value beats the default"),
        pytest.param("${A=d}", {"A": ""}, "d", id="an empty value does not"),
        pytest.param("${A}", {"A": ""}, "", id="but it is one"),
        pytest.param(
            "${BAZ:=prefix${DEF}-suffix} ${CAZ=${DEF}}",
            {"DEF": "football"},
            "prefixfootball-suffix football",
            id="ES5",
        ),
        pytest.param("\\\\ ${A}", {"A": "x"}, "\\\\ x", id="ES7"),
        pytest.param("${#v}", {"v": "abcdEFGH28ij"}, "12", id="ES8 length"),
        pytest.param("${#v}", {"v": "é"}, "2", id="length in bytes"),
        pytest.param("${v^} ${v^^}", {"v": "abcdEFGH28ij"}, "AbcdEFGH28ij ABCDEFGH28IJ", id="ES8 upper"),
        pytest.param("${v,} ${v,,}", {"v": "ABCDEFGH28IJ"}, "aBCDEFGH28IJ abcdefgh28ij", id="ES8 lower"),
        pytest.param("${v:11}", {"v": "/srv/notes/ideas/thoughts.for.today"}, "ideas/thoughts.for.today", id="ES8 :11"),
        pytest.param("${v:11:5}", {"v": "/srv/notes/ideas/thoughts.for.today"}, "ideas", id="ES8 :11:5"),
        pytest.param("${v:9:1}", {"v": "12345678"}, "", id="ES8 past the end"),
        pytest.param("${v:9:50}", {"v": "123456789123456789"}, "123456789", id="ES8 :9:50"),
        pytest.param("${v:-3:2}", {"v": "x"}, "x", id="ES8 a default, not an offset"),
        pytest.param("${v:-3:2}", {}, "3:2", id="ES8 whose text has a colon"),
        pytest.param("${v: 3}", {"v": "abcdef"}, "abcdef", id="no number"),
        pytest.param("${v/abc/xyz}", {"v": "abcABC123ABCabc"}, "xyzABC123ABCabc", id="ES9 first"),
        pytest.param("${v//abc/xyz}", {"v": "abcABC123ABCabc"}, "xyzABC123ABCxyz", id="ES9 all"),
        pytest.param("${v/#abc/XYZ}", {"v": "abcABC123ABCabc"}, "XYZABC123ABCabc", id="ES9 prefix"),
        pytest.param("${v/%abc/XYZ}", {"v": "abcABC123ABCabc"}, "abcABC123ABCXYZ", id="ES9 suffix"),
        pytest.param(
            "${v#*.} ${v##*.} ${v%.*} ${v%%.*}",
            {"v": "bash.string.txt"},
            "string.txt txt bash.string bash",
            id="ES10",
        ),
        pytest.param("${v#*/} ${v##*/}", {"v": "path/to/file"}, "to/file file", id="ES10 path"),
        pytest.param("${v#*/}", {"v": "/path/to/file"}, "path/to/file", id="ES10 leading"),
        pytest.param("$${v}", {}, "${v}", id="ES11"),
        pytest.param("something $${var=${d}}", {"d": "foo"}, "something ${var=foo}", id="ES11 nested"),
        pytest.param("${s/\\//-}", {"s": "foo/bar"}, "foo-bar", id="ES11 escaped"),
        pytest.param("${s/./}", {"s": "foo.bar"}, "foobar", id="ES11 deleted"),
        pytest.param("${V:+e} ${V:?e}", {"V": "q"}, "q q", id="ES12 same as a default"),
        pytest.param("a $$ b $V", {}, "a $ b $V", id="ES12 plain"),
        pytest.param("${V:=$$x}", {}, "$$x", id="ES12 in a default"),
        pytest.param("${V:={}}", {}, "{}", id="braces in a default"),
        pytest.param("${V:={}}", {"V": "v"}, "v}", id="braces in a default that is not used"),
        pytest.param("$$$${V} $$$", {}, "$${V} $$", id="dollars in pairs"),
        pytest.param("${E:=a$${V}b}", {"V": "v"}, "a$vb", id="no pairs in a default"),
        pytest.param("${V/a/b/c}", {"V": "xa"}, "xb/c", id="a replacement has slashes"),
        pytest.param("${V/a///}", {"V": "xa"}, "x", id="slashes between are as one"),
        pytest.param("${V/a/$$}${V/$$a/}", {"V": "$a"}, "$$", id="pairs in a replacement"),
        pytest.param("${V/a/${N}}${V/${N}/b}", {"V": "a1", "N": "1"}, "11ab", id="expressions to replace"),
        pytest.param("${V/#a/}${V/%a/}", {"V": "a"}, "aa", id="nothing is no replacement at an end"),
        pytest.param("${V:${N}} ${V:${N}:1}", {"V": "abcd", "N": "-3"}, "bcd b", id="nested offsets from the end"),
        pytest.param("${V:${N}}", {"V": "ab", "N": "-3"}, "ab", id="before the beginning"),
        pytest.param("${V:1:2:3}${V:99999999999999999999}", {"V": "ab"}, "abab", id="no numbers"),
        pytest.param("${V,^} ${V^,}", {"V": "aB"}, "aB aB", id="mixed cases do nothing"),
        pytest.param("${V^^}", {"V": "\u00e9\u00df"}, "\u00c9\u00df", id="one letter stays one"),
        pytest.param("${V%[a]}", {"V": "xa"}, "xa", id="classes in suffixes cannot be read"),
        pytest.param("${V#[a}${V#[]}${V#a\\}", {"V": "a["}, "a[a[a[", id="globs that cannot be read"),
        pytest.param("a\0b ${", {}, "a", id="a NUL ends it"),
        pytest.param("", {}, "", id="nothing"),
    ],
)
def test_expressions_expand_as_in_clusterctl(text: str, values: dict[str, str], result: str) -> None:
    assert substitute(text, values) == result


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("${BA$R}", "missing closing brace"),  # ES1
        ("${V-x}", "missing closing brace"),  # ES12
        ("${V+x}", "missing closing brace"),
        ("${V?x}", "missing closing brace"),
        ("${V/a}", "missing the second of two slashes"),
        ("${V//a", "missing the second of two slashes"),
        ("${V/a/b${N}}", "missing closing brace"),
        ("${V#a${N}}", "missing closing brace"),
        ("${V^^^}", "missing closing brace"),
        ("${V^x}", "missing closing brace"),
        ("${V#}", "missing an argument"),
        ("${V:}", "missing an argument"),
        ("${V:1:}", "missing an argument"),
        ("${V:1${N}}", "missing closing brace"),
        ("${V///x}", "missing an argument"),
        ("${}", "unable to parse variable name"),
        ("${-}", "unable to parse variable name"),
        ("${#}", "unable to parse variable name"),
        ("${A", "missing closing brace"),
        ("${", "unable to parse variable name"),
        ("${A:=x", "missing closing brace"),
        ("${" * 10, "unable to parse variable name"),
        ("${A:=" * 100 + "}" * 100, "nested more than"),
    ],
)
def test_invalid_expression_is_an_error_with_its_line(text: str, word: str) -> None:
    with pytest.raises(SubstitutionError) as error:
        substitute("one\n" + text, {})
    assert word in str(error.value)
    assert "line 2" in str(error.value)


def test_es6_error_names_all_missing_variables() -> None:
    with pytest.raises(SubstitutionError, match=r"\[BAR, BAZ, CAR\] is not set.*spec\.configSecret"):
        substitute("${BAZ} ${BAR} ${CAR} ${FOO:=x}", {})
    with pytest.raises(SubstitutionError, match=r"\[A, C\] is not set"):
        substitute("${B} ${C} ${A}", {"B": ""})


def test_negative_length_is_an_error_that_does_not_quote_the_value() -> None:
    with pytest.raises(SubstitutionError, match="variable A: the length of a part cannot be negative") as error:
        substitute("${A:1:${B}}", {"A": "abc", "B": "-7351"})
    assert "7351" not in str(error.value)


@pytest.mark.parametrize(
    ("pattern", "text", "lengths"),
    [
        ("a*", "abc", [1, 2, 3]),
        ("*", "ab", [1, 2]),
        ("?", "ab", [1]),
        ("[a-c][^a-c]", "cd", [2]),
        ("[a-c][^a-c]", "cb", []),
        ("\\*", "*", [1]),
        ("*/", "a/b/", [2, 4]),
        ("", "a", []),
        ("[\\]-a]", "]", [1]),
        ("[", "[x", []),
        ("[]-]", "]", []),
        ("[^]", "^", []),
        ("[a-]", "a", []),
        ("[b-a]", "a", []),
        ("a\\", "a\\", []),
        ("*a" * 30, "a" * 200 + "b", list(range(30, 201))),
    ],
)
def test_glob_matches_prefixes_as_in_a_shell(pattern: str, text: str, lengths: list[int]) -> None:
    assert prefix_lengths(pattern, text) == lengths


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("${V//a/${B}}" * 10, {"V": "a" * 10_000, "B": "b" * 1_000}),
        ("${V//a/" * 40 + "${V}" + "}" * 40, {"V": "a" * 100}),
        ("${A}" * 50_000, {"A": "a" * 10_000}),
        ("${#A}" * 50_000, {"A": "a" * 10_000}),
        ("${A#*" + "a*" * 2_000 + "b}", {"A": "a" * 100_000}),
    ],
    ids=["replaced", "nested", "repeated", "measured", "matched"],
)
def test_expansion_beyond_the_limit_is_refused(text: str, values: dict[str, str]) -> None:
    with pytest.raises(SubstitutionError, match=r"become too large at variable [VA]"):
        substitute(text, values)


@pytest.mark.parametrize(
    "text",
    ["${" * 100_000, "${ " * 100_000, "${A/" + "\\" * 200_000, "${A:=" + "$" * 200_000, "${" + "A$" * 100_000],
    ids=lambda text: text[:6],
)
def test_long_invalid_text_is_parsed_in_linear_time(text: str) -> None:
    """It would take minutes were it read again and again."""
    with pytest.raises(SubstitutionError, match="line 1"):
        substitute(text, {})


def test_many_dollar_signs_are_parsed_in_linear_time() -> None:
    assert substitute("$" * 200_001, {}) == "$" * 100_001
