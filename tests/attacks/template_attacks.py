"""Templates that would run for ever or take all memory, by what they abuse."""

DOUBLING = "{% for a in range(99) %}{% set ns.x = "
NEST = "{% set ns = namespace(x=[1], y=[1]) %}"

ATTACKS: dict[str, list[str]] = {
    "loops": [
        "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
        "{% for a in range(99999) %}{% for b in range(99999) if false %}{% endfor %}{% endfor %}",
        "{% for a in range(99999) %}{% set x = range(99999) | list %}{% endfor %}",
        "{% for a in range(99999) %}" + "{% if a %}{% endif %}" * 2000 + "{% endfor %}",
        "{% for a in range(99999) %}" + "{% set x = a.real.real.real %}" * 2000 + "{% endfor %}",
        "{% set l = range(99999) | list %}{% for a in l %}{% if -1 in l %}{% endif %}{% endfor %}",
        "{% set l = range(99999) | list %}{% for a in l %}{{ l.index(99998) }}{% endfor %}",
        "{% set l = range(99999) | list %}{% for a in l %}{% set x = l[:] %}{% endfor %}",
        "{% for a in range(99999) %}{{ loop.changed(range(9999) | list) }}{% endfor %}",
    ],
    "doubling": [
        "{% set ns = namespace(x='a') %}" + DOUBLING + "ns.x ~ ns.x %}{% endfor %}",
        "{% set ns = namespace(x='a') %}" + DOUBLING + "ns.x + ns.x %}{% endfor %}",
        "{% set ns = namespace(x=3) %}" + DOUBLING + "ns.x * ns.x %}{% endfor %}",
        "{% set ns = namespace(x=3) %}" + DOUBLING + "ns.x ** 9 %}{% endfor %}",
        "{% set ns = namespace(x='a') %}" + DOUBLING + "'%s%s' | format(ns.x, ns.x) %}{% endfor %}",
        "{% set ns = namespace(x='a') %}" + DOUBLING + "'{0}{0}'.format(ns.x) %}{% endfor %}",
        "{% macro m(x) %}{{ x }}{{ x }}{% endmacro %}{% set ns = namespace(x='ab') %}"
        + DOUBLING
        + "m(ns.x) %}{% endfor %}",
        "{% set ns = namespace(l=[]) %}{% for a in range(99999) %}{% set ns.l = ns.l + ['x' * 99999 ~ a] %}"
        "{% endfor %}",
    ],
    "shared values": [
        NEST + DOUBLING + "[ns.x, ns.x] %}{% endfor %}{{ ns.x }}",
        NEST + DOUBLING + "(ns.x, ns.x) %}{% endfor %}{{ {ns.x: 1} }}",
        NEST + DOUBLING + "[ns.x, ns.x] %}{% set ns.y = [ns.y, ns.y] %}{% endfor %}{{ ns.x == ns.y }}",
        NEST + DOUBLING + "{'a': ns.x, 'b': ns.x} %}{% endfor %}{{ ns.x | tojson }}",
        NEST + DOUBLING + "dict(a=ns.x, b=ns.x) %}{% endfor %}{{ ns.x | string }}",
        NEST + DOUBLING + "[ns.x] * 2 %}{% endfor %}{{ ns.x | pprint }}",
        NEST + DOUBLING + "[ns.x] | batch(2, ns.x) | list %}{% endfor %}{{ '' ~ ns.x }}",
        "{{ " + "[" * 60 + "1" + "] * 9" * 60 + " }}",
    ],
    "recursion": [
        "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}",
        "{% for x in [1] recursive %}{% if loop.depth < 60 %}{{ loop([1, 1]) }}{% endif %}{% endfor %}",
        "{% for x in range(99999) if x == 0 recursive %}{% if loop.depth < 60 %}{{ loop(range(99999)) }}"
        "{{ loop(range(99999)) }}{% endif %}{% endfor %}",
        "{% block b %}{{ self.b() }}{{ self.b() }}{% endblock %}",
        "{% macro m() %}{{ caller() }}{{ caller() }}{% endmacro %}"
        + "{% call m() %}" * 40
        + "x"
        + "{% endcall %}" * 40,
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
    ],
    "one operation": [
        "{{ 10 ** (10 ** 10) }}",
        "{{ 'x' * 10 ** 10 }}",
        "{{ ('f' * 9000000) | int(0, 16) // (('e' * 4000000) | int(0, 16)) }}",
        "{{ 1.5 | round(10 ** 9, 'ceil') }}",
        "{{ (1).to_bytes(10 ** 10, 'big') }}",
        "{{ '%*d' % (10 ** 9, 1) }}",
        "{{ '%.*f' | format(10 ** 9, 1.5) }}",
        "{{ '%(a(b))999999999d' % {'a(b)': 1} }}",
        "{{ '%5%%*d' | format(10 ** 9, 1) }}",
        "{{ '{:{}}'.format(1, 10 ** 9) }}",
        "{{ '{:>{w}}'.format_map({'w': '999999999'}) }}",
        "{{ '{:٩٩٩٩٩٩٩٩٩}'.format(1) }}",
        "{{ ('%99999d' * 9999) % ((1,) * 9999) }}",
        "{{ ('%s' * 99999) % (('x' * 99999,) * 99999) }}",
    ],
    "filters": [
        "{{ ('x' * 9000000) | replace('x', 'y' * 9000000) }}",
        "{{ ('x' * 900000) | join('y' * 900000) }}",
        "{{ range(99999) | map('string') | join('y' * 900000) }}",
        "{{ ('x\n' * 999999) | indent(999999) }}",
        "{{ ('x' * 9000000) | wordwrap(1) }}",
        "{{ ('x ' * 900000) | wordwrap(1, wrapstring='y' * 99999) }}",
        "{{ [1] | batch(10 ** 12, 'x') | list }}",
        "{{ [1] | slice(10 ** 12) | list }}",
        "{{ ('<!---->' * 900000) | striptags }}",
        "{{ ('a@' * 500000) | urlize }}",
        "{{ ('x' * 9000000) | sort | length }}",
        "{{ ('x' * 9000000) | map('upper') | map('lower') | list | length }}",
        "{% set l = ('x' * 999999) | batch(1) | list %}{{ l | sum(start=[]) | length }}",
        "{{ range(99999) | map(attribute='" + "real." * 2000 + "real') | list }}",
    ],
    "methods": [
        "{{ ('x' * 9000000).replace('', 'y' * 9000000) }}",
        "{{ ('y' * 900000).join('x' * 900000) }}",
        "{{ ('\t' * 999999).expandtabs(999999) }}",
        "{{ ('x' * 9999).translate({120: 'y' * 99999}) }}",
        "{{ ('a' * 9000000).rfind('b' ~ 'a' * 4000000) }}",
        "{{ ('a' * 9000000).strip('b' * 4000000 ~ 'a') }}",
        "{{ ('ü' * 900000).encode('punycode') }}",
        "{{ ('ü' * 900000).encode('idna') }}",
    ],
    "the text itself": [
        "{{ 1" + "~1" * 500_000 + " }}",
        "{{ [" + "1," * 500_000 + "] }}",
        "{% for a in b %}" * 19 + "{{ a }}" * 100_000 + "{% endfor %}" * 19,
        "{{ " + "9" * 1_000_000 + " }}",
        "{{ " + "[" * 900 + "]" * 900 + " | tojson(indent=99999) }}",
        "{% autoescape 10 ** (10 ** 10) %}{{ 'x' * 10 ** 10 }}{% endautoescape %}",
    ],
}
"""Each of them is refused, however it is looked at."""
