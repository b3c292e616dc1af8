/* app/conversation/turn.c - questions and their answers (conversation.h). */
#include "app/conversation/conversation_private.h"
#include "engine/base/json.h"

#include <stdlib.h>
#include <string.h>

/* Answer the messages so far with a new message. begun: its beginning, a message whose text and tokens the new one takes
 * over once the prompt is read; NULL: none. */
static int answer(struct conversation *t, struct message *begun, const struct answer_hooks *h, struct turn *turn,
                  struct err *e)
{
	int by_text = begun && !begun->id.n && begun->text.n, rc = -1;
	int64_t stored = begun ? begun->stored : 0;
	double start = now_seconds();
	struct message *m;
	int32_t first;

	*turn = (struct turn){ .stop = STOP_LENGTH };
	t->by->begin(t);
	EACH_COMPANION(t, k, begin)
	k->ops->begin(k->self, t, h);
	first = t->by->read(t, begun, h, turn, e);
	if (turn->answered) {
		m = message_add(t, ROLE_ASSISTANT);
		if (begun)
			*m = *begun;
		m->number = 0; /* its text grows */
		m->interrupted = 0;
		m->stored = 0; /* a new message: the session and its forks keep the one that was cut */
		m->place = (struct text_at){ .first = first };
		EACH_COMPANION(t, k, began)
		k->ops->began(k->self, t, m);
		conversation_emit(t, EVENT_ANSWER_BEGAN, 0);
		rc = t->by->generate(t, !by_text, start, h, turn, e);
	}
	t->by->end(t);
	if (rc < 0 && e->code == ERR_CANCELLED)
		turn->stop = STOP_CANCEL;
	EACH_COMPANION(t, k, ended)
	k->ops->ended(k->self, t, turn->answered ? &t->msg[t->n_msg - 1] : NULL);
	if (!turn->answered)
		return rc;
	t->by->measure(t, turn);
	t->total_answer += (uint64_t)turn->answer_tokens;
	if (begun && !turn->answer_tokens) {
		t->msg[t->n_msg - 1].stored = stored; /* the model added nothing: it stays the stored message */
		return rc;
	}
	undo_forget(t);
	t->last = *turn;
	conversation_emit(t, EVENT_ANSWER_ENDED, 0);
	return rc;
}

/* 0; 1 = nothing answers the question; -1. */
static int companions_before(struct conversation *t, const struct question *q, struct err *e)
{
	EACH_COMPANION(t, k, before)
	{
		int rc = k->ops->before(k->self, t, q, e);

		if (rc)
			return rc;
	}
	return 0;
}

/* Add the question as a message, or to the last message if that grows: the text that was read stands in front, and must
 * not move.  Takes over the context. */
static void add_question(struct conversation *t, const struct question *q, struct str context)
{
	int joins = t->grows;
	struct message *m = joins ? &t->msg[t->n_msg - 1] : message_add(t, ROLE_USER);

	if (joins) {
		str_adds(&m->text, "\n\n");
		str_add(&m->text, str_text(&context), context.n);
		m->quoted = context.n;
		str_free(&context);
	}
	m->context = context;
	str_add(&m->text, q->text, q->n);
	if (joins)
		companions_changed(t, CHANGE_CLOSED);
}

int conversation_ask(struct conversation *t, const char *text, size_t n, const struct answer_hooks *h,
                     struct turn *turn, struct err *e)
{
	struct question q = { .text = text, .n = n, .hooks = h };
	int joined = t->grows, rc = companions_before(t, &q, e);
	struct str context = { 0 };

	if (rc) {
		*turn = (struct turn){ .stop = rc > 0                     ? STOP_NOT_FOUND
			                       : e->code == ERR_CANCELLED ? STOP_CANCEL
			                                                  : STOP_LENGTH };
		return rc < 0 ? -1 : 0;
	}
	EACH_COMPANION(t, k, context)
	k->ops->context(k->self, t, &context);
	add_question(t, &q, context);
	conversation_emit(t, EVENT_QUESTION, 0);
	EACH_COMPANION(t, k, given)
	k->ops->given(k->self, t, &q, &t->given);
	rc = answer(t, NULL, h, turn, e);
	tokens_free(&t->given);
	t->sampling.given = NULL;
	t->sampling.n_given = 0;
	if (turn->answered)
		return rc;
	if (joined)
		companions_changed(t, CHANGE_REOPENED);
	else
		message_free(&t->msg[--t->n_msg]);
	conversation_emit(t, EVENT_QUESTION_WITHDRAWN, 0);
	return rc;
}

static int companions_again(struct conversation *t, const struct message *old, int goes_on, struct err *e)
{
	EACH_COMPANION(t, k, again)
	if (k->ops->again(k->self, t, old, goes_on, e) < 0)
		return -1;
	return 0;
}

int conversation_regenerate(struct conversation *t, const struct answer_hooks *h, struct turn *turn, struct err *e)
{
	struct message old = { .role = ROLE_ASSISTANT };
	int had = 0, rc;

	if (!t->n_msg || t->grows)
		return err_set(e, ERR_USAGE, "there is no question yet to answer again");
	if (t->msg[t->n_msg - 1].role == ROLE_ASSISTANT) {
		old = t->msg[--t->n_msg];
		had = 1;
		conversation_emit(t, EVENT_ANSWER_WITHDRAWN, 0);
	}
	*turn = (struct turn){ .stop = STOP_CANCEL };
	rc = companions_again(t, &old, 0, e);
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

	if (!t->n_msg || t->grows)
		return err_set(e, ERR_USAGE, "there is no answer yet to continue");
	if (t->msg[t->n_msg - 1].role != ROLE_ASSISTANT) /* the answer was stopped before its first word */
		return answer(t, NULL, h, turn, e);
	old = t->msg[--t->n_msg];
	*turn = (struct turn){ .stop = STOP_CANCEL };
	rc = companions_again(t, &old, 1, e);
	if (!rc)
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
	EACH_COMPANION(t, k, json)
	k->ops->json(k->self, t, out);
	json_close(out, '}');
	str_adds(out, "\n");
}

int32_t conversation_prefill(struct conversation *t, timeline_progress_fn *progress, void *ud, struct err *e)
{
	return t->by->prefill(t, progress, ud, e);
}
