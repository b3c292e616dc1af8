/* app/conversation/answer_remote.c - the functions (struct answerer) that answer with a model on a server
 * (conversation_private.h).
 *
 * Each request contains the whole conversation as text. If that exceeds the server's context, the oldest turns are left
 * out. Later requests leave out the same turns: all requests then begin with the same text, and the server can reuse
 * its KV cache. */
#include "app/conversation/conversation_private.h"
#include "app/models/models.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/remote/remote.h"

enum {
	SHARE_OF_ANSWER = 4, /* without -n, 1 / SHARE_OF_ANSWER of the context is reserved for the answer */
	AROUND = 16,         /* maximum number of tokens that the template adds to a message */
	BEFORE = 64,         /* maximum number of tokens that the template adds before the first message */
	/* maximum number of times that a request is shortened and sent again after the server refused it as too long */
	TRIES = 8,
};

/* ---- opening ---- */

static void copy_info(struct engine_info *to, const struct remote_info *from)
{
	*to = (struct engine_info){
		.path = from->model,
		.name = from->model,
		.n_params = from->n_params,
		.ctx_train = from->ctx_train,
		.n_types = "",
		.takes_system = 1,
		.think_switch = from->think_switch,
		.think_ask = from->think_switch,
		.bos = -1,
		.eos = -1,
		.eot = -1,
		.rope_scaling = "none",
	};
	snprintf(to->device, sizeof to->device, "%s", from->server);
	snprintf(to->arch, sizeof to->arch, "%s", from->program);
}

/* 1 if the user has stopped the current work. Returns 0 if no work runs: signals_stopped() may then still report an
 * earlier stop. */
static int is_stopped(void)
{
	return signals_working() && signals_stopped();
}

void model_server_options(const struct options *o, struct remote_options *to)
{
	const struct option_def *model = option_find("model", 5, CMD_CHAT);

	*to = (struct remote_options){
		.url = model_server(o),
		.key = getenv("WEIR_API_KEY"),
		.key_file = o->key_file,
		.insecure = o->insecure,
		.timeout = o->timeout,
		.stopped = is_stopped,
	};
	/* With --remote, --model on the command line names a model of the server. `model` in the config file or the
	 * environment names a local file, which is ignored here. */
	to->model = o->served ? o->served : o->remote && option_said(o, model) ? o->model : NULL;
}

int served_check_options(const struct options *o, struct err *e)
{
	static const struct {
		const char *name, *why;
	} local[] = {
		{ "kv", "the server has its own cache" },
		{ "kv-type", "the server has its own cache" },
		{ "kv-memory", "the server has its own cache" },
		{ "read-share", "the server reads the prompt" },
		{ "lora", "a server loads its own adapters" },
		{ "pre", "the server has its own tokenizer" },
		{ "chat-template", "the server has its own template" },
	};

	for (size_t i = 0; i < LEN(local); i++)
		if (option_said(o, option_find(local[i].name, strlen(local[i].name), CMD_CHAT)))
			return err_set(e, ERR_USAGE, "--%s is for a model in this process: %s", local[i].name,
			               local[i].why);
	return 0;
}

int served_open(struct conversation *conv, const struct options *o, struct err *e)
{
	struct remote_options ro;
	const struct remote_info *info;

	model_server_options(o, &ro);
	if (remote_open(&conv->served.remote, &ro, e) < 0)
		return -1;
	info = remote_info(conv->served.remote);
	copy_info(&conv->served.info, info);
	conv->by = &answerer_remote;
	conv->info = &conv->served.info;
	conv->served.left_out = 0;
	conv->served.tokens = 0;
	conv->served.counted = 1;
	if (o->verbose)
		conversation_notice(conv, "%s at %s%s%s, context %s", info->model, info->server,
		                    *info->program ? ", " : "", info->program,
		                    info->ctx ? count_text((uint64_t)info->ctx).s : "unknown");
	return 0;
}

void served_close(struct conversation *conv)
{
	remote_close(conv->served.remote);
	conv->served = (struct served){ .left_out = 0 };
}

void conversation_server_models(const struct conversation *conv, struct str *out)
{
	if (conv->served.remote)
		remote_models(conv->served.remote, out);
}

