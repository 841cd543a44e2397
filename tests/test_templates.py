"""Templates: what they become, what they may not do, and which names they use."""

import subprocess
import sys
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strands_cli.templates import (
    Each,
    Flaw,
    Name,
    TemplateError,
    names_in_template,
    render,
    render_known,
    render_values,
)
from strands_cli.types import StepResult, Usage
from strands_cli.types.run_results import StepList
from strands_cli.types.sections import BaseSpec, Runtime

SCOPE = {
    "topic": "tea",
    "inputs": {"topic": "tea"},
    "steps": [{"response": "first"}, {"response": "second"}],
    "none": None,
    "list": [1, {"a": "ü"}],
}


SPEC = BaseSpec(
    version=0,
    name="flow",
    runtime=Runtime(provider="ollama"),
    agents={},
    positions={"/agents/a": ("flow.yaml", 4, 7)},
)


@pytest.mark.parametrize(
    ("text", "rendered"),
    [
        ("no template, {braces} and % signs\n", "no template, {braces} and % signs\n"),
        ("{{ topic | upper }}\n", "TEA\n"),
        ("{{ steps[-1].response }} {{ steps | length }}", "second 2"),
        ("{% for step in steps %}{{ step.response | title }},{% endfor %}", "First,Second,"),
        ("{{ steps[7].response | default('none') }}", "none"),
        ("{{ nothing.at.all | default(topic) }}", "tea"),
        ("{{ inputs['topic'] }}{# a comment #}", "tea"),
        ("[{{ inputs.none | default('x') }}{{ none }}]", "[x]"),
        ("{{ list }} {{ true }}", '[1, {"a": "ü"}] true'),
        ("{% if topic is defined and gone is undefined %}yes{% endif %}", "yes"),
        ("""{{ '{"a": {"b": "%s"}}' % topic }}""", '{"a": {"b": "tea"}}'),
        ("""{{ '{"a": {"b": "%s"}}' | format(topic) }}""", '{"a": {"b": "tea"}}'),
        ("""{{ '{{"a": {{"b": {}}}}}'.format(7) }}""", '{"a": {"b": 7}}'),
        ("{{ '%d%% * 2 of %s' | format(50, topic) }}", "50% * 2 of tea"),
        ("{{ ('x' * 200000) | wordwrap(80) | length }}", "202499"),
    ],
)
def test_a_template_becomes(text: str, rendered: str) -> None:
    assert render(text, SCOPE) == rendered


RESULT = StepResult(key="steps/0", id="one", agent="a", response="text", output={"n": [1, 2.5, None]})


ANSWER = StepResult(
    key="nodes/a#2",
    id="a",
    agent="writer",
    response="<ä> & 'b'",
    usage=Usage(input_tokens=3, output_tokens=4),
)
RESULTS = {
    "nodes": {"a": ANSWER},
    "steps": StepList([RESULT]),
    "text": "a rather long text",
    "word": "Score: 85 of 100",
}


