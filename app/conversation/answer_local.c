/* app/conversation/answer_local.c - the functions (struct answerer) that answer with a model in this process
 * (conversation_private.h). */
#include "app/conversation/conversation_private.h"
#include "app/models/models.h"
#include "engine/base/utf8.h"

#include <stdio.h>
#include <string.h>

/* ---- opening ---- */

int local_open(struct conversation *conv, const struct options *o, struct err *e)
{
	const struct engine_info *info;
	struct timeline_stats st;
	int rc;

	if (model_open(&conv->engine, o, MODEL_RUN, e) < 0)
		return -1;
	info = engine_info(conv->engine);
	/* Refuse an unsupported chat template now instead of after the first question. A model without a template is a
	 * base model, which continues plain text. */
	if (!info->template_name[0] && info->has_template) {
		err_set(e, ERR_MODEL, "%s", info->template_error);
		local_close(conv);
		return -1;
	}
	if (!info->template_name[0] && !o->quiet)
		conversation_notice(conv, "the model has no chat template: it continues the text as it stands");
	conversation_emit(conv, EVENT_OPENING, 1);
	rc = timeline_open_for(&conv->tl, conv->engine, o, o->ctx, e);
	conversation_emit(conv, EVENT_OPENING, 0);
	if (rc < 0) {
		local_close(conv);
		return -1;
	}
	conv->by = &answerer_local;
	conv->info = info;
	timeline_stats(conv->tl, &st);
	if (st.endless && o->ctx > info->ctx_train && !o->quiet)
		conversation_notice(
			conv,
			"the model was trained for a context of %d tokens: the cache holds %d of a conversation at once",
			info->ctx_train, st.ctx);
	else if (st.ctx > info->ctx_train && !o->quiet)
		conversation_notice(conv,
		                    "quality degrades beyond the context of %d tokens that the model was trained for",
		                    info->ctx_train);
	if (o->verbose) {
		conversation_notice(conv, "%s: %s, %s, %s, context %d, cache %.1f MiB", info->path, info->arch,
		                    info->n_types, info->device, st.ctx, (double)st.kv_bytes / 1048576);
		if (st.kv_disk_bytes)
			conversation_notice(conv, "the cache's keys and values lie on disk, %.1f MiB",
			                    (double)st.kv_disk_bytes / 1048576);
		if (st.kv_host_bytes)
			conversation_notice(conv, "the cache's keys and values lie in the machine's memory, %.1f MiB",
			                    (double)st.kv_host_bytes / 1048576);
	}
	return 0;
}

void local_close(struct conversation *conv)
{
	timeline_close(conv->tl);
	engine_close(conv->engine);
	conv->tl = NULL;
	conv->engine = NULL;
}

/* ---- a turn ---- */

/* An answer that is being generated. */
struct generated {
	struct message *m;
	int ids; /* 1 = store the ids of the answer's tokens with the message */
	const struct answer_hooks *hooks;
	/* if conv->guarded is set: the tokens of the current sentence, which is not shown until it is complete and
	 * checked */
	struct tokens held;
	struct str held_text;
	int dropped;   /* 1 = a sentence was left out; the answer ends before this sentence */
	int32_t shown; /* number of tokens that were shown */
};

/* Append tokens to the message and pass their text to the text hook. Returns 0, or -1 to stop the turn. */
static int tokens_show(struct conversation *conv, struct generated *g, const int32_t *id, size_t n_id, struct err *e)
{
	struct str *text = &g->m->text;
	size_t had = text->n;

	for (size_t i = 0; i < n_id; i++) {
		if (g->ids)
			tokens_add(&g->m->id, id[i]);
		engine_piece_add(conv->engine, id[i], 0, text);
	}
	g->shown += (int32_t)n_id;
	return g->hooks->text ? g->hooks->text(str_text(text) + had, text->n - had, g->hooks->text_ud, e) : 0;
}

/* Show the held sentence; drop it if a turn hook does not allow it. Returns 0, or -1 to stop the turn. */
static int held_show(struct conversation *conv, struct generated *g, struct err *e)
{
	int rc = 0;

	EACH_TURN_HOOK(conv, k, allows)
		g->dropped |= !k->ops->allows(k->self, conv, str_text(&g->held_text), g->held_text.n);
	if (!g->dropped)
		rc = tokens_show(conv, g, g->held.id, g->held.n, e);
	g->held.n = 0;
	str_clear(&g->held_text);
	return rc;
}

