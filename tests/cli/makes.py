"""What servers of different make send, for models.py: their lists, streams and errors in their own shapes, as their documentation and
sources show them.  The name is that of a path, as there."""
import json


def event(o):
    return b"data: " + (o if isinstance(o, str) else json.dumps(o)).encode() + b"\n\n"


def delta(finish=None, **d):
    return event({"id": "x", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": d, "finish_reason": finish}]})


DONE = event("[DONE]")
HELLO = delta(role="assistant", content="") + delta(content="Hello, ") + delta(content="world.") + delta("stop")
USAGE = event({"choices": [], "usage": {"prompt_tokens": 30, "completion_tokens": 4}})
PAGE = "<html>\r\n<head><title>%s</title></head>\r\n<body><center><h1>%s</h1></center><hr><center>nginx</center></body></html>\r\n"

LISTS = {
    "mistral": {"object": "list", "data": [{"id": "tiny", "owned_by": "mistralai", "max_context_length": 32768}]},
    "groq": {"object": "list", "data": [{"id": "tiny", "owned_by": "Meta", "active": True, "context_window": 131072}]},
    "openrouter": {"data": [{"id": "org/tiny:free", "name": "Tiny", "context_length": 40960}, {"id": "org/large"}]},
    "together": [{"id": "tiny", "object": "model", "context_length": 8192}],
    "vllmlimit": {"object": "list", "data": [{"id": "tiny", "owned_by": "vllm", "max_model_len": 400}]},
    "lmstudio": {"error": "Unexpected endpoint or method. (GET /api/models)"},
    "gemini": [{"error": {"code": 400, "message": "API key not valid. Please pass a valid API key.", "status": "INVALID_ARGUMENT"}}],
}
REFUSES_LIST = {"gemini": 400}


def page(c, status, title):
    body = (PAGE % (title, title)).encode()
    c.head(status, "text/html", "Content-Length: %d\r\n" % len(body))
    c.send(body)


def stream(c, data):
    c.head()
    c.send(data)


def vllmlimit(c, q):
    """The limit and the prompt together have to fit."""
    if q.get("max_tokens", q.get("max_completion_tokens", 0)) > 350:
        c.json({"error": {"message": "This model's maximum context length is 400 tokens. However, you requested 9000 output tokens and your prompt contains"
                          " at least 30 input tokens, for a total of at least 9030 tokens.", "type": "BadRequestError", "param": None, "code": 400}}, 400)
    else:
        stream(c, HELLO + USAGE + DONE)


def mistral(c, q):
    """Fields that it does not know are refused; reasoning is a part of the content."""
    if "stream_options" in q:
        c.json({"object": "error", "message": {"detail": [{"type": "extra_forbidden", "loc": ["body", "stream_options"],
                "msg": "Extra inputs are not permitted", "input": {}}]}, "type": "invalid_request_error", "param": None, "code": None}, 422)
    elif "seed" in q:
        c.json({"object": "error", "message": {"detail": [{"type": "extra_forbidden", "loc": ["body", "seed"], "msg": "Extra inputs are not permitted"}]}}, 422)
    else:
        stream(c, delta(role="assistant", content="") + delta(content=[{"type": "thinking", "thinking": [{"type": "text", "text": "It greets."}]}]) +
               delta(content=[{"type": "text", "text": "Hello, "}]) + delta(content="world.") + delta("stop", content="") + DONE)


def openrouter(c, q):
    both = lambda t: delta(content="", reasoning=t, reasoning_details=[{"type": "reasoning.text", "text": t, "format": "unknown", "index": 0}])
    stream(c, b": OPENROUTER PROCESSING\n\n" * 2 + both("It ") + both("greets.") + HELLO + USAGE + DONE)


def openrouterlate(c, q):
    stream(c, delta(role="assistant", content="Hello, ") + event({"id": "x", "object": "chat.completion.chunk", "error": {
        "code": "server_error", "message": "Provider disconnected unexpectedly"}, "choices": [{"index": 0, "delta": {"content": ""}, "finish_reason": "error"}]}))


def deepseek(c, q):
    stream(c, b": keep-alive\n\n" * 3 + delta(role="assistant", content=None, reasoning_content="It ") + delta(content=None, reasoning_content="greets.") +
           delta(content="Hello, ", reasoning_content=None) + delta("stop", content="world.", reasoning_content=None) + DONE)


def deepseekfull(c, q):
    stream(c, delta(role="assistant", content="Hello, ") + delta("insufficient_system_resource", content="") + DONE)


def lmstudiofull(c, q):
    """An error within a stream of status 200."""
    if len(q["messages"]) > 3:
        c.head()
        c.send(b"event: error\n" + event({"error": {"message": "Trying to keep the first 900 tokens when context the overflows. However, the model is loaded "
               "with context length of only 300 tokens, which is not enough."}}))
    else:
        stream(c, HELLO + DONE)


def tgi(c, q):
    if q.get("max_tokens", 0) > 100:
        c.json({"error": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 512. Given: 30 `inputs` tokens and 9000 `max_new_tokens`",
                "error_type": "validation"}, 422)
    else:
        stream(c, delta(role="assistant", content="Hello, ") + delta(role="assistant", content="world.") + delta("eos_token", content="") + USAGE + DONE)


def emptyfinish(c, q):
    """No reason yet, as an empty word."""
    c.head()
    c.send(delta("", role="assistant", content="Hello, "))
    c.closed(3)
    c.send(delta("", content="world.") + delta("stop") + DONE)


def nosystem(c, q):
    """A model whose template knows questions and answers alone."""
    if q["messages"][0]["role"] == "system":
        c.json({"object": "error", "message": "System role not supported", "type": "BadRequestError", "param": None, "code": 400}, 400)
    else:
        stream(c, delta(role="assistant", content=q["messages"][0]["content"].replace("\n", "|")) + delta("stop") + DONE)


def upstream(c, q):
    c.json({"error": {"message": "Provider returned error", "code": 400, "metadata": {"raw": json.dumps({"error": {"message": "the model takes no images"}}),
            "provider_name": "Someone"}}, "user_id": "u"}, 400)


ANSWERS = {f.__name__: f for f in (vllmlimit, mistral, openrouter, openrouterlate, deepseek, deepseekfull, lmstudiofull, tgi, emptyfinish, nosystem,
                                    upstream)}
ANSWERS["together"] = ANSWERS["groq"] = lambda c, q: stream(c, HELLO + DONE)
ANSWERS["gateway502"] = lambda c, q: page(c, 502, "502 Bad Gateway")
ANSWERS["page405"] = lambda c, q: page(c, 405, "405 Not Allowed")
ANSWERS["page413"] = lambda c, q: page(c, 413, "413 Request Entity Too Large")