@pytest.mark.parametrize(
    ("text", "rendered"),
    [
        ("{{ ['<ä>', {'b': \"'\", 'a': none}] | tojson }}", """["<ä>", {"b": "'", "a": null}]"""),
        ("{{ {'a': 1} | tojson(indent=2) }}", '{\n  "a": 1\n}'),
        ("{{ (steps | tojson) }}", '[{"id": "one", "agent": "a", "response": "text", "output": {"n": [1, 2.5, null]}, '
         '"status": "success", "type": "agent", "index": 0, "tokens": 0}]'),
        ("{{ nodes.a | tojson }}", '{"id": "a", "agent": "writer", "response": "<ä> & \'b\'", "status": "success", '
         '"type": "agent", "iteration": 2, "tokens": 7}'),
        ("{{ nodes | tojson | length }} {{ nodes.values() | tojson | length }}", "129 124"),
        ("{% for k, v in nodes.items() %}{{ k }} {{ v.status }} {{ v['response'] }}{% endfor %}", "a success <ä> & 'b'"),
        ("{{ nodes.values() | map(attribute='iteration') | list }}", "[2]"),
        ("{{ nodes.a.tokens }} {{ nodes.a.tokens_estimated }} {{ steps[0].index }} {{ steps[0].type }}", "7 7 0 agent"),
        ("{{ text | truncate(10) }}|{{ text | truncate(18) }}|{{ text | truncate(2) }}", "a rathe...|a rather long text|.."),
        ("{{ text | truncate(12, false, '…', 0) }}|{{ text | truncate }}", "a rather…|a rather long text"),
        ("{{ nodes.a | truncate(5) }}", "<ä..."),
        (r"{{ word | regex_search('score:\s*(\d+)') }}", "85"),
        (r"{{ word | regex_search('\\d+ of') }}|{{ word | regex_search('x') }}|{{ none | regex_search('.') }}|", "85 of|||"),
        (r"{{ word | regex_search('(x)?score') }}|{{ word | regex_search('SCORE') | lower }}", "|score"),
        ("{{ nodes.a | regex_search('Ä') }}", "ä"),
    ],
)  # fmt: skip
def test_filters_do_what_templates_of_other_runners_expect(text: str, rendered: str) -> None:
    assert render(text, RESULTS) == rendered


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{{ text | regex_search('(a+)+$') }}", "The template was stopped: the search for '(a+)+$' takes too long"),
        ("{{ text | regex_search('(') }}", "The template failed: '(' is not a regular expression"),
        ("{{ text | regex_search('x' * 2000) }}", "The template failed: the regular expression has more than"),
        ("{% for a in range(99) %}{{ text | regex_search('x') }}{% endfor %}", "The template was stopped: it takes too long"),
        ("{{ gone | tojson }}", "There is no name 'gone' here"),
    ],
)  # fmt: skip
def test_a_search_is_bounded_and_a_filter_that_fails_says_why(text: str, reason: str) -> None:
    with pytest.raises(TemplateError) as caught:
        render(text, {"text": "a" * 60 + "!"})
    assert caught.value.issues[0].reason.startswith(reason)


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("{{ list }}", [1, {"a": "ü"}]),
        (" {{ list[0] + 1 }}\n", 2),
        ("{{ list[0] == 1 }}", True),
        ("{{ none }}", None),
        ("{{ topic }}", "tea"),
        ("{{ '1' }}", "1"),
        ("{{ result.output }}", {"n": [1, 2.5, None]}),
        ("{{ result }}", "text"),
        ("{{ [result, result] }}", ["text", "text"]),
        ("{{ list | map('string') }}", ["1", "{'a': 'ü'}"]),
        ("{{ inputs.items() }}", [["topic", "tea"]]),
        ("{{ gone | default(3) }}", 3),
        ("{{ range(3) }}", [0, 1, 2]),
        ("{{ list[0] }}{{ list[0] }}", "11"),
        ("{{ list[0] }} cup", "1 cup"),
        ("{% if topic %}1{% endif %}", "1"),
        (
            {"a": ["{{ none }}", {"b": "{{ topic }}!"}], "{{ k }}": 4},
            {"a": [None, {"b": "tea!"}], "{{ k }}": 4},
        ),
    ],
)
def test_one_whole_expression_is_its_value_and_other_texts_are_rendered(written: Any, value: Any) -> None:
    assert render_values(written, {**SCOPE, "result": RESULT}) == value


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{{ gone }}", "There is no name 'gone' here."),
        ("{{ inputs.gone }}", "There is no name 'gone' here."),
        ("{{ [gone] }}", "There is no name 'gone' here."),
        ("{{ topic", "Invalid template: unexpected end of template"),
        ("{{ 1 // 0 }}", "The template failed: integer division or modulo by zero"),
        ("{{ ''.__class__.__mro__ }}", "The template failed: access to attribute '__class__'"),
        ("{{ [1] | tojson(indent=9999999999) }}", "The template was stopped: it takes too long"),
        ("{{ 'a' * 99999999 }}", "The template was stopped: it makes more than"),
        ("{{ [list] * 9999999 }}", "The template was stopped: it makes more than"),
        ("{% set a = [list] * 9999 %}{{ [a] * 9999 }}", "The template was stopped: it makes more than"),
        ("{{ range(99999) | map('string') | map('center', 1000) }}", "The template was stopped: it"),
    ],
)
def test_a_value_that_cannot_be_computed_is_an_error_with_its_place(text: str, reason: str) -> None:
    with pytest.raises(TemplateError) as raised:
        render_values({"deep": [text]}, SCOPE, spec=SPEC, pointer="/agents/a")
    assert raised.value.issues[0].reason.startswith(reason)
    assert raised.value.message.startswith(f"flow.yaml:4:7  /agents/a/deep/0: {reason}")
    assert raised.value.issues[0].pointer == "/agents/a/deep/0"


