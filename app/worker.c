/* app/worker.c - see worker.h. */
#include "app/worker.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "app/panel.h"

#define NOW_EVERY 0.1          /* seconds between two looks at what is true now */
#define PANEL_EVERY 0.2        /* and at the cache, while a panel shows it */
enum {
	STREAM_SHOWN = 65536,      /* bytes of a text without an end that stay on the screen ... */
	STREAM_MOST = 1 << 20,     /* ... when so many have gone by */
};

struct job { struct job *next; enum job_what what; int64_t id; struct str text; };

struct worker {
	struct chat *c;
	pthread_t thread;
	int fd;
	atomic_int stop, panel;
	pthread_mutex_t lock;      /* of all that follows */
	pthread_cond_t wake;
	struct job *job, **job_end;
	int running, closing, signalled;
	struct event *event, **event_end;
	struct now now; int now_new;
	struct panel *cache_new, *cache_read; int cache_fresh;   /* cache_new: the newest whole one */
	/* The worker's own. */
	struct panel *cache_work;  /* being written */
	double looked, panelled, reading_since; int64_t had;
	int32_t reading;           /* tokens so far; -1 = nothing is read */
	int open; double open_tps; /* a text without an end is read */
	size_t streamed;           /* bytes of it that the screen was sent since it was cleared */
	uint64_t shown;            /* hash of the messages that the screen has */
	/* What a command says stands below what it did to the talk, so it waits until that has been sent. */
	int holding;
	struct event *held, **held_end;
	uint64_t shown_docs;       /* the same of its documents, and where they stand in the sequence */
	int32_t *first; size_t n_first;
	struct listener listener;
};

/* ---- both sides ---- */

void event_free(struct event *e)
{
	if (!e)
		return;
	for (size_t i = 0; i < e->n_doc; i++) {
		free(e->doc[i].name);
		str_free(&e->doc[i].text);
	}
	free(e->doc);
	str_free(&e->text);
	str_free(&e->note);
	free(e);
}

/* With the lock. */
static void signal_main(struct worker *w)
{
	if (!w->signalled && eventfd_write(w->fd, 1) == 0)
		w->signalled = 1;
}

static void post(struct worker *w, struct event *e)
{
	pthread_mutex_lock(&w->lock);
	*w->event_end = e;
	w->event_end = &e->next;
	signal_main(w);
	pthread_mutex_unlock(&w->lock);
}

static struct event *event_new(enum event_what what, const char *text, size_t n)
{
	struct event *e = xcalloc(1, sizeof *e);

	e->what = what;
	str_add(&e->text, text ? text : "", n);
	return e;
}

static void post_text(struct worker *w, enum event_what what, const char *text, size_t n)
{
	struct event *e = event_new(what, text, n);

	if (w->holding && (what == EV_NOTICE || what == EV_ERROR)) {
		*w->held_end = e;
		w->held_end = &e->next;
	} else {
		post(w, e);
	}
}

static void release_held(struct worker *w)
{
	struct event *e;

	w->holding = 0;
	while ((e = w->held)) {
		w->held = e->next;
		e->next = NULL;
		post(w, e);
	}
	w->held_end = &w->held;
}

static void drop_held(struct worker *w)
{
	struct event *e;

	while ((e = w->held)) {
		w->held = e->next;
		event_free(e);
	}
	w->held_end = &w->held;
}

/* Pieces that main has not taken yet become one. */
static void post_piece(struct worker *w, enum event_what what, const char *bytes, size_t n)
{
	struct event *last;

	pthread_mutex_lock(&w->lock);
	for (last = w->event; last && last->next; )
		last = last->next;
	if (last && last->what == what && last->text.n < STREAM_SHOWN) {
		str_add(&last->text, bytes, n);
		pthread_mutex_unlock(&w->lock);
		return;
	}
	pthread_mutex_unlock(&w->lock);
	post_text(w, what, bytes, n);
}

/* ---- what is true now ---- */

