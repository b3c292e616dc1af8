#!/usr/bin/env python3
"""Write chat.json: what Jinja2 makes of chat templates, for tests/engine/t_chat.c.

usage: make_chat.py CHAT_TEMPLATES_FOLDER > chat.json     (needs jinja2; the folder is ../shared/data/chat-templates)

Every template renders the same conversations, which are full of white space, thoughts, markers and odd role orders.
Kept is the 64-bit FNV-1a hash of each rendering, or "E" where the template raises.  Templates of the folder are
named, templates written out below travel in the file.  "variants" are small changes of templates: also render as Jinja2 does."""
import datetime, glob, json, os, random, re, sys
import jinja2.exceptions, jinja2.ext, jinja2.sandbox

EXTRA = {
    'llama2':
        "{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}"
        "{% set system_message = messages[0]['content'] %}{% else %}{% set loop_messages = messages %}"
        '{% set system_message = false %}{% endif %}{% for message in loop_messages %}'
        "{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
        "{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif"
        ' %}{% if loop.index0 == 0 and system_message != false %}'
        "{% set content = '<<SYS>>\\n' + system_message + '\\n<</SYS>>\\n\\n' + message['content'] %}{% else %}"
        "{% set content = message['content'] %}{% endif %}{% if message['role'] == 'user' %}"
        "{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}{% elif message['role'] == 'assistant' %}"
        "{{ ' '  + content.strip() + ' ' + eos_token }}{% endif %}{% endfor %}",
    'mistral-v0.1':
        '{{ bos_token }}{% for message in messages %}'
        "{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
        "{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif"
        " %}{% if message['role'] == 'user' %}"
        "{{ '[INST] ' + message['content'] + ' [/INST]' }}{% elif message['role'] == 'assistant' %}"
        "{{ message['content'] + eos_token + ' ' }}{% else %}"
        "{{ raise_exception('Only user and assistant roles are supported!') }}{% endif %}{% endfor %}",
    'zephyr':
        '{% for message in messages %}\n'
        "{% if message['role'] == 'user' %}\n"
        "{{ '<|user|>\n"
        "' + message['content'] + eos_token }}\n"
        "{% elif message['role'] == 'system' %}\n"
        "{{ '<|system|>\n"
        "' + message['content'] + eos_token }}\n"
        "{% elif message['role'] == 'assistant' %}\n"
        "{{ '<|assistant|>\n"
        "'  + message['content'] + eos_token }}\n"
        '{% endif %}\n'
        '{% if loop.last and add_generation_prompt %}\n'
        "{{ '<|assistant|>' }}\n"
        '{% endif %}\n'
        '{% endfor %}',
    'gemma3':
        '{{ bos_token }}\n'
        "{%- if messages[0]['role'] == 'system' -%}\n"
        "    {%- if messages[0]['content'] is string -%}\n"
        "        {%- set first_user_prefix = messages[0]['content'] + '\n"
        '\n'
        "' -%}\n"
        '    {%- else -%}\n'
        "        {%- set first_user_prefix = messages[0]['content'][0]['text'] + '\n"
        '\n'
        "' -%}\n"
        '    {%- endif -%}\n'
        '    {%- set loop_messages = messages[1:] -%}\n'
        '{%- else -%}\n'
        '    {%- set first_user_prefix = "" -%}\n'
        '    {%- set loop_messages = messages -%}\n'
        '{%- endif -%}\n'
        '{%- for message in loop_messages -%}\n'
        "    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) -%}\n"
        '        {{ raise_exception("Conversation roles must alternate user/assistant/user/assistant/...") }}'
        '\n'
        '    {%- endif -%}\n'
        "    {%- if (message['role'] == 'assistant') -%}\n"
        '        {%- set role = "model" -%}\n'
        '    {%- else -%}\n'
        "        {%- set role = message['role'] -%}\n"
        '    {%- endif -%}\n'
        "    {{ '<start_of_turn>' + role + '\n"
        '\' + (first_user_prefix if loop.first else "") }}\n'
        "    {%- if message['content'] is string -%}\n"
        "        {{ message['content'] | trim }}\n"
        "    {%- elif message['content'] is iterable -%}\n"
        "        {%- for item in message['content'] -%}\n"
        "            {%- if item['type'] == 'image' -%}\n"
        "                {{ '<start_of_image>' }}\n"
        "            {%- elif item['type'] == 'text' -%}\n"
        "                {{ item['text'] | trim }}\n"
        '            {%- endif -%}\n'
        '        {%- endfor -%}\n'
        '    {%- else -%}\n'
        '        {{ raise_exception("Invalid content type") }}\n'
        '    {%- endif -%}\n'
        "    {{ '<end_of_turn>\n"
        "' }}\n"
        '{%- endfor -%}\n'
        '{%- if add_generation_prompt -%}\n'
        "    {{'<start_of_turn>model\n"
        "'}}\n"
        '{%- endif -%}\n',
    'llama3':
        '{% set loop_messages = messages %}{% for message in loop_messages %}'
        "{% set content = '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n"
        '\n'
        "'+ message['content'] | trim + '<|eot_id|>' %}{% if loop.index0 == 0 %}"
        '{% set content = bos_token + content %}{% endif %}{{ content }}{% endfor %}'
        "{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n"
        '\n'
        "' }}{% endif %}",
    'phi3':
        "{% for message in messages %}{% if message['role'] == 'system' %}{{'<|system|>\n"
        "' + message['content'] + '<|end|>\n"
        "'}}{% elif message['role'] == 'user' %}{{'<|user|>\n"
        "' + message['content'] + '<|end|>\n"
        "'}}{% elif message['role'] == 'assistant' %}{{'<|assistant|>\n"
        "' + message['content'] + '<|end|>\n"
        "'}}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\n"
        "' }}{% else %}{{ eos_token }}{% endif %}",
    'phi4-mini':
        '{% for message in messages %}'
        "{% if message['role'] == 'system' and 'tools' in message and message['tools'] is not none %}"
        "{{ '<|' + message['role'] + '|>' + message['content'] + '<|tool|>' + message['tools'] + '<|/tool|>' "
        "+ '<|end|>' }}{% else %}"
        "{{ '<|' + message['role'] + '|>' + message['content'] + '<|end|>' }}{% endif %}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% else %}{{ eos_token }}{% endif %}",
    'phi4':
        "{% for message in messages %}{% if (message['role'] == 'system') %}"
        "{{'<|im_start|>system<|im_sep|>' + message['content'] + '<|im_end|>'}}{% elif (message['role'] == 'u"
        "ser') %}{{'<|im_start|>user<|im_sep|>' + message['content'] + '<|im_end|>'}}{% elif (message['role']"
        " == 'assistant') %}{{'<|im_start|>assistant<|im_sep|>' + message['content'] + '<|im_end|>'}}{% endif"
        " %}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant<|im_sep|>' }}{% endif %}",
    'hermes':
        "{{bos_token}}{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n"
        "' + message['content'] + '<|im_end|>' + '\n"
        "'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n"
        "' }}{% endif %}",
    'yi':
        '{% if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}{% endif %}'
        "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n"
        "' + message['content'] + '<|im_end|>' + '\n"
        "'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n"
        "' }}{% endif %}",
    'qwen1.5':
        "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
        "{{ '<|im_start|>system\n"
        'You are a helpful assistant.<|im_end|>\n'
        "' }}{% endif %}{{'<|im_start|>' + message['role'] + '\n"
        "' + message['content'] + '<|im_end|>' + '\n"
        "'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n"
        "' }}{% endif %}",
    'smollm2':
        "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
        "{{ '<|im_start|>system\n"
        'You are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n'
        "' }}{% endif %}{{'<|im_start|>' + message['role'] + '\n"
        "' + message['content'] + '<|im_end|>' + '\n"
        "'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n"
        "' }}{% endif %}",
    'deepseek-v3':
        '{% if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}{% endif %}'
        "{% set ns = namespace(is_first=false, is_tool=false, is_output_first=true, system_prompt='', is_firs"
        "t_sp=true) %}{%- for message in messages %}{%- if message['role'] == 'system' %}"
        "{%- if ns.is_first_sp %}{% set ns.system_prompt = ns.system_prompt + message['content'] %}"
        "{% set ns.is_first_sp = false %}{%- else %}{% set ns.system_prompt = ns.system_prompt + '\n"
        '\n'
        "' + message['content'] %}{%- endif %}{%- endif %}{%- endfor %}"
        '{{ bos_token }}{{ ns.system_prompt }}{%- for message in messages %}'
        "{%- if message['role'] == 'user' %}{%- set ns.is_tool = false -%}"
        "{{'<｜User｜>' + message['content']}}{%- endif %}"
        "{%- if message['role'] == 'assistant' and 'tool_calls' in message %}{%- set ns.is_tool = false -%}"
        "{{'x'}}{%- endif %}{%- if message['role'] == 'assistant' and 'tool_calls' not in message %}"
        "{%- if ns.is_tool %}{{'<｜tool▁outputs▁end｜>' + message['content'] + '<｜end▁of▁sentence｜>'}}{%- set n"
        "s.is_tool = false -%}{%- else %}{% set content = message['content'] %}{% if '</think>' in content %}"
        "{% set content = content.split('</think>')[-1] %}{% endif %}"
        "{{'<｜Assistant｜>' + content + '<｜end▁of▁sentence｜>'}}{%- endif %}{%- endif %}{%- endfor -%}"
        "{% if ns.is_tool %}{{'<｜tool▁outputs▁end｜>'}}{% endif %}"
        "{% if add_generation_prompt and not ns.is_tool %}{{'<｜Assistant｜><think>\\n'}}{% endif %}",
    'deepseek-v3-old':
        '{% if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}{% endif %}'
        "{% set ns = namespace(is_first=false, is_tool=false, is_output_first=true, system_prompt='') %}"
        "{%- for message in messages %}{%- if message['role'] == 'system' %}"
        "{% set ns.system_prompt = message['content'] %}{%- endif %}{%- endfor %}"
        "{{bos_token}}{{ns.system_prompt}}{%- for message in messages %}{%- if message['role'] == 'user' %}"
        "{%- set ns.is_tool = false -%}{{'<｜User｜>' + message['content']}}{%- endif %}"
        "{%- if message['role'] == 'assistant' and message['content'] is not none %}{%- if ns.is_tool %}"
        "{{'<｜tool▁outputs▁end｜>' + message['content'] + '<｜end▁of▁sentence｜>'}}{%- set ns.is_tool = false -%"
        "}{%- else %}{{'<｜Assistant｜>' + message['content'] + '<｜end▁of▁sentence｜>'}}{%- endif %}{%- endif %}"
        "{%- endfor -%}{% if ns.is_tool %}{{'<｜tool▁outputs▁end｜>'}}{% endif %}"
        "{% if add_generation_prompt and not ns.is_tool %}{{'<｜Assistant｜>'}}{% endif %}",
    'exaone3':
        "{% for message in messages %}{% if loop.first and message['role'] != 'system' %}"
        "{{ '[|system|][|endofturn|]\n"
        "' }}{% endif %}{{ '[|' + message['role'] + '|]' + message['content'] }}{% if message['role'] == 'use"
        "r' %}{{ '\n"
        "' }}{% else %}{{ '[|endofturn|]\n"
        "' }}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '[|assistant|]' }}{% endif %}",
    'olmo2':
        "{{ bos_token }}{% for message in messages %}{% if message['role'] == 'system' %}{{ '<|system|>\n"
        "' + message['content'] + '\n"
        "' }}{% elif message['role'] == 'user' %}{{ '<|user|>\n"
        "' + message['content'] + '\n"
        "' }}{% elif message['role'] == 'assistant' %}{% if not loop.last %}{{ '<|assistant|>\n"
        "'  + message['content'] + eos_token + '\n"
        "' }}{% else %}{{ '<|assistant|>\n"
        "'  + message['content'] + eos_token }}{% endif %}{% endif %}"
        "{% if loop.last and add_generation_prompt %}{{ '<|assistant|>\n"
        "' }}{% endif %}{% endfor %}",
    'qwen3-2507':
        '{%- if tools %}\n'
        "    {{- '<|im_start|>system\\n' }}\n"
        '{%- else %}\n'
        "    {%- if messages[0].role == 'system' %}\n"
        "        {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}\n"
        '    {%- endif %}\n'
        '{%- endif %}\n'
        '{%- for message in messages %}\n'
        '    {%- if message.content is string %}\n'
        '        {%- set content = message.content %}\n'
        '    {%- else %}\n'
        "        {%- set content = '' %}\n"
        '    {%- endif %}\n'
        '    {%- if (message.role == "user") or (message.role == "system" and not loop.first) %}\n'
        "        {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>' + '\\n' }}\n"
        '    {%- elif message.role == "assistant" %}\n'
        "        {{- '<|im_start|>' + message.role + '\\n' + content }}\n"
        '        {%- if message.tool_calls %}\n'
        "            {{- 'x' }}\n"
        '        {%- endif %}\n'
        "        {{- '<|im_end|>\\n' }}\n"
        '    {%- elif message.role == "tool" %}\n'
        "        {{- 'x' }}\n"
        '    {%- endif %}\n'
        '{%- endfor %}\n'
        '{%- if add_generation_prompt %}\n'
        "    {{- '<|im_start|>assistant\\n' }}\n"
        '{%- endif %}\n',
    'qwen3-hf':
        '{%- if tools %}\n'
        "    {{- '<|im_start|>system\\n' }}\n"
        '{%- else %}\n'
        "    {%- if messages[0].role == 'system' %}\n"
        "        {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}\n"
        '    {%- endif %}\n'
        '{%- endif %}\n'
        '{%- set ns = namespace(multi_step_tool=true, last_query_index=messages|length - 1) %}\n'
        '{%- for message in messages[::-1] %}\n'
        '    {%- set index = (messages|length - 1) - loop.index0 %}\n'
        '    {%- if ns.multi_step_tool and message.role == "user" and message.content is string and not(messa'
        "ge.content.startswith('<tool_response>') and message.content.endswith('</tool_response>')) %}\n"
        '        {%- set ns.multi_step_tool = false %}\n'
        '        {%- set ns.last_query_index = index %}\n'
        '    {%- endif %}\n'
        '{%- endfor %}\n'
        '{%- for message in messages %}\n'
        '    {%- if message.content is string %}\n'
        '        {%- set content = message.content %}\n'
        '    {%- else %}\n'
        "        {%- set content = '' %}\n"
        '    {%- endif %}\n'
        '    {%- if (message.role == "user") or (message.role == "system" and not loop.first) %}\n'
        "        {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>' + '\\n' }}\n"
        '    {%- elif message.role == "assistant" %}\n'
        "        {%- set reasoning_content = '' %}\n"
        '        {%- if message.reasoning_content is string %}\n'
        '            {%- set reasoning_content = message.reasoning_content %}\n'
        '        {%- else %}\n'
        "            {%- if '</think>' in content %}\n"
        "                {%- set reasoning_content = content.split('</think>')[0].rstrip('\\n').split('<think>"
        "')[-1].lstrip('\\n') %}\n"
        "                {%- set content = content.split('</think>')[-1].lstrip('\\n') %}\n"
        '            {%- endif %}\n'
        '        {%- endif %}\n'
        '        {%- if loop.index0 > ns.last_query_index %}\n'
        '            {%- if loop.last or (not loop.last and reasoning_content) %}\n'
        "                {{- '<|im_start|>' + message.role + '\\n<think>\\n' + reasoning_content.strip('\\n') + "
        "'\\n</think>\\n\\n' + content.lstrip('\\n') }}\n"
        '            {%- else %}\n'
        "                {{- '<|im_start|>' + message.role + '\\n' + content }}\n"
        '            {%- endif %}\n'
        '        {%- else %}\n'
        "            {{- '<|im_start|>' + message.role + '\\n' + content }}\n"
        '        {%- endif %}\n'
        "        {{- '<|im_end|>\\n' }}\n"
        '    {%- endif %}\n'
        '{%- endfor %}\n'
        '{%- if add_generation_prompt %}\n'
        "    {{- '<|im_start|>assistant\\n' }}\n"
        '    {%- if enable_thinking is defined and enable_thinking is false %}\n'
        "        {{- '<think>\\n\\n</think>\\n\\n' }}\n"
        '    {%- endif %}\n'
        '{%- endif %}',
}