/* 1 if the end of the text is the end of a sentence or line. */
static int sentence_ends(const struct str *text)
{
	size_t n = text->n;

	while (n && strchr("\"')*", text->p[n - 1]))
		n--;
	return n && memchr(".!?\n", text->p[n - 1], 4);
}

/* Add a token to the answer. In a guarded answer, the tokens of a sentence are shown together, after all turn hooks
 * (turn_hook.h) have allowed the sentence. If one of them does not allow it, g->dropped is set, and the answer ends
 * before this sentence. Returns 0, or -1 to stop the turn. */
static int token_show(struct conversation *conv, struct generated *g, int32_t id, struct err *e)
{
	struct str piece = { 0 };
	int rc = 0;

	if (!conv->guarded || (size_t)g->shown < conv->given.n)
		return tokens_show(conv, g, &id, 1, e);
	engine_piece_add(conv->engine, id, 0, &piece);
	if (piece.n && byte_is_blank(*piece.p) && sentence_ends(&g->held_text))
		rc = held_show(conv, g, e);
	if (!rc && !g->dropped) {
		tokens_add(&g->held, id);
		str_add(&g->held_text, piece.p, piece.n);
	}
	str_free(&piece);
	return rc;
}

/* End an answer whose sentences are checked before they are shown (conversation.guarded): check and show the last
 * sentence. If no sentence of the answer was allowed, show the replacement that turn hooks make
 * (turn_hook_ops.instead). Returns 0 or -1. */
static int answer_end(struct conversation *conv, struct generated *g, struct turn *turn, struct err *e)
{
	struct tokens instead = { 0 };
	int rc = g->held.n ? held_show(conv, g, e) : 0;

	if (!rc && g->dropped && !g->m->text.n)
		EACH_TURN_HOOK(conv, k, instead)
			k->ops->instead(k->self, conv, &instead);
	if (conv->o->predict >= 0)
		instead.n = MIN(instead.n, (size_t)conv->o->predict);
	if (instead.n)
		rc = tokens_show(conv, g, instead.id, instead.n, e);
	tokens_free(&instead);
	turn->answer_tokens = g->shown;
	return rc;
}

/* Append the tokens of an answer that will be continued: the ids that were sampled or, if another model wrote the
 * answer, the tokens of its text. */
static int begun_tokens(const struct conversation *conv, const struct message *begun, struct tokens *out, struct err *e)
{
	if (begun->id.n || !begun->text.n)
		tokens_append(out, begun->id.id, begun->id.n);
	else if (conv->info->channels &&
	         strcmp(conv->o->think ? conv->o->think : "", "off") !=
	                 0 && /* with --think off, the template puts this mark at the end of the prompt */
	         engine_tokenize(conv->engine, CHANNEL_FINAL, sizeof CHANNEL_FINAL - 1, TOKENIZE_SPECIAL, out, e) < 0)
		return -1;
	else
		return engine_tokenize(conv->engine, begun->text.p, begun->text.n, 0, out, e);
	return 0;
}

static int32_t local_read(struct conversation *conv, const struct message *begun, const struct answer_hooks *h,
                          struct turn *turn, struct err *e)
{
	struct tokens so_far = { 0 };
	size_t n = 0, n_begun;
	int32_t reused = -1;

	if (!begun || begun_tokens(conv, begun, &so_far, e) == 0)
		reused = conversation_sync(conv, 1, begun ? &so_far : NULL, &n, &turn->recomputed, h->progress,
		                           h->progress_ud, e);
	n_begun = so_far.n;
	tokens_free(&so_far);
	turn->prompt_tokens = (int32_t)n;
	if (reused < 0)
		return -1;
	turn->answered = 1;
	turn->reused_tokens = reused;
	return (int32_t)(n - n_begun);
}

/* 1 if the token ends the channel of the answer, and so the turn. Always 0 unless the model writes reasoning and answer
 * as separate channels. *r parses the text of each token to know the current channel. */
static int token_ends_answer(const struct conversation *conv, struct reasoning *r, int32_t id)
{
	static const char end[] = CHANNEL_END;
	struct str piece = { 0 }, answer = { 0 };
	int ends;

	if (!conv->info->channels)
		return 0;
	engine_piece_add(conv->engine, id, 0, &piece);
	ends = r->at == REASONING_AFTER && piece.n == sizeof end - 1 && !memcmp(piece.p, end, piece.n);
	if (!ends && piece.n)
		reasoning_feed(r, piece.p, piece.n, &answer);
	str_free(&piece);
	str_free(&answer);
	return ends;
}