static void describe(struct worker *w, struct now *now)
{
	struct chat *c = w->c;
	const struct engine_info *info = engine_info(c->t.engine);
	struct timeline_stats st;
	struct str title = {0};

	timeline_stats(c->t.tl, &st);
	now->status = 1;
	snprintf(now->model, sizeof now->model, "%s", info->name);
	record_title(c->record, &title);
	snprintf(now->session, sizeof now->session, "%.90s", title.p ? title.p : "");
	str_free(&title);
	now->session_id = c->record ? c->record->session : 0;
	if (st.prefill_tokens >= 64 && st.prefill_seconds > 0)
		now->prefill_tps = st.prefill_tokens / st.prefill_seconds;
	now->n_hidden = 0;
	for (size_t i = c->n_deleted; i > 0 && now->n_hidden < HIDDEN_MOST; i--)
		now->hidden[now->n_hidden++] = c->deleted[i - 1].session;
	now->kept_on_disk = c->record && !c->record->failed;
	snprintf(now->kv, sizeof now->kv, "%s", st.kv);
	now->seen = st.n_tokens;
	now->kept = talk_kept(&st);
	now->ctx = st.ctx;
	now->gone = st.rows.evicted;
	now->thinned = st.rows.evicted_in_part;
	now->kv_bytes = st.kv_bytes;
	if (st.decode_tokens > 1 && st.decode_seconds > 0)
		now->last_tps = (st.decode_tokens - 1) / st.decode_seconds;
}

/* title: the session's name is looked up, which is for moments when the store is at rest. */
static void look(struct worker *w, int working, const char *verb, int64_t done, int64_t total)
{
	struct now now;

	pthread_mutex_lock(&w->lock);
	now = w->now;
	pthread_mutex_unlock(&w->lock);
	now.working = working;
	snprintf(now.verb, sizeof now.verb, "%s", verb);
	now.done = done;
	now.total = total;
	now.had = w->had;
	now.left = -1;
	now.tps = 0;
	now.open = w->open;
	if (w->c->t.tl)
		describe(w, &now);
	if (working && total > 0) {
		now.seen = now.kept = (int32_t)done;   /* the sequence is as long as it will be */
		double spent = now_seconds() - w->reading_since;
		if (spent > 0.2 && done > w->had) {
			now.tps = (double)(done - w->had) / spent;
			now.left = (double)(total - done) / now.tps;
		}
	} else if (working) {
		now.tps = w->open ? w->open_tps : now.last_tps;
	}
	w->looked = now_seconds();
	pthread_mutex_lock(&w->lock);
	w->now = now;
	w->now_new = 1;
	signal_main(w);
	pthread_mutex_unlock(&w->lock);
}

static void look_at_cache(struct worker *w)
{
	int how = atomic_load(&w->panel);
	struct panel *done;

	if (!how) {
		listener_off(&w->listener, w->c->t.tl);
		return;
	}
	if (!w->c->t.tl)
		return;
	listener_on(&w->listener, w->c->t.tl);
	panel_look(w->cache_work, &w->c->t, &w->listener, how, w->reading);
	w->panelled = now_seconds();
	pthread_mutex_lock(&w->lock);
	done = w->cache_work;
	w->cache_work = w->cache_new;
	w->cache_new = done;
	w->cache_fresh = 1;
	signal_main(w);
	pthread_mutex_unlock(&w->lock);
}

/* ---- small jobs, which the store does between two tokens ---- */

static int is_small(enum job_what what)
{
	return what == JOB_RENAME || what == JOB_FORK || what == JOB_DELETE || what == JOB_UNDELETE || what == JOB_LOOK;
}

/* Undoing the deletion may put another talk on the screen. */
static int changes_talk(const struct chat *c)
{
	return c->n_deleted && c->deleted[c->n_deleted - 1].was_here;
}

static struct job *take_small(struct worker *w)
{
	const struct record *r = w->c->record;
	struct job *job = NULL;