/* Return the context size in tokens: the smaller one of the server's size and the value of -c. If only one of them is
 * known, return it. 0 = both are unknown. */
static int32_t context_limit(const struct conversation *conv)
{
	int32_t ctx = remote_info(conv->served.remote)->ctx;

	return !ctx || (conv->o->ctx && conv->o->ctx < ctx) ? conv->o->ctx : ctx;
}

/* ---- the messages of a request ---- */

struct list {
	struct remote_message *msg;
	struct str *own; /* [n] texts that were made for the list and are freed with it */
	size_t n;
};

static void list_free(struct list *l)
{
	for (size_t i = 0; i < l->n; i++)
		str_free(&l->own[i]);
	free(l->own);
	free(l->msg);
	*l = (struct list){ .n = 0 };
}

static void list_add(struct list *l, enum chat_role role, const struct str *text)
{
	l->msg[l->n] = (struct remote_message){ .role = role, .text = text->n ? text->p : "", .n = text->n };
	l->n++;
}

/* Append a message: a question with its passages, or an answer without its reasoning. If `first` is 1, put the
 * documents that are read whole before the message. A question that follows another question is joined to it, because
 * some templates refuse two questions in a row. */
static void list_add_message(struct list *l, const struct conversation *conv, const struct message *m, int first)
{
	struct str *own;

	if (!first && m->role == ROLE_USER && l->n && l->msg[l->n - 1].role == ROLE_USER)
		str_adds(&l->own[--l->n], "\n\n");
	own = &l->own[l->n];

	if (m->role == ROLE_ASSISTANT) {
		size_t from = m->text.n ? reasoning_length(m->text.p, m->text.n) : 0;

		str_add(own, str_text(&m->text) + from, m->text.n - from);
	} else {
		for (size_t i = 0; first && i < conv->n_doc; i++)
			if (conv->doc[i].whole)
				str_add(own, conv->doc[i].text.p, conv->doc[i].text.n);
		str_add(own, str_text(&m->context), m->context.n);
		str_add(own, str_text(&m->text), m->text.n);
	}
	list_add(l, m->role, own);
}

/* Make the list of messages to send: the system prompt, the messages from index `from` on, and then *begun, the answer
 * to continue. `begun` may be NULL. Free the list with list_free(). */
static struct list list_make(const struct conversation *conv, size_t from, const struct message *begun)
{
	struct list l = {
		.msg = xcalloc(conv->n_msg + 3, sizeof *l.msg),
		.own = xcalloc(conv->n_msg + 3, sizeof *l.own),
	};

	if (conv->has_system)
		list_add(&l, ROLE_SYSTEM, &conv->system);
	for (size_t i = from; i < conv->n_msg; i++)
		list_add_message(&l, conv, &conv->msg[i], i == from);
	if (begun)
		list_add(&l, ROLE_ASSISTANT, &begun->text);
	return l;
}

/* ---- the context ---- */

/* Find the first question after index `from`, because a turn begins there. Returns the question's index, or n_msg if
 * there is none. */
static size_t next_turn(const struct conversation *conv, size_t from)
{
	for (from++; from < conv->n_msg && conv->msg[from].role != ROLE_USER; from++)
		;
	return from;
}

/* Return the index of the last question, which is always sent, or 0 if there is none. */
static size_t last_question(const struct conversation *conv)
{
	size_t i = conv->n_msg;

	while (i && conv->msg[i - 1].role != ROLE_USER)
		i--;
	return i ? i - 1 : 0;
}

/* Return an upper bound of the number of tokens: the bytes of all texts, because each token has at least one byte, plus
 * the largest number of tokens that the template may add. */
static size_t tokens_most(const struct list *l)
{
	size_t n = BEFORE;

	for (size_t i = 0; i < l->n; i++)
		n += l->msg[i].n + AROUND;
	return n;
}

/* Return the number of tokens of a request that begins with message number `from`. Also sets served.tokens and
 * served.counted. If an estimate shows that there are at most `enough` tokens, the estimate is returned. Otherwise the
 * server counts them, which takes another request. */
