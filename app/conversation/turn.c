/* app/conversation/turn.c - runs turns: ask, regenerate, continue; and writes a turn as JSON (conversation.h). */
#include "app/conversation/conversation_private.h"
#include "engine/base/json.h"

#include <stdlib.h>
#include <string.h>

/* Generate an answer as a new last message. `begun` is the answer to continue, or NULL. When the prompt is prefilled
 * (turn->answered), the text and tokens of *begun are moved to the new message. Returns 0 or -1. */
static int answer_generate(struct conversation *conv, struct message *begun, const struct answer_hooks *h,
                           struct turn *turn, struct err *e)
{
	int by_text = begun && !begun->id.n && begun->text.n, rc = -1;
	int64_t stored = begun ? begun->stored : 0;
	double start = now_seconds();
	struct message *m;
	int32_t first;

	*turn = (struct turn){ .stop = STOP_LENGTH };
	conv->guarded = 0;
	if (!begun)
		memcpy(turn->random, conv->sampling.rng, sizeof turn->random);
	conv->by->begin(conv);
	EACH_TURN_HOOK(conv, k, begin)
		k->ops->begin(k->self, conv, h);
	first = conv->by->read(conv, begun, h, turn, e);
	if (turn->answered) {
		m = message_add(conv, ROLE_ASSISTANT);
		if (begun)
			*m = *begun;
		m->number = 0; /* the search index has only the shorter text */
		m->interrupted = 0;
		/* Store the longer answer as a new message. The session also keeps the shorter one, because forks may
		 * refer to it. */
		m->stored = 0;
		m->prompt_at = (struct text_at){ .first = first };
		EACH_TURN_HOOK(conv, k, began)
			k->ops->began(k->self, conv, m);
		conversation_emit(conv, EVENT_ANSWER_BEGAN, 0);
		rc = conv->by->generate(conv, !by_text, start, h, turn, e);
	}
	conv->by->end(conv);
	if (rc < 0 && e->code == ERR_CANCELLED)
		turn->stop = STOP_CANCEL;
	EACH_TURN_HOOK(conv, k, ended)
		k->ops->ended(k->self, conv, turn->answered ? &conv->msg[conv->n_msg - 1] : NULL);
	if (!turn->answered)
		return rc;
	conv->by->measure(conv, turn);
	conv->total_answer += (uint64_t)turn->answer_tokens;
	if (begun && !turn->answer_tokens) {
		/* nothing was added, so the message equals the stored one */
		conv->msg[conv->n_msg - 1].stored = stored;
		return rc;
	}
	undo_forget(conv);
	conv->last = *turn;
	conversation_emit(conv, EVENT_ANSWER_ENDED, 0);
	return rc;
}

/* Call before() of all turn hooks. Returns 0; 1 if the documents do not answer the question; -1 on error. */
static int turn_hooks_before(struct conversation *conv, const struct question *q, struct err *e)
{
	EACH_TURN_HOOK(conv, k, before) {
		int rc = k->ops->before(k->self, conv, q, e);

		if (rc)
			return rc;
	}
	return 0;
}

/* Add the question as a new message. But if the last message is still being read from a stream (conv->grows), append
 * the question to that message. Takes ownership of `context`. */
static void add_question(struct conversation *conv, const struct question *q, struct str context)
{
	int joins = conv->grows;
	struct message *m = joins ? &conv->msg[conv->n_msg - 1] : message_add(conv, ROLE_USER);

	if (joins) {
		str_adds(&m->text, "\n\n");
		str_add(&m->text, str_text(&context), context.n);
		m->quoted = context.n;
		str_free(&context);
	}
	m->context = context;
	str_add(&m->text, q->text, q->n);
	if (joins)
		turn_hooks_changed(conv, CHANGE_CLOSED);
}

int conversation_ask(struct conversation *conv, const char *text, size_t n, const struct answer_hooks *h,
                     struct turn *turn, struct err *e)
{
	struct question q = { .text = text, .n = n, .hooks = h };
	int joined = conv->grows, rc = turn_hooks_before(conv, &q, e);
	struct str context = { 0 };

	if (rc) {
		*turn = (struct turn){ .stop = rc > 0                     ? STOP_NOT_FOUND
			                       : e->code == ERR_CANCELLED ? STOP_CANCEL
			                                                  : STOP_LENGTH };
		return rc < 0 ? -1 : 0;
	}
	EACH_TURN_HOOK(conv, k, context)
		k->ops->context(k->self, conv, &context);
	add_question(conv, &q, context);
	conversation_emit(conv, EVENT_QUESTION, 0);
	EACH_TURN_HOOK(conv, k, given)
		k->ops->given(k->self, conv, &q, &conv->given);
	rc = answer_generate(conv, NULL, h, turn, e);
	tokens_free(&conv->given);
	conv->sampling.given = NULL;
	conv->sampling.n_given = 0;
	if (turn->answered)
		return rc;
	if (joined)
		turn_hooks_changed(conv, CHANGE_REOPENED);
	else
		message_free(&conv->msg[--conv->n_msg]);
	conversation_emit(conv, EVENT_QUESTION_WITHDRAWN, 0);
	return rc;
}