	pthread_mutex_lock(&w->lock);
	for (struct job **p = &w->job; *p; p = &(*p)->next)
		/* The talk that is being answered goes when the answer is there, and another one comes back then, too. */
		if (is_small((*p)->what) && !((*p)->what == JOB_DELETE && r && (*p)->id == r->session) &&
		    !((*p)->what == JOB_UNDELETE && changes_talk(w->c))) {
			job = *p;
			*p = job->next;
			if (!*p)
				w->job_end = p;
			break;
		}
	pthread_mutex_unlock(&w->lock);
	return job;
}

/* The lists shall not show what is deleted, from the next one on. */
static void look_at_deleted(struct worker *w)
{
	struct now now;

	pthread_mutex_lock(&w->lock);
	now = w->now;
	pthread_mutex_unlock(&w->lock);
	if (w->c->t.tl)
		describe(w, &now);
	pthread_mutex_lock(&w->lock);
	w->now = now;
	w->now_new = 1;
	signal_main(w);
	pthread_mutex_unlock(&w->lock);
}

static void run_small(struct worker *w, struct job *job)
{
	struct chat *c = w->c;
	struct err e = {0};
	int64_t id;

	if (job->what == JOB_LOOK)
		return;   /* whoever runs small jobs looks afterwards */
	if (job->what == JOB_RENAME)
		chat_delete_due(c, 1);   /* what is deleted gives its name free */
	if (!c->record || c->record->failed)
		err_set(&e, ERR_USAGE, "this talk is not kept: there are no sessions to change");
	else if (job->what == JOB_RENAME && job->id == c->record->session)
		record_rename(c->record, &c->t, job->text.p, &e);
	else if (job->what == JOB_RENAME)
		session_rename(c->record->store, job->id, job->text.p, &e);
	else if (job->what == JOB_FORK)
		session_fork(c->record->store, job->id, 0, NULL, &id, &e);
	else if (job->what == JOB_DELETE)
		chat_delete(c, job->id);
	else
		chat_undelete(c);
	if (e.code)
		chat_error(c, &e);
	look_at_deleted(w);
	post_text(w, EV_SESSIONS, "", 0);
}

/* What was deleted some seconds ago goes now. */
static void delete_due(struct worker *w)
{
	size_t before = w->c->n_deleted;

	if (!before)
		return;
	chat_delete_due(w->c, 0);
	if (w->c->n_deleted == before)
		return;
	look_at_deleted(w);
	post_text(w, EV_SESSIONS, "", 0);
}

/* Called often while something runs: between tokens and chunks. */
static void between(struct worker *w)
{
	struct job *job;

	/* A stop that came before the timeline was listening. */
	if (atomic_load(&w->stop) && w->c->t.tl)
		timeline_cancel(w->c->t.tl);
	while ((job = take_small(w))) {
		run_small(w, job);
		str_free(&job->text);
		free(job);
	}
	delete_due(w);
	if (atomic_load(&w->panel) ? now_seconds() - w->panelled >= PANEL_EVERY : w->listener.on)
		look_at_cache(w);
}

/* ---- the front ---- */

static void on_notice(struct chat *c, const char *text, size_t n)
{
	post_text(c->ud, EV_NOTICE, text, n);
}

static void on_error(struct chat *c, const struct err *e)
{
	post_text(c->ud, EV_ERROR, e->msg, strlen(e->msg));
}

static void on_say(const char *text, size_t n, void *ud)
{
	post_text(ud, EV_NOTICE, text, n);
}

static void on_progress(struct chat *c, const char *verb, int32_t done, int32_t total)
{
	struct worker *w = c->ud;

	w->reading = done;
	if (done < 0) {
		w->reading_since = 0;
		return;
	}
	if (w->reading_since == 0) {
		w->reading_since = now_seconds();
		w->had = done;
	}
	between(w);
	look(w, 1, verb, done, total);
}

