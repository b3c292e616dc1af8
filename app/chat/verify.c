/* app/chat/verify.c - weir verify SESSION: recomputes every answer of a session, and compares its tokens with the
 * stored tokens.
 *
 * The questions are asked in their order, in a separate conversation that is not stored, with the session's documents
 * and settings. Before each answer the random generator is set to the state that was stored with the answer. If the new
 * answer differs, or cannot be computed, the stored answer replaces it before the next question. */
#include "app/chat/chat.h"
#include "engine/base/json.h"

#include <stdlib.h>
#include <string.h>

struct stored_answer {
	int64_t id;
	int role;
	struct str text, stats;
	struct tokens token;
};

enum verdict { EQUAL, DIFFERS, NO_RECORD, NO_ANSWER };

struct verifying {
	struct chat chat;
	struct store *store;
	struct snaps *snaps;
	int64_t session;
	struct stored_answer *msg; /* [n] messages of the branch that the session shows: questions and answers */
	size_t n;
	/* id of the last replayed message; 0 = none yet. The next documents to replay are those that were added after
	 * this message. */
	int64_t shown;
	struct str sha256, out;
	int answers, count[NO_ANSWER + 1];
	int64_t tokens;
};

/* ---- a front end that shows nothing ---- */

static void no_notice(struct chat *c, const char *text, size_t n)
{
	(void)c, (void)text, (void)n;
}

static void no_error(struct chat *c, const struct err *e)
{
	(void)c, (void)e;
}

static void no_progress(struct chat *c, const char *verb, int32_t done, int32_t total)
{
	(void)c, (void)verb, (void)done, (void)total;
}

static int no_yield(struct chat *c)
{
	(void)c;
	return signals_stopped() ? 2 : 0;
}

static const struct front silent = {
	.notice = no_notice,
	.error = no_error,
	.progress = no_progress,
	.yield = no_yield,
};

static int on_text(const char *bytes, size_t n, void *ud, struct err *e)
{
	(void)bytes, (void)n, (void)ud, (void)e;
	return 0;
}

/* ---- the stored session ---- */

static int take_message(const struct stored_message *m, void *ud)
{
	struct verifying *v = ud;
	struct stored_answer *a;

	v->msg = xrealloc(v->msg, (v->n + 1) * sizeof *v->msg);
	a = &v->msg[v->n++];
	*a = (struct stored_answer){ .id = m->id, .role = m->role };
	str_add(&a->text, m->text, m->n_text);
	str_adds(&a->stats, m->stats);
	tokens_append(&a->token, m->token, m->n_token);
	return 0;
}

static int take_document(const struct stored_document *d, void *ud)
{
	struct verifying *v = ud;

	return d->after == v->shown &&
	       session_restore_document(&v->chat.conv, d, v->chat.conv.n_msg, &(struct err){ 0 }) < 0;
}

/* Open the conversation with the session's settings. Without -m it uses the session's model; without -c, the context of
 * the last answer. */
static int conversation_like(struct verifying *v, struct options *o, struct err *e)
{
	struct answer_record last = { 0 };
	struct str note = { 0 };
	struct session s;
	int rc;

	if (session_get(v->store, v->session, &s, e) < 0 ||
	    (s.head && message_path(v->store, s.head, take_message, v, e) < 0) ||
	    session_options(v->store, v->session, o, e) < 0)
		return -1;
	if (!o->model && *s.model)
		o->model = options_own(o, s.model, strlen(s.model));
	for (size_t i = v->n; i-- && !last.ctx;) {
		answer_record_free(&last);
		answer_record_read(str_text(&v->msg[i].stats), &last);
	}
	o->ctx = o->ctx ? o->ctx : last.ctx;
	answer_record_free(&last);
	o->private_talk = 1;
	o->n_file = 0;
	v->chat.front = &silent;
	rc = chat_open(&v->chat, o, &note, e);
	str_free(&note);
	return rc < 0 || (v->snaps && snaps_weights(v->snaps, v->chat.conv.engine, &v->sha256, e) < 0) ? -1 : 0;
}

