/* app/conversation/turn.c - questions and their answers (conversation.h). */
#include "app/conversation/conversation_private.h"
#include "app/retrieval/retrieval.h"
#include "app/reader/reader.h"
#include "app/conversation/conversation.h"

#include <stdlib.h>
#include <string.h>

/* The answer to the messages so far, as a new message. begun: its beginning, a message whose text and tokens the new
 * one takes over once the prompt is read. */
static int answer(struct conversation *t, struct message *begun, const struct answer_hooks *h, struct turn *turn,
                  struct err *e)
{
	int by_text = begun && !begun->id.n && begun->text.n, rc = -1, attends;
	int64_t stored = begun ? begun->stored : 0;
	double start = now_seconds();
	struct message *m;
	int32_t first;

	*turn = (struct turn){ .stop = STOP_LENGTH };
	t->by->begin(t);
	attends = h->evidence && evidence_begin(t);
	first = t->by->read(t, begun, h, turn, e);
	if (turn->answered) {
		m = message_add(t, ROLE_ASSISTANT);
		if (begun)
			*m = *begun;
		m->number = 0; /* its text grows */
		m->interrupted = 0;
		m->stored = 0; /* a new message: the session and its forks keep the one that was cut */
		m->place = (struct text_at){ .first = first };
		if (!m->sources.n)
			answer_sources_found(t, &m->sources);
		emit(t, EVENT_ANSWER_BEGAN, 0);
		rc = t->by->generate(t, !by_text, start, h, turn, e);
	}
	t->by->end(t);
	if (rc < 0 && e->code == ERR_CANCELLED)
		turn->stop = STOP_CANCEL;
	if (attends)
		evidence_end(t);
	if (!turn->answered)
		return rc;
	answer_sources_attended(t, &t->msg[t->n_msg - 1].sources);
	t->by->measure(t, turn);
	t->total_answer += (uint64_t)turn->answer_tokens;
	if (begun && !turn->answer_tokens) {
		t->msg[t->n_msg - 1].stored = stored; /* the model added nothing: it stays the stored message */
		return rc;
	}
	undo_forget(t);
	t->last = *turn;
	emit(t, EVENT_ANSWER_ENDED, 0);
	return rc;
}

/* Find the evicted turns that the question asks about.  0 or -1. */
static int find_recalled(struct conversation *t, const char *text, size_t n, const struct answer_hooks *h,
                         struct err *e)
{
	if (conversation_recall(t, text, n, e) < 0)
		return -1;
	if (t->n_recalled && h->recalled)
		h->recalled(t, h->recalled_ud);
	return 0;
}

/* Find the passages that answer the question. context: what it was sent with before, or NULL. 0; 1 = nothing in the
 * documents clearly answers it, and none of them is read whole; -1. */
static int find_sources(struct conversation *t, const char *text, size_t n, const struct str *context,
                        const struct answer_hooks *h, struct err *e)
{
	int whole = 0;

	sources_forget(t);
	if (!t->n_doc || h->without_documents || !t->hooks.search)
		return 0;
	if (conversation_sources(t, text, n, &t->sources, e) < 0)
		return -1;
	for (size_t i = 0; i < t->n_doc; i++)
		whole |= t->doc[i].whole || t->doc[i].grows;
	if (signals_stopped()) /* between two timelines */
		return err_set(e, ERR_CANCELLED, "stopped");
	if (!t->sources.found && !whole && !t->n_recalled)
		return 1; /* the nearest ones stay */
	if (!t->sources.found) {
		sources_free(&t->sources);
		return 0;
	}
	if (context)
		sources_chosen_before(t, context);
	else
		sources_choose(t);
	if (h->sources)
		h->sources(t, h->sources_ud);
	return 0;
}

int conversation_ask(struct conversation *t, const char *text, size_t n, const struct answer_hooks *h,
                     struct turn *turn, struct err *e)
{
	int was_open = t->growing.open, rc = find_recalled(t, text, n, h, e);
	struct str context = { 0 };
	struct err why = { 0 };
	struct message *m;

	if (!rc)
		rc = find_sources(t, text, n, NULL, h, e);
	if (rc) {
		*turn = (struct turn){ .stop = rc > 0                     ? STOP_NOT_FOUND
			                       : e->code == ERR_CANCELLED ? STOP_CANCEL
			                                                  : STOP_LENGTH };
		return rc < 0 ? -1 : 0;
	}
	if (was_open && aside_save(t, &why) < 0)
		say("this question becomes part of the text that is read: %s", why.msg);
	recall_context(t, &context);
	question_context(t, &context);
	m = was_open ? &t->msg[t->n_msg - 1] : message_add(t, ROLE_USER);
	if (was_open) { /* the text that was read stands in front, and must not move */
		str_adds(&m->text, "\n\n");
		str_add(&m->text, str_text(&context), context.n);
		m->quoted = context.n;
		str_free(&context);
	}
	m->context = context;
	str_add(&m->text, text, n);
	growing_close(t);
	emit(t, EVENT_QUESTION, 0);
	quotation_given(t, text, n, &t->given);
	rc = answer(t, NULL, h, turn, e);
	tokens_free(&t->given);
	t->sampling.given = NULL;
	t->sampling.n_given = 0;
	if (turn->answered)
		return rc;
	if (was_open)
		growing_reopen(t);
	else
		message_free(&t->msg[--t->n_msg]);
	emit(t, EVENT_QUESTION_WITHDRAWN, 0);
	return rc;
}