/* FNV-1a over what the screen would show. */
static uint64_t talk_hash(const struct talk *t)
{
	uint64_t h = 1469598103934665603u;

	for (size_t i = 0; i < t->n_msg; i++) {
		h = (h ^ (unsigned)t->msg[i].role ^ t->msg[i].text.n) * 1099511628211u;
		/* What was streamed only grows. */
		for (size_t k = t->msg[i].read; k < t->msg[i].text.n; k++)
			h = (h ^ (unsigned char)t->msg[i].text.p[k]) * 1099511628211u;
	}
	return h;
}

static uint64_t docs_hash(const struct talk *t)
{
	uint64_t h = 1469598103934665603u;

	for (size_t i = 0; i < t->n_doc; i++) {
		h = (h ^ t->doc[i].n_body) * 1099511628211u;
		for (const char *p = t->doc[i].name; *p; p++)
			h = (h ^ (unsigned char)*p) * 1099511628211u;
	}
	return h;
}

/* The end of what was streamed.  Returns where the question begins. */
static size_t send_streamed(struct worker *w, const struct message *m)
{
	size_t from = m->read > STREAM_SHOWN ? m->read - STREAM_SHOWN : 0;
	struct event *e;

	while (from && from < m->read && m->text.p[from - 1] != '\n' && m->text.p[from - 1] != ' ')
		from++;
	e = event_new(EV_STREAM, m->text.p + from, m->read - from);
	e->begins = 1;
	post(w, e);
	return m->read + (m->text.n > m->read ? 2 : 0);
}

/* "thought 312 words first" as the line below an answer. */
static void thought_note(struct str *note)
{
	struct str s = {0};

	if (!note->n)
		return;
	str_addf(&s, "[it %s; /think show]", note->p);
	str_free(note);
	*note = s;
}

static void send_messages(struct worker *w, size_t n)
{
	const struct talk *t = &w->c->t;

	post(w, event_new(EV_TALK, "", 0));
	w->streamed = 0;
	for (size_t i = 0; i < n; i++) {
		const struct message *m = &t->msg[i];
		size_t from = m->read ? send_streamed(w, m) : 0;
		struct event *e;

		if (m->read && from == m->text.n)
			continue;   /* no question yet */
		if (m->role == ROLE_ASSISTANT) {
			e = event_new(EV_MESSAGE, "", 0);
			chat_message(w->c, m, &e->text, &e->note);
		} else {
			e = event_new(EV_MESSAGE, m->text.p ? m->text.p + from : "", m->text.n - from);
		}
		thought_note(&e->note);
		e->role = t->msg[i].role;
		post(w, e);
	}
}

static void on_turn(struct chat *c, const char *question, size_t n)
{
	struct worker *w = c->ud;
	const struct talk *t = &c->t;

	/* An answer that is given again: the old one goes.  A question that was edited: so does the old one. */
	if (!question && t->n_msg && t->msg[t->n_msg - 1].role == ROLE_ASSISTANT)
		send_messages(w, t->n_msg - 1);
	else if (talk_hash(t) != w->shown)
		send_messages(w, t->n_msg);
	if (!question)
		drop_held(w);   /* the command itself would stand between the question and its answer */
	release_held(w);
	post_text(w, EV_QUESTION, question, question ? n : 0);
	if (c->goes_on) {
		struct str begun = {0};

		chat_message(c, talk_answer(t), &begun, NULL);
		post_text(w, EV_PIECE, begun.p, begun.n);
		str_free(&begun);
	}
	w->open = 0;
	w->reading_since = 0;
	look(w, 1, "reading", 0, 0);
}

static int on_text(struct chat *c, const char *bytes, size_t n, struct err *e)
{
	struct worker *w = c->ud;

	(void)e;
	w->reading = -1;
	if (n)
		post_piece(w, EV_PIECE, bytes, n);
	between(w);
	if (now_seconds() - w->looked >= NOW_EVERY)
		look(w, 1, c->thinking ? "thinking" : "answering", 0, 0);
	return 0;
}

