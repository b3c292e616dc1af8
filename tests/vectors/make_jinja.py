#!/usr/bin/env python3
"""Write jinja.json: what Jinja2 makes of small templates, for `the_language` of tests/engine/t_chat.c.

usage: make_jinja.py > jinja.json     (needs jinja2)

One template a construct, set up as the transformers library does it.  Kept is the output, or "!error" where rendering raises."""
import datetime, json, sys
import jinja2, jinja2.ext, jinja2.sandbox

MESSAGES = [{'role': 'system', 'content': ' Be kind. '}, {'role': 'user', 'content': 'Grüße, 1 < 2 & "x"\n\tline two\n'},
            {'role': 'assistant', 'content': '<think>\nhm\n</think>\n\nYes.'}, {'role': 'user', 'content': "It's   so, 日本 語!"}]


class Generation(jinja2.ext.Extension):
    tags = {'generation'}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(['name:endgeneration'], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method('_body'), [], [], body).set_lineno(line)

    def _body(self, caller):
        return caller()


def refuse(message):
    raise jinja2.exceptions.TemplateError(message)


def environment():
    env = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                                       extensions=[Generation, jinja2.ext.loopcontrols])
    env.filters['tojson'] = lambda x, ensure_ascii=False, indent=None, separators=None, sort_keys=False: json.dumps(
        x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
    env.globals['raise_exception'] = refuse
    env.globals['strftime_now'] = lambda f: datetime.datetime(2026, 1, 1).strftime(f)
    return env


def render(text, messages=MESSAGES, **more):
    values = dict(messages=messages, bos_token='<s>', eos_token='</s>', add_generation_prompt=True, tools=None, documents=None)
    values.update(more)
    return environment().from_string(text).render(**values)


# Expressions, one a line, each in {{ }}.  a, b, c: contents of messages; l: numbers; d: a dictionary.
EXPRESSIONS = r'''
1 + 2 * 3
7 // 2
-7 // 2
-7 % 3
7 % -3
7 / 2
2 ** 10
2 ** -1
-2 ** 2
1.5 + 1
3 * 'ab'
'ab' * 2
[1] * 3
[1] + [2]
(1, 2) + (3,)
1 + true
'a' 'b' "c"
'a' ~ 1 ~ none ~ true ~ 1.0 ~ [1, 'x']
'a' + 1
none + 1
nothing + 'a'
nothing ~ 'a'
1 - 2 - 3
8 / 2 / 2
1 ~ 2 + 3
+1
- - 1
-l[0]
1 == 1.0
1 == true
'1' == 1
'a' < 'b'
'B' < 'a'
1 < 2 < 3
1 < 3 < 2
1 < 'a'
[1, 2] < [1, 3]
none == none
nothing == none
nothing == other
1 != 2
not 1
1 in [1, 2]
3 in [1, 2]
'b' in 'abc'
'' in 'abc'
1 in 'abc'
'k' in d
'z' in d
'a' not in 'abc'
not 'a' in 'abc'
1 in nothing
nothing in [1]
none in [none]
true and 0
0 and x.y
0 or 'x'
'' or none
not none
not (1 and 0)
1 or x.y
true and not false
1 if 0
1 if 0 else 2
(1 if 1 else 2) + 1
1 if true else 2 if true else 3
'x' if nothing else 'y'
nothing
nothing is defined
nothing is undefined
nothing.x
nothing.x is defined
nothing[0]
a.x
a.x is defined
a.x.y
none.x
none.x.y
1 .x
l.x is defined
l[9]
l[9] is defined
l[0]
l[-1]
l[-4]
l[1:]
l[:-1]
l[::2]
l[::-1]
l[5:]
l[-2:]
l[1:2]
l[:100]
l[2:0:-1]
l[::-2]
a[0]
a[-1]
a[1:4]
b[1:4]
b[2]
c[::-1]
b[-3:]
''[0]
''[0:1]
b[5:2]
l['0']
d['k']
d.k
d['z']
d.z
d[1]
d.items
d['items']
d.get
{'a': 1, 'b': [1, 2.5, none, true, 'x']}
{}
[]
()
(1,)
(1, 2)
[1, [2, 'it''s']]
["it's"]
['say "x"']
['both \' and "']
['\n\t\\ é 日']
{1: 2, none: 3}
{'a': {'b': {}}}
1.0
100000000000000000.0
1e16
1.5e-7
0.1
123456.789
1e3
1_000
0.1 + 0.2
3.0 * 2
a | upper
a | lower
a | title
a | capitalize
'HELLO wORLD' | capitalize
"it's a test" | title
a | trim
a.strip()
a | length
b | length
l | length
d | length
nothing | length
none | length
1 | length
a | trim | length
'xxaxx'.strip('x')
'xxaxx'.lstrip('x')
'xyaxy'.rstrip('yx')
'  a '.lstrip()
'  a '.rstrip()
'abc' | trim('a')
'\n a \n'.strip('\n')
'  '.strip()
'\u3000a\u00a0'.strip()
'a,b,,c'.split(',')
'a,b,c'.split(',', 1)
' a  b c '.split()
' a  b c '.split(none, 1)
'a b'.split(' ')
'abc'.split('')
'a,b,c'.rsplit(',', 1)
' a b c '.rsplit(none, 1)
'a b c'.rsplit()
''.split()
''.split(',')
'aXbXc'.split('X')[-1]
'a\nb\r\nc'.splitlines()
'abc'.startswith('ab')
'abc'.endswith(('x', 'c'))
'abc'.startswith(1)
'abc'.find('c')
'abc'.find('z')
'日本'.find('本')
'abcb'.rfind('b')
'abc'.index('b')
'abc'.index('z')
'banana'.count('an')
'abc'.count('')
'a-b'.replace('-', '+')
'aaa'.replace('a', 'b', 2)
'abc'.replace('', '-')
'日本'.replace('', '-')
'abc'.removeprefix('a')
'abc'.removesuffix('c')
'abc'.isdigit()
'12'.isdigit()
'ab'.isalpha()
'a1'.isalnum()
' '.isspace()
'ab'.islower()
'AB'.isupper()
'abc'.nothing
'abc'.nothing()
'-'.join(['a', 'b'])
'-'.join([1])
''.join('abc')
['a', 1, none] | join('-')
l | join
l | join(', ')
messages | join(attribute='role')
d | join('+')
'abc' | join('.')
nothing | join
'%s is %d' | format('x', 3)
'%s' % 'a'
'%s and %s' % ('a', 1)
'%5.2f' % 3.14159
'%03d' % 7
'%x' % 255
'%%' | format
'%s' % (1, 2)
'%s %s' % 'a'
'%r' % 'a'
'%d' % 'a'
'{} {}'.format(1, 'a')
'{0}{1}{0}'.format('a', 'b')
'{a}'.format(a=1)
'{{}}'.format()
'{'.format()
d | items | list
d | list
d.items() | list
d.keys() | list
d.values() | list
d.get('k')
d.get('z')
d.get('z', 5)
d | dictsort
d | dictsort(reverse=true)
d | dictsort(by='value')
nothing | items | list
{'b': 1, 'A': 2} | dictsort
dict(a=1, b=2)
dict({'a': 1}, b=2)
d.copy() == d
d.update({})
d.pop('k')
l.append(1)
l.pop()
d.setdefault('a', 1)
l | first
l | last
[] | first
'abc' | first
'abc' | last
l | reverse | list
'abc' | reverse
l | sort
l | sort(reverse=true)
['b', 'A', 'c'] | sort
['b', 'A', 'c'] | sort(case_sensitive=true)
messages | sort(attribute='role') | map(attribute='role') | list
[1, 'a'] | sort
[1, 1, 2] | unique | list
['a', 'A', 'b'] | unique | list
l | min
l | max
[] | min
['b', 'A'] | min
l | sum
[1.5, 2] | sum
messages | map(attribute='role') | unique | list
['a'] | sum
messages | map(attribute='role') | list
messages | map(attribute='x', default='-') | list
messages | map(attribute='content') | map('trim') | map('length') | list
['a', 'b'] | map('upper') | list
[[1, 2], [3]] | map('first') | list
[1, 2] | map('wonderful') | list
messages | selectattr('role', 'equalto', 'user') | list | length
messages | selectattr('role', '==', 'user') | map(attribute='role') | list
messages | rejectattr('role', 'in', ['user', 'system']) | map(attribute='role') | list
messages | selectattr('x') | list
messages | selectattr('x', 'defined') | list
[1, 2, 3, 4] | select('even') | list
[1, 2, 3, 4] | reject('odd') | list
[0, 1, none] | select | list
[1, 2] | select('wonderful') | list
messages | selectattr('content', 'string') | list | length
nothing | default('x')
'' | default('x')
'' | default('x', true)
none | default('x')
none | d('x')
none | default('x', boolean=true)
nothing | default
a.x | default(1)
'12' | int
'x' | int
'x' | int(5)
'1.9' | int
1.9 | int
-1.9 | int
none | int
true | int
' 7 ' | int
'1.5' | float
'x' | float
3 | float
3 | string
[1] | string
-3 | abs
2.5 | round
3.5 | round
2.567 | round(2)
2.1 | round(method='ceil')
2.9 | round(0, 'floor')
'a\nb\n\nc' | indent
'a\nb' | indent(2)
'a\nb' | indent(2, true)
'a\n\nb' | indent(2, blank=true)
'a\nb' | indent('> ')
'a\nb' | indent(width=1, first=true)
'one two three four' | truncate(10)
'one two three four' | truncate(10, true)
'one two' | truncate(10)
'one two three four' | truncate(10, false, '…')
'a b  c' | wordcount
l | batch(2) | list
l | batch(2, 'x') | list
messages | groupby('role') | map('first') | list
l | list
'abc' | list
{'a': 1} | list
'<a> & "b"' | escape
'<a>' | e
'<a>' | safe
d | attr('items') is callable
l | count
a | tojson
b | tojson
d | tojson
d | tojson(indent=2)
[1, 2.5, none, true] | tojson
[] | tojson(indent=4)
{} | tojson(indent=4)
{'b': 1, 'a': [1, {'c': []}]} | tojson(indent=4)
{'b': 1, 'a': 2} | tojson(sort_keys=true)
{'b': 1, 'a': 2} | tojson(separators=(',', ':'))
c | tojson(ensure_ascii=true)
'😀' | tojson(ensure_ascii=true)
nothing | tojson
{1: 2, none: 3, true: 4} | tojson
'\x7f\x1f/' | tojson
messages | tojson
messages[0] | tojson(indent=1)
1 is number
1.0 is number
true is number
'a' is number
1 is integer
true is integer
1.0 is float
'a' is string
1 is string
d is mapping
l is mapping
l is sequence
'a' is sequence
1 is sequence
d is iterable
1 is iterable
nothing is iterable
none is none
nothing is none
true is boolean
1 is boolean
1 is true
true is true
false is false
0 is false
2 is even
3 is odd
6 is divisibleby 3
6 is divisibleby(4)
1 is eq 1
1 is ne 2
1 is lt 2
2 is ge 2
1 is in [1, 2]
'a' is lower
'A' is upper
'1' is upper
range is callable
a is callable
none is sameas none
1 is not string
not 1 is string
'trim' is filter
'x' is filter
'even' is test
range(3) | list
range(1, 4) | list
range(5, 0, -2) | list
range(0) | list
range(3) | join
strftime_now('%Y-%m-%d')
strftime_now('%d %b %Y, %A %B %-d %H:%M:%S %p %j %y %%')
namespace(a=1).a
namespace({'a': 2}).a
namespace(a=1).b is defined
raise_exception('no')
bos_token ~ eos_token
add_generation_prompt
tools is none
tools
documents is none
enable_thinking is defined
messages[0].role
messages[0]['role']
messages[-1].content
messages[0].content.strip().split(' ')[0]
messages | length
messages[1:] | length
messages | last
messages[0].get('role')
messages[0].items() | list
messages[0]
messages[2].content.split('</think>')[-1].lstrip('\n')
(messages|first)['role']
messages[0].tool_calls
messages[0].tool_calls is defined
'tool_calls' in messages[0]
messages[9]
messages[9].role
messages['role']
'\x41\u00e9\U0001F600\101\e\a'
"\"'"
'\''
"a" "b" ~ 'c'
1 .__class__
''.__class__.__mro__
messages.__class__
[].__init__
''['__class__']
a | attr('__class__')
l | map('string') | join(',')
[3, 1, 2] | sort | join
(l|length) > 2
l | length > 2
l | first + 1
'a' if l | length > 2 else 'b'
not l | length
-l | first
2 * l | length
l | join('-') | upper
1 if l is defined and l | length else 0
nothing is defined and nothing.x
d.k.x.y is defined
'''

# Whole templates.
TEMPLATES = [
    "", "\n", "a\n", "a\n\n", "a\r\nb\r\n", "{{ 'a' }}\n", "{# x #}\n", "a{# x #}\nb", "  {# x #}  \nb", "a {#- x -#} b", "{#-#}a", "a{#- x #}\n b",
    "  {% if true %}\n  a\n  {% endif %}\n  b", "x  {% if true %}\n  a\n  {% endif %}  \n  b", "  {%+ if true %}\n  a\n  {%+ endif %}\n  b",
    "  {%- if true -%}\n  a\n  {%- endif -%}\n  b", "{% if true +%}\n  a\n{% endif +%}\nb", "  {{ 'a' }}  \n  {{- 'b' -}}  \n c", "{{ 'a' -}}\n\n b",
    "a\n\n{% if true %}\n\nb\n\n{% endif %}\n\nc", "{% if true %}a{% endif %}\n{% if true %}b{% endif %}", "a {%- if true %} b {% endif -%} c", "\u3000{%- if true %}a{% endif %}",
    "{% raw %}{{ a }}{% if %}{% endraw %}", "{% raw -%}  a  {%- endraw %}\nb", "  {% raw %}\n a {% endraw %}\n b", "{%- raw %} x {% endraw -%} y", "{% raw %}a", "{{ '{{' }}{{ '%}' }}{{ {'a': {'b': 1}} }}",
    "{% if 0 %}a{% elif 1 %}b{% else %}c{% endif %}", "{% if 0 %}a{% elif 0 %}b{% else %}c{% endif %}", "{% if a %}a{% endif %}", "{% if (1, 2) %}a{% endif %}", "{% if 1 %}",
    "{% for m in messages %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.depth }};{% endfor %}",
    "{% for m in messages %}{{ loop.previtem.role if loop.previtem is defined }}>{{ m.role }}>{{ loop.nextitem.role if not loop.last }};{% endfor %}",
    "{% for m in messages %}{{ loop.cycle('a', 'b', 'c') }}{% endfor %}", "{% for m in messages %}{% if loop.changed(m.role) %}{{ m.role }}{% endif %}{% endfor %}",
    "{% for m in messages if m.role == 'user' %}{{ loop.index }}/{{ loop.length }} {% endfor %}", "{% for x in [] %}a{% else %}none{% endfor %}", "{% for x in nothing %}a{% else %}none{% endfor %}",
    "{% for x in [1, 2, 3, 4] %}{% if x == 2 %}{% continue %}{% endif %}{% if x == 4 %}{% break %}{% endif %}{{ x }}{% endfor %}", "{% for x in [1] %}{% for y in [1, 2] %}{% break %}{% endfor %}b{% endfor %}",
    "{% for k, v in {'a': 1, 'b': 2}.items() %}{{ k }}={{ v }};{% endfor %}", "{% for k in {'a': 1, 'b': 2} %}{{ k }}{% endfor %}", "{% for c in 'a日c' %}{{ c }}.{% endfor %}", "{% for a, b in [[1, 2], [3]] %}{{ a }}{% endfor %}",
    "{% for (a, b) in [[1, 2]] %}{{ a }}{{ b }}{% endfor %}", "{% for x in 5 %}{% endfor %}", "{% for x in none %}{% endfor %}", "{% for x in 1, 2, 3 %}{{ x }}{% endfor %}", "{% for i in range(3) %}{% for j in range(2) %}{{ loop.depth0 }}{{ loop.index }}{% endfor %}{% endfor %}",
    "{% for x in [1, [2, [3]]] recursive %}{% if x is iterable %}({{ loop(x) }}){% else %}{{ x }}@{{ loop.depth }}{% endif %}{% endfor %}", "{% for x in [1] %}{{ loop([1]) }}{% endfor %}",
    "{% set x = 1 %}{% for i in [1, 2] %}{% set x = x + i %}{{ x }}{% endfor %}{{ x }}", "{% set x = 1 %}{% if true %}{% set x = 2 %}{% endif %}{{ x }}", "{% for i in [1] %}{% set y = 1 %}{% endfor %}{{ y is defined }}",
    "{% set ns = namespace(x=1) %}{% for i in [1, 2] %}{% set ns.x = ns.x + i %}{% endfor %}{{ ns.x }}", "{% set ns = namespace() %}{% set ns.a = 1 %}{{ ns.a }}{{ ns.b }}", "{% set d = {} %}{% set d.a = 1 %}", "{% set a, b = 1, 2 %}{{ a }}{{ b }}", "{% set a, b = [1] %}",
    "{% set x %} a {{ 1 }} {% endset %}[{{ x }}]", "{% set x | trim | upper %} a {% endset %}[{{ x }}]", "{% set x %}{% set y = 1 %}{% endset %}{{ y is defined }}", "{% set x = 1, 2 %}{{ x }}",
    "{% macro f(a, b=2) %}{{ a }}-{{ b }};{% endmacro %}{{ f(1) }}{{ f(1, 3) }}{{ f(b=1, a=2) }}{{ f() }}", "{% macro f(a) %}{{ a is defined }}{% endmacro %}{{ f() }}{{ f(1) }}", "{% macro f(a) %}{% endmacro %}{{ f(1, 2) }}", "{% macro f(a) %}{% endmacro %}{{ f(b=1) }}",
    "{% macro f() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ f(1, 2, a=3) }}", "{% macro f(x) %}{% if x %}{{ x }}{{ f(x - 1) }}{% endif %}{% endmacro %}{{ f(3) }}", "{% set g = 1 %}{% macro f() %}{{ g }}{% endmacro %}{% set g = 2 %}{{ f() }}",
    "{% macro f() %}{% set q = 1 %}{% endmacro %}{{ f() }}{{ q is defined }}", "{% macro f() %}  a  {% endmacro %}{{ f() | trim }}|{{ f() ~ 'b' }}", "{% macro f(a, b=a) %}{{ b }}{% endmacro %}{{ f(5) }}", "{% macro f(a=1, b) %}{% endmacro %}",
    "{% macro f(a) %}[{{ caller(a) }}]{% endmacro %}{% call(x) f(3) %}<{{ x }}>{% endcall %}", "{% macro f() %}{{ caller() }}{% endmacro %}{% call f() %}a{% endcall %}", "{% macro f() %}{{ caller is defined }}{% endmacro %}{{ f() }}", "{% set f = 1 %}{{ f() }}",
    "{% filter upper %}a{{ 'b' }}{% endfilter %}", "{% filter replace('a', 'b') | upper %}aXa{% endfilter %}", "{% filter trim %} {% set q = 1 %}a {% endfilter %}{{ q is defined }}", "{% with a = 1, b = 2 %}{{ a + b }}{% endwith %}{{ a is defined }}", "{% set a = 5 %}{% with a = 1, b = a %}{{ b }}{% endwith %}", "{% with %}{% set q = 1 %}{{ q }}{% endwith %}{{ q is defined }}",
    "{% generation %}a{{ 1 }}\n{% endgeneration %}\nb", "  {% generation %}\n  a\n  {% endgeneration %}\n", "{%- generation -%} a {%- endgeneration -%} b", "{% for m in messages %}{% generation %}{{ m.role }}{% endgeneration %}{% endfor %}",
    "{% include 'a' %}", "{% extends 'a' %}", "{% import 'a' as b %}", "{% do 1 %}", "{% wonderful %}", "{{ 1 | wonderful }}", "{% if false %}{{ 1 | wonderful }}{% endif %}a", "{{ 1 is wonderful }}", "{{", "{{ }}", "{% %}", "{% if %}a{% endif %}", "{{ 1 +}}", "{{ (1 }}", "{{ 'a }}", "{% for %}{% endfor %}", "{% endif %}", "{{ a b }}", "{% set = 1 %}", "{{ 1 ? 2 }}", "{% else %}",
    "{{ f(**{'a': 1}) }}", "{{ dict(**{'a': 1}) }}", "{{ '{}{}'.format(*[1, 2]) }}", "{{ range(*[1, 3]) | list }}", "{% macro f(a, b) %}{{ a }}{{ b }}{% endmacro %}{{ f(*[1], **{'b': 2}) }}", "{{ l[0,] }}", "{{ [1, 2,] }}{{ {'a': 1,} }}{{ (1, 2,) }}",
    "{{ messages[0]\n  .content\n  | trim }}", "{{\n  'a'\n}}", "{% set x = [\n 1,\n 2\n] %}{{ x }}", "{{ messages.0.role }}", "{{ {'a': [1, 2]}.a.1 }}", "{{ 'a' if true }}{{ 'b' if false }}c", "{{ none }}{{ true }}{{ None }}{{ True }}", "{{- '' }}\n a", "a{{ '' -}}\n b",
    "{% for m in messages %}\n    {%- if m.role == 'user' %}\n        {{- 'U: ' + m.content | trim + '\\n' }}\n    {%- elif m.role == 'assistant' -%}\n        A: {{ m.content }}\n    {%- endif %}\n{%- endfor %}\n",
    "{% set ns = namespace(found=false) %}{% for m in messages[::-1] %}{% if not ns.found and m.role == 'user' %}{% set ns.found = true %}{{ (messages | length) - loop.index }}{% endif %}{% endfor %}",
    "{% set x = messages | selectattr('role', 'equalto', 'user') | map(attribute='content') | map('trim') | join(' / ') %}{{ x }}", "{{ messages | map(attribute='role') | join(',') | replace('user', 'U') }}",
    "{% if not messages is defined %}a{% endif %}b", "{% if messages[0].role == 'system' and messages[0].content is string and messages[0].content | trim %}s{% endif %}", "{% set content = messages[0]['content'] if messages[0]['role'] == 'system' else '' %}[{{ content }}]",
    "{%- macro strip_think(text) -%}{%- set ns = namespace(t='') -%}{%- for part in text.split('</think>') -%}{%- if '<think>' in part -%}{%- set ns.t = ns.t + part.split('<think>')[0] -%}{%- else -%}{%- set ns.t = ns.t + part -%}{%- endif -%}{%- endfor -%}{{- ns.t | trim -}}{%- endmacro -%}{{ strip_think(messages[2].content) }}",
]


def main():
    cases = []
    head = ("{% set a = messages[0].content %}{% set b = messages[1].content %}{% set c = messages[3].content %}{% set l = [3, 1, 2] %}"
            "{% set d = {'k': 'v', 'b': 1} %}")
    for e in EXPRESSIONS.strip().split('\n'):
        cases.append(head + '{{ ' + e + ' }}')
    cases += TEMPLATES
    out, seen = [], set()
    for text in cases:
        if text in seen:
            continue
        seen.add(text)
        try:
            got = render(text)
        except Exception:
            got = '!error'
        if ' at 0x' not in got:
            out.append([text, got])
    json.dump({'messages': MESSAGES, 'cases': out}, sys.stdout, ensure_ascii=False, indent=0, separators=(',', ':'))
    print()


if __name__ == '__main__':
    main()