/* Tell the sources of the last question once more. Where they are forgotten, because the session was resumed or a turn
 * undone, its old answer has them, or they are searched for again. The question keeps its context, so a search that
 * fails only leaves them unnamed. -1: it was stopped. */
static int find_again(struct conversation *t, const struct message *old, const struct answer_hooks *h, struct err *e)
{
	const struct message *m = &t->msg[t->n_msg - 1];
	struct err why = { 0 };
	int rc = 0;

	if (!t->sources.found) /* none of a question that was not answered */
		sources_free(&t->sources);
	if ((t->sources.n || sources_restore(t, &old->sources)) && h->sources)
		h->sources(t, h->sources_ud);
	else if (!t->sources.n && context_is_searched(&m->context))
		rc = find_sources(t, m->text.p, m->text.n, &m->context, h, &why);
	if (!t->sources.found)
		sources_free(&t->sources);
	return rc < 0 && why.code == ERR_CANCELLED ? err_set(e, why.code, "%s", why.msg) : 0;
}

int conversation_regenerate(struct conversation *t, const struct answer_hooks *h, struct turn *turn, struct err *e)
{
	struct message old = { .role = ROLE_ASSISTANT };
	int had = 0, rc;

	if (!t->n_msg || t->growing.open)
		return err_set(e, ERR_USAGE, "there is no question yet to answer again");
	if (t->msg[t->n_msg - 1].role == ROLE_ASSISTANT) {
		old = t->msg[--t->n_msg];
		had = 1;
		emit(t, EVENT_ANSWER_WITHDRAWN, 0);
	}
	*turn = (struct turn){ .stop = STOP_CANCEL };
	rc = find_again(t, &old, h, e);
	if (!rc)
		rc = answer(t, NULL, h, turn, e);
	if (had && !turn->answered)
		*message_add(t, ROLE_ASSISTANT) = old; /* nothing new: the old answer stays */
	else if (had)
		message_free(&old);
	return rc;
}

int conversation_continue(struct conversation *t, const struct answer_hooks *h, struct turn *turn, struct err *e)
{
	struct message old;
	int rc;

	if (!t->n_msg || t->growing.open)
		return err_set(e, ERR_USAGE, "there is no answer yet to continue");
	if (t->msg[t->n_msg - 1].role != ROLE_ASSISTANT) /* the answer was stopped before its first word */
		return answer(t, NULL, h, turn, e);
	if (!t->sources.found)
		sources_forget(t);
	old = t->msg[--t->n_msg];
	if (!t->sources.n)
		sources_restore(t, &old.sources);
	rc = answer(t, &old, h, turn, e);
	if (!turn->answered)
		*message_add(t, ROLE_ASSISTANT) = old;
	return rc;
}

/* ---- JSON ---- */

/* Where --kv-memory has the cache on disk, or beside a GPU in the machine's memory. */
static void kv_memory_json(const struct conversation *t, struct str *out)
{
	struct timeline_stats st;

	if (!t->tl)
		return;
	timeline_stats(t->tl, &st);
	if (!st.kv_disk_bytes && !st.kv_host_bytes)
		return;
	json_uint(out, st.kv_host_bytes ? "kv_host_bytes" : "kv_disk_bytes", st.kv_disk_bytes + st.kv_host_bytes);
	json_uint(out, "kv_resident_bytes", st.kv_resident_bytes);
	json_real(out, "kv_fetched", st.kv_fetched, "%.0f");
	json_real(out, "kv_overlap", st.kv_overlap, "%.4f");
}

void conversation_json(const struct conversation *t, const struct turn *turn, const char *session, struct str *out)
{
	static const char *stop[] = { [STOP_EOS] = "eos",
		                      [STOP_LENGTH] = "length",
		                      [STOP_CANCEL] = "cancel",
		                      [STOP_NOT_FOUND] = "not found",
		                      [STOP_LOOP] = "loop" };
	const struct message *m = turn->answered ? conversation_answer(t) : NULL;

	json_open(out, NULL, '{');
	json_text(out, "text", m ? m->text.p : NULL, m ? m->text.n : 0);
	json_open(out, "tokens", '[');
	for (size_t i = 0; m && i < m->id.n; i++)
		json_int(out, NULL, m->id.id[i]);
	json_close(out, ']');
	json_int(out, "prompt_tokens", turn->prompt_tokens);
	json_int(out, "reused_tokens", turn->reused_tokens);
	json_real(out, "ttft_s", turn->ttft_s, "%.6f");
	json_real(out, "prefill_tps", turn->prefill_tps, "%.2f");
	json_real(out, "decode_tps", turn->decode_tps, "%.2f");
	json_int(out, "drafted", turn->drafted);
	json_int(out, "accepted", turn->accepted);
	if (!turn->read.known) {
		json_null(out, "attention");
	} else {
		json_open(out, "attention", '{');
		json_real(out, "exact", turn->read.exact, "%.4f");
		json_real(out, "sampled", turn->read.sampled, "%.4f");
		json_real(out, "spread", turn->read.spread, "%.4f");
		json_close(out, '}');
	}
	json_bool(out, "answered", turn->answered);
	json_string(out, "stop", stop[turn->stop]);
	sampling_json(&t->sampled, "sampling", out);
	kv_memory_json(t, out);
	json_string(out, "session", *session ? session : NULL);
	passages_json(t, out);
	recalled_json(t, out);
	evidence_json(t, out);
	json_close(out, '}');
	str_adds(out, "\n");
}

int32_t conversation_prefill(struct conversation *t, timeline_progress_fn *progress, void *ud, struct err *e)
{
	return t->by->prefill(t, progress, ud, e);
}
