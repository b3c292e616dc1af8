/* app/chat/session_log_write.c - writes messages, documents, settings and KV snapshots of a conversation to its
 * session. Its functions are called for events of the conversation (session_log_attach). */
#include "app/chat/chat_private.h"
#include "engine/engine_snapshot.h"

#include <string.h>

enum {
	/* during a long prefill, the KV entries are saved after each ENTRIES_EVERY new tokens */
	ENTRIES_EVERY = 10000,
	/* at the end of a prefill, the KV entries are saved if there are at least ENTRIES_LEAST new tokens */
	ENTRIES_LEAST = 512,
	/* load saved KV entries only if fewer prompt tokens than this are cached */
	FETCH_BELOW = 256,
};
#define ANSWER_EVERY 2.0 /* seconds between two commits of an answer that is being generated */

/* ---- failing ---- */

/* Tell the user, once, that the conversation is no longer saved. */
static void save_failed(struct session_log *r, const struct err *e)
{
	if (!r->failed)
		say("this conversation is not saved any more: %s", e->msg);
	r->failed = 1;
}

static int log_is_off(const struct session_log *r)
{
	return !r || r->failed;
}

/* ---- snapshots ---- */

int64_t session_log_head(const struct conversation *conv)
{
	size_t n = conv->n_msg;

	if (n && conv->grows) /* the growing text is stored later, with its question */
		n--;
	return n ? conv->msg[n - 1].stored : 0;
}

int session_log_fingerprint(struct session_log *r, const struct conversation *conv, struct err *e)
{
	return snaps_fingerprint(r->snaps, conv->engine, conv->tl, &r->fingerprint, e);
}

/* Save a KV snapshot after a turn. If this fails, the next start only has to prefill again. */
static void save_snapshot(struct session_log *r, const struct conversation *conv)
{
	struct snap_saved saved;
	struct err e = { 0 };
	int64_t at = session_log_head(conv);

	if (!r->snaps || !at || !conv->tl)
		return;
	if (session_log_fingerprint(r, conv, &e) < 0 ||
	    snap_save(r->snaps, conv->tl, &r->fingerprint, r->session, at, NULL, 0, &saved, &e) < 0)
		say("the cache of this session is not saved: %s", e.msg);
}

static void entries_fetch(struct conversation *conv, const struct tokens *want, size_t same, void *ud)
{
	struct session_log *r = ud;
	struct snap_loaded got;
	struct err e = { 0 };

	if (log_is_off(r) || !r->snaps || same >= FETCH_BELOW)
		return;
	if (session_log_fingerprint(r, conv, &e) < 0 ||
	    snap_load_prefix(r->snaps, conv->tl, &r->fingerprint, want->id, want->n, &got, &e) < 0)
		say("KV entries that were saved before cannot be used: %s", e.msg);
	r->entries_at = timeline_entries_ready(conv->tl);
}

static void save_entries(struct session_log *r, struct conversation *conv, int all)
{
	int32_t ready;
	struct snap_saved saved;
	struct err e = { 0 };

	if (log_is_off(r) || !r->snaps || !conv->tl)
		return;
	ready = timeline_entries_ready(conv->tl);
	if (ready < r->entries_at)
		r->entries_at = 0;
	if (ready - r->entries_at < (all ? ENTRIES_LEAST : ENTRIES_EVERY))
		return;
	r->entries_at = ready;
	if (session_log_fingerprint(r, conv, &e) < 0 ||
	    snap_save_entries(r->snaps, conv->tl, &r->fingerprint, &saved, &e) < 0)
		say("KV entries of what was read so far are not saved: %s", e.msg);
}

/* ---- settings and documents ---- */

void session_log_settings(struct session_log *r, const struct conversation *conv)
{
	struct err e = { 0 };
	struct str value = { 0 };
	int rc = 0;

	if (log_is_off(r) || !r->session)
		return;
	for (const struct option_def *d = option_defs; d->name && !rc; d++) {
		if (!(d->flags & OPT_KEPT))
			continue;
		str_clear(&value);
		if (d->type == OPT_POLICY && !conv->tl)
			/* the model is on a server and has no cache policy: keep the stored policy of the local
			 * model */
			continue;
		if (d->type == OPT_POLICY)
			timeline_policy(conv->tl, &value);
		else
			option_show(conv->o, d, &value);
		rc = session_set(r->store, r->session, d->name, str_text(&value), value.n, &e);
	}
	if (!rc)
		rc = session_set(r->store, r->session, "system", conv->has_system ? str_text(&conv->system) : NULL,
		                 conv->system.n, &e);
	str_free(&value);
	if (rc < 0)
		save_failed(r, &e);
}