static int on_turned(struct chat *c, const struct turn *turn, int rc, struct err *e)
{
	struct event *ev = event_new(EV_TURNED, NULL, 0);

	(void)e;
	/* What was posted on the way is what there is now: nothing needs to be sent again, which would take notices away. */
	if (turn->answered)
		((struct worker *)c->ud)->shown = talk_hash(&c->t);
	if (c->hides)
		think_describe(&c->think, &ev->note);
	thought_note(&ev->note);
	post(c->ud, ev);
	return rc;
}

static void on_draft(struct chat *c, const char *text, size_t n)
{
	post_text(c->ud, EV_DRAFT, text, n);
}

/* Another session begins with an empty screen, even where it says the same. */
static void on_came_back(struct chat *c)
{
	((struct worker *)c->ud)->shown = 0;
}

static void on_reading(struct chat *c, const struct reading *r)
{
	struct worker *w = c->ud;
	struct str s = {0};

	w->reading = -1;
	if (!r)
		return;
	str_adds(&s, r->waiting ? "waiting " : "reading ");
	human_count(&s, r->tokens);
	if (r->percent >= 0)
		str_addf(&s, " %d%%", r->percent);
	w->open_tps = r->waiting ? 0 : r->tps;
	look(w, 1, s.p, 0, 0);
	str_free(&s);
}

static void on_streamed(struct chat *c, const char *text, size_t n)
{
	struct worker *w = c->ud;

	w->streamed += n;
	if (w->streamed > STREAM_MOST)
		send_messages(w, c->t.n_msg);
	else
		post_piece(w, EV_STREAM, text, n);
}

static int on_yield(struct chat *c)
{
	struct worker *w = c->ud;
	int waits;

	between(w);
	if (atomic_load(&w->stop))
		return 2;
	pthread_mutex_lock(&w->lock);
	waits = w->job || w->closing;
	pthread_mutex_unlock(&w->lock);
	return waits;
}

static const struct front worker_front = {
	.notice = on_notice, .error = on_error, .progress = on_progress, .turn = on_turn, .text = on_text, .turned = on_turned,
	.draft = on_draft, .came_back = on_came_back, .reading = on_reading, .streamed = on_streamed, .yield = on_yield,
};

/* ---- the thread ---- */

static void send_documents(struct worker *w)
{
	const struct talk *t = &w->c->t;
	struct event *e = event_new(EV_DOCUMENTS, "", 0);

	w->n_first = t->n_doc;
	w->first = xrealloc(w->first, (t->n_doc + 1) * sizeof *w->first);
	panel_documents(t, w->first);

	e->n_doc = t->n_doc;
	e->doc = xcalloc(t->n_doc + 1, sizeof *e->doc);
	for (size_t i = 0; i < t->n_doc; i++) {
		e->doc[i] = (struct event_doc){
			.name = xstrndup(t->doc[i].name, strlen(t->doc[i].name)), .bytes = t->doc[i].bytes, .tokens = (int32_t)t->doc[i].tokens,
			.first = w->first[i],
		};
		str_add(&e->doc[i].text, t->doc[i].text.p + t->doc[i].body, t->doc[i].n_body);
	}
	post(w, e);
}

/* The messages as they are, when they are not what was shown on the way here.  After a turn they are. */
static void send_talk(struct worker *w, int was_turn, size_t messages_wanted)
{
	const struct talk *t = &w->c->t;
	uint64_t hash = talk_hash(t), docs = docs_hash(t);
	int unread = 0;

	/* Documents that were there may have been read meanwhile. */
	for (size_t i = 0; i < w->n_first; i++)
		unread |= w->first[i] < 0;
	if (docs != w->shown_docs || unread)
		send_documents(w);
	w->shown_docs = docs;
	if (hash != w->shown && !(was_turn && t->n_msg == messages_wanted))
		send_messages(w, t->n_msg);
	w->shown = hash;
}

