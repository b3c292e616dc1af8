/* app/record.c - see record.h. */
#include "app/record.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/app.h"

enum { ROWS_EVERY = 10000 };          /* tokens of a long read after which its rows are saved */
enum { FETCH_BELOW = 256 };           /* a timeline with more of what is wanted goes on from there */
#define ANSWER_EVERY 2.0              /* seconds after which a growing answer is committed */

/* ---- failing ---- */

/* The talk matters more than its record. */
static void failed(struct record *r, const struct err *e)
{
	if (!r->failed)
		say("this talk is not kept any more: %s", e->msg);
	r->failed = 1;
}

static int off(const struct record *r)
{
	return !r || r->failed;
}

/* ---- opening ---- */

/* A new session where someone sits; a pipe and -p keep what they are told to keep. */
static int wanted(const struct options *o)
{
	if (o->private_talk)
		return 0;
	return o->session || o->go_on || (!o->prompt && isatty(0) && isatty(1));
}

/* Until sessions kept all settings of their cache policy they kept those that were not the defaults of then: four rings. */
static void rings_of_then(struct str *kv)
{
	size_t name = strcspn(kv->p, ":");
	int streams = (name == 4 && !memcmp(kv->p, "auto", name)) || (name == 7 && !memcmp(kv->p, "cascade", name));

	if (streams && !strstr(kv->p, ":n=") && !strstr(kv->p, ",n="))
		str_addf(kv, "%cn=4", kv->p[name] ? ',' : ':');
}

static int option_recall(struct options *o, const struct option_def *d, struct str *value, struct err *e)
{
	char where[60];

	if (d->type == OPT_POLICY)
		rings_of_then(value);
	snprintf(where, sizeof where, "the session's '%s'", d->name);
	return option_set(o, d, where, options_own(o, value->p, value->n), e);
}

/* What the session remembers, where the command line says nothing. */
static int options_recall(struct record *r, struct options *o, struct err *e)
{
	struct str value = {0};
	int rc = 0;

	for (const struct option_def *d = option_defs; d->name && rc >= 0; d++) {
		if (!(d->flags & OPT_KEPT) || option_said(o, d))
			continue;
		str_clear(&value);
		rc = session_value(r->store, r->session, d->name, &value, e);
		if (rc > 0 && value.n)
			rc = option_recall(o, d, &value, e);
	}
	if (rc >= 0 && (!o->system || !option_said(o, option_find("system", 6, CMD_CHAT)))) {
		str_clear(&value);
		rc = session_value(r->store, r->session, "system", &value, e);
		if (rc > 0)
			o->system = options_own(o, value.p ? value.p : "", value.n);
	}
	str_free(&value);
	return rc < 0 ? -1 : 0;
}

/* The session of just that name or number: 1, 0 = there is none, -1.  A beginning that fits one alone will not do: another
 * session may be meant to begin. */
static int session_named(struct record *r, const char *name, struct err *e)
{
	struct err none = {0};
	struct session s;

	if (session_find(r->store, name, &r->session, &none) < 0)
		return none.code == ERR_USAGE ? 0 : err_set(e, none.code, "%s", none.msg);
	if (session_get(r->store, r->session, &s, e) < 0)
		return -1;
	return !strcmp(s.name, name) || !name[strspn(name, "0123456789")];
}

static int choose_session(struct record *r, struct options *o, struct err *e)
{
	int rc;

	if (o->session) {
		rc = session_named(r, o->session, e);
		if (rc)
			return rc < 0 ? -1 : options_recall(r, o, e);
		/* Begun at once, so that a name that cannot be is refused before the question. */
		r->session = 0;
		r->fresh = 1;
		return session_new(r->store, o->session, &r->session, e);
	}
	if (!o->go_on)
		return 0;
	rc = session_last(r->store, &r->session, e);
	if (rc == 0)
		return err_set(e, ERR_USAGE, "there is no session to continue; -s NAME begins one");
	return rc < 0 ? -1 : options_recall(r, o, e);
}