int session_log_begin(struct session_log *r, struct conversation *conv, struct err *e)
{
	if (!r->session) {
		if (session_new(r->store, NULL, &r->session, e) < 0)
			return -1;
		r->fresh = 1;
	}
	if (r->fresh)
		session_log_settings(r, conv);
	r->fresh = 0;
	return session_log_documents(r, conv, e);
}

/* ---- questions, answers and documents ---- */

static int64_t parent_of_last(const struct conversation *conv)
{
	return conv->n_msg > 1 ? conv->msg[conv->n_msg - 2].stored : 0;
}

/* Append a question's extra data for the store, as JSON: the passages that were quoted with it. */
static void question_stats(const struct message *m, struct str *out)
{
	if (!m->context.n)
		return;
	json_open(out, NULL, '{');
	json_text(out, "context", m->context.p, m->context.n);
	json_close(out, '}');
}

/* Append an answer's extra data for the store, as JSON: its sources, the statistics of its turn, and the record of how
 * it was made. `turn` is NULL while the turn runs. */
static void answer_stats(struct session_log *r, const struct conversation *conv, const struct message *m,
                         const struct turn *turn, struct str *out)
{
	if (!turn && !m->sources.n)
		return;
	json_open(out, NULL, '{');
	if (turn) {
		json_int(out, "prompt_tokens", turn->prompt_tokens);
		json_int(out, "reused_tokens", turn->reused_tokens);
		json_int(out, "answer_tokens", turn->answer_tokens);
		json_real(out, "ttft_s", turn->ttft_s, "%.6f");
		json_real(out, "decode_tps", turn->decode_tps, "%.2f");
		json_string(out, "stop",
		            turn->stop == STOP_EOS      ? "eos"
		            : turn->stop == STOP_LENGTH ? "length"
		            : turn->stop == STOP_LOOP   ? "loop"
		                                        : "cancel");
	}
	if (m->sources.n)
		answer_sources_json(&m->sources, out);
	if (turn && conv->tl && turn->random[0]) {
		struct str sha256 = { 0 };
		struct err none = { 0 };

		if (r->snaps && snaps_weights(r->snaps, conv->engine, &sha256, &none) < 0)
			str_clear(&sha256);
		answer_record_json(conv, turn, sha256.p, out);
		str_free(&sha256);
	}
	json_close(out, '}');
}

static void log_question(struct session_log *r, struct conversation *conv)
{
	struct message *m = &conv->msg[conv->n_msg - 1];
	struct stored_message s = {
		.parent = parent_of_last(conv),
		.role = ROLE_USER,
		.text = str_text(&m->text),
		.n_text = m->text.n,
		.complete = 1,
	};
	struct str stats = { 0 };
	struct err e = { 0 };

	if (log_is_off(r))
		return;
	r->writing = 0;
	question_stats(m, &stats);
	s.stats = str_text(&stats);
	if (session_log_begin(r, conv, &e) < 0 || message_append(r->store, r->session, &s, &m->stored, &e) < 0)
		save_failed(r, &e);
	str_free(&stats);
}

/* After an undo, load the KV snapshot that was saved with the last remaining answer. It may have KV entries that the
 * cache has evicted since then. */
static void load_last_answer(struct session_log *r, const struct conversation *conv)
{
	struct timeline_stats st;
	struct snap_loaded got;
	struct str extra = { 0 };
	struct err e = { 0 };
	size_t n = conv->n_msg;

	while (n && conv->msg[n - 1].role != ROLE_ASSISTANT)
		n--;
	conversation_stats(conv, &st);
	if (log_is_off(r) || !r->snaps || !n || !conv->msg[n - 1].stored ||
	    st.rings.evicted + st.rings.evicted_in_part == 0)
		return;
	if (session_log_fingerprint(r, conv, &e) < 0 ||
	    snap_load(r->snaps, conv->tl, &r->fingerprint, conv->msg[n - 1].stored, &extra, &got, &e) < 0)
		say("the snapshot of that turn cannot be used: %s", e.msg);
	str_free(&extra);
}

static void log_undo(struct session_log *r, const struct conversation *conv)
{
	struct err e = { 0 };

	if (log_is_off(r) || !r->session)
		return;
	r->writing = 0;
	if (session_set_head(r->store, r->session, session_log_head(conv), &e) < 0)
		save_failed(r, &e);
	/* If streamed.known is 1, the timeline still has all tokens of the growing text, so no snapshot is needed. */
	else if (!conv->grows || !streamed_of(conv)->known)
		load_last_answer(r, conv);
}

/* ---- redo ---- */

