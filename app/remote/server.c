/* app/remote/server.c - sends requests and reports the server's errors; finds out which program and which models the
 * server has (remote.h). */
#include "app/remote/remote_private.h"
#include "engine/base/json.h"

#include <stdlib.h>
#include <string.h>

/* PROBE_SECONDS: time limit for reading an answer that is not a stream. ASIDE_MOST: maximum size in bytes of an answer
 * about the server itself. NAMED: maximum number of models that an error names. SHORT_PAGE: a text is shown in an error
 * if it has at most this number of bytes */
enum { PROBE_SECONDS = 30, ASIDE_MOST = 4 << 20, NAMED = 6, SHORT_PAGE = 160 };

/* ---- requests ---- */

int server_send(struct remote *r, const struct str *base, const char *path, const struct str *json,
                struct http_reply *reply, struct err *e)
{
	struct str url = { 0 };
	struct http_send q = {
		.token = r->key.n ? r->key.p : NULL,
		.json = json ? json->p : NULL,
		.n_json = json ? json->n : 0,
		.no_proxy = r->at.here,
		.connect_s = MIN(CONNECT_SECONDS, r->timeout),
		.patience_s = r->timeout,
		.stopped = r->stopped,
	};
	int rc;

	str_add(&url, base->p, base->n);
	str_adds(&url, path);
	str_add(&url, r->at.query.p, r->at.query.n);
	q.url = url.p;
	rc = http_ask(r->client, &q, reply, e);
	r->reached |= rc >= 0;
	str_clear(&r->leads);
	if (reply->status >= 300 && reply->status < 400)
		clean_line(reply->next, strlen(reply->next), &r->leads);
	str_free(&url);
	return rc;
}

static int request_get(struct remote *r, const struct str *base, const char *path, const struct str *json, size_t most,
                       int *status, struct str *out, struct err *e)
{
	struct http_reply reply;
	int rc = server_send(r, base, path, json, &reply, e);

	*status = reply.status;
	if (rc < 0)
		return -1;
	if (r->timeout > PROBE_SECONDS)
		http_patience(r->client, PROBE_SECONDS);
	while ((rc = http_read(r->client, out, NULL, e)) > 0)
		if (out->n > most) {
			http_end(r->client);
			return err_set(e, ERR_FAIL, "%.100s: the answer to '%s' is longer than %zu MiB", r->at.server.p,
			               path, most >> 20);
		}
	return rc;
}

int server_get(struct remote *r, const struct str *base, const char *path, const struct str *json, int *status,
               struct str *out, struct err *e)
{
	return request_get(r, base, path, json, BODY_MOST, status, out, e);
}

/* Ask for a fact that only some server programs report. *out receives the answer. Returns the answer as a JSON value,
 * which points into *out; member p of the value is NULL if there is none. */
static struct jv ask_optional(struct remote *r, const char *path, const struct str *json, struct str *out)
{
	struct err none = { 0 };
	int status;

	str_clear(out);
	if (request_get(r, &r->at.root, path, json, ASIDE_MOST, &status, out, &none) || status != 200 || !out->n ||
	    !json_valid(out->p, out->n))
		return (struct jv){ .p = NULL };
	return jv_parse(out->p, out->n);
}

/* ---- errors of the server ---- */

/* Append a text from the server to an error message: on one line, with the key removed. */
static void quote_foreign(const struct remote *r, const struct str *text, struct str *out)
{
	const char *p = text->n ? text->p : "", *at;
	struct str bare = { 0 };

	while (r->key.n && (at = strstr(p, r->key.p))) {
		str_add(&bare, p, (size_t)(at - p));
		str_adds(&bare, "[the key]");
		p = at + r->key.n;
	}
	str_adds(&bare, p);
	for (size_t i = 0; i < bare.n; i++)
		if (bare.p[i] == '\n' || bare.p[i] == '\r' || bare.p[i] == '\t')
			bare.p[i] = ' ';
	clean_line(bare.p, bare.n, out);
	str_free(&bare);
}

int server_fault(struct remote *r, const struct chunk *c, struct err *e)
{
	struct str text = { 0 };
	int rc;

	if (c->overflow && c->ctx > 0)
		r->info.ctx = c->ctx;
	quote_foreign(r, &c->error, &text);
	rc = err_set(e, c->overflow ? ERR_FIT : ERR_FAIL, "%.100s: %.250s", r->at.server.p,
	             text.n ? text.p : "an error without a word about it");
	str_free(&text);
	return rc;
}

/* Append the title of an HTML page. If the text is not HTML, append the text itself, provided that it has at most
 * SHORT_PAGE bytes. */