static int32_t count_from(struct conversation *conv, size_t from, const struct message *begun, size_t enough)
{
	struct list l = list_make(conv, from, begun);
	int exact = 0;
	int32_t n;

	if (tokens_most(&l) <= enough)
		n = (int32_t)(tokens_most(&l) / 3);
	else
		n = remote_count_messages(conv->served.remote, l.msg, l.n, &exact);
	list_free(&l);
	conv->served.tokens = n;
	conv->served.counted = exact;
	return n;
}

/* Leave out more of the oldest turns, until the request has about `most` tokens or only the last question is left. The
 * parameter n is the number of tokens of the request before the call. The tokens of a turn are estimated from its share
 * of the bytes. */
static void turns_leave_out(struct conversation *conv, int32_t n, int32_t most)
{
	size_t *from = &conv->served.left_out, last = last_question(conv), all = 0, rest;

	for (size_t i = *from; i < conv->n_msg; i++)
		all += conv->msg[i].text.n + conv->msg[i].context.n + AROUND;
	rest = all;
	while (*from < last && (double)rest / (double)(all ? all : 1) * n > most) {
		size_t next = next_turn(conv, *from);

		for (size_t i = *from; i < next; i++)
			rest -= conv->msg[i].text.n + conv->msg[i].context.n + AROUND;
		*from = next;
	}
}

/* Set served.left_out, the number of oldest messages to leave out, so that the request and its answer fit the context.
 * `refused` is 1 if the server has just refused the request; then turns that were left out stay left out. Returns 0, or
 * -1 with ERR_FIT if even the last question does not fit. */
static int request_fit(struct conversation *conv, const struct message *begun, int refused, struct err *e)
{
	int32_t ctx = context_limit(conv), answer, n;
	size_t last = last_question(conv);

	if (conv->served.left_out > last)
		conv->served.left_out = 0;
	if (!ctx) {
		count_from(conv, conv->served.left_out, begun, SIZE_MAX);
		return 0;
	}
	answer = conv->o->predict >= 0 && conv->o->predict < ctx / 2 ? conv->o->predict : ctx / SHARE_OF_ANSWER;
	/* Send all turns again if they fit now, for example after an undo or a change of -c. */
	if (conv->served.left_out && !refused && count_from(conv, 0, begun, 0) <= (ctx - answer) / 4 * 3)
		conv->served.left_out = 0;
	n = count_from(conv, conv->served.left_out, begun, (size_t)(ctx - answer));
	while (n > ctx - answer && conv->served.left_out < last) {
		turns_leave_out(conv, n, (ctx - answer) / 4 * 3);
		n = count_from(conv, conv->served.left_out, begun, 0);
	}
	if (n < ctx)
		return 0;
	return err_set(e, ERR_FIT,
	               "the question has %s%d tokens with what goes with it, more than the context of %d at %.100s",
	               conv->served.counted ? "" : "about ", n, ctx, remote_info(conv->served.remote)->server);
}

/* ---- a turn ---- */

struct wait {
	const struct answer_hooks *h;
	struct conversation *conv;
	int told;
};

/* Report progress while a request waits for the server. `why` is NULL, or the error because of which the request is
 * sent again. Only the first such error is shown. */
static void request_waiting(int32_t done, int32_t total, const char *why, void *ud)
{
	struct wait *w = ud;

	if (why && !w->told++ && !w->conv->o->quiet)
		conversation_notice(w->conv, "%s; asking again", why);
	if (w->h->progress)
		w->h->progress(done, total, w->h->progress_ud);
}

/* Send the request. Returns 0 as soon as the server begins to answer, or -1. */
static int request_send(struct conversation *conv, const struct message *begun, const struct answer_hooks *h,
                        struct err *e)
{
	struct wait w = { .h = h, .conv = conv };
	struct list l = list_make(conv, conv->served.left_out, begun);
	struct remote_request q = {
		.msg = l.msg,
		.n_msg = l.n,
		.extends = begun != NULL,
		.no_thought = conv->o->think && !strcmp(conv->o->think, "off"),
		.thought = conv->o->think && !strcmp(conv->o->think, "on"),
		.most = conv->o->predict,
		.sampling = &conv->sampling,
		.said = conv->o->sampling_set,
		.seeded = conv->o->seed_set,
		.seed = conv->o->seed,
		.waiting = request_waiting,
		.ud = &w,
	};
	int rc = remote_ask(conv->served.remote, &q, e);