static void run(struct worker *w, struct job *job)
{
	struct chat *c = w->c;
	size_t wanted = c->t.n_msg + (c->t.streamed.open ? 1 : 2);   /* after a turn */
	int turn = 0;

	w->had = 0;
	w->reading_since = 0;
	w->reading = -1;
	atomic_store(&w->stop, 0);
	if (is_small(job->what)) {
		w->holding = 1;
		run_small(w, job);
	} else {
		look(w, 1, "working", 0, 0);
		if (job->what == JOB_LINE) {
			turn = job->text.n && (job->text.p[0] != '/' || job->text.p[1] == '/');
			w->holding = !turn;
			if (!turn)
				on_notice(c, job->text.p, job->text.n);   /* what the lines that follow answer */
			chat_take(c, &job->text);
		} else if (job->what == JOB_READ) {
			chat_read(c);
		} else {
			w->holding = 1;
			chat_switch(c, job->id);
		}
	}
	signals_take_int();
	if (!c->t.tl)
		release_held(w);
	if (c->t.tl) {
		timeline_resume(c->t.tl);
		send_talk(w, turn, wanted);
		release_held(w);
		if (atomic_load(&w->panel) || w->listener.on)
			look_at_cache(w);
	}
}

/* Between two jobs.  A stop that came during the one before is meant for this, too. */
static void run_stream(struct worker *w)
{
	w->open = 1;
	w->had = 0;
	w->reading = -1;
	w->reading_since = 0;
	chat_stream(w->c);
	w->open = 0;
	if (!w->c->streaming.on)
		atomic_store(&w->stop, 0);
	signals_take_int();
	w->shown = talk_hash(&w->c->t);
}

static int is_due(const struct worker *w)
{
	double at = chat_delete_next(w->c);

	return at > 0 && at <= now_seconds();
}

/* With the lock: for a job, or until something is due. */
static void wait_for_work(struct worker *w)
{
	double at = chat_delete_next(w->c), left = at - now_seconds();
	struct timespec until;

	if (at <= 0) {
		pthread_cond_wait(&w->wake, &w->lock);
		return;
	}
	if (left < 0)
		left = 0;
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += (long)((left - (double)(long)left) * 1e9);
	until.tv_sec += (time_t)left + until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	pthread_cond_timedwait(&w->wake, &w->lock, &until);
}

static void *work(void *arg)
{
	struct worker *w = arg;
	const struct streaming *streaming = &w->c->streaming;

	pthread_mutex_lock(&w->lock);
	for (;;) {
		struct job *job;

		while (!w->job && !w->closing && !(streaming->on && !w->c->quit) && !is_due(w))
			wait_for_work(w);
		if (w->closing)
			break;
		if (!w->job && is_due(w)) {
			pthread_mutex_unlock(&w->lock);
			delete_due(w);
			pthread_mutex_lock(&w->lock);
			continue;
		}
		job = w->job;
		if (job && !(w->job = job->next))
			w->job_end = &w->job;
		w->running = 1;
		pthread_mutex_unlock(&w->lock);
		if (job) {
			run(w, job);
			str_free(&job->text);
			free(job);
		} else {
			run_stream(w);
		}
		pthread_mutex_lock(&w->lock);
		if (w->job || (streaming->on && !w->c->quit))
			continue;
		w->running = 0;
		pthread_mutex_unlock(&w->lock);
		look(w, 0, "", 0, 0);
		post_text(w, w->c->quit ? EV_QUIT : EV_IDLE, "", 0);
		pthread_mutex_lock(&w->lock);
	}
	pthread_mutex_unlock(&w->lock);
	if (w->c->t.tl)
		listener_off(&w->listener, w->c->t.tl);
	return NULL;
}

/* ---- main's side ---- */

