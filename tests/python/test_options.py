"""Python's keywords are the operators' options: the same names and defaults, and each is passed on."""

import inspect

import pytest
import torch

import cogwheel
import cogwheel.functional

OPERATORS = ("attention", "attention_weights", "attention_statistics", "cache_attend")


def options_of(operator: str) -> dict[str, object]:
    """Defaults by name, without what carries a mechanism's own parameters."""
    schema = getattr(torch.ops.cogwheel, operator).default._schema
    return {
        argument.name: argument.default_value
        for argument in schema.arguments
        if argument.kwarg_only and argument.name not in ("parameters", "parameter_names")
    }


def test_keywords_are_those_of_the_schema():
    keywords = {
        name: parameter.default
        for name, parameter in inspect.signature(cogwheel.attention).parameters.items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    }
    assert len(keywords) > 10
    for operator in OPERATORS:
        assert options_of(operator) == keywords, operator


@pytest.mark.parametrize("option", options_of("attention"))
def test_every_keyword_reaches_the_operator(option, monkeypatch):
    given = {bool: True, float: 0.25, str: "cosine"}.get(type(options_of("attention")[option]), torch.ones(()))
    if option == "seed":
        more = {"dropout": 0.5}
    else:
        more = {}
    passed = []
    tensor = torch.zeros(1, 1, 2, 8)
    for name in ("_ATTENTION", "_ATTENTION_WEIGHTS"):
        monkeypatch.setattr(cogwheel.functional, name, lambda *tensors, **options: passed.append(options))
    plain = lambda query, key, value, mechanism, causal: passed.append({"causal": causal})  # noqa: E731
    monkeypatch.setattr(cogwheel.functional, "_PLAIN_ATTENTION", plain)
    cogwheel.attention(tensor, tensor, tensor, **{option: given}, **more)
    cogwheel.attention_weights(tensor, tensor, **{option: given}, **more)
    assert [options[option] is given or options[option] == given for options in passed] == [True, True]
