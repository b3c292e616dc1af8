/* app/remote/chunk.c - parses the JSON of one event of a streamed answer, or of a whole answer (remote.h).
 *
 * Servers differ, so a member of a wrong type counts as missing. Errors have many forms: {"error": {"message": ...}},
 * {"error": "..."}, {"object": "error", "message": ...}, {"detail": ...}, {"errors": [...]}, {"message": ...}, or a
 * list that begins with one of these objects. */
#include "app/remote/remote.h"
#include "engine/base/utf8.h"
#include "engine/base/json.h"

#include <stdlib.h>
#include <string.h>

static const struct remote_usage unknown = {
	.prompt = -1, .cached = -1, .answer = -1, .prefill_tps = -1, .decode_tps = -1
};

void chunk_clear(struct chunk *c)
{
	str_clear(&c->text);
	str_clear(&c->thought);
	str_clear(&c->why);
	str_clear(&c->error);
	c->finish = CHUNK_GOES_ON;
	c->fault = c->status = c->overflow = 0;
	c->ctx = 0;
	c->usage = unknown;
	c->done = c->total = 0;
}

void chunk_free(struct chunk *c)
{
	str_free(&c->text);
	str_free(&c->thought);
	str_free(&c->why);
	str_free(&c->error);
}

static void read_count(struct jv v, int32_t *out)
{
	double x;

	if (jv_number(v, &x) == 0 && x >= 0 && x <= INT32_MAX)
		*out = (int32_t)x;
}

static void read_speed(struct jv v, double *out)
{
	double x;

	if (jv_number(v, &x) == 0 && x >= 0 && x < 1e9)
		*out = x;
}

/* Append a text, which is a string or a list of {"type": "text", "text": ...}. NUL bytes are dropped. */
static void read_text(struct jv v, struct str *out)
{
	struct jv it = { 0 };
	size_t from = out->n, to = from;

	if (v.p && *v.p == '[')
		while (jv_next(v, &it, NULL))
			jv_text(jv_get(it, "text"), out);
	else
		jv_text(v, out);
	for (size_t i = from; i < out->n; i++)
		if (out->p[i])
			out->p[to++] = out->p[i];
	out->n = to;
	if (out->p)
		out->p[to] = 0;
}

/* ---- errors ---- */

static int says_overflow(const struct str *text)
{
	static const char *const words[] = {
		"context length",     "context size",          "context window",        "maximum context",
		"context_length",     "context is full",       "longer than the model", "too many tokens",
		"prompt is too long", "maximum prompt length", "input is too long",     "input token count",
		"`inputs` tokens",    "`inputs` must have",
	};

	for (size_t i = 0; text->n && i < LEN(words); i++)
		if (strcasestr(text->p, words[i]))
			return 1;
	return 0;
}

/* Return the context size, in tokens, that an error message names: "maximum context length is 8192 tokens", "context
 * size (8192 tokens)", "context length of only 8192". 0 = it names none. */
static int32_t context_in(const struct str *text)
{
	static const char *const before[] = { "context length", "context size", "context window", "prompt length",
		                              "must be <=" };
	static const char *const between[] = { " is", " of", " only", " (", " " };

	for (size_t i = 0; text->n && i < LEN(before); i++) {
		const char *at = strcasestr(text->p, before[i]);
		size_t k = 0;
		long n;

		if (!at)
			continue;
		at += strlen(before[i]);
		while (k < LEN(between))
			if (!strncmp(at, between[k], strlen(between[k])))
				at += strlen(between[k]), k = 0;
			else
				k++;
		n = byte_is_digit(*at) ? strtol(at, NULL, 10) : 0;
		if (n > 0 && n <= INT32_MAX)
			return (int32_t)n;
	}
	return 0;
}

/* Append the server's complaint about one field of a request: {"loc": ["body", "seed"], "msg": "..."} becomes "seed:
 * ...". */