int record_open(struct record **out, struct options *o, struct err *e)
{
	struct record *r;
	struct str notice = {0};
	struct err why = {0};
	int rc;

	*out = NULL;
	if (o->private_talk && (o->session || o->go_on))
		return err_set(e, ERR_USAGE, "--private keeps nothing: it cannot stand beside '%s'", o->session ? "-s" : "--continue");
	if (!wanted(o))
		return 0;
	r = xcalloc(1, sizeof *r);
	rc = store_open(&r->store, &(struct store_options){ .notice = &notice }, e);
	say_lines(&notice);
	str_clear(&notice);
	if (rc < 0) {
		str_free(&notice);
		free(r);
		/* Nobody asked for it: talking goes before keeping. */
		if (!o->session && !o->go_on) {
			if (!o->quiet)
				say("this talk is not kept: %s", e->msg);
			*e = (struct err){0};
			return 0;
		}
		return -1;
	}
	if (choose_session(r, o, e) < 0) {
		store_close(r->store);
		str_free(&notice);
		free(r);
		return -1;
	}
	if (snaps_open(&r->snaps, r->store, &(struct snaps_options){ .budget = 0 }, &notice, &why) < 0)
		say("the cache of sessions is not kept: %s", why.msg);
	say_lines(&notice);
	str_free(&notice);
	*out = r;
	return 0;
}

/* ---- resuming ---- */

struct resuming { struct talk *t; struct err *e; };

static int add_document(const struct stored_document *d, void *ud)
{
	struct resuming *s = ud;
	struct document *last;

	if (talk_document_again(s->t, d->name, d->text, d->n_text, d->bytes, s->e) < 0)
		return 1;
	last = &s->t->doc[s->t->n_doc - 1];
	last->stored = d->id;
	last->at = 0;
	for (size_t i = 0; i < s->t->n_msg && d->after; i++)
		if (s->t->msg[i].stored == d->after)
			last->at = i + 1;
	return 0;
}

static int add_message(const struct stored_message *m, void *ud)
{
	struct resuming *s = ud;
	size_t n = tokens_spell(s->t->engine, m->token, m->n_token, m->text, m->n_text) ? m->n_token : 0;

	talk_message(s->t, m->role == ROLE_ASSISTANT ? ROLE_ASSISTANT : ROLE_USER, m->text, m->n_text, m->token, n)->stored = m->id;
	return 0;
}

