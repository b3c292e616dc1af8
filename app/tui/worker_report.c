/* app/tui/worker_report.c - reports figures: progress, status, the cache. A new figure replaces the older one. */
#include "app/tui/worker_private.h"

#include <stdio.h>

/* Return the session's title. The title is read from the store only if the session was switched or title_stale is
 * set. */
static const char *session_title(struct worker *w)
{
	int64_t session = w->c->log ? w->c->log->session : 0;

	if (w->title_stale || session != w->title_of) {
		str_clear(&w->title);
		session_log_title(w->c->log, &w->title);
		w->title_of = session;
		w->title_stale = 0;
	}
	return str_text(&w->title);
}

static void describe_cache(struct worker *w, struct worker_status *s)
{
	struct chat *c = w->c;
	struct timeline_stats st;
	struct str model = { 0 };

	conversation_stats(&c->conv, &st);
	s->known = 1;
	chat_model_name(c, &model);
	snprintf(s->model, sizeof s->model, "%s", str_text(&model));
	str_free(&model);
	snprintf(s->session, sizeof s->session, "%.90s", session_title(w));
	s->session_id = c->log ? c->log->session : 0;
	if (st.prefill_tokens >= 64 && st.prefill_seconds > 0)
		s->prefill_tps = st.prefill_tokens / st.prefill_seconds;
	s->n_hidden = 0;
	for (size_t i = c->n_deleted; i > 0 && s->n_hidden < HIDDEN_MOST; i--)
		s->hidden[s->n_hidden++] = c->deleted[i - 1].session;
	s->served = !c->conv.tl;
	s->kept_on_disk = c->log && !c->log->failed;
	s->read_only = c->log && c->log->read_only;
	snprintf(s->kv, sizeof s->kv, "%s", st.kv);
	s->kept = conversation_cached_tokens(&c->conv, &st);
	s->ctx = st.ctx;
	s->kv_bytes = st.kv_bytes;
	s->seen = st.n_tokens;
	s->evicted = st.rings.evicted;
	s->thinned = st.rings.evicted_in_part;
	/* The conversation has no messages, but the timeline still has figures of the previous conversation: do not
	 * report these figures. */
	if (!c->conv.n_msg) {
		s->seen = s->kept;
		s->evicted = s->thinned = 0;
	}
	/* Before the first answer, the timeline has the decode speed of the previous conversation: do not report it. */
	if (c->conv.n_msg < 2)
		s->last_tps = 0;
	else if (st.decode_tokens > 1 && st.decode_seconds > 0)
		s->last_tps = (st.decode_tokens - 1) / st.decode_seconds;
}

void worker_report(struct worker *w, enum worker_work working, const char *verb, int64_t done, int64_t total)
{
	struct worker_status s;

	pthread_mutex_lock(&w->lock);
	s = w->status;
	pthread_mutex_unlock(&w->lock);
	s.working = working != WORKER_IDLE;
	snprintf(s.verb, sizeof s.verb, "%s", verb);
	s.done = done;
	s.total = total;
	s.had = w->had;
	s.left = -1;
	s.tps = 0;
	s.open = w->open;
	if (conversation_is_open(&w->c->conv))
		describe_cache(w, &s);
	if (working && total > 0) {
		if (w->reading >= 0)
			/* The timeline's own figures already count all tokens of the current prefill. So report the
			 * tokens prefilled so far instead. */
			s.seen = s.kept = w->reading;
		double spent = now_seconds() - w->reading_since;
		if (spent > 0.2 && done > w->had) {
			s.tps = (double)(done - w->had) / spent;
			s.left = (double)(total - done) / s.tps;
		}
	} else if (working) {
		s.tps = w->open ? w->open_tps : working == WORKER_DECODES ? s.last_tps : 0;
		s.left = w->open ? w->open_left : -1;
	}
	w->reported = now_seconds();
	pthread_mutex_lock(&w->lock);
	w->status = s;
	w->status_new = 1;
	worker_signal(w);
	pthread_mutex_unlock(&w->lock);
}

void worker_report_cache(struct worker *w, int last)
{
	int how = atomic_load(&w->panel);
	struct cache_report *done;

	if (!how)
		listener_off(&w->listener, w->c->conv.tl);
	if (!conversation_is_open(&w->c->conv) || (!how && !w->c->conv.tl))
		return;
	if (how)
		listener_on(&w->listener, w->c->conv.tl);
	cache_report_take(w->cache_work, &w->c->conv, &w->listener, how, w->reading);
	w->cache_work->cache.every = w->cache_every;
	w->cache_reported = now_seconds();
	if (!how && !last && w->cache_every <= 0)
		/* in tests (worker_still()), the number of reports must not depend on the speed of the screen */
		return;
	pthread_mutex_lock(&w->lock);
	done = w->cache_work;
	w->cache_work = w->cache_new;
	w->cache_new = done;
	w->cache_fresh = 1;
	worker_signal(w);
	pthread_mutex_unlock(&w->lock);
}

void worker_report_sessions(struct worker *w)
{
	struct worker_status s;

	w->title_stale = 1;
	pthread_mutex_lock(&w->lock);
	s = w->status;
	pthread_mutex_unlock(&w->lock);
	if (conversation_is_open(&w->c->conv))
		describe_cache(w, &s);
	pthread_mutex_lock(&w->lock);
	w->status = s;
	w->status_new = 1;
	worker_signal(w);
	pthread_mutex_unlock(&w->lock);
}
