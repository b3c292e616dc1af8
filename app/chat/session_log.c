/* app/chat/session_log.c - opens, resumes, switches, renames and deletes the session that stores a conversation. */
#include "app/chat/chat_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- opening ---- */

/* 1 if the conversation is stored in a session: always at a terminal, with a pipe or -p only if -s or --continue is
 * given, and never with --private. */
static int session_wanted(const struct options *o)
{
	if (o->private_talk)
		return 0;
	return o->session || o->go_on || (!o->prompt && isatty(0) && isatty(1));
}

/* Add n=4 (four rings) to the cache policy of an old session. Old versions of weir did not store n if its value was 4,
 * which was the default then. */
static void migrate_default_rings(struct str *kv)
{
	size_t name = strcspn(kv->p, ":");
	int streams = (name == 4 && !memcmp(kv->p, "auto", name)) || (name == 7 && !memcmp(kv->p, "cascade", name));

	if (streams && !strstr(kv->p, ":n=") && !strstr(kv->p, ",n="))
		str_addf(kv, "%cn=4", kv->p[name] ? ',' : ':');
}

static int option_recall(struct options *o, const struct option_def *d, struct str *value, struct err *e)
{
	char where[60];

	const char *text;

	snprintf(where, sizeof where, "the session's '%s'", d->name);
	if (d->type == OPT_POLICY)
		migrate_default_rings(value);
	text = options_own(o, value->p, value->n);
	return option_set(o, d, where, d->type == OPT_POLICY ? policy_current(o, where, text) : text, e);
}

/* 1 if an old version of weir stored the session. Old versions stored a number for every sampling setting. Newer
 * versions store "auto" for a setting that the user has not changed. */
static int samples_as_of_old(struct store *store, int64_t session)
{
	struct str value = { 0 };
	struct err none = { 0 };
	int all = 1;

	for (const struct option_def *d = option_defs; d->name && all; d++)
		if (option_sampling(d) != SAMPLING_SETTINGS) {
			str_clear(&value);
			all = session_value(store, session, d->name, &value, &none) > 0 && value.n &&
			      strcmp(value.p, "auto") != 0;
		}
	str_free(&value);
	return all;
}

/* Replace a sampling value of an old session by "auto" if it equals the default of the old versions. */
static void migrate_default_sampling(const struct option_def *d, struct str *value)
{
	static const char *const was[SAMPLING_SETTINGS] = { "0.3", "40", "0.9", "0.05", "1.1", "0", "0" };
	enum sampling_setting i = option_sampling(d);

	if (i != SAMPLING_SETTINGS && !strcmp(value->p, was[i])) {
		str_clear(value);
		str_adds(value, "auto");
	}
}

int session_options(struct store *store, int64_t session, struct options *o, struct err *e)
{
	int rc = 0, old = samples_as_of_old(store, session);
	struct str value = { 0 };

	for (const struct option_def *d = option_defs; d->name && rc >= 0; d++) {
		if (!(d->flags & OPT_KEPT) || option_said(o, d))
			continue;
		str_clear(&value);
		rc = session_value(store, session, d->name, &value, e);
		if (rc > 0 && value.n && old)
			migrate_default_sampling(d, &value);
		if (rc > 0 && value.n)
			rc = option_recall(o, d, &value, e);
	}
	if (rc >= 0 && (!o->system || !option_said(o, option_find("system", 6, CMD_CHAT)))) {
		str_clear(&value);
		rc = session_value(store, session, "system", &value, e);
		if (rc > 0)
			o->system = options_own(o, str_text(&value), value.n);
	}
	str_free(&value);
	return rc < 0 ? -1 : 0;
}

/* Look for a session with exactly this name, or with this number, and store it in r->session. The beginning of a name
 * does not match, because the user may want a new session of that name. Returns 1 if found, 0 if not, -1 on error. */
static int session_named(struct session_log *r, const char *name, struct err *e)
{
	struct err none = { 0 };
	struct session s;

	if (session_find(r->store, name, &r->session, &none) < 0)
		return none.code == ERR_USAGE ? 0 : err_set(e, none.code, "%s", none.msg);
	if (session_get(r->store, r->session, &s, e) < 0)
		return -1;
	return !strcmp(s.name, name) || !name[strspn(name, "0123456789")];
}

