/* app/remote/count.c - counts the tokens of a text or a conversation (remote.h). If the server cannot count them, their
 * number is estimated.
 *
 * llama-server needs two requests for a conversation: /apply-template renders it, /tokenize counts its tokens. vLLM
 * needs one: /tokenize. */
#include "app/remote/remote_private.h"
#include "engine/base/json.h"

#include <string.h>

enum { EACH_MESSAGE = 8 }; /* estimated number of tokens that a template adds to a message */

static int32_t estimate(const struct remote *r, size_t n)
{
	double tokens = (double)n / r->bytes_per_token + 1;

	return tokens < INT32_MAX ? (int32_t)tokens : INT32_MAX;
}

/* Send JSON, and find the member `key` in the answer. *out receives the answer, and *v the member's value, which points
 * into *out. Returns 0 or -1. */
static int count_ask(struct remote *r, const char *path, const struct str *json, const char *key, struct str *out,
                     struct jv *v)
{
	struct err none = { 0 };
	int status;

	str_clear(out);
	if (r->answer.open || server_get(r, &r->at.root, path, json, &status, out, &none) < 0 || status != 200 ||
	    !out->n || !json_valid(out->p, out->n))
		return -1;
	*v = jv_get(jv_parse(out->p, out->n), key);
	return v->p ? 0 : -1;
}

static int32_t length(struct jv list)
{
	struct jv it = { 0 };
	int32_t n = 0;

	while (n < INT32_MAX && jv_next(list, &it, NULL))
		n++;
	return n;
}

/* Let the server count the tokens of a text. If `special` is 1, the text is a rendered prompt, with BOS and special
 * tokens. Returns 0, or -1 if the server did not count. */
static int text_tokens(struct remote *r, const char *text, size_t n_text, int special, int32_t *n)
{
	struct str json = { 0 }, out = { 0 };
	struct jv v;
	double x;
	int rc, llama = r->info.kind == REMOTE_LLAMA;

	json_open(&json, NULL, '{');
	if (!llama)
		json_text(&json, "model", r->model.p, r->model.n);
	json_text(&json, llama ? "content" : "prompt", text, n_text);
	if (llama) {
		json_bool(&json, "add_special", special);
		json_bool(&json, "parse_special", special);
	}
	json_close(&json, '}');
	rc = count_ask(r, "/tokenize", &json, llama ? "tokens" : "count", &out, &v);
	if (!rc && llama)
		*n = length(v);
	else if (!rc && jv_number(v, &x) == 0 && x >= 0 && x <= INT32_MAX)
		*n = (int32_t)x;
	else
		rc = -1;
	str_free(&json);
	str_free(&out);
	return rc;
}

int32_t remote_count(struct remote *r, const char *text, size_t n_text, int *exact)
{
	int32_t n;

	*exact = r->info.counts && !text_tokens(r, text, n_text, 0, &n);
	return *exact ? n : estimate(r, n_text);
}

static int messages_tokens(struct remote *r, const struct remote_message *msg, size_t n_msg, int32_t *n)
{
	struct str json = { 0 }, out = { 0 }, prompt = { 0 };
	struct jv v;
	double x;
	int rc, llama = r->info.kind == REMOTE_LLAMA;

	json_open(&json, NULL, '{');
	if (!llama)
		json_text(&json, "model", r->model.p, r->model.n);
	messages_json(r, msg, n_msg, &json);
	json_close(&json, '}');
	rc = count_ask(r, llama ? "/apply-template" : "/tokenize", &json, llama ? "prompt" : "count", &out, &v);
	if (!rc && llama)
		rc = jv_text(v, &prompt) < 0 ? -1 : text_tokens(r, prompt.p, prompt.n, 1, n);
	else if (!rc && jv_number(v, &x) == 0 && x >= 0 && x <= INT32_MAX)
		*n = (int32_t)x;
	else
		rc = -1;
	str_free(&json);
	str_free(&out);
	str_free(&prompt);
	return rc;
}

int32_t remote_count_messages(struct remote *r, const struct remote_message *msg, size_t n_msg, int *exact)
{
	size_t bytes = 0;
	int32_t n;

	*exact = r->info.counts && !messages_tokens(r, msg, n_msg, &n);
	if (*exact)
		return n;
	for (size_t i = 0; i < n_msg; i++)
		bytes += msg[i].n;
	n = estimate(r, bytes);
	return n < INT32_MAX - (int32_t)(n_msg * EACH_MESSAGE) ? n + (int32_t)(n_msg * EACH_MESSAGE) : INT32_MAX;
}