static void read_complaint(struct jv v, struct str *out)
{
	struct jv it = { 0 }, loc = jv_get(v, "loc");
	int n = 0;

	while (loc.p && *loc.p == '[' && jv_next(loc, &it, NULL))
		if (!jv_is(it, "body")) {
			str_adds(out, n++ ? "." : "");
			if (jv_text(it, out) < 0)
				str_add(out, it.p, (size_t)(it.end - it.p));
		}
	str_adds(out, n ? ": " : "");
	jv_text(jv_get(v, "msg"), out);
}

/* Append the message of an error, which is a string, a message in an object, or the first element of a list. A proxy
 * adds the error of its upstream server as "metadata": {"raw": ...}, as JSON or as text. `depth` is the depth of the
 * recursion. */
static void read_words(struct jv v, int depth, struct str *out)
{
	static const char *const key[] = { "message", "detail", "error", "errors" };
	struct jv first = { 0 }, raw = jv_get(jv_get(v, "metadata"), "raw");
	struct str inner = { 0 };

	if (!v.p || depth > 4)
		return;
	if (*v.p == '"') {
		read_text(v, out);
	} else if (*v.p == '[') {
		if (jv_next(v, &first, NULL))
			read_words(first, depth + 1, out);
	} else if (jv_get(v, "msg").p) {
		read_complaint(v, out);
	} else if (*v.p == '{') {
		size_t had = out->n;

		for (size_t i = 0; i < LEN(key) && out->n == had; i++)
			read_words(jv_get(v, key[i]), depth + 1, out);
		if (jv_text(raw, &inner) == 0 && inner.n) {
			struct str told = { 0 };

			if (json_valid(inner.p, inner.n))
				read_words(jv_parse(inner.p, inner.n), depth + 1, &told);
			str_adds(out, out->n > had ? ": " : "");
			str_adds(out, told.n ? told.p : inner.p);
			str_free(&told);
		}
	}
	str_free(&inner);
}

static void read_error(struct chunk *c, struct jv v)
{
	struct jv code = jv_get(v, "code");
	int32_t n = 0;

	c->fault = 1;
	read_words(v, 0, &c->error);
	if (!c->error.n && v.end - v.p > 2) /* the form of the error is unknown: append its JSON */
		str_add(&c->error, v.p, (size_t)(v.end - v.p));
	read_count(code, &n);
	c->status = n < 1000 ? n : 0;
	read_count(jv_get(v, "n_ctx"), &c->ctx);
	c->overflow = jv_is(jv_get(v, "type"), "exceed_context_size_error") || jv_is(code, "context_length_exceeded") ||
	              says_overflow(&c->error);
	if (c->overflow && !c->ctx)
		c->ctx = context_in(&c->error);
}

/* 1 if the value is anything but null, false or empty. */
static int is_something(struct jv v)
{
	return v.p && *v.p != 'n' && *v.p != 'f' && !(v.end - v.p == 2 && (*v.p == '[' || *v.p == '"'));
}

static void find_error(struct chunk *c, struct jv root)
{
	static const char *const alone[] = { "detail", "errors" };
	struct jv error = jv_get(root, "error"), message = jv_get(root, "message");

	if (is_something(error))
		read_error(c, error);
	else if (jv_is(jv_get(root, "object"), "error"))
		read_error(c, root);
	if (c->fault || jv_get(root, "choices").p)
		return;
	for (size_t i = 0; i < LEN(alone) && !c->fault; i++)
		if (is_something(jv_get(root, alone[i])))
			read_error(c, jv_get(root, alone[i]));
	if (!c->fault && message.p && *message.p == '"' && is_something(message))
		read_error(c, message);
}

/* ---- the answer ---- */

static int is_one_of(const struct str *word, const char *const *list)
{
	for (; *list; list++)
		if (!strncasecmp(word->p, *list, strlen(*list)))
			return 1;
	return 0;
}

/* Read why the answer ended. Any word that is not in the lists below, such as "stop", "eos" or "end_turn", means an
 * ordinary end. Before the end, some servers send an empty word or "null". */