static void log_redo(struct session_log *r, struct conversation *conv)
{
	struct timeline_stats st;
	struct snap_loaded got;
	struct tokens all = { 0 };
	struct str extra = { 0 };
	struct err e = { 0 };
	int64_t head = session_log_head(conv);
	size_t had;

	if (log_is_off(r) || !r->session || !head)
		return;
	r->writing = 0;
	if (session_set_head(r->store, r->session, head, &e) < 0) {
		save_failed(r, &e);
		return;
	}
	/* If the timeline lacks the restored turn, for example because the undo loaded an earlier snapshot, load that
	 * turn's snapshot. */
	if (!conv->tl)
		return;
	timeline_stats(conv->tl, &st);
	timeline_tokens(conv->tl, &had);
	if (!r->snaps || !st.endless || conversation_render(conv, 0, &all, &e) < 0 || had + 16 >= all.n) {
		tokens_free(&all);
		return;
	}
	tokens_free(&all);
	if (session_log_fingerprint(r, conv, &e) < 0 ||
	    snap_load(r->snaps, conv->tl, &r->fingerprint, head, &extra, &got, &e) < 0)
		say("the snapshot of that turn cannot be used: %s", e.msg);
	str_free(&extra);
}

enum { NEXT_MOST = 64 };
/* State of next_turn(), which searches the session's tree for the newest turn that follows a given message. `question`
 * has the ids of the n questions that follow this message, oldest first. `there` is 1 if one of them has an answer; the
 * message `m` is then a copy of the newest answer. Afterwards `m` is used again, for a copy of the question. */
struct children {
	const struct conversation *conv;
	int64_t question[NEXT_MOST];
	size_t n;
	struct message m;
	int there;
};

static void copy_message(const struct conversation *conv, const struct stored_message *from, struct message *to)
{
	*to = (struct message){ .role = from->role == ROLE_ASSISTANT ? ROLE_ASSISTANT : ROLE_USER, .stored = from->id };
	str_add(&to->text, from->text, from->n_text);
	message_read_stats(from->role, from->stats, to);
	if (tokens_match_text(conv->engine, from->token, from->n_token, from->text, from->n_text))
		tokens_append(&to->id, from->token, from->n_token);
}

static int next_question(const struct stored_message *m, void *ud)
{
	struct children *x = ud;

	if (m->role == ROLE_USER) {
		/* The list is full: drop the oldest id. */
		if (x->n == NEXT_MOST)
			memmove(x->question, x->question + 1, --x->n * sizeof *x->question);
		x->question[x->n++] = m->id;
	}
	return 0;
}

static int next_answer(const struct stored_message *m, void *ud)
{
	struct children *x = ud;

	if (m->role == ROLE_ASSISTANT) {
		if (x->there) {
			message_free(&x->m);
		}
		copy_message(x->conv, m, &x->m);
		x->there = 1;
	}
	return 0;
}

static int copy_question(const struct stored_message *m, void *ud)
{
	struct children *x = ud;

	if (m->id == x->question[x->n])
		copy_message(x->conv, m, &x->m);
	return 0;
}

static int next_turn(struct conversation *conv, struct message out[2], void *ud, struct err *e)
{
	struct session_log *r = ud;
	struct children x = { .conv = conv };
	int64_t at = session_log_head(conv);

	if (log_is_off(r) || !r->session || (conv->n_msg && !at) || conv->grows)
		return 0;
	if (message_children(r->store, r->session, at, next_question, &x, e) < 0)
		return -1;
	/* Skip questions without an answer: the user stopped them too early. */
	while (x.n && !x.there) {
		x.n--;
		if (message_children(r->store, r->session, x.question[x.n], next_answer, &x, e) < 0)
			return -1;
	}
	if (!x.there)
		return 0;
	out[1] = x.m;
	x.m = (struct message){ 0 };
	if (message_path(r->store, x.question[x.n], copy_question, &x, e) < 0) {
		message_free(&out[1]);
		return -1;
	}
	out[0] = x.m;
	return 1;
}

/* Store the answer so far. `turn` has the statistics of the turn; it is NULL while the turn runs. */
static void write_answer(struct session_log *r, struct conversation *conv, const struct turn *turn)
{
	struct message *m = &conv->msg[conv->n_msg - 1];
	struct stored_message s = {
		.parent = parent_of_last(conv),
		.role = ROLE_ASSISTANT,
		.text = str_text(&m->text),
		.n_text = m->text.n,
		.token = m->id.id,
		.n_token = m->id.n,
		.complete = turn != NULL,
	};
	struct str stats = { 0 };
	struct err e = { 0 };
	int rc;

	answer_stats(r, conv, m, turn, &stats);
	s.stats = str_text(&stats);
	if (!r->writing) {
		rc = message_append(r->store, r->session, &s, &m->stored, &e);
		r->writing = m->stored;
	} else {
		rc = message_update(r->store, r->writing, &s, &e);
	}
	r->written_at = now_seconds();
	str_free(&stats);
	if (rc < 0)
		save_failed(r, &e);
}