	list_free(&l);
	return rc;
}

static int32_t served_read(struct conversation *conv, const struct message *begun, const struct answer_hooks *h,
                           struct turn *turn, struct err *e)
{
	const struct remote_info *info = remote_info(conv->served.remote);
	size_t had = conv->served.left_out;
	struct err why = { 0 };
	int rc;

	if (begun && !begun->text.n)
		begun = NULL;
	if (begun && !info->extends)
		return err_set(e, ERR_USAGE, "%.100s cannot extend an answer; ask it to go on", info->server);
	if (request_fit(conv, begun, 0, e) < 0)
		return -1;
	for (int tries = 0; (rc = request_send(conv, begun, h, &why)) < 0; tries++) {
		if (why.code != ERR_FIT || conv->served.left_out >= last_question(conv) || tries == TRIES)
			return err_set(e, why.code, "%s", why.msg);
		/* Leave out the oldest turns, about half of the bytes. If the error named the server's context size,
		 * request_fit() leaves out more until the request fits. */
		turns_leave_out(conv, 2, 1);
		if (request_fit(conv, begun, 1, e) < 0)
			return -1;
	}
	turn->answered = 1;
	turn->prompt_tokens = conv->served.tokens;
	turn->left_out = conv->served.left_out > had ? conv->served.left_out : 0;
	turn->guessed = !conv->served.counted;
	return 0;
}

/* Hash a part of the answer, as the server sent it. The hash serves as a token id for loop_add(), because a server
 * sends text without token ids. */
static int32_t piece_hash(const char *p, size_t n)
{
	uint32_t h = 2166136261u;

	for (size_t i = 0; i < n; i++)
		h = (h ^ (unsigned char)p[i]) * 16777619u;
	return (int32_t)(h & INT32_MAX);
}

/* Handle the next part of the server's stream. It was appended to the last message, where it begins at byte `from`.
 * Returns 1 to stop the answer, 0 to continue, or -1. */
static int piece_take(struct conversation *conv, size_t from, struct loop_watch *watch, const struct answer_hooks *h,
                      struct turn *turn, struct err *e)
{
	struct message *m = &conv->msg[conv->n_msg - 1];
	const char *p = m->text.p + from;
	size_t n = m->text.n - from;

	turn->answer_tokens++;
	if (h->text && h->text(p, n, h->text_ud, e) < 0)
		return -1;
	conversation_emit(conv, EVENT_ANSWER_GREW, 0);
	turn->loop = h->stop_loops ? loop_add(watch, piece_hash(p, n)) : 0;
	if (turn->loop)
		turn->stop = STOP_LOOP;
	/* A server may ignore the token limit: count the pieces of its stream, each of which has at least one token. */
	return turn->loop || (conv->o->predict >= 0 && turn->answer_tokens > conv->o->predict);
}

static int served_generate(struct conversation *conv, int ids, double start, const struct answer_hooks *h,
                           struct turn *turn, struct err *e)
{
	struct message *m = &conv->msg[conv->n_msg - 1];
	struct loop_watch watch = { .n = 0 };
	double first = 0;
	int rc = 0, got = 1;

	(void)ids;
	m->id.n = 0; /* the server sends text without token ids */
	while (!rc) {
		enum remote_stop stop;
		size_t from = m->text.n;

		got = remote_next(conv->served.remote, &m->text, &stop, e);
		if (turn->ttft_s == 0) {
			first = now_seconds();
			turn->ttft_s = first - start;
		}
		if (got == 0)
			turn->stop = stop == REMOTE_LENGTH ? STOP_LENGTH : STOP_EOS;
		if (got <= 0)
			break;
		rc = piece_take(conv, from, &watch, h, turn, e);
	}
	remote_end(conv->served.remote);
	conv->served.decode_s = now_seconds() - first;
	return rc < 0 || got < 0 ? -1 : 0;
}