static void read_finish(struct chunk *c, struct jv v)
{
	static const char *const full[] = { "length", "max_tokens", "model_length", "model_context_window_exceeded",
		                            NULL };
	/* clang-format off */
	static const char *const cut[] = {
		"content_filter", "sensitive", "tool_calls", "function_call", "error", "network_error", "abort", "insufficient_system_resource", NULL,
	};
	/* clang-format on */
	struct str word = { 0 };

	read_text(v, &word);
	if (!word.n || !strcmp(word.p, "null"))
		;
	else if (is_one_of(&word, full))
		c->finish = CHUNK_LENGTH;
	else if (is_one_of(&word, cut)) {
		c->finish = CHUNK_REFUSED;
		str_add(&c->why, word.p, word.n);
	} else
		c->finish = CHUNK_STOP;
	str_free(&word);
}

/* Read the content: a string, or a list of parts. A part {"type": "thinking", "thinking": [...]} is reasoning. */
static void read_content(struct chunk *c, struct jv v)
{
	struct jv it = { 0 };

	read_text(v, &c->text);
	if (v.p && *v.p == '[')
		while (jv_next(v, &it, NULL))
			read_text(jv_get(it, "thinking"), &c->thought);
}

/* Read reasoning that the server sends beside the content. Servers use three names for this member. Because some
 * servers send it under two names, only the first name found is read. */
static void read_thought(struct chunk *c, struct jv delta)
{
	struct jv it = { 0 }, details = jv_get(delta, "reasoning_details");
	size_t had = c->thought.n;

	read_text(jv_get(delta, "reasoning_content"), &c->thought);
	if (c->thought.n == had)
		read_text(jv_get(delta, "reasoning"), &c->thought);
	while (details.p && *details.p == '[' && c->thought.n == had && jv_next(details, &it, NULL)) {
		read_text(jv_get(it, "text"), &c->thought);
		read_text(jv_get(it, "summary"), &c->thought);
	}
}

static void read_choice(struct chunk *c, struct jv choice)
{
	struct jv delta = jv_get(choice, "delta");
	size_t had = c->text.n;
	double index;

	if (jv_number(jv_get(choice, "index"), &index) == 0 && index != 0)
		return;
	if (!delta.p || *delta.p != '{')
		delta = jv_get(choice, "message");
	read_thought(c, delta);
	read_content(c, jv_get(delta, "content"));
	/* some servers use the name "text", as in the older completions protocol */
	if (c->text.n == had)
		read_text(jv_get(delta, "text"), &c->text);
	if (c->text.n == had)
		read_text(jv_get(choice, "text"), &c->text);
	read_text(jv_get(delta, "refusal"), &c->text);
	read_finish(c, jv_get(choice, "finish_reason"));
}

static void read_usage(struct chunk *c, struct jv root)
{
	struct jv usage = jv_get(root, "usage"), timings = jv_get(root, "timings"),
		  progress = jv_get(root, "prompt_progress");

	read_count(jv_get(usage, "prompt_tokens"), &c->usage.prompt);
	read_count(jv_get(usage, "completion_tokens"), &c->usage.answer);
	read_count(jv_get(usage, "prompt_cache_hit_tokens"), &c->usage.cached);
	read_count(jv_get(jv_get(usage, "prompt_tokens_details"), "cached_tokens"), &c->usage.cached);
	read_count(jv_get(timings, "cache_n"), &c->usage.cached);
	read_speed(jv_get(timings, "prompt_per_second"), &c->usage.prefill_tps);
	read_speed(jv_get(timings, "predicted_per_second"), &c->usage.decode_tps);
	read_count(jv_get(progress, "total"), &c->total);
	read_count(jv_get(progress, "processed"), &c->done);
	if (c->done > c->total)
		c->done = c->total;
}

int chunk_parse(struct chunk *c, const char *json, size_t n)
{
	struct jv root, it = { 0 }, first = { 0 };

	if (!json_valid(json, n))
		return -1;
	root = jv_parse(json, n);
	if (*root.p == '[' && jv_next(root, &first, NULL)) /* some servers send an error as a list with one object */
		root = first;
	if (*root.p != '{')
		return -1;
	find_error(c, root);
	if (jv_next(jv_get(root, "choices"), &it, NULL))
		read_choice(c, it);
	read_usage(c, root);
	return 0;
}