/* Record that an answer begins. A long answer is stored every ANSWER_EVERY seconds, a short one only at its end. If
 * /continue extends an answer, the longer answer is stored as a new message. */
static void answer_began(struct session_log *r)
{
	r->writing = 0;
	r->written_at = now_seconds();
}

static void log_piece(struct session_log *r, struct conversation *conv)
{
	if (log_is_off(r))
		return;
	if (now_seconds() - r->written_at >= ANSWER_EVERY)
		write_answer(r, conv, NULL);
}

/* Append the model's file name, or for a server the model's name and the server's address. */
static void model_name(const struct conversation *conv, struct str *out)
{
	const char *path = conv->info->path, *slash = strrchr(path, '/');

	str_adds(out, slash ? slash + 1 : path);
	if (!conv->tl)
		str_addf(out, " at %s", conv->info->device);
}

static void log_turn(struct session_log *r, struct conversation *conv, const struct turn *turn)
{
	struct str model = { 0 };
	struct timeline_stats st;
	struct err e = { 0 };

	if (log_is_off(r))
		return;
	write_answer(r, conv, turn);
	r->writing = 0;
	conversation_stats(conv, &st);
	model_name(conv, &model);
	if (!r->failed &&
	    (session_set(r->store, r->session, "random", conv->sampling.rng, sizeof conv->sampling.rng, &e) < 0 ||
	     session_touch(r->store, r->session, model.p, st.kv, st.n_tokens, &e) < 0))
		save_failed(r, &e);
	str_free(&model);
	if (!r->failed)
		save_snapshot(r, conv);
}

void session_log_unbind(struct session_log *r, struct conversation *conv)
{
	session_log_leave(r);
	if (r->read_only)
		r->failed = 0;
	r->read_only = 0;
	r->session = r->writing = 0;
	session_log_no_documents(r, conv);
}

/* Store the changes of documents, unless session_log_defer() has postponed that. */
static void log_documents(struct session_log *r, struct conversation *conv)
{
	struct err e = { 0 };

	if (!log_is_off(r) && r->session && !r->deferred && session_log_documents(r, conv, &e) < 0)
		save_failed(r, &e);
}

void session_log_defer(struct session_log *r, struct conversation *conv, int on)
{
	if (!r)
		return;
	r->deferred = on;
	log_documents(r, conv);
}

/* ---- observing the conversation ---- */

static void on_event(struct conversation *conv, const struct conversation_event *event, void *ud)
{
	struct session_log *r = ud;

	switch (event->what) {
	case EVENT_QUESTION: log_question(r, conv); break;
	case EVENT_QUESTION_WITHDRAWN:
	case EVENT_UNDONE: log_undo(r, conv); break;
	case EVENT_ANSWER_WITHDRAWN: load_last_answer(r, conv); break;
	case EVENT_ANSWER_BEGAN: answer_began(r); break;
	case EVENT_ANSWER_GREW: log_piece(r, conv); break;
	case EVENT_ANSWER_ENDED: log_turn(r, conv, event->turn); break;
	case EVENT_REDONE: log_redo(r, conv); break;
	case EVENT_CLEARED: session_log_unbind(r, conv); break;
	/* the session still stores the removed turns, so the next answer must be a new message */
	case EVENT_RETURNED: r->writing = 0; break;
	case EVENT_TEXT_GREW: break; /* the growing text is stored later, with its question */
	case EVENT_DOCUMENT_ADDED: log_documents(r, conv); break;
	case EVENT_DOCUMENT_DROPPED:
		r->leaving = &conv->doc[event->i];
		document_row_drop(r, &conv->doc[event->i]);
		log_documents(r, conv);
		r->leaving = NULL;
		break;
	case EVENT_DOCUMENT_PUT_BACK:
		document_rows_from(r, conv, event->i);
		log_documents(r, conv);
		break;
	case EVENT_SETTINGS: session_log_settings(r, conv); break;
	case EVENT_PREFILL_GREW: save_entries(r, conv, 0); break;
	case EVENT_PREFILL_ENDED: save_entries(r, conv, 1); break;
	case EVENT_NOTICE:
	case EVENT_OPENING:
	case EVENT_RECALLED:
	case EVENT_REMEMBERED:
	case EVENT_SOURCES: break;
	}
}

void session_log_detach(struct session_log *r, struct conversation *conv)
{
	conversation_ignore(conv, on_event, r);
	conv->hooks.fetch = NULL;
	conv->hooks.next_turn = NULL;
	conv->hooks.ud = NULL;
}

void session_log_attach(struct session_log *r, struct conversation *conv)
{
	session_log_detach(r, conv);
	conversation_observe(conv, on_event, r);
	conv->hooks.fetch = entries_fetch;
	conv->hooks.next_turn = next_turn;
	conv->hooks.ud = r;
}