/* Call again() of all turn hooks. Returns 0 or -1. */
static int turn_hooks_again(struct conversation *conv, const struct message *old, int goes_on, struct err *e)
{
	EACH_TURN_HOOK(conv, k, again)
		if (k->ops->again(k->self, conv, old, goes_on, e) < 0)
			return -1;
	return 0;
}

int conversation_regenerate(struct conversation *conv, const struct answer_hooks *h, struct turn *turn, struct err *e)
{
	struct message old = { .role = ROLE_ASSISTANT };
	int had = 0, rc;

	if (!conv->n_msg || conv->grows)
		return err_set(e, ERR_USAGE, "there is no question yet to answer again");
	if (conv->msg[conv->n_msg - 1].role == ROLE_ASSISTANT) {
		old = conv->msg[--conv->n_msg];
		had = 1;
		conversation_emit(conv, EVENT_ANSWER_WITHDRAWN, 0);
	}
	*turn = (struct turn){ .stop = STOP_CANCEL };
	rc = turn_hooks_again(conv, &old, 0, e);
	if (!rc)
		rc = answer_generate(conv, NULL, h, turn, e);
	if (had && !turn->answered)
		*message_add(conv, ROLE_ASSISTANT) = old; /* there is no new answer, so restore the old one */
	else if (had)
		message_free(&old);
	return rc;
}

int conversation_continue(struct conversation *conv, const struct answer_hooks *h, struct turn *turn, struct err *e)
{
	struct message old;
	int rc;

	if (!conv->n_msg || conv->grows)
		return err_set(e, ERR_USAGE, "there is no answer yet to continue");
	/* The turn was stopped before its answer began, so there is no answer to continue: generate one. */
	if (conv->msg[conv->n_msg - 1].role != ROLE_ASSISTANT)
		return answer_generate(conv, NULL, h, turn, e);
	old = conv->msg[--conv->n_msg];
	*turn = (struct turn){ .stop = STOP_CANCEL };
	rc = turn_hooks_again(conv, &old, 1, e);
	if (!rc)
		rc = answer_generate(conv, &old, h, turn, e);
	if (!turn->answered)
		*message_add(conv, ROLE_ASSISTANT) = old;
	return rc;
}

/* ---- JSON ---- */

/* Append the figures of a KV cache that is partly outside the memory that computes (--kv-memory): on disk, or in host
 * memory beside a GPU. */
static void kv_memory_json(const struct conversation *conv, struct str *out)
{
	struct timeline_stats st;

	if (!conv->tl)
		return;
	timeline_stats(conv->tl, &st);
	if (!st.kv_disk_bytes && !st.kv_host_bytes)
		return;
	json_uint(out, st.kv_host_bytes ? "kv_host_bytes" : "kv_disk_bytes", st.kv_disk_bytes + st.kv_host_bytes);
	json_uint(out, "kv_resident_bytes", st.kv_resident_bytes);
	json_real(out, "kv_fetched", st.kv_fetched, "%.0f");
	json_real(out, "kv_overlap", st.kv_overlap, "%.4f");
}

/* Append "strides": for each layer, the number of tokens for which one selection is used. Appends nothing if the policy
 * selects anew for each token. */
static void strides_json(const struct conversation *conv, struct str *out)
{
	float stride[VIEW_LAYERS];

	if (!conv->tl || timeline_strides(conv->tl, stride, VIEW_LAYERS) <= 0)
		return;
	json_open(out, "strides", '[');
	for (int i = 0; i < MIN(conv->info->n_layer, VIEW_LAYERS); i++)
		json_real(out, NULL, (double)stride[i], "%.2f");
	json_close(out, ']');
}

void conversation_json(const struct conversation *conv, const struct turn *turn, const char *session, struct str *out)
{
	static const char *stop[] = { [STOP_EOS] = "eos",
		                      [STOP_LENGTH] = "length",
		                      [STOP_CANCEL] = "cancel",
		                      [STOP_NOT_FOUND] = "not found",
		                      [STOP_LOOP] = "loop" };
	const struct message *m = turn->answered ? conversation_answer(conv) : NULL;

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
	sampling_json(&conv->sampled, "sampling", out);
	kv_memory_json(conv, out);
	strides_json(conv, out);
	json_string(out, "session", *session ? session : NULL);
	EACH_TURN_HOOK(conv, k, json)
		k->ops->json(k->self, conv, out);
	json_close(out, '}');
	str_adds(out, "\n");
}

int32_t conversation_prefill(struct conversation *conv, timeline_progress_fn *progress, void *ud, struct err *e)
{
	return conv->by->prefill(conv, progress, ud, e);
}
