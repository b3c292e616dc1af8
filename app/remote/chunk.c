/* app/remote/chunk.c - reads the JSON of one event of an answer, or of a whole answer (remote.h).
 *
 * What is missing or of another type counts as absent: servers differ.  Errors come as {"error": {"message": ...}}, {"error": "..."},
 * {"object": "error", "message": ...} or {"detail": ...}. */
#include "app/remote/remote.h"
#include "app/term/term.h"

#include <stdlib.h>
#include <string.h>

static const struct remote_usage unknown = {.prompt = -1, .cached = -1, .answer = -1, .prefill_tps = -1, .decode_tps = -1};

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

/* A string, or a list of {"type": "text", "text": ...}; without zero bytes, which no text has. */
static void read_text(struct jv v, struct str *out)
{
	struct jv it = {0};
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
		"context length", "context size", "context window", "maximum context", "context_length", "context is full", "longer than the model",
		"too many tokens", "prompt is too long",
	};

	for (size_t i = 0; text->n && i < sizeof words / sizeof *words; i++)
		if (strcasestr(text->p, words[i]))
			return 1;
	return 0;
}

/* "maximum context length is 8192 tokens": the number. */
static int32_t context_in(const struct str *text)
{
	const char *at = text->n ? strcasestr(text->p, "context length is ") : NULL;
	long n = at ? strtol(at + 18, NULL, 10) : 0;

	return n > 0 && n <= INT32_MAX ? (int32_t)n : 0;
}

static void read_error(struct chunk *c, struct jv v)
{
	struct jv message = *v.p == '{' ? jv_get(v, "message") : v;
	struct jv code = *v.p == '{' ? jv_get(v, "code") : (struct jv){0};
	int32_t n = 0;

	c->fault = 1;
	if (message.p && *message.p == '"')
		read_text(message, &c->error);
	else if (message.p)
		str_add(&c->error, message.p, (size_t)(message.end - message.p));
	read_count(code, &n);
	c->status = n < 1000 ? n : 0;
	if (*v.p == '{')
		read_count(jv_get(v, "n_ctx"), &c->ctx);
	c->overflow = jv_is(jv_get(v, "type"), "exceed_context_size_error") || jv_is(code, "context_length_exceeded") || says_overflow(&c->error);
	if (c->overflow && !c->ctx)
		c->ctx = context_in(&c->error);
}

static void find_error(struct chunk *c, struct jv root)
{
	struct jv error = jv_get(root, "error"), detail = jv_get(root, "detail");
	int is_null = error.p && error.end - error.p == 4 && !memcmp(error.p, "null", 4);

	if (error.p && !is_null)
		read_error(c, error);
	else if (jv_is(jv_get(root, "object"), "error"))
		read_error(c, root);
	else if (detail.p && !jv_get(root, "choices").p)
		read_error(c, detail);
}

/* ---- the answer ---- */

static void read_finish(struct chunk *c, struct jv v)
{
	if (!v.p || *v.p != '"')
		return;
	if (jv_is(v, "length")) {
		c->finish = CHUNK_LENGTH;
	} else if (jv_is(v, "content_filter") || jv_is(v, "tool_calls") || jv_is(v, "function_call") || jv_is(v, "error")) {
		c->finish = CHUNK_REFUSED;
		read_text(v, &c->why);
	} else {
		c->finish = CHUNK_STOP;   /* "stop", "eos", "end_turn", ... */
	}
}

static void read_choice(struct chunk *c, struct jv choice)
{
	struct jv delta = jv_get(choice, "delta"), thought;
	double index;

	if (jv_number(jv_get(choice, "index"), &index) == 0 && index != 0)
		return;
	if (!delta.p || *delta.p != '{')
		delta = jv_get(choice, "message");
	thought = jv_get(delta, "reasoning_content");
	if (!thought.p || *thought.p != '"')
		thought = jv_get(delta, "reasoning");
	read_text(thought, &c->thought);
	read_text(jv_get(delta, "content"), &c->text);
	read_text(jv_get(delta, "refusal"), &c->text);
	read_finish(c, jv_get(choice, "finish_reason"));
}

static void read_usage(struct chunk *c, struct jv root)
{
	struct jv usage = jv_get(root, "usage"), timings = jv_get(root, "timings"), progress = jv_get(root, "prompt_progress");

	read_count(jv_get(usage, "prompt_tokens"), &c->usage.prompt);
	read_count(jv_get(usage, "completion_tokens"), &c->usage.answer);
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
	struct jv root, it = {0};

	if (!json_valid(json, n))
		return -1;
	root = jv_parse(json, n);
	if (*root.p != '{')
		return -1;
	find_error(c, root);
	if (jv_next(jv_get(root, "choices"), &it, NULL))
		read_choice(c, it);
	read_usage(c, root);
	return 0;
}