/* ---- one answer ---- */

/* Ask the question with the sampling settings and the random generator of the record. */
static int ask_again(struct verifying *v, const struct stored_answer *question, const struct answer_record *r,
                     struct err *e)
{
	struct conversation *conv = &v->chat.conv;
	struct answer_hooks hooks = { .text = on_text, .stop_loops = strcmp(v->chat.o.loops, "go") != 0 };
	struct turn turn;

	v->chat.o.predict = r->limit;
	v->chat.o.sampling = r->sampling;
	v->chat.o.sampling_set = r->sampling_set;
	conversation_sampling(conv, 0);
	memcpy(conv->sampling.rng, r->random, sizeof r->random);
	signals_work(1);
	if (conversation_ask(conv, str_text(&question->text), question->text.n, &hooks, &turn, e) < 0) {
		signals_work(0);
		return -1;
	}
	signals_work(0);
	return turn.answered;
}

/* Return the index of the first token that differs, or -1 if all are equal. */
static int64_t first_difference(const struct tokens *a, const struct tokens *b)
{
	size_t n = 0;

	while (n < a->n && n < b->n && a->id[n] == b->id[n])
		n++;
	return n == a->n && n == b->n ? -1 : (int64_t)n;
}

static void add_verdict(struct verifying *v, enum verdict verdict, size_t tokens, int64_t at, const char *why)
{
	static const char *const name[] = {
		[EQUAL] = "equal", [DIFFERS] = "differs", [NO_RECORD] = "no record", [NO_ANSWER] = "no answer"
	};
	struct str *out = &v->out;

	v->answers++;
	v->count[verdict]++;
	v->tokens += verdict == EQUAL ? (int64_t)tokens : 0;
	if (v->chat.o.json) {
		json_open(out, NULL, '{');
		json_int(out, "answer", v->answers);
		json_int(out, "tokens", (int64_t)tokens);
		json_string(out, "verdict", name[verdict]);
		if (at >= 0)
			json_int(out, "from", at);
		else
			json_null(out, "from");
		json_string(out, "why", why);
		json_close(out, '}');
		str_adds(out, "\n");
		return;
	}
	str_addf(out, "answer %d, %zu tokens: %s", v->answers, tokens, name[verdict]);
	if (at >= 0)
		str_addf(out, " from token %lld on", (long long)at + 1);
	str_addf(out, "%s%s\n", why ? ", " : "", why ? why : "");
}

/* Return what has changed since the answer was made, as words for the user; NULL = nothing. */
static const char *changed_since(const struct verifying *v, const struct answer_record *r)
{
	if (r->sha256.n && v->sha256.n && strcmp(r->sha256.p, v->sha256.p) != 0)
		return "another model file made it";
	return r->device.n && strcmp(r->device.p, v->chat.conv.info->device) != 0
	               ? "another processor or number of threads made it"
	               : NULL;
}

static void put_stored(struct verifying *v, const struct stored_answer *m)
{
	conversation_message(&v->chat.conv, m->role == ROLE_ASSISTANT ? ROLE_ASSISTANT : ROLE_USER, str_text(&m->text),
	                     m->text.n, m->token.id, m->token.n);
}

/* Recompute one answer and compare it. Afterwards the conversation has the stored answer, even if the new one
 * differs. */
static int verify_answer(struct verifying *v, const struct stored_answer *question, const struct stored_answer *answer,
                         struct err *e)
{
	struct conversation *conv = &v->chat.conv;
	struct answer_record r;
	size_t from = conv->n_msg;
	int rc = answer_record_read(str_text(&answer->stats), &r);
	int64_t at = 0;