TEXTS = ['Hello', 'Hi there', '   I am an assistant   ', '', '\n\nx\n', '  ', '<think>\nhmm\n</think>\n\nYes\n', 'abc</think>def',
         '<think>a', '<think></think>', 'a</think>b</think> c ', '2+2=4\n', '/think hi', 'do /no_think this', '<|im_end|>',
         '\u3000wide\u00a0', '<tool_response>x</tool_response>', '<channel|>q<|channel>r<channel|>s ',
         '[BEGIN FINAL RESPONSE] done ', 'x <<SYS>> y', 'Reasoning Effort: low', '<mm:think>z</mm:think>w', '\u00e9\U0001f600 \t']



class Generation(jinja2.ext.Extension):
    """{% generation %}: its body, as the transformers library renders it."""
    tags = {'generation'}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(['name:endgeneration'], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method('_body'), [], [], body).set_lineno(line)

    def _body(self, caller):
        return caller()


env = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                                   extensions=[Generation, jinja2.ext.loopcontrols])
env.filters['tojson'] = lambda x, ensure_ascii=False, indent=None: json.dumps(x, ensure_ascii=ensure_ascii, indent=indent)
env.globals['strftime_now'] = lambda f: datetime.datetime(2026, 1, 1, 12).strftime(f)


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


