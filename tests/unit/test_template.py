import pytest
from hypothesis import given
from hypothesis import strategies as st

from device_plugin.template import Template, TemplateError, escape


@pytest.mark.parametrize(
    ("text", "rendered"),
    [
        ("", ""),
        ("plain", "plain"),
        ("{id}", "gpu-0"),
        ("/dev/x{index}y", "/dev/x3y"),
        ("{id}{index}", "gpu-03"),
        ("{attribute.serial}", "S1"),
        ("{{id}}", "{id}"),
        ("{{{id}}}", "{gpu-0}"),
        ("{{}}", "{}"),
        ("a}}b{{c", "a}b{c"),
        ("ä {card}\n", "ä 0\n"),
    ],
)
def test_render(text, rendered):
    values = {"id": "gpu-0", "index": "3", "attribute.serial": "S1", "card": "0"}
    assert Template.parse(text).render(values) == rendered


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "`{` is never closed; write `{{` for a literal one"),
        ("a{id", "`{` is never closed; write `{{` for a literal one"),
        ("}", "`}` closes nothing; write `}}` for a literal one"),
        ("{id}}", "`}` closes nothing; write `}}` for a literal one"),
        ("{{{id}}", "`}` closes nothing; write `}}` for a literal one"),
        ("{}", "`{}` is no placeholder; write `{{` and `}}` for literal braces"),
        ("{a b}", "`{a b}` is no placeholder; write `{{` and `}}` for literal braces"),
        ("{1}", "`{1}` is no placeholder; write `{{` and `}}` for literal braces"),
        ("{id.x}", "`{id.x}` is no placeholder; write `{{` and `}}` for literal braces"),
        ("{id!r}", "`{id!r}` is no placeholder; write `{{` and `}}` for literal braces"),
        (
            "{attribute.}",
            "`{attribute.}` is no placeholder; write `{{` and `}}` for literal braces",
        ),
        ("{ä}", "`{ä}` is no placeholder; write `{{` and `}}` for literal braces"),
    ],
)
def test_refused(text, message):
    with pytest.raises(TemplateError) as caught:
        Template.parse(text)
    assert str(caught.value) == message


def test_fields():
    template = Template.parse("{id}-{card}/{id}{{x}}{attribute.a}")
    assert template.fields == {"id", "card", "attribute.a"}
    assert not template.constant
    assert Template.parse("{{x}}").constant


def test_a_missing_value_is_an_error():
    with pytest.raises(KeyError, match="card"):
        Template.parse("{id}{card}").render({"id": "x"})


def test_equal_templates():
    assert Template.parse("a{{") == Template.parse("a{{")
    assert len({Template.parse("{id}"), Template.parse("{id}"), Template.parse("{path}")}) == 2


@given(st.text())
def test_escaped_text_is_itself(text):
    template = Template.parse(escape(text))
    assert template.constant
    assert template.render({}) == text


@given(st.text(), st.text(), st.text())
def test_values_are_never_expanded(before, value, after):
    template = Template.parse(f"{escape(before)}{{id}}{escape(after)}")
    assert template.render({"id": value, "path": "wrong"}) == before + value + after


@given(st.text(alphabet="{}id.a "))
def test_any_text_is_parsed_or_refused_in_words(text):
    try:
        template = Template.parse(text)
    except TemplateError as error:
        assert "\n" not in str(error)  # noqa: PT017
    else:
        template.render(dict.fromkeys(template.fields, ""))
