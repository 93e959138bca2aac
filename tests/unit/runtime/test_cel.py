import pytest

from shared.cel import ExpressionError, NotYet, evaluate, variables

OBJECTS = {
    "web": {"spec": {"replicas": 3}, "status": {"ready": 3, "conditions": [{"type": "Ready", "status": "True"}]}}
}


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ("web.status.ready == web.spec.replicas", True),
        ("web.status.ready > 3", False),
        ("has(web.status.missing)", False),
        ("has(web.status.missing) && web.status.missing == 1", False),
        ("web.status.conditions.exists(c, c.type == 'Ready' && c.status == 'True')", True),
        ("web.status.conditions.filter(c, c.type == 'Other').size() == 1", False),
        ("1 == 1", True),
    ],
)
def test_expression_is_true_or_false(expression: str, result: bool) -> None:
    assert evaluate(expression, OBJECTS) is result


@pytest.mark.parametrize("expression", ["web.status.missing == 1", "web.status.conditions[4].type == 'x'"])
def test_missing_field_is_not_yet(expression: str) -> None:
    with pytest.raises(NotYet):
        evaluate(expression, OBJECTS)


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("web.status.ready ==", "Syntax error"),
        ("wbe.status.ready == 1", "the objects listed for it are: web"),
        ("web.spec.replicas", "not to true or false"),
        ("nothing(web)", "nothing"),
        ("1 / 0 == 1", "division by zero"),
        ("web == 1 || " * 2000 + "true", "characters"),
    ],
)
def test_invalid_expressions_are_rejected(expression: str, words: str) -> None:
    with pytest.raises(ExpressionError, match=words):
        evaluate(expression, OBJECTS)


def test_variables_exclude_those_that_macros_bind() -> None:
    assert variables("a.list.exists(x, x.n == b.n) && c.all(y, y > 1)") == ["a", "b", "c"]