int session_log_hold(struct session_log *r, int64_t session, int wait, long *by, struct err *e)
{
	int rc = session_hold(r->store, session, by, e);

	if (!rc || !*by || !wait)
		return rc;
	signals_work(1);
	while ((rc = session_hold(r->store, session, by, e)) && *by && !signals_stopped())
		usleep(100000);
	signals_work(0);
	if (!rc)
		*e = (struct err){ 0 };
	return rc;
}

/* Ask what to do with a session that another weir process writes. Returns the key that the user chose: 'r' (read
 * only), 'w' (wait), 'n' (new session) or 'q' (quit); 0 if there is no terminal. */
static int ask_in_use(struct session_log *r, const struct options *o, const struct err *why)
{
	struct str question = { 0 }, title = { 0 };
	int answer;

	if (o->prompt || !isatty(0) || !isatty(1) || !isatty(2))
		return 0;
	session_log_title(r, &title);
	str_adds(&question, "session '");
	clean_line(str_text(&title), title.n, &question);
	str_addf(&question, "': %s\nhere: [R]ead it and save nothing, [w]ait for it, [n]ew session, [q]uit? ",
	         why->msg);
	answer = terminal_choose(question.p, "rwnq");
	str_free(&question);
	str_free(&title);
	return answer ? answer : 'q';
}

/* Lock the session r->session, and load its settings. If another process writes it, do what the user chooses
 * (ask_in_use()). */
static int take_session(struct session_log *r, struct options *o, struct err *e)
{
	long by;
	int rc = session_log_hold(r, r->session, 0, &by, e), answer = rc && by ? ask_in_use(r, o, e) : 0;

	if (answer) {
		*e = (struct err){ 0 };
		rc = 0;
	}
	if (answer == 'q')
		return err_set(e, ERR_CANCELLED, "left");
	if (answer == 'n') {
		r->session = 0;
		return 0;
	}
	if (answer == 'w') {
		say("waiting until it is left there; Ctrl-C ends that");
		rc = session_log_hold(r, r->session, 1, &by, e);
	} else if (answer == 'r') {
		r->failed = 1;
		r->read_only = by;
	}
	return rc < 0 ? -1 : session_options(r->store, r->session, o, e);
}

static int choose_session(struct session_log *r, struct options *o, struct err *e)
{
	int rc;

	if (o->session) {
		rc = session_named(r, o->session, e);
		if (rc)
			return rc < 0 ? -1 : take_session(r, o, e);
		/* Create the session now instead of with the first question, so that an invalid name is reported at
		 * once. */
		r->session = 0;
		r->fresh = 1;
		return session_new(r->store, o->session, &r->session, e);
	}
	if (!o->go_on)
		return 0;
	rc = session_last(r->store, &r->session, e);
	if (rc == 0)
		return err_set(e, ERR_USAGE, "there is no session to continue; -s NAME begins one");
	return rc < 0 ? -1 : take_session(r, o, e);
}

/* Open the store (the database of sessions). Returns 0 or -1. If the options do not ask for a session, a failure is no
 * error: the user is warned, r->store is NULL, and 0 is returned. */
static int open_store(struct session_log *r, const struct options *o, struct str *notice, struct err *e)
{
	struct str folder = { 0 };
	int rc;

	if (recognition_folder(&folder))
		str_free(&folder);
	rc = store_open(&r->store, &(struct store_options){ .notice = notice, .recognised = folder.p }, e);
	str_free(&folder);
	if (!rc)
		return 0;
	if (o->session || o->go_on)
		return -1;
	if (!o->quiet)
		say("this conversation is not saved: %s", e->msg);
	*e = (struct err){ 0 };
	return 0;
}