static void page_words(const struct remote *r, const struct str *page, struct str *out)
{
	const char *p = page->n ? page->p : "", *title = strcasestr(p, "<title>");
	struct str words = { 0 };

	if (title)
		str_add(&words, title + 7, strcspn(title + 7, "<"));
	else if (*p != '<' && *p != '{' && *p != '[' && page->n <= SHORT_PAGE)
		str_adds(&words, p);
	while (words.n && strchr(" \t\r\n", words.p[words.n - 1]))
		words.p[--words.n] = 0;
	quote_foreign(r, &words, out);
	str_free(&words);
}

/* 1 if the answer may come from a proxy instead of the server; 0 with TLS, by which the server proves who it is. */
static int may_be_proxy(const struct remote *r)
{
	return !r->at.here && !r->at.secure && (getenv("http_proxy") || getenv("all_proxy") || getenv("ALL_PROXY"));
}

/* Return advice to append to the error message, or NULL. `said` is 1 if the server itself has explained the error. */
static const char *status_advice(const struct remote *r, int status, int said)
{
	if (status == 403 && !said && may_be_proxy(r))
		return ": the proxy of http_proxy may refuse it; no_proxy names the hosts that go without it";
	if (status == 401 || status == 403)
		return r->key.n ? "; the key is not accepted" : "; WEIR_API_KEY or --key-file gives the key";
	if (status == 407)
		return ": the proxy wants http_proxy=http://NAME:PASSWORD@HOST:PORT";
	if (said)
		return NULL;
	if (status == 404 || status == 405)
		return ": there is no chat at this address";
	if (status == 413)
		return ": the question with its documents is longer than it takes";
	return status >= 502 && status <= 504 ? ": a gateway answers there, but not the server behind it" : NULL;
}

int server_refuses(struct remote *r, int status, const struct chunk *c, const struct str *page, struct err *e)
{
	const char *server = r->at.server.p, *next = status_advice(r, status, c->fault);
	struct str text = { 0 };

	if (c->fault && c->overflow)
		return server_fault(r, c, e);
	if (status >= 300 && status < 400)
		return err_set(e, ERR_FAIL,
		               "%.100s: status %d: it sends to '%.150s', and is not followed; give that address",
		               server, status, r->leads.n ? r->leads.p : "nowhere");
	if (c->fault)
		quote_foreign(r, &c->error, &text);
	else if (!next)
		page_words(r, page, &text);
	err_set(e, ERR_FAIL, "%.100s: status %d%s%.200s%s", server, status, text.n ? ", " : "", str_text(&text),
	        next ? next : "");
	str_free(&text);
	return -1;
}

/* ---- the server's program and models ---- */

static const struct {
	const char *owner, *name;
	enum remote_kind kind;
} programs[] = {
	{ "llamacpp", "llama-server", REMOTE_LLAMA },
	{ "vllm", "vLLM", REMOTE_VLLM },
	{ "sglang", "SGLang", REMOTE_SGLANG },
	{ "library", "Ollama", REMOTE_OLLAMA },
};

static int32_t whole(struct jv v)
{
	double x;

	return jv_number(v, &x) == 0 && x > 0 && x <= INT32_MAX ? (int32_t)x : 0;
}

/* Find the short name of a model: its name without folders and without ".gguf". *from receives the offset in `name` at
 * which the short name begins. Returns the length of the short name. */
static size_t short_name(const char *name, size_t n, size_t *from)
{
	const char *slash = memrchr(name, '/', n);

	*from = slash ? (size_t)(slash + 1 - name) : 0;
	n -= *from;
	return n > 5 && !memcmp(name + *from + n - 5, ".gguf", 5) ? n - 5 : n;
}

/* 1 if `wanted` is one of these three names of the model: the whole name; the name without folders; the name without
 * folders and without ".gguf". */
static int is_model(const struct str *id, const char *wanted)
{
	size_t n = strlen(wanted), from, k;

	if (id->n == n && !memcmp(id->p, wanted, n))
		return 1;
	k = short_name(id->p, id->n, &from);
	return (k == n && !memcmp(id->p + from, wanted, n)) || (id->n - from == n && !memcmp(id->p + from, wanted, n));
}

static void take_model(struct remote *r, struct jv item, const struct str *id)
{
	static const char *const context[] = { "max_model_len", "context_length", "context_window",
		                               "max_context_length" };
	struct jv owner = jv_get(item, "owned_by"), meta = jv_get(item, "meta");
	double x;

	str_clear(&r->model);
	str_add(&r->model, id->p, id->n);
	for (size_t i = 0; i < LEN(programs); i++)
		if (jv_is(owner, programs[i].owner)) {
			r->info.kind = programs[i].kind;
			r->info.program = programs[i].name;
		}
	r->info.ctx = whole(jv_get(meta, "n_ctx"));
	for (size_t i = 0; i < LEN(context) && !r->info.ctx; i++)
		r->info.ctx = whole(jv_get(item, context[i]));
	r->info.ctx_train = whole(jv_get(meta, "n_ctx_train"));
	if (jv_number(jv_get(meta, "n_params"), &x) == 0 && x > 0 && x < 1e15)
		r->info.n_params = (uint64_t)x;
}