/* Set the figures of the turn. Figures that the server does not report are computed from measurements. */
static void served_measure(struct conversation *conv, struct turn *turn)
{
	const struct remote_usage *u = remote_usage(conv->served.remote);
	int32_t computed;

	turn->estimated = u->prompt < 0 && !conv->served.counted;
	if (u->prompt >= 0)
		turn->prompt_tokens = u->prompt;
	turn->reused_tokens = u->cached > 0 && u->cached <= turn->prompt_tokens ? u->cached : 0;
	if (u->answer > 0 && turn->answer_tokens)
		turn->answer_tokens = u->answer;
	computed = turn->prompt_tokens - turn->reused_tokens;
	turn->prefill_tps = u->prefill_tps >= 0 ? u->prefill_tps : turn->ttft_s > 0 ? computed / turn->ttft_s : 0;
	turn->decode_tps = u->decode_tps >= 0 ? u->decode_tps
	                   : turn->answer_tokens > 1 && conv->served.decode_s > 0
	                           ? (turn->answer_tokens - 1) / conv->served.decode_s
	                           : 0;
	conv->served.counted = !turn->estimated;
	conv->served.tokens = turn->prompt_tokens + turn->answer_tokens;
	conv->served.reused = turn->reused_tokens;
	conv->served.answer = turn->answer_tokens;
	conv->served.decode_s = turn->decode_tps > 0 ? (turn->answer_tokens - 1) / turn->decode_tps : 0;
	conv->served.prefill_s = turn->prefill_tps > 0 ? computed / turn->prefill_tps : 0;
}

static void served_no_work(struct conversation *conv)
{
	(void)conv;
}

/* Do nothing: a server prefills only when it is asked. */
static int32_t served_prefill(struct conversation *conv, timeline_progress_fn *progress, void *ud, struct err *e)
{
	(void)progress, (void)ud, (void)e;
	conversation_emit(conv, EVENT_PREFILL_ENDED, 0);
	return 0;
}

static void served_stats(const struct conversation *conv, struct timeline_stats *out)
{
	const struct served *s = &conv->served;

	*out = (struct timeline_stats){
		.n_tokens = s->tokens,
		.ctx = context_limit(conv),
		.reused_tokens = s->reused,
		.decode_tokens = s->answer,
		.decode_seconds = s->decode_s,
		.prefill_tokens = s->tokens - s->answer - s->reused,
		.prefill_seconds = s->prefill_s,
	};
}

static size_t served_count(const struct conversation *conv, const char *text, size_t n)
{
	int exact;

	return (size_t)remote_count(conv->served.remote, text, n, &exact);
}

static int served_document_fits(struct conversation *conv, struct document *d, size_t room, struct err *e)
{
	int32_t ctx = (int32_t)conversation_context_size(conv), n;

	d->tokens = served_count(conv, d->text.p, d->text.n);
	n = (int32_t)d->tokens;
	if (conv->n_msg || conv->n_doc > 1) {
		struct message question = { .role = ROLE_USER };
		struct list l = list_make(conv, conv->n_msg, NULL);
		int exact;

		/* Count only the documents and an empty question. The other messages need not fit, because a request
		 * that is too long leaves out the oldest turns. */
		list_add_message(&l, conv, &question, 1);
		n = remote_count_messages(conv->served.remote, l.msg, l.n, &exact);
		list_free(&l);
	}
	if (n + BEFORE + (int32_t)room <= ctx)
		return 0;
	return err_set(
		e, ERR_FIT,
		"document '%.120s' has %zu tokens and does not fit the %s of %d at %.60s; --docs auto searches it for passages instead",
		d->name, d->tokens, context_limit(conv) ? "context" : "assumed context (-c says it)", ctx,
		remote_info(conv->served.remote)->server);
}

const struct answerer answerer_remote = {
	.read = served_read,
	.generate = served_generate,
	.begin = served_no_work,
	.end = served_no_work,
	.measure = served_measure,
	.prefill = served_prefill,
	.stats = served_stats,
	.count = served_count,
	.document_fits = served_document_fits,
};