env.globals['raise_exception'] = raise_exception


def fnv(s):
    h = 14695981039346656037
    for b in s.encode():
        h = (h ^ b) * 1099511628211 % 2**64
    return '%016x' % h


def conversations(rng, count):
    out = []
    for k in range(count):
        n, turns = rng.randint(1, 6), []
        if rng.random() < .7:
            if rng.random() < .5:
                turns.append(['s', rng.randrange(len(TEXTS))])
            for i in range(n):
                turns.append(['ua'[i % 2], rng.randrange(len(TEXTS))])
        else:
            turns = [[rng.choice('suaua'), rng.randrange(len(TEXTS))] for i in range(n)]
        out.append({'turns': turns, 'reply': int(rng.random() < .6)})
    return out


def hashes(text, convs):
    """None where the template itself is broken."""
    role = {'s': 'system', 'u': 'user', 'a': 'assistant'}
    try:
        template = env.from_string(text)
    except Exception:
        return None
    out = []
    for c in convs:
        try:
            out.append(fnv(template.render(messages=[{'role': role[r], 'content': TEXTS[t]} for r, t in c['turns']],
                                           add_generation_prompt=bool(c['reply']), bos_token='<s>', eos_token='</s>',
                                           tools=None, documents=None)))
        except Exception:
            out.append('E')
    return out