/* Find the model `wanted` in the server's list. If `wanted` is NULL, take the only model of the list. *n receives the
 * number of models in the list. Returns 1 if found. Returns 0 if not, or if `wanted` is NULL and there are several
 * models. */
static int find_model(struct remote *r, struct jv list, const char *wanted, size_t *n)
{
	struct jv it = { 0 };
	struct str id = { 0 }, only = { 0 };
	struct jv only_it = { 0 };
	int found = 0;

	for (*n = 0; *n < MODELS_MOST && jv_next(list, &it, NULL);) {
		str_clear(&id);
		if (jv_text(jv_get(it, "id"), &id) < 0 || !id.n || id.n > NAME_MOST || strlen(id.p) != id.n)
			continue;
		str_adds(&r->models, (*n)++ ? "\n" : "");
		clean_line(id.p, id.n, &r->models);
		only_it = it;
		str_clear(&only);
		str_add(&only, id.p, id.n);
		if (wanted && !found && is_model(&id, wanted)) {
			take_model(r, it, &id);
			found = 1;
		}
	}
	if (!wanted && *n == 1) {
		take_model(r, only_it, &only);
		found = 1;
	}
	str_free(&id);
	str_free(&only);
	return found;
}

/* Append the names of the first NAMED models, and how many more there are: "a, b, c and 9 more". */
static void name_some(const struct str *models, size_t n, struct str *out)
{
	const char *p = models->n ? models->p : "";

	for (size_t i = 0; i < n && i < NAMED; i++) {
		size_t k = strcspn(p, "\n");

		str_addf(out, "%s%.*s", i ? ", " : "", k < 50 ? (int)k : 50, p);
		p += k + (p[k] != 0);
	}
	if (n > NAMED)
		str_addf(out, " and %zu more", n - NAMED);
}

static int choose_model(struct remote *r, const char *wanted, struct jv list, struct err *e)
{
	struct str some = { 0 };
	size_t n;
	int rc = 0;

	if (find_model(r, list, wanted, &n))
		return 0;
	name_some(&r->models, n, &some);
	/* The list is empty or has an unknown form: the chat request will show whether the model exists. */
	if (!n && wanted)
		str_adds(&r->model, wanted);
	else if (!n)
		rc = err_set(e, ERR_MODEL, "%.100s lists no models; --remote URL -m NAME names one", r->at.server.p);
	else if (wanted)
		rc = err_set(e, ERR_MODEL, "%.100s has no model '%.60s'; it has %.200s", r->at.server.p, wanted,
		             some.p);
	else
		rc = err_set(e, ERR_MODEL, "%.60s has %zu models: %.240s; -m NAME chooses", r->at.server.p, n, some.p);
	str_free(&some);
	return rc;
}

/* Ask llama-server for the context size of a conversation, and whether its template can switch reasoning off. Both stay
 * unknown if the server refuses the request. */
static void ask_props(struct remote *r)
{
	struct str out = { 0 }, template = { 0 };
	struct jv root = ask_optional(r, "/props", NULL, &out);
	int32_t ctx = whole(jv_get(jv_get(root, "default_generation_settings"), "n_ctx"));

	r->info.ctx = ctx ? ctx : r->info.ctx;
	if (jv_text(jv_get(root, "chat_template"), &template) == 0)
		r->info.think_switch = strstr(template.p, "enable_thinking") != NULL;
	if (jv_get(root, "total_slots").p && r->info.kind == REMOTE_PLAIN) {
		r->info.kind = REMOTE_LLAMA;
		r->info.program = "llama-server";
	}
	str_free(&out);
	str_free(&template);
}

/* Return the number after "num_ctx" in the parameters of a model, a text with one parameter per line; 0 if there is
 * none. */
static int32_t context_of_parameters(const struct str *lines)
{
	for (const char *p = lines->p; p && *p; p += strcspn(p, "\n"), p += *p == '\n')
		if (!strncmp(p, "num_ctx", 7) && (p[7] == ' ' || p[7] == '\t')) {
			long n = strtol(p + 7, NULL, 10);

			return n > 0 && n <= INT32_MAX ? (int32_t)n : 0;
		}
	return 0;
}

/* Ask Ollama for the context size, because it truncates longer prompts without an error. For a loaded model Ollama
 * reports the size. For another model take num_ctx from its parameters, if it is set. */