/* 1 if the token has a line break and the answer began with forced tokens (conv->given, a quotation). Such an answer
 * ends with its first paragraph. */
static int token_ends_paragraph(const struct conversation *conv, const struct turn *turn, int32_t id)
{
	struct str piece = { 0 };
	int ends;

	if (!conv->given.n || (size_t)turn->answer_tokens < conv->given.n)
		return 0;
	engine_piece_add(conv->engine, id, 0, &piece);
	ends = piece.n && memchr(piece.p, '\n', piece.n) != NULL;
	str_free(&piece);
	return ends;
}

/* An answer was stopped because of a loop: it ends with repetitions. Remove them from the message except one period. A
 * small model that sees repetitions in its own answer repeats them in the next answer. */
static void loop_remove(struct conversation *conv, struct generated *g, const struct loop_watch *w, int period)
{
	struct str piece = { 0 };

	for (int i = (int)g->held.n; i < w->run[period]; i++, str_clear(&piece)) {
		g->m->text.n -= engine_piece_add(conv->engine, w->id[(w->n - 1 - i % period) % LOOP_PERIOD], 0, &piece);
		g->m->id.n -= (size_t)g->ids;
	}
	str_free(&piece);
	g->held.n = 0;
	str_clear(&g->held_text);
}

/* Generate the answer. `channels` is the parser for token_ends_answer(). If an answer is continued, the parser has
 * already parsed the old text. */
static int generate_tokens(struct conversation *conv, struct generated *g, double start, struct reasoning *channels,
                           struct turn *turn, struct err *e)
{
	int32_t most = conv->o->predict;
	struct timeline_stats st;
	struct loop_watch watch = { .n = 0 };

	/* the repeat penalties also count the old text of a continued answer */
	conv->sampling.answer = g->m->prompt_at.first;
	conv->sampling.given = conv->given.id;
	conv->sampling.n_given = (int32_t)conv->given.n;
	timeline_speculate(conv->tl, strcmp(conv->o->speculate, "off") != 0);
	timeline_stats(conv->tl, &st);
	/* A cache that evicts never fills up, so a model in a loop might never stop. So limit the length of the
	 * answer. */
	if (most < 0 && st.endless)
		most = st.ctx;
	while (most < 0 || turn->answer_tokens < most) {
		struct step_out step;
		int got = timeline_step(conv->tl, &conv->sampling, &step, e);

		if (turn->ttft_s == 0)
			turn->ttft_s = now_seconds() - start;
		if (got > 0 &&
		    (token_ends_answer(conv, channels, step.id) || token_ends_paragraph(conv, turn, step.id)))
			got = 0;
		if (got == 0)
			turn->stop = STOP_EOS;
		if (got <= 0)
			return got;
		/* Measure the attention only at tokens 0, 1, 2, 4, 8, ..., because the figures change little after the
		 * first tokens. */
		if ((turn->answer_tokens & (turn->answer_tokens - 1)) == 0)
			timeline_attention_read_measure(conv->tl);
		turn->answer_tokens++;
		if (token_show(conv, g, step.id, e) < 0)
			return -1;
		conversation_emit(conv, EVENT_ANSWER_GREW, 0);
		if (g->dropped) {
			turn->stop = STOP_EOS;
			return 0;
		}
		turn->loop = g->hooks->stop_loops ? loop_add(&watch, step.id) : 0;
		if (turn->loop) {
			loop_remove(conv, g, &watch, turn->loop);
			turn->stop = STOP_LOOP;
			return 0;
		}
	}
	return 0;
}

static int local_generate(struct conversation *conv, int ids, double start, const struct answer_hooks *h,
                          struct turn *turn, struct err *e)
{
	struct generated g = { .m = &conv->msg[conv->n_msg - 1], .ids = ids, .hooks = h };
	const struct str *begun = &g.m->text;
	struct reasoning channels = { .first = 0 };
	struct str answer = { 0 };
	struct err none = { 0 };
	int rc;

	if (conv->info->channels && begun->n)
		reasoning_feed(&channels, begun->p, begun->n, &answer);
	rc = generate_tokens(conv, &g, start, &channels, turn, e);
	if (answer_end(conv, &g, turn, rc < 0 ? &none : e) < 0)
		rc = -1;
	tokens_free(&g.held);
	str_free(&g.held_text);
	reasoning_free(&channels);
	str_free(&answer);
	return rc;
}