@pytest.mark.parametrize(
    ("text", "reason", "hint"),
    [
        ("{{ topik }}", "There is no name 'topik' here.", "Did you mean 'topic'?"),
        (
            "a\n{{ inputs.topik }}",
            "There is no name 'topik' here (line 2 of the text).",
            "Did you mean 'topic'?",
        ),
        ("a\n\n{{ topic", "Invalid template: unexpected end of template", "Correct the template."),
        ("{{ topic | uper }}", "Invalid template: No filter named 'uper'", ""),
        ("a\n{{ 1 / 0 }}", "The template failed: division by zero (line 2 of the text).", ""),
        ("{{ topic + 1 }}", "The template failed: can only concatenate str", ""),
        ("{% include 'other' %}", "The template failed: no loader", ""),
    ],
)
def test_a_template_that_fails_says_where_and_why(text: str, reason: str, hint: str) -> None:
    with pytest.raises(TemplateError) as caught:
        render(text, SCOPE, spec=SPEC, pointer="/agents/a/prompt")
    (issue,) = caught.value.issues
    assert issue.reason.startswith(reason)
    assert issue.remediation.startswith(hint)
    assert (issue.file, issue.line, issue.column, issue.pointer) == ("flow.yaml", 4, 7, "/agents/a/prompt")
    assert str(caught.value).startswith("flow.yaml:4:7  /agents/a/prompt: ")
    assert caught.value.exit_code == 3


@pytest.mark.parametrize(
    "text",
    [
        "{{ ''.__class__.__mro__ }}",
        "{{ topic.__init__.__globals__ }}",
        "{{ list.append(1) }}",
        "{{ 'x' * 1000000000 }}",
        "{{ 1000000000 * [1] }}",
        "{{ 9 ** 999999999 }}",
        "{{ '%999999999d' % 1 }}",
        "{{ '%999999999d' | format(1) }}",
        "{{ topic | center(999999999) }}",
        "{{ topic.ljust(999999999) }}",
        "{{ '{:999999999}'.format(1) }}",
        "{{ list | batch(999999999, 'x') | list }}",
        "{% for a in range(1000000000) %}x{% endfor %}",
        "{% for a in range(9999) %}{% for b in range(9999) %}xxxxxxxxxx{% endfor %}{% endfor %}",
        "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}",
    ],
)
def test_a_template_stays_in_its_sandbox_and_its_bounds(text: str) -> None:
    started = time.process_time()
    with pytest.raises(TemplateError):
        render(text, SCOPE)
    assert time.process_time() - started < 10


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("plain", []),
        ("{{ a }} and\n{{ b.c | trim }}", [Name("a"), Name("b", ("c",), 1)]),
        ("{{ a[0].b['c'] }}", [Name("a", (0, "b", "c"))]),
        ("{{ a[-1] | join(', ') | indent(2, first=true) }}", [Name("a", (-1,))]),
        ("{{- a -}}", [Name("a")]),
        ("{{ a | default('x | y') }} {{ a.b }}", [Name("a", (), 0, True), Name("a", ("b",), 0, True)]),
        (
            "{% for x in a.b %}{{ x.c }}{% endfor %}",
            [Name("a", ("b",)), Name("a", ("b", Each.ITEM, "c"))],
        ),
        (
            "{% for k, v in a.items() %}{{ k.c }}{{ v.d }}{% endfor %}",
            [Name("a", ("items",)), Name("a", (Each.VALUE, "d"))],
        ),
        ("{{ a ~\n b[-2] }}", [Name("a"), Name("b", (-2,), 1)]),
        ("{% if a is defined %}{{ a.b }}{% endif %}", [Name("a", (), 0, True), Name("a", ("b",), 0, True)]),
        ("{{ a | default(b) }}", [Name("a", (), 0, True), Name("b")]),
        ("{{ range(3) }}{% set x = a %}{{ x.b }}", [Name("a"), Name("a", ("b",))]),
        ("{% set x = a %}{% set x = b %}{{ x.c }}", [Name("a"), Name("b")]),
        ("{% macro m(a) %}{{ a.b }}{% endmacro %}{{ m(c) }}", [Name("c")]),
        ("{{ a.upper() }}", [Name("a", ("upper",))]),
        ("{{ a[-'x'] }}{{ a[b] }}", [Name("a"), Name("a"), Name("b")]),
        ("{{ '%999999999d' | format(1) }}{{ 'x' | center(999999999) }}", []),
        ("{{ 'text' }}{{ true }}{% raw %}{{ a }}{% endraw %}", []),
    ],
)
def test_the_names_of_a_template(text: str, found: list[Name]) -> None:
    assert names_in_template(text) == (found, [])


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("\n\n{{ a", 2, "Invalid template: unexpected end of template"),
        ("{{ a\n | nope }}", 1, "There is no filter 'nope'"),
        ("{% if a %}\n{{ b | nope }}{% endif %}", 1, "There is no filter 'nope'"),
        ("{% if a %}", 0, "Invalid template: Unexpected end of template"),
        ("{% include 'x' %}", 0, "Templates cannot include other files"),
        ("{{ " + "[" * 3000 + " }}", 0, "This"),
    ],
)
def test_what_is_no_template_is_told_with_its_line(text: str, line: int, reason: str) -> None:
    _, flaws = names_in_template(text)
    assert [flaw.line for flaw in flaws] == [line]
    assert isinstance(flaws[0], Flaw)
    assert flaws[0].reason.startswith(reason)