int worker_start(struct worker **out, struct chat *c, struct err *e)
{
	struct worker *w = xcalloc(1, sizeof *w);
	sigset_t all, before;
	int rc;

	w->c = c;
	w->job_end = &w->job;
	w->held_end = &w->held;
	w->event_end = &w->event;
	w->cache_new = panel_new();
	w->cache_read = panel_new();
	w->cache_work = panel_new();
	w->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (w->fd < 0) {
		free(w);
		return err_set(e, ERR_FAIL, "cannot make an event descriptor: too many files are open");
	}
	pthread_mutex_init(&w->lock, NULL);
	pthread_cond_init(&w->wake, NULL);
	c->front = &worker_front;
	c->ud = w;
	say_to(on_say, w);
	w->shown = 1;   /* no hash: the first look sends what there is */
	look(w, 0, "", 0, 0);
	send_talk(w, 0, 0);
	w->running = c->streaming.on;   /* it begins at once */
	/* Signals are for main. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(&w->thread, NULL, work, w);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (rc) {
		say_to(NULL, NULL);
		close(w->fd);
		free(w);
		return err_set(e, ERR_FAIL, "cannot start a thread: %s", strerror(rc));
	}
	*out = w;
	return 0;
}

void worker_do(struct worker *w, enum job_what what, int64_t id, const char *text, size_t n)
{
	struct job *job = xcalloc(1, sizeof *job);

	job->what = what;
	job->id = id;
	str_add(&job->text, text ? text : "", n);
	pthread_mutex_lock(&w->lock);
	*w->job_end = job;
	w->job_end = &job->next;
	pthread_cond_signal(&w->wake);
	pthread_mutex_unlock(&w->lock);
}

void worker_stop(struct worker *w)
{
	/* Under the lock no other job begins, so what is cancelled is what runs now. */
	pthread_mutex_lock(&w->lock);
	while (w->job) {
		struct job *job = w->job;
		w->job = job->next;
		str_free(&job->text);
		free(job);
	}
	w->job_end = &w->job;
	if (w->running) {
		atomic_store(&w->stop, 1);
		signals_stop();
	}
	pthread_mutex_unlock(&w->lock);
}

int worker_fd(const struct worker *w)
{
	return w->fd;
}

struct event *worker_take(struct worker *w)
{
	struct event *e;
	eventfd_t n;

	pthread_mutex_lock(&w->lock);
	if (w->signalled && eventfd_read(w->fd, &n) == 0)
		w->signalled = 0;
	e = w->event;
	if (e) {
		w->event = e->next;
		if (!w->event)
			w->event_end = &w->event;
		e->next = NULL;
	}
	pthread_mutex_unlock(&w->lock);
	return e;
}

int worker_now(struct worker *w, struct now *now)
{
	int fresh;

	pthread_mutex_lock(&w->lock);
	fresh = w->now_new;
	*now = w->now;
	w->now_new = 0;
	pthread_mutex_unlock(&w->lock);
	return fresh;
}

int worker_busy(struct worker *w)
{
	int busy;

	pthread_mutex_lock(&w->lock);
	busy = w->running || w->job || w->event || w->now_new;
	pthread_mutex_unlock(&w->lock);
	return busy;
}

void worker_panel(struct worker *w, int how)
{
	atomic_store(&w->panel, how);
	worker_do(w, JOB_LOOK, 0, NULL, 0);   /* at rest nobody would look otherwise */
}

int worker_cache(struct worker *w, const struct panel **out)
{
	struct panel *p;
	int fresh;

	pthread_mutex_lock(&w->lock);
	fresh = w->cache_fresh;
	if (fresh) {
		p = w->cache_read;
		w->cache_read = w->cache_new;
		w->cache_new = p;
		w->cache_fresh = 0;
	}
	pthread_mutex_unlock(&w->lock);
	*out = w->cache_read;
	return fresh;
}

void worker_close(struct worker *w)
{
	struct event *e;

	if (!w)
		return;
	worker_stop(w);
	pthread_mutex_lock(&w->lock);
	w->closing = 1;
	pthread_cond_signal(&w->wake);
	pthread_mutex_unlock(&w->lock);
	pthread_join(w->thread, NULL);
	chat_delete_due(w->c, 1);   /* while there is somebody to tell of an error */
	say_to(NULL, NULL);
	while ((e = worker_take(w)))
		event_free(e);
	panel_free(w->cache_new);
	panel_free(w->cache_read);
	panel_free(w->cache_work);
	free(w->first);
	close(w->fd);
	pthread_mutex_destroy(&w->lock);
	pthread_cond_destroy(&w->wake);
	free(w);
}