static const char *model_name(const struct talk *t)
{
	const char *path = engine_info(t->engine)->path, *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* Each time anew: it depends on what the timeline holds. */
static int fingerprint(struct record *r, const struct talk *t, struct err *e)
{
	return snaps_fingerprint(r->snaps, t->engine, t->tl, &r->fingerprint, e);
}

/* The command line changes what the session remembers. */
static int settings_said(const struct options *o)
{
	for (const struct option_def *d = option_defs; d->name; d++)
		if ((d->flags & OPT_KEPT) && option_said(o, d))
			return 1;
	return 0;
}

static void describe_loaded(const struct talk *t, const struct snap_loaded *got, int restored, struct str *note)
{
	struct tokens all = {0};
	struct err e = {0};

	if (restored) {
		str_adds(note, "restored ");
		human_count(note, (uint64_t)got->tokens);
		str_adds(note, " tokens, 0 recomputed, ");
		human_bytes(note, got->bytes);
		str_addf(note, " in %.2f s", got->seconds);
	} else {
		/* Why not: with the number of tokens. */
		str_adds(note, got->why);
	}
	/* What is computed from here on is right to rounding, and not to the bit what it would have been there. */
	if (got->by[0])
		str_addf(note, "; they were computed by '%s': answers may differ in the last digits from those there", got->by);
	if (restored)
		return;
	if (got->why[0] || talk_render(t, 0, &all, &e) < 0)
		return;
	human_count(note, all.n);
	str_adds(note, " tokens are read again with the next question");
	tokens_free(&all);
}

int record_resume(struct record *r, struct talk *t, struct str *note, struct err *e)
{
	struct session s;
	struct resuming state = {.t = t, .e = e};
	struct str value = {0};
	struct snap_loaded got = {0};
	struct err why = {0};
	int64_t head;
	int rc;

	if (!r)
		return 0;
	t->record = r;
	/* What came with the command line is kept with the first question. */
	if (!r->session)
		return 0;
	if (session_get(r->store, r->session, &s, e) < 0)
		return -1;
	if (r->fresh)
		str_addf(note, "a new session, '%s'", s.name);
	head = s.head;
	if (head && message_path(r->store, head, add_message, &state, e) < 0)
		return -1;
	if (session_documents(r->store, r->session, add_document, &state, e) < 0 || e->code)
		return -1;
	if (!t->o->seed_set && session_value(r->store, r->session, "random", &value, &why) > 0 &&
	    value.n == sizeof t->sampling.rng)
		memcpy(t->sampling.rng, value.p, sizeof t->sampling.rng);
	if (!head) {
		str_free(&value);
		return 0;
	}
	rc = 0;
	str_clear(&value);
	if (r->snaps && !fingerprint(r, t, &why))
		rc = snap_load(r->snaps, t->tl, &r->fingerprint, head, &value, &got, &why);
	str_free(&value);
	if (rc < 0)
		snprintf(got.why, sizeof got.why, "%.190s", why.msg);
	describe_loaded(t, &got, rc > 0, note);
	if (settings_said(t->o))
		record_settings(r, t);
	return 0;
}

/* ---- snapshots ---- */

static int64_t last_stored(const struct talk *t)
{
	size_t n = t->n_msg;

	if (n && t->streamed.open)   /* kept with its question */
		n--;
	return n ? t->msg[n - 1].stored : 0;
}

/* After a turn, when the sequence is the one that the message ends.  Full disks and tight budgets cost time at the next
 * start, not the talk. */
static void snapshot(struct record *r, const struct talk *t)
{
	struct snap_saved saved;
	struct err e = {0};
	int64_t at = last_stored(t);

	if (!r->snaps || !at)
		return;
	if (fingerprint(r, t, &e) < 0 ||
	    snap_save(r->snaps, t->tl, &r->fingerprint, r->session, at, NULL, 0, &saved, &e) < 0)
		say("the cache of this session is not saved: %s", e.msg);
}

void record_close(struct record *r)
{
	if (!r)
		return;
	if (r->snaps)
		snaps_close(r->snaps);
	store_close(r->store);
	free(r);
}

void record_fetch(struct record *r, struct talk *t, const struct tokens *want, size_t same)
{
	struct snap_loaded got;
	struct err e = {0};

	if (off(r) || !r->snaps || same >= FETCH_BELOW)
		return;
	if (fingerprint(r, t, &e) < 0 ||
	    snap_load_prefix(r->snaps, t->tl, &r->fingerprint, want->id, want->n, &got, &e) < 0)
		say("what was read before cannot be used: %s", e.msg);
	r->rows_at = timeline_rows_ready(t->tl);
}

void record_rows(struct record *r, struct talk *t, int all)
{
	int32_t ready;
	struct snap_saved saved;
	struct err e = {0};

	if (off(r) || !r->snaps)
		return;
	ready = timeline_rows_ready(t->tl);
	if (ready < r->rows_at)
		r->rows_at = 0;
	if (ready - r->rows_at < (all ? 512 : ROWS_EVERY))
		return;
	r->rows_at = ready;
	if (fingerprint(r, t, &e) < 0 || snap_save_rows(r->snaps, t->tl, &r->fingerprint, &saved, &e) < 0)
		say("what was read so far is not saved: %s", e.msg);
}

/* ---- a session's own settings ---- */

void record_settings(struct record *r, const struct talk *t)
{
	struct err e = {0};
	struct str value = {0};
	int rc = 0;

	if (off(r) || !r->session)
		return;
	for (const struct option_def *d = option_defs; d->name && !rc; d++) {
		if (!(d->flags & OPT_KEPT))
			continue;
		str_clear(&value);
		if (d->type == OPT_POLICY)
			timeline_policy(t->tl, &value);
		else
			option_show(t->o, d, &value);
		rc = session_set(r->store, r->session, d->name, value.p ? value.p : "", value.n, &e);
	}
	if (!rc)
		rc = session_set(r->store, r->session, "system", t->has_system ? t->system.p ? t->system.p : "" : NULL, t->system.n, &e);
	str_free(&value);
	if (rc < 0)
		failed(r, &e);
}

static int keep_document(struct record *r, struct talk *t, struct document *d, struct err *e)
{
	struct stored_document s = {
		.name = d->name, .text = d->text.p + d->body, .n_text = d->n_body, .bytes = d->bytes,
		.after = d->at ? t->msg[d->at - 1].stored : 0,
	};

	return session_add_document(r->store, r->session, &s, &d->stored, e);
}

/* The session exists from here on. */
static int begin(struct record *r, struct talk *t, struct err *e)
{
	if (!r->session) {
		if (session_new(r->store, NULL, &r->session, e) < 0)
			return -1;
		r->fresh = 1;
	}
	if (r->fresh)
		record_settings(r, t);
	r->fresh = 0;
	for (size_t i = 0; i < t->n_doc; i++)
		if (!t->doc[i].stored && keep_document(r, t, &t->doc[i], e) < 0)
			return -1;
	return 0;
}

/* ---- what happens ---- */

static int64_t parent_of_last(const struct talk *t)
{
	return t->n_msg > 1 ? t->msg[t->n_msg - 2].stored : 0;
}

void record_question(struct record *r, struct talk *t)
{
	struct message *m = &t->msg[t->n_msg - 1];
	struct stored_message s = {
		.parent = parent_of_last(t), .role = ROLE_USER, .text = m->text.p ? m->text.p : "", .n_text = m->text.n, .complete = 1,
	};
	struct err e = {0};

	if (off(r))
		return;
	r->writing = 0;
	if (begin(r, t, &e) < 0 || message_append(r->store, r->session, &s, &m->stored, &e) < 0)
		failed(r, &e);
}

void record_go_back(struct record *r, const struct talk *t)
{
	struct timeline_stats st;
	struct snap_loaded got;
	struct str extra = {0};
	struct err e = {0};
	size_t n = t->n_msg;

	while (n && t->msg[n - 1].role != ROLE_ASSISTANT)
		n--;
	timeline_stats(t->tl, &st);
	if (off(r) || !r->snaps || !n || !t->msg[n - 1].stored || st.rows.evicted + st.rows.evicted_in_part == 0)
		return;
	if (fingerprint(r, t, &e) < 0 ||
	    snap_load(r->snaps, t->tl, &r->fingerprint, t->msg[n - 1].stored, &extra, &got, &e) < 0)
		say("the snapshot of that turn cannot be used: %s", e.msg);
	str_free(&extra);
}

void record_taken_back(struct record *r, const struct talk *t)
{
	struct err e = {0};

	if (off(r) || !r->session)
		return;
	r->writing = 0;
	if (session_set_head(r->store, r->session, last_stored(t), &e) < 0)
		failed(r, &e);
	else
		record_go_back(r, t);
}

/* ---- bringing back ---- */

void record_brought_back(struct record *r, struct talk *t)
{
	struct timeline_stats st;
	struct snap_loaded got;
	struct tokens all = {0};
	struct str extra = {0};
	struct err e = {0};
	int64_t head = last_stored(t);
	size_t had;

	if (off(r) || !r->session || !head)
		return;
	r->writing = 0;
	if (session_set_head(r->store, r->session, head, &e) < 0) {
		failed(r, &e);
		return;
	}
	/* Where the cache could not go back an earlier state was loaded: the later one may still be there. */
	timeline_stats(t->tl, &st);
	timeline_tokens(t->tl, &had);
	if (!r->snaps || !st.endless || talk_render(t, 0, &all, &e) < 0 || had + 16 >= all.n) {
		tokens_free(&all);
		return;
	}
	tokens_free(&all);
	if (fingerprint(r, t, &e) < 0 || snap_load(r->snaps, t->tl, &r->fingerprint, head, &extra, &got, &e) < 0)
		say("the snapshot of that turn cannot be used: %s", e.msg);
	str_free(&extra);
}

/* Of the messages behind one: the numbers of questions, or a copy of the newest answer. */
enum { NEXT_MOST = 64 };
struct looking { const struct talk *t; int64_t question[NEXT_MOST]; size_t n; struct message m; int there; };

static void copy_message(const struct talk *t, const struct stored_message *from, struct message *to)
{
	*to = (struct message){.role = from->role == ROLE_ASSISTANT ? ROLE_ASSISTANT : ROLE_USER, .stored = from->id};
	str_add(&to->text, from->text, from->n_text);
	if (tokens_spell(t->engine, from->token, from->n_token, from->text, from->n_text))
		tokens_append(&to->id, from->token, from->n_token);
}

static int next_question(const struct stored_message *m, void *ud)
{
	struct looking *x = ud;

	if (m->role == ROLE_USER) {
		/* The newest ones, the last at the end. */
		if (x->n == NEXT_MOST)
			memmove(x->question, x->question + 1, --x->n * sizeof *x->question);
		x->question[x->n++] = m->id;
	}
	return 0;
}

static int next_answer(const struct stored_message *m, void *ud)
{
	struct looking *x = ud;

	if (m->role == ROLE_ASSISTANT) {
		if (x->there) {
			str_free(&x->m.text);
			tokens_free(&x->m.id);
		}
		copy_message(x->t, m, &x->m);
		x->there = 1;
	}
	return 0;
}

static int this_one(const struct stored_message *m, void *ud)
{
	struct looking *x = ud;

	if (m->id == x->question[x->n])
		copy_message(x->t, m, &x->m);
	return 0;
}

int record_next(struct record *r, const struct talk *t, struct message out[2], struct err *e)
{
	struct looking x = {.t = t};
	int64_t at = last_stored(t);

	if (off(r) || !r->session || (t->n_msg && !at) || t->streamed.open)
		return 0;
	if (message_children(r->store, r->session, at, next_question, &x, e) < 0)
		return -1;
	/* One that was stopped before its answer began is no exchange. */
	while (x.n && !x.there) {
		x.n--;
		if (message_children(r->store, r->session, x.question[x.n], next_answer, &x, e) < 0)
			return -1;
	}
	if (!x.there)
		return 0;
	out[1] = x.m;
	x.m = (struct message){0};
	if (message_path(r->store, x.question[x.n], this_one, &x, e) < 0) {
		str_free(&out[1].text);
		tokens_free(&out[1].id);
		return -1;
	}
	out[0] = x.m;
	return 1;
}

/* The answer as it is; complete with what it took. */
static void write_answer(struct record *r, struct talk *t, const char *stats, int complete)
{
	struct message *m = &t->msg[t->n_msg - 1];
	struct stored_message s = {
		.parent = parent_of_last(t), .role = ROLE_ASSISTANT, .text = m->text.p ? m->text.p : "", .n_text = m->text.n,
		.token = m->id.id, .n_token = m->id.n, .stats = stats, .complete = complete,
	};
	struct err e = {0};
	int rc;

	if (!r->writing) {
		rc = message_append(r->store, r->session, &s, &m->stored, &e);
		r->writing = m->stored;
	} else {
		rc = message_update(r->store, r->writing, &s, &e);
	}
	r->written_at = now_seconds();
	if (rc < 0)
		failed(r, &e);
}

void record_goes_on(struct record *r)
{
	if (off(r))
		return;
	r->writing = 0;
	r->written_at = now_seconds();
}

void record_piece(struct record *r, struct talk *t)
{
	if (off(r))
		return;
	/* The clock begins with the answer; a short one is written once. */
	if (t->msg[t->n_msg - 1].id.n == 1) {
		r->writing = 0;
		r->written_at = now_seconds();
	}
	if (now_seconds() - r->written_at >= ANSWER_EVERY)
		write_answer(r, t, "", 0);
}

void record_turn(struct record *r, struct talk *t, const struct turn *turn)
{
	struct str stats = {0};
	struct timeline_stats st;
	struct err e = {0};

	if (off(r))
		return;
	if (t->msg[t->n_msg - 1].id.n == 0)
		r->writing = 0;
	str_addf(&stats, "{\"prompt_tokens\":%d,\"reused_tokens\":%d,\"answer_tokens\":%d,\"ttft_s\":", turn->prompt_tokens,
	         turn->reused_tokens, turn->answer_tokens);
	json_number(&stats, turn->ttft_s, "%.6f");
	str_adds(&stats, ",\"decode_tps\":");
	json_number(&stats, turn->decode_tps, "%.2f");
	str_addf(&stats, ",\"stop\":\"%s\"}", turn->stop == STOP_EOS ? "eos" : turn->stop == STOP_LENGTH ? "length" : "cancel");
	write_answer(r, t, stats.p, 1);
	r->writing = 0;
	str_free(&stats);
	timeline_stats(t->tl, &st);
	if (!r->failed && (session_set(r->store, r->session, "random", t->sampling.rng, sizeof t->sampling.rng, &e) < 0 ||
	                   session_touch(r->store, r->session, model_name(t), st.kv, st.n_tokens, &e) < 0))
		failed(r, &e);
	if (!r->failed)
		snapshot(r, t);
}

void record_begin_anew(struct record *r, const struct talk *t)
{
	if (!r)
		return;
	r->session = r->writing = 0;
	for (size_t i = 0; i < t->n_doc; i++)
		t->doc[i].stored = 0;
}

void record_document(struct record *r, struct talk *t)
{
	struct err e = {0};

	if (!off(r) && r->session && keep_document(r, t, &t->doc[t->n_doc - 1], &e) < 0)
		failed(r, &e);
}

void record_documents_from(struct record *r, struct talk *t, size_t from)
{
	struct err e = {0};

	for (size_t i = from; i < t->n_doc && !off(r) && r->session; i++) {
		int64_t old = t->doc[i].stored;

		/* First the new row: the text is never without one. */
		if (keep_document(r, t, &t->doc[i], &e) < 0 ||
		    (old && session_drop_document(r->store, r->session, old, &e) < 0))
			failed(r, &e);
	}
}

void record_dropped(struct record *r, int64_t stored)
{
	struct err e = {0};

	if (!off(r) && stored && session_drop_document(r->store, r->session, stored, &e) < 0)
		failed(r, &e);
}

/* ---- what the user asks for ---- */

int record_switch(struct record *r, struct talk *t, struct options *o, int64_t session, struct str *note, struct err *e)
{
	struct str has = {0}, wants = {0};
	int64_t before = r->session;
	int rc;

	r->session = session;
	r->writing = 0;
	r->fresh = 0;
	o->system = NULL;
	if (options_recall(r, o, e) < 0) {
		r->session = before;
		return -1;
	}
	t->record = NULL;   /* emptying the talk is nothing that happens in it */
	talk_empty(t);
	talk_system(t, o->system);
	talk_sampling(t, 0);
	timeline_policy(t->tl, &has);
	kv_policy_whole(o->kv ? o->kv : "", &wants);
	rc = timeline_sync(t->tl, NULL, 0, NULL, NULL, e);
	if (rc >= 0 && strcmp(wants.p, has.p) != 0)
		rc = talk_policy(t, "the session's 'kv'", wants.p, e);
	str_free(&has);
	str_free(&wants);
	t->pinned = -1;
	t->record = r;
	if (rc >= 0)
		rc = record_resume(r, t, note, e);
	if (rc >= 0)
		return 0;
	/* Half of it may be there: what is asked now belongs to neither of the two. */
	t->record = NULL;
	talk_empty(t);
	t->record = r;
	record_begin_anew(r, t);
	return -1;
}

int record_fork(struct record *r, struct talk *t, const char *name, struct err *e)
{
	int64_t id;

	if (!r->session)
		return err_set(e, ERR_USAGE, "there is nothing to fork yet");
	if (session_fork(r->store, r->session, last_stored(t), name, &id, e) < 0)
		return -1;
	r->session = id;
	talk_forget_taken(t);   /* that belongs to the other one */
	return 0;
}

int record_rename(struct record *r, struct talk *t, const char *name, struct err *e)
{
	if (!r->session && begin(r, t, e) < 0)
		return -1;
	return session_rename(r->store, r->session, name, e);
}

int record_delete(struct record *r, struct talk *t, int64_t session, struct err *e)
{
	if (session == r->session)
		talk_new(t);
	if (r->snaps && snap_drop(r->snaps, session, e) < 0)
		return -1;
	return session_delete(r->store, session, e);
}

void record_title(struct record *r, struct str *out)
{
	struct session s;
	struct err e = {0};

	if (!r || !r->session || session_get(r->store, r->session, &s, &e) < 0)
		return;
	if (*s.name || *s.title)
		str_adds(out, *s.name ? s.name : s.title);
	else
		str_addf(out, "session %lld", (long long)s.id);
}