@given(st.text(alphabet="{}%#|.[]()'\"ab01 \n-~", max_size=60))
def test_any_text_has_names_or_flaws(text: str) -> None:
    found, flaws = names_in_template(text)
    if flaws:
        assert all(flaw.reason for flaw in flaws)
    else:
        assert all(name.name for name in found)


def test_plain_text_is_rendered_and_read_without_jinja() -> None:
    code = (
        "import sys; from strands_cli.templates import names_in_template, render, render_known;"
        "names_in_template('x { y'); render('x { y', {}); sys.exit('jinja2' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    ("text", "rendered"),
    [
        ("{{ tasks.items.response }}", "mine"),
        ("{{ tasks.copy }}", "2"),
        ("{% for name in plain.keys() %}{{ name }}{% endfor %}", "a"),
        ("{% for name, value in plain.items() %}{{ name }}{{ value }}{% endfor %}", "a1"),
        ("{{ plain.get('b', 3) }}", "3"),
    ],
)
def test_what_a_mapping_holds_comes_before_what_it_can_do(text: str, rendered: str) -> None:
    scope = {"tasks": {"items": {"response": "mine"}, "copy": 2}, "plain": {"a": 1}}
    assert render(text, scope) == rendered


@pytest.mark.parametrize(
    "text",
    [
        "{% for a in many %}{% for b in many %}{% endfor %}{% endfor %}",
        "{% for a in many %}{{ many | sum }}{% endfor %}",
        "{% for a in few * 99999 %}{% for b in few * 99999 %}{% endfor %}{% endfor %}",
        "{% for a in word | replace('a', word) %}{% for b in many | join(word) %}{% endfor %}{% endfor %}",
        "{% for a in few recursive %}{{ loop(few) if loop.depth < 99 }}{% endfor %}",
        "{% for a in few %}" * 200 + "{% endfor %}" * 200,
        "{{ (word * 1000) | wordwrap(1) }}",
        "{{ word }}" * 5000,
    ],
)
def test_what_could_take_long_stays_as_it_is_written(text: str) -> None:
    scope = {"many": [*range(50_000)], "few": [1, 2, 3], "word": "a" * 1000}
    assert render_known(text, scope) == text


def test_a_loop_over_what_is_known_is_rendered() -> None:
    scope = {"rows": [["a", "b"], ["c"]], "word": "x"}
    text = (
        "{% for row in rows %}{% for cell in row %}{{ cell }}{% endfor %}{{ row | join(', ') }};{% endfor %}"
    )
    assert render_known(text + "{{ word }}{{ later }}", scope) == "aba, b;cc;x{{ later }}"


@pytest.mark.parametrize("depth", [30, 200])
def test_more_nested_loops_than_python_compiles_are_a_template_error(depth: int) -> None:
    with pytest.raises(TemplateError, match="The template failed: too many"):
        render("{% for a in few %}" * depth + "{% endfor %}" * depth, {"few": [1]})