def variant(rng, t):
    """A small change somewhere."""
    literals = [m.span() for m in re.finditer(r"'[^'\n]*'|\"[^\"\n]*\"", t)]
    tags = [m.span() for m in re.finditer(r'\{[\{%].*?[\}%]\}', t, re.S)]
    kind = rng.randrange(4)
    if kind == 0 and literals:
        a, b = rng.choice(literals)
        i = rng.randint(a + 1, b - 1)
        return t[:i] + rng.choice(['x', ' ', '\\n', '<|x|>']) + t[i:]
    if kind == 1 and tags:
        a, b = rng.choice(tags)
        return t[:a] + rng.choice(['X', ' ', '\n', '{{ bos_token }}', '{{ eos_token }}']) + t[a:]
    if kind == 2:
        swaps = [('user', 'assistant'), ('system', 'user'), ('| trim', ''), ('==', '!='), ('messages[0]', 'messages[-1]'),
                 ('.strip()', ''), ('-%}', '%}'), ('{%-', '{%'), ('{{-', '{{'), ('eos_token', 'bos_token'), ('[-1]', '[0]')]
        p, q = rng.choice([s for s in swaps if s[0] in t] or [('{', '{')])
        i = rng.choice([m.start() for m in re.finditer(re.escape(p), t)])
        return t[:i] + q + t[i + len(p):]
    return t + rng.choice(['x', '\n', '\n\n', '{{ x }}', ' '])


def main(folder):
    rng = random.Random(20260101)
    convs = conversations(rng, 24)
    named = {}
    for f in sorted(glob.glob(os.path.join(folder, 'jinja', '*.jinja'))):
        with open(f, newline='', encoding='utf-8') as h:
            r = hashes(h.read(), convs)
        if r:
            named[os.path.basename(f)] = r
    extra = [{'name': k, 'template': v, 'hash': hashes(v, convs)} for k, v in EXTRA.items()]
    variants = []
    for v in EXTRA.values():
        for k in range(6):
            t = variant(rng, v)
            r = hashes(t, convs[:8])
            if r and len(t) < 700:
                variants.append({'template': t, 'hash': r})
    json.dump({'texts': TEXTS, 'conversations': convs, 'files': named, 'templates': extra, 'variants': variants},
              sys.stdout, ensure_ascii=True, indent=0)


main(sys.argv[1])
