/* app/conversation/change_model.c - changes the model of a conversation (conversation.h).
 *
 * Messages are kept, and the KV cache is recomputed. An answer keeps its sampled token ids if they spell the same text
 * in the new model's vocabulary. Two models are never in memory at once. First the new file is opened without its
 * weights, to check its chat template and whether the conversation fits. Then the old model is closed and the new one
 * opened. If that fails, the old model is opened again. */
#include <stdlib.h>
#include <string.h>

#include "app/conversation/conversation_private.h"
#include "app/models/models.h"

int tokens_match_text(const struct engine *engine, const int32_t *id, size_t n_id, const char *text, size_t n_text)
{
	struct str piece = { 0 };
	size_t at = 0;
	int fit = 1;

	if (!engine)
		return 1;
	for (size_t i = 0; fit && i < n_id; i++) {
		fit = id[i] >= 0 && id[i] < engine_info(engine)->n_vocab;
		if (!fit)
			break;
		str_clear(&piece);
		engine_piece_add(engine, id[i], 0, &piece);
		fit = piece.n <= n_text - at && (!piece.n || !memcmp(text + at, piece.p, piece.n));
		at += piece.n;
	}
	str_free(&piece);
	return fit && at == n_text;
}

/* Hide token ids that do not spell their answer's text in the new model's vocabulary: set message.id.n of these answers
 * to 0. was[n_msg] receives the old values of id.n, for ids_show(). */
static void ids_hide(struct conversation *conv, const struct engine *engine, size_t *was)
{
	for (size_t i = 0; i < conv->n_msg; i++) {
		struct message *m = &conv->msg[i];

		was[i] = m->id.n;
		if (m->id.n && !tokens_match_text(engine, m->id.id, m->id.n, str_text(&m->text), m->text.n))
			m->id.n = 0;
	}
}

/* Undo ids_hide(). */
static void ids_show(struct conversation *conv, const size_t *was)
{
	for (size_t i = 0; i < conv->n_msg; i++)
		conv->msg[i].id.n = was[i];
}

/* Return 0, or -1 if the model has a chat template that is not supported. */
static int template_ok(const struct engine *engine, struct err *e)
{
	const struct engine_info *info = engine_info(engine);

	if (!info->template_name[0] && info->has_template)
		return err_set(e, ERR_MODEL, "%s", info->template_error);
	return 0;
}

/* Check that the conversation fits the context of the new model. *n receives the conversation's number of tokens in the
 * new vocabulary. Returns 0 or -1. */
static int check_model(struct conversation *conv, struct engine *engine, const struct options *next, size_t *n,
                       struct err *e)
{
	const char *kv = conv->kv ? conv->kv : next->kv;
	int32_t ctx = next->ctx ? next->ctx : engine_info(engine)->ctx_train;
	struct tokens all = { 0 };
	struct engine *at_work = conv->engine;
	int rc;

	if (template_ok(engine, e) < 0)
		return -1;
	conv->engine = engine;
	rc = conversation_render(conv, 0, &all, e);
	conv->engine = at_work;
	*n = conv->n_msg || conv->n_doc ? all.n : 0;
	tokens_free(&all);
	if (rc < 0)
		return -1;
	/* The check applies only to --kv with a policy that keeps all tokens. The default policy evicts, so any number
	 * of tokens fits. */
	if (kv && !kv_policy_endless(kv) && *n > (size_t)ctx)
		return err_set(
			e, ERR_FIT,
			"the conversation has %zu tokens for '%.80s', which holds %d under '%.40s'; /new, /undo and a larger -c "
			"make room",
			*n, engine_info(engine)->name, ctx, kv);
	return 0;
}

/* Open the model that the options name, and a timeline for it. Returns 0; or -1, and then neither a model nor a
 * timeline is open. */
static int model_open_with(struct conversation *conv, const struct options *o, struct err *e)
{
	struct options with = *o;

	if (conv->kv)
		with.kv = conv->kv;
	if (model_open(&conv->engine, o, MODEL_RUN, e) < 0) {
		conv->engine = NULL;
		return -1;
	}
	if (timeline_open_for(&conv->tl, conv->engine, &with, o->ctx, e) < 0) {
		conv->tl = NULL;
		engine_close(conv->engine);
		conv->engine = NULL;
		return -1;
	}
	conv->by = &answerer_local;
	conv->info = engine_info(conv->engine);
	return 0;
}

/* Reset the state that depends on the model. */
static void forget_model(struct conversation *conv)
{
	conv->pinned = -1;
	conv->prefix_known = 0;
	conv->outgrown = 0;
	conv->last = (struct turn){ .stop = STOP_LENGTH };
}

/* Change to a model on a server. Answers keep their token ids, because the user may change back to the old model. */
static int32_t change_to_server(struct conversation *conv, const struct options *next, struct err *e)
{
	const struct answerer *by = conv->by;
	const struct engine_info *info = conv->info;
	struct served before = conv->served, new;

	conv->served = (struct served){ .left_out = 0 };
	if (served_open(conv, next, e) < 0) {
		conv->served = before;
		conv->by = by;
		conv->info = info;
		return -1;
	}
	new = conv->served;
	conv->served = before;
	served_close(conv);
	conv->served = new;
	turn_hooks_changed(conv, CHANGE_MODEL);
	local_close(conv);
	rendered_free(&conv->rendered);
	conv->rendered = (struct rendered){ .n_msg = 0 };
	conv->rendered_msg = 0;
	forget_model(conv);
	undo_forget(conv);
	documents_choose(conv);
	conversation_sampling(conv, 0);
	return 0;
}

int32_t conversation_change_model(struct conversation *conv, const struct options *next, struct err *e)
{
	struct engine *look = NULL;
	struct rendered old = conv->rendered;
	struct err why = { 0 };
	size_t *was, n = 0;
	int rc;

	if (model_server(next))
		return change_to_server(conv, next, e);
	rc = model_open(&look, next, MODEL_LOOK, e);
	if (rc < 0)
		return -1;
	was = xcalloc(conv->n_msg + 1, sizeof *was);
	ids_hide(conv, look, was);
	conv->rendered = (struct rendered){ .n_msg = 0 };
	rc = check_model(conv, look, next, &n, e);
	engine_close(look);
	if (!rc) {
		turn_hooks_changed(conv, CHANGE_MODEL);
		local_close(conv);
		rc = model_open_with(conv, next, e);
		if (!rc)
			served_close(conv);
		else if (!conv->served.remote && model_open_with(conv, conv->o, &why) < 0)
			conv->by = NULL;
		forget_model(conv);
	}
	rendered_free(rc < 0 ? &conv->rendered : &old);
	if (rc < 0) {
		conv->rendered = old;
		if (conv->tl)
			locate_all(conv);
		ids_show(conv, was);
	} else {
		undo_forget(conv);
	}
	free(was);
	if (conv->by) {
		documents_choose(conv);
		conversation_sampling(conv, 0);
	}
	return rc < 0 ? -1 : (int32_t)n;
}
