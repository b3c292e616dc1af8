#!/usr/bin/env python3
"""tests/measure/templates.py MODEL FOLDER... [--weir PROGRAM] - compares chat templates found in the wild with Jinja2.

Every distinct *.jinja under the folders renders six conversations, with `weir inspect chat` and with Jinja2 as
transformers configures it. The bytes must be equal; where Jinja2 refuses, weir must refuse, too (exit 3). A template that
differs is named with its first difference. The last line counts the templates. Exit 1: at least one differs. Of MODEL
only the file is needed: --chat-template replaces its template. strftime_now reads the clock, so a template that prints
the time of day may differ once at a full minute.
Two differences are wanted. Where Jinja2 writes nothing of a content that is a plain text, the content is given to Jinja2
as a list of one part, as weir does for such templates. Where an answer without reasoning is wanted from a template with
channels, weir adds the head of the channel of answers.

Measured on 201 templates that are not among llama.cpp's present ones: of axolotl 0.19.0 and trl 1.16.0 (wheels), and
every version in the history of github.com/ngxson/llama.cpp and github.com/chujiezheng/chat_templates. Measured on 603 of
August 2026: every version in the history of ikawrakow/ik_llama.cpp, google/minja, huggingface/trl,
huggingface/huggingface.js (most of its 182 are tests of an interpreter), axolotl-ai-cloud/axolotl,
contrapuntal/chat-template-patches and HarryMayne/qwen_3_chat_templates. Measured on 85 of the source packages vllm 0.5.0
to 0.33.0 and sglang 0.4.0 to 0.5.9. None of them differs. The templates are not kept here.
"""
import argparse, datetime, glob, hashlib, json, os, subprocess, sys, tempfile

import jinja2, jinja2.ext, jinja2.nodes, jinja2.sandbox

SAY = lambda role, content: {"role": role, "content": content}
HELLO, REPLY = SAY("user", "Hello, how are you?"), SAY("assistant", "I am fine, thank you!")
CHANNEL_FINAL = "<|channel|>final<|message|>"
SYSTEM = SAY("system", "You are a helpful assistant")
# name: messages, extra variables, reply wanted
CASES = {
    "one": ([HELLO], {}, True),
    "turns": ([HELLO, REPLY, SAY("user", "What is <b>2 + 2</b>, \"Zoë\"?\n")], {}, True),
    "system": ([SYSTEM, HELLO, SAY("assistant", "   padded   "), SAY("user", "Another\n\n question")], {}, True),
    "thinking on": ([SYSTEM, HELLO], {"enable_thinking": True, "thinking": True}, True),
    "thinking off": ([SYSTEM, HELLO], {"enable_thinking": False, "thinking": False}, True),
    "no reply": ([SYSTEM, HELLO, REPLY], {}, False),
}


class Generation(jinja2.ext.Extension):
    """{% generation %} ... {% endgeneration %}: marks what is trained on; it renders as its body, in a scope of its own."""
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("body"), [], [], body).set_lineno(line)

    def body(self, caller):
        return caller()


def environment():
    def refuse(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    env = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols, Generation])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = refuse
    env.globals["strftime_now"] = lambda form: datetime.datetime.now().strftime(form)
    return env


def by_jinja(env, text, messages, extra, reply):
    """Render by Jinja2. Returns the bytes and "", or None and the reason why Jinja2 refuses."""
    try:
        out = env.from_string(text).render(messages=messages, tools=None, documents=None, add_generation_prompt=reply, bos_token="<s>",
                                           eos_token="</s>", **extra)
        return out.encode(), ""
    except Exception as e:   # templates fail in every way that Python knows
        return None, f"{type(e).__name__}: {e}"


def in_parts(messages):
    return [m | {"content": [{"type": "text", "text": m["content"]}]} for m in messages]


def expected(env, text, messages, extra, reply):
    """Return the result of by_jinja() with the two differences that the head of this file describes."""
    want, why = by_jinja(env, text, messages, extra, reply)
    question = messages[-1]["content"] if reply else messages[0]["content"]
    if want is None or question.strip().encode() not in want:
        other, _ = by_jinja(env, text, in_parts(messages), extra, reply)
        if other and question.strip().encode() in other and b"'text':" not in other:
            want, why = other, ""
    if want and reply and extra.get("enable_thinking") is False and CHANNEL_FINAL in text:
        want += CHANNEL_FINAL.encode()
    return want, why


def by_weir(weir, model, path, folder, messages, extra, reply):
    talk = os.path.join(folder, "talk.json")
    with open(talk, "w") as f:
        json.dump(messages, f, ensure_ascii=False)
    command = [weir, "inspect", "chat", "-m", model, "--messages", talk, "--chat-template", path, "--bos-text", "<s>", "--eos-text", "</s>"]
    if not reply:
        command.append("--no-reply")
    if "enable_thinking" in extra:
        command += ["--thinking", "on" if extra["enable_thinking"] else "off"]
    run = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
    if run.returncode not in (0, 3):
        return None, f"exit {run.returncode}: {run.stderr.decode(errors='replace').strip()}", True
    return (run.stdout, "", False) if not run.returncode else (None, run.stderr.decode(errors="replace").strip(), False)


def difference(want, got):
    at = next((i for i, (a, b) in enumerate(zip(want, got)) if a != b), min(len(want), len(got)))
    return f"byte {at}: {want[max(0, at - 20):at + 30]!r}, here {got[max(0, at - 20):at + 30]!r}"


def main():
    parse = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parse.add_argument("model")
    parse.add_argument("folder", nargs="+")
    parse.add_argument("--weir", default="./weir")
    args = parse.parse_args()
    env, seen = environment(), set()
    count = {"templates": 0, "the same": 0, "rendered": 0, "refused by both": 0}
    with tempfile.TemporaryDirectory() as folder:
        for path in sorted(p for top in args.folder for p in glob.glob(top + "/**/*.jinja", recursive=True)):
            text = open(path, encoding="utf-8", newline="").read()
            key = hashlib.sha256(text.encode()).digest()
            if key in seen:
                continue
            seen.add(key)
            wrong = []
            for name, (messages, extra, reply) in CASES.items():
                want, why = expected(env, text, messages, extra, reply)
                got, line, broken = by_weir(os.path.abspath(args.weir), args.model, path, folder, messages, extra, reply)
                if broken or (want is None) != (got is None):
                    wrong.append(f"{name}: Jinja2 {why or 'renders it'}; here {line or 'renders it'}")
                elif want is not None and want != got:
                    wrong.append(f"{name}: {difference(want, got)}")
                else:
                    count["rendered" if want is not None else "refused by both"] += 1
            count["templates"] += 1
            count["the same"] += not wrong
            if wrong:
                print(f"{path}\n\t" + "\n\t".join(wrong), flush=True)
    print(f"{count['the same']} of {count['templates']} templates the same: {count['rendered']} conversations rendered, "
          f"{count['refused by both']} refused by both")
    return count["the same"] != count["templates"]


if __name__ == "__main__":
    sys.exit(main())