static void local_measure(struct conversation *conv, struct turn *turn)
{
	struct timeline_stats st;
	struct err none;
	int outgrown;

	timeline_settle(conv->tl, &none); /* timeline_settle() may evict tokens: call it before taking the statistics */
	timeline_stats(conv->tl, &st);
	turn->drafted = st.drafted;
	turn->accepted = st.accepted;
	timeline_attention_read(conv->tl, &turn->read);
	if (st.prefill_seconds > 0)
		turn->prefill_tps = st.prefill_tokens / st.prefill_seconds;
	/* Do not count the first token: it is sampled from the logits of the prompt, without a decode. */
	if (st.decode_tokens > 1 && st.decode_seconds > 0)
		turn->decode_tps = (st.decode_tokens - 1) / st.decode_seconds;
	outgrown = st.rings.evicted + st.rings.evicted_in_part > 0;
	turn->outgrown = !conv->outgrown && outgrown;
	conv->outgrown = outgrown;
}

static int32_t local_prefill(struct conversation *conv, timeline_progress_fn *progress, void *ud, struct err *e)
{
	size_t n;
	int32_t reused, again, computed = 0;

	timeline_resume(conv->tl);
	signals_watch(conv->tl);
	/* If the last message is still being read from a stream, the turn hook that reads the stream prefills it. */
	if (conv->grows) {
		EACH_TURN_HOOK(conv, k, prefill)
			computed = k->ops->prefill(k->self, conv, progress, ud, e);
	} else {
		reused = conversation_sync(conv, 0, NULL, &n, &again, progress, ud, e);
		computed = reused < 0 ? -1 : (int32_t)n - reused;
	}
	signals_watch(NULL);
	timeline_resume(conv->tl);
	if (computed >= 0)
		conversation_emit(conv, EVENT_PREFILL_ENDED, 0);
	return computed;
}

static void local_begin(struct conversation *conv)
{
	timeline_resume(conv->tl);
	signals_watch(conv->tl);
}

static void local_end(struct conversation *conv)
{
	signals_watch(NULL);
	timeline_resume(conv->tl);
}

static void local_stats(const struct conversation *conv, struct timeline_stats *out)
{
	timeline_stats(conv->tl, out);
}

static size_t local_count(const struct conversation *conv, const char *text, size_t n)
{
	struct tokens id = { 0 };
	struct err none = { 0 };
	size_t tokens = engine_tokenize(conv->engine, text, n, 0, &id, &none) < 0 ? n : id.n;

	tokens_free(&id);
	return tokens;
}

/* ---- documents ---- */

/* Set *e to the error that the document does not fit into a cache that evicts. `why` is the error of
 * conversation_pin(). Always returns -1. */
static int pin_error(const struct document *d, const struct err *why, struct err *e)
{
	return err_set(e, why->code,
	               "document '%.120s' has %zu tokens: %.240s; --docs auto searches it for passages instead",
	               d->name, d->tokens, why->msg);
}

static int local_document_fits(struct conversation *conv, struct document *d, size_t room, struct err *e)
{
	struct timeline_stats st;
	struct tokens all = { 0 };
	struct err why = { 0 };
	char beyond[64] = "";
	size_t n, rest, wants;
	int32_t trained;
	int rc;

	timeline_stats(conv->tl, &st);
	rc = conversation_render(conv, 0, &all, e);
	if (!rc)
		d->tokens = document_count(conv, (size_t)(d - conv->doc), e);
	if (!rc && st.endless)
		rc = conversation_pin(conv, &all, &why) < 0 ? pin_error(d, &why, e) : 0;
	n = all.n;
	tokens_free(&all);
	if (rc < 0 || st.endless || n + room <= (size_t)st.ctx)
		return rc;
	rest = n - d->tokens + room;
	wants = (n + 512 + 255) / 256 * 256;
	trained = engine_info(conv->engine)->ctx_train;
	if (wants > (size_t)trained)
		snprintf(beyond, sizeof beyond, ", beyond the %d the model was trained for", trained);
	return err_set(e, ERR_FIT,
	               "document '%.120s' has %zu tokens and does not fit the context of %d; there is room for %zu; "
	               "-c %zu would hold it%s; --docs auto searches it for passages instead",
	               d->name, d->tokens, st.ctx, rest < (size_t)st.ctx ? (size_t)st.ctx - rest : 0, wants, beyond);
}

const struct answerer answerer_local = {
	.read = local_read,
	.generate = local_generate,
	.begin = local_begin,
	.end = local_end,
	.measure = local_measure,
	.prefill = local_prefill,
	.stats = local_stats,
	.count = local_count,
	.document_fits = local_document_fits,
};