	if (rc < 0) {
		add_verdict(v, NO_RECORD, answer->token.n, -1, "an older weir made it, or it was continued");
	} else if ((rc = ask_again(v, question, &r, e)) > 0) {
		at = first_difference(&answer->token, &conv->msg[conv->n_msg - 1].id);
		add_verdict(v, at < 0 ? EQUAL : DIFFERS, answer->token.n, at, at < 0 ? NULL : changed_since(v, &r));
	} else if (!rc) {
		add_verdict(v, NO_ANSWER, answer->token.n, -1, "its documents do not answer it any more");
	}
	answer_record_free(&r);
	if (rc < 0 && e->code)
		return -1;
	if (at < 0)
		return 0;
	conversation_cut(conv, from);
	put_stored(v, question);
	put_stored(v, answer);
	return 0;
}

/* ---- the session ---- */

static int verify_messages(struct verifying *v, struct err *e)
{
	struct progress progress;
	int rc = session_documents(v->store, v->session, take_document, v, e);

	progress_init(&progress, v->chat.o.quiet, v->chat.o.verbose, "verifying", "messages");
	for (size_t i = 0; !rc && i < v->n; i++) {
		const struct stored_answer *m = &v->msg[i], *next = i + 1 < v->n ? m + 1 : NULL;

		progress_show(&progress, (int64_t)i, (int64_t)v->n);
		if (m->role == ROLE_USER && next && next->role == ROLE_ASSISTANT) {
			rc = verify_answer(v, m, next, e);
			i++;
		} else {
			put_stored(v, m);
		}
		v->shown = v->msg[i].id;
		if (!rc)
			rc = session_documents(v->store, v->session, take_document, v, e);
	}
	progress_clear(&progress);
	return rc;
}

static void add_sum(struct verifying *v)
{
	if (v->chat.o.json)
		return;
	str_addf(&v->out, "%d answer%s: %d equal (%s tokens)", v->answers, v->answers == 1 ? "" : "s", v->count[EQUAL],
	         count_text((uint64_t)v->tokens).s);
	if (v->count[DIFFERS] + v->count[NO_ANSWER])
		str_addf(&v->out, ", %d not", v->count[DIFFERS] + v->count[NO_ANSWER]);
	if (v->count[NO_RECORD])
		str_addf(&v->out, ", %d without a record", v->count[NO_RECORD]);
	str_adds(&v->out, "\n");
}

static void verifying_free(struct verifying *v, struct options *o)
{
	chat_close(&v->chat, o);
	for (size_t i = 0; i < v->n; i++) {
		str_free(&v->msg[i].text);
		str_free(&v->msg[i].stats);
		tokens_free(&v->msg[i].token);
	}
	free(v->msg);
	str_free(&v->sha256);
	str_free(&v->out);
	if (v->snaps)
		snaps_close(v->snaps);
	if (v->store)
		store_close(v->store);
}

static int verify(struct verifying *v, struct options *o, struct err *e)
{
	struct str notice = { 0 };
	int rc;

	if (o->n_file != 1)
		return err_set(e, ERR_USAGE, "'weir verify' wants the name of a session");
	rc = store_open(&v->store, &(struct store_options){ .notice = &notice }, e);
	if (!rc)
		rc = snaps_open(&v->snaps, v->store, &(struct snaps_options){ .budget = 0 }, &notice, e);
	say_lines(&notice);
	str_free(&notice);
	if (rc || session_find(v->store, o->file[0], &v->session, e) < 0 || conversation_like(v, o, e) < 0)
		return -1;
	rc = verify_messages(v, e);
	add_sum(v);
	return (!rc || e->code == ERR_CANCELLED) && print_json(&v->out, e) < 0 ? -1 : rc;
}

int cmd_verify(struct options *o)
{
	struct verifying v = { .store = NULL };
	struct err e = { 0 };
	int rc = verify(&v, o, &e), differ = v.count[DIFFERS] + v.count[NO_RECORD] + v.count[NO_ANSWER] > 0;

	verifying_free(&v, o);
	return rc < 0 ? fail(&e) : differ;
}