int session_log_open(struct session_log **out, struct options *o, struct err *e)
{
	struct session_log *r;
	struct str notice = { 0 };
	struct err why = { 0 };
	int rc;

	*out = NULL;
	if (o->private_talk && (o->session || o->go_on))
		return err_set(e, ERR_USAGE, "--private keeps nothing: it cannot stand beside '%s'",
		               o->session ? "-s" : "--continue");
	if (o->session && o->go_on)
		return err_set(e, ERR_USAGE,
		               "'-s' names a session and '--continue' is the one used last: give one of the two");
	if (!session_wanted(o)) {
		if (o->command == CMD_READ && !o->private_talk && !o->prompt && !o->quiet && o->n_file &&
		    !strcmp(o->file[0], "-") && isatty(1))
			say("this conversation is not saved, because standard input is its text; -s NAME saves it");
		return 0;
	}
	r = xcalloc(1, sizeof *r);
	rc = open_store(r, o, &notice, e);
	say_lines(&notice);
	str_clear(&notice);
	if (rc < 0 || !r->store) {
		str_free(&notice);
		free(r);
		return rc;
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

void session_log_leave(struct session_log *r)
{
	struct err none = { 0 };

	if (!r->session || r->read_only)
		return;
	if (!r->failed && session_is_empty(r->store, r->session) &&
	    (!r->snaps || snap_drop(r->snaps, r->session, &none) == 0))
		session_delete(r->store, r->session, &none);
	session_leave(r->store, r->session);
}

void session_log_close(struct session_log *r)
{
	if (!r)
		return;
	session_log_leave(r);
	if (r->snaps)
		snaps_close(r->snaps);
	store_close(r->store);
	free(r->dropped);
	free(r);
}

/* ---- resuming ---- */

struct resuming {
	struct conversation *conv;
	struct err *e;
};

int session_restore_document(struct conversation *conv, const struct stored_document *d, size_t at, struct err *e)
{
	/* `doc` shares the strings and marks with d, so it must not change or free them */
	struct doc doc = {
		.name = (char *)(uintptr_t)d->name,
		.type = d->type,
		.bytes = d->bytes,
		.text = { .p = (char *)(uintptr_t)d->text, .n = d->n_text },
		.mark = (struct mark *)(uintptr_t)d->mark,
		.n_mark = d->n_mark,
	};

	if (d->origin)
		doc.origin = *d->origin;
	return conversation_restore_document(conv, &doc, at, e);
}

static int add_document(const struct stored_document *d, void *ud)
{
	struct resuming *s = ud;
	size_t at = 0;

	for (size_t i = 0; i < s->conv->n_msg && d->after; i++)
		if (s->conv->msg[i].stored == d->after)
			at = i + 1;
	if (session_restore_document(s->conv, d, at, s->e) < 0)
		return 1;
	s->conv->doc[s->conv->n_doc - 1].stored = d->id;
	return 0;
}

static int add_message(const struct stored_message *m, void *ud)
{
	struct resuming *s = ud;
	size_t n = tokens_match_text(s->conv->engine, m->token, m->n_token, m->text, m->n_text) ? m->n_token : 0;

	struct message *to = conversation_message(s->conv, m->role == ROLE_ASSISTANT ? ROLE_ASSISTANT : ROLE_USER,
	                                          m->text, m->n_text, m->token, n);

	to->stored = m->id;
	to->interrupted = m->role == ROLE_ASSISTANT && !m->complete;
	message_read_stats(m->role, m->stats, to);
	return 0;
}

/* 1 if the command line gives an option that sessions store. */
static int settings_given(const struct options *o)
{
	for (const struct option_def *d = option_defs; d->name; d++)
		if ((d->flags & OPT_KEPT) && option_said(o, d))
			return 1;
	return 0;
}

/* Load the newest snapshot of the conversation. After a crash it may be older than the last message; the tokens after
 * the snapshot are then prefilled. *behind receives the number of messages after the snapshot. Returns what snap_load()
 * returns. */
static int load_newest(struct session_log *r, struct conversation *conv, struct snap_loaded *got, size_t *behind,
                       struct err *e)
{
	struct str extra = { 0 };
	int rc = 0;

	for (size_t i = conv->n_msg; i-- && !rc && !got->why[0];) {
		rc = snap_load(r->snaps, conv->tl, &r->fingerprint, conv->msg[i].stored, &extra, got, e);
		*behind = conv->n_msg - 1 - i;
	}
	str_free(&extra);
	return rc;
}

/* Return how many tokens must be prefilled before the next question, after `restored` tokens were loaded. */
static size_t left_to_read(struct conversation *conv, size_t restored)
{
	struct tokens all = { 0 };
	struct err e = { 0 };
	size_t n = 0;

	if (conversation_render(conv, 0, &all, &e) == 0 && all.n > restored)
		n = all.n - restored;
	tokens_free(&all);
	return n;
}

/* Append a note for the user. It says what was restored, or why nothing was. `behind` is the number of messages after
 * the restored snapshot. */
static void describe_loaded(struct conversation *conv, const struct snap_loaded *got, int restored, size_t behind,
                            struct str *note)
{
	size_t left = left_to_read(conv, restored ? (size_t)got->tokens : 0);

	if ((restored && !behind) || got->why[0])
		left = 0;

	if (restored) {
		str_adds(note, "restored ");
		human_count(note, (uint64_t)got->tokens);
		if (left) {
			str_adds(note, " tokens, ");
			human_count(note, left);
			str_adds(note, " are read with the next question, ");
		} else {
			str_adds(note, " tokens, 0 recomputed, ");
		}
		human_bytes(note, got->bytes);
		str_addf(note, " in %.2f s", got->seconds);
	} else {
		/* got->why tells why nothing was restored, and how many tokens will be prefilled */
		str_adds(note, got->why);
	}
	if (got->packed) {
		str_adds(note, "; ");
		human_count(note, (uint64_t)got->packed);
		str_adds(
			note,
			" of them near-exactly, because their snapshot was packed to save room: '/kv drop', and opening "
			"the session again, computes them exactly");
	}
	/* Warn that the snapshot was computed on another machine, which rounds differently. */
	if (got->by[0])
		str_addf(note, "; they were computed by '%s': answers may differ in the last digits from those there",
		         got->by);
	if (restored || !left)
		return;
	human_count(note, left);
	str_adds(note, " tokens are recomputed with the next question");
}

/* ---- commands of the user ---- */

int session_log_saved(const struct session_log *r, struct str *out, struct err *e)
{
	struct snap_state state = { .session = r->session };

	if (!r->snaps || !r->session)
		return 0;
	if (snap_states(r->snaps, &state, 1, e) < 0)
		return -1;
	human_saved(out, state.bytes, state.packed);
	return 0;
}

int session_log_resume(struct session_log *r, struct conversation *conv, struct str *note, struct err *e)
{
	struct session s;
	struct resuming state = { .conv = conv, .e = e };
	struct str value = { 0 };
	struct snap_loaded got = { 0 };
	struct err why = { 0 };
	size_t behind = 0;
	int64_t head;
	int rc = 0;

	if (!r)
		return 0;
	session_log_attach(r, conv);
	/* There is no session yet: the first question creates it and stores the documents. */
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
	if (session_value(r->store, r->session, "folders", &value, &why) > 0)
		folders_read(conv, str_text(&value), value.n);
	str_clear(&value);
	if (!conv->o->seed_set && session_value(r->store, r->session, "random", &value, &why) > 0 &&
	    value.n == sizeof conv->sampling.rng)
		memcpy(conv->sampling.rng, value.p, sizeof conv->sampling.rng);
	str_free(&value);
	if (!head)
		return 0;
	if (conv->tl) {
		if (r->snaps && !session_log_fingerprint(r, conv, &why))
			rc = load_newest(r, conv, &got, &behind, &why);
		if (rc < 0)
			snprintf(got.why, sizeof got.why, "%.190s", why.msg);
		describe_loaded(conv, &got, rc > 0, behind, note);
	}
	if (settings_given(conv->o))
		session_log_settings(r, conv);
	return 0;
}

int session_log_switch(struct session_log *r, struct conversation *conv, struct options *o, int64_t session, long by,
                       struct str *note, struct err *e)
{
	struct str has = { 0 }, wants = { 0 };
	int64_t before = r->session;
	int rc = 0;

	r->session = session;
	o->system = NULL;
	if (session_options(r->store, session, o, e) < 0) {
		r->session = before;
		if (!by && session != before)
			session_leave(r->store, session);
		return -1;
	}
	r->session = before == session ? 0 : before;
	session_log_unbind(r, conv);
	r->session = session;
	r->fresh = 0;
	r->read_only = by;
	r->failed |= by != 0;
	/* stop storing changes first: otherwise the store would take the emptied conversation for a change of the
	 * previous session */
	session_log_detach(r, conv);
	conversation_empty(conv);
	conversation_system(conv, o->system);
	conversation_sampling(conv, 0);
	if (conv->tl) {
		timeline_policy(conv->tl, &has);
		kv_policy_whole(o->kv ? o->kv : "", &wants);
		rc = timeline_sync(conv->tl, NULL, 0, NULL, NULL, e);
	}
	if (rc >= 0 && has.p && strcmp(wants.p, has.p) != 0)
		rc = conversation_change_policy(conv, "the session's 'kv'", wants.p, e);
	str_free(&has);
	str_free(&wants);
	conv->pinned = -1;
	if (rc >= 0)
		rc = session_log_resume(r, conv, note, e);
	if (rc >= 0)
		return 0;
	/* Perhaps only a part of the session was loaded. Empty the conversation and leave the session: the next
	 * question creates a new one. */
	session_log_detach(r, conv);
	conversation_empty(conv);
	session_log_attach(r, conv);
	session_log_unbind(r, conv);
	return -1;
}

struct branch {
	struct resuming resuming;
	size_t skip;
};

static int add_behind(const struct stored_message *m, void *ud)
{
	struct branch *b = ud;

	if (b->skip) {
		b->skip--;
		return 0;
	}
	return add_message(m, &b->resuming);
}

/* For the document that is stored as *d, set document.at to the number of messages before the document. */
static int place_document(const struct stored_document *d, void *ud)
{
	struct conversation *conv = ud;

	for (size_t k = 0; k < conv->n_doc; k++) {
		if (conv->doc[k].stored != d->id)
			continue;
		conv->doc[k].at = 0;
		for (size_t i = 0; i < conv->n_msg && d->after; i++)
			if (conv->msg[i].stored == d->after)
				conv->doc[k].at = i + 1;
	}
	return 0;
}

int session_log_show(struct session_log *r, struct conversation *conv, size_t from, int64_t end, struct err *e)
{
	struct branch b = { .resuming = { .conv = conv, .e = e }, .skip = from };
	struct snap_loaded got = { 0 };
	struct str extra = { 0 };
	struct err why = { 0 };
	int rc;

	if (session_set_head(r->store, r->session, end, e) < 0)
		return -1;
	session_log_detach(r, conv); /* do not store the changes: the store already has this branch */
	r->writing = 0;
	undo_forget(conv);
	conversation_cut(conv, from);
	rc = message_path(r->store, end, add_behind, &b, e);
	if (!rc)
		rc = session_documents(r->store, r->session, place_document, conv, e);
	session_log_attach(r, conv);
	if (rc < 0)
		return -1;
	/* Load the branch's snapshot. If there is none, the next question recomputes the branch. */
	if (conv->tl && r->snaps && !session_log_fingerprint(r, conv, &why))
		snap_load(r->snaps, conv->tl, &r->fingerprint, end, &extra, &got, &why);
	str_free(&extra);
	return 0;
}

int session_log_fork(struct session_log *r, struct conversation *conv, const char *name, struct err *e)
{
	int64_t id;

	if (!r->session)
		return err_set(e, ERR_USAGE, "there is nothing to fork yet");
	if (session_fork(r->store, r->session, session_log_head(conv), name, &id, e) < 0)
		return -1;
	session_leave(r->store, r->session);
	r->session = id;
	undo_forget(conv); /* the undone turns belong to the previous session */
	return session_log_adopt(r, conv, e);
}

int session_log_rename(struct session_log *r, struct conversation *conv, const char *name, struct err *e)
{
	if (!r->session && session_log_begin(r, conv, e) < 0)
		return -1;
	return session_rename(r->store, r->session, name, e);
}

int session_log_delete(struct session_log *r, struct conversation *conv, int64_t session, struct err *e)
{
	long by;

	if (session == r->session)
		conversation_clear(conv);
	if (session_hold(r->store, session, &by, e) < 0)
		return -1;
	if (r->snaps && snap_drop(r->snaps, session, e) < 0)
		return -1;
	return session_delete(r->store, session, e);
}

void session_log_title(struct session_log *r, struct str *out)
{
	struct session s;
	struct err e = { 0 };

	if (!r || !r->session || session_get(r->store, r->session, &s, &e) < 0)
		return;
	if (*s.name || *s.title)
		str_adds(out, *s.name ? s.name : s.title);
	else
		str_addf(out, "session %lld", (long long)s.id);
}