static void ask_ollama(struct remote *r)
{
	struct str out = { 0 }, json = { 0 }, text = { 0 };
	struct jv list = jv_get(ask_optional(r, "/api/ps", NULL, &out), "models"), it = { 0 };

	while (!r->info.ctx && jv_next(list, &it, NULL))
		if (jv_is(jv_get(it, "name"), r->model.p) || jv_is(jv_get(it, "model"), r->model.p))
			r->info.ctx = whole(jv_get(it, "context_length"));
	if (!r->info.ctx) {
		json_open(&json, NULL, '{');
		json_text(&json, "model", r->model.p, r->model.n);
		json_close(&json, '}');
		if (jv_text(jv_get(ask_optional(r, "/api/show", &json, &out), "parameters"), &text) == 0)
			r->info.ctx = context_of_parameters(&text);
	}
	str_free(&out);
	str_free(&json);
	str_free(&text);
}

void server_ask_context(struct remote *r)
{
	if (r->info.kind == REMOTE_OLLAMA && !r->info.ctx)
		ask_ollama(r);
}

/* Return the list in an answer to "/models". The answer is {"data": [...]} or the list itself. */
static struct jv list_in(struct jv root)
{
	return *root.p == '[' ? root : jv_get(root, "data");
}

static int ask_models(struct remote *r, const char *wanted, struct err *e)
{
	struct str out = { 0 };
	struct chunk c = { 0 };
	int status, rc = server_get(r, &r->at.api, "/models", NULL, &status, &out, e);

	chunk_clear(&c);
	if (out.n && json_valid(out.p, out.n) && (status != 200 || !list_in(jv_parse(out.p, out.n)).p))
		chunk_parse(&c, out.p, out.n);
	if (!rc && status == 200 && c.fault) { /* LM Studio answers unknown paths with status 200 */
		rc = server_fault(r, &c, e);
	} else if (!rc && status == 200 && out.n && json_valid(out.p, out.n)) {
		rc = choose_model(r, wanted, list_in(jv_parse(out.p, out.n)), e);
	} else if (!rc && status != 401 && status != 403 && status < 500 && (status < 300 || status >= 400) && wanted) {
		str_adds(&r->model, wanted); /* some servers have no list of models: accept the name unchecked */
	} else if (!rc && status == 200) {
		rc = err_set(e, ERR_FAIL, "%.100s: its list of models is no JSON; is it a server of models?",
		             r->at.server.p);
	} else if (!rc) {
		rc = server_refuses(r, status, &c, &out, e);
	}
	chunk_free(&c);
	str_free(&out);
	return rc;
}

/* ---- opening ---- */

int server_open(struct remote *r, const struct remote_options *o, struct err *e)
{
	size_t from, n;

	r->timeout = o->timeout > 0 ? o->timeout : 300;
	r->stopped = o->stopped;
	r->bytes_per_token = 3.5;
	r->info.program = r->info.model = r->info.server = "";
	chunk_clear(&r->answer.chunk);
	if (address_read(&r->at, o->url, e) < 0)
		return -1;
	r->info.server = r->at.server.p;
	if (key_read(o, &r->at, &r->key, e) < 0 || http_client_open(&r->client, e) < 0 ||
	    ask_models(r, o->model && *o->model ? o->model : NULL, e) < 0)
		return -1;
	if (r->info.kind == REMOTE_LLAMA)
		ask_props(r);
	server_ask_context(r);
	if (r->info.kind == REMOTE_VLLM || r->info.kind == REMOTE_SGLANG)
		r->info.think_switch = 1;
	r->info.counts = r->info.kind == REMOTE_LLAMA || r->info.kind == REMOTE_VLLM;
	r->info.extends = r->info.kind == REMOTE_LLAMA || r->info.kind == REMOTE_VLLM || r->info.kind == REMOTE_SGLANG;
	n = short_name(r->model.p, r->model.n, &from);
	clean_line(r->model.p + from, n, &r->shown);
	r->info.model = str_text(&r->shown);
	return 0;
}

int remote_open(struct remote **out, const struct remote_options *o, struct err *e)
{
	struct remote *r = xcalloc(1, sizeof *r);

	*out = NULL;
	if (server_open(r, o, e) < 0) {
		remote_close(r);
		return -1;
	}
	*out = r;
	return 0;
}

void remote_close(struct remote *r)
{
	if (!r)
		return;
	remote_end(r);
	http_client_close(r->client);
	address_free(&r->at);
	if (r->key.p)
		explicit_bzero(r->key.p, r->key.n);
	str_free(&r->key);
	str_free(&r->model);
	str_free(&r->shown);
	str_free(&r->models);
	str_free(&r->leads);
	sse_free(&r->answer.sse);
	chunk_free(&r->answer.chunk);
	str_free(&r->answer.in);
	str_free(&r->answer.ready);
	str_free(&r->answer.echo);
	str_free(&r->answer.refused);
	free(r);
}

const struct remote_info *remote_info(const struct remote *r)
{
	return &r->info;
}

void remote_models(const struct remote *r, struct str *out)
{
	str_add(out, str_text(&r->models), r->models.n);
}
