/* app/conversation/conversation.c - opens, closes and empties a conversation, and changes its settings
 * (conversation.h). */
#include "app/conversation/conversation_private.h"
#include "app/models/models.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

static uint64_t random_seed(void)
{
	uint64_t seed;

	if (getentropy(&seed, sizeof seed))
		seed = (uint64_t)time(NULL) * 1000003u + (uint64_t)getpid();
	return seed;
}

void conversation_sampling(struct conversation *conv, int reseed)
{
	struct sampling before = conv->sampling;

	sampling_choose(conv->o, conv->engine, &conv->sampled);
	conv->sampling = conv->sampled.s;
	memcpy(conv->sampling.rng, before.rng, sizeof before.rng);
	if (reseed)
		sampling_seed(&conv->sampling, conv->o->seed_set ? conv->o->seed : random_seed());
}

void conversation_options_changed(struct conversation *conv, int reseed)
{
	conversation_sampling(conv, reseed);
	/* the system prompt may change, because some templates write the reasoning setting into it */
	conv->prefix_known = 0;
	if (strcmp(conv->docs, conv->o->docs) != 0) {
		conv->docs = conv->o->docs;
		documents_choose(conv);
	}
	conversation_emit(conv, EVENT_SETTINGS, 0);
}

int conversation_open(struct conversation *conv, const struct options *o, observer_fn *observer, void *ud,
                      struct err *e)
{
	*conv = (struct conversation){ .o = o, .docs = o->docs ? o->docs : "auto", .pinned = -1 };
	if (observer)
		conversation_observe(conv, observer, ud);
	if (model_server(o) ? served_check_options(o, e) < 0 || served_open(conv, o, e) < 0
	                    : local_open(conv, o, e) < 0)
		return -1;
	conversation_system(conv, o->system);
	conversation_sampling(conv, 1);
	return 0;
}

int32_t conversation_change_policy(struct conversation *conv, const char *where, const char *text, struct err *e)
{
	struct options o = *conv->o;
	struct timeline_stats st;
	struct err why = { 0 };
	size_t had, left = 0;
	int32_t ctx;

	if (kv_policy_check(text, &why) < 0)
		return err_set(e, ERR_USAGE, "%s: %.300s", where, why.msg);
	if (!conv->tl)
		return err_set(e, ERR_USAGE,
		               "%s: the server has its own cache; a policy is for a model in this process", where);
	timeline_tokens(conv->tl, &had);
	timeline_stats(conv->tl, &st);
	ctx = conv->o->ctx ? conv->o->ctx : st.ctx;
	if (!kv_policy_endless(text) && had > (size_t)ctx)
		return err_set(
			e, ERR_FIT,
			"the conversation has %zu tokens, more than '%.40s' can hold in a context of %d; /undo, /new and a "
			"larger -c make room",
			had, text, ctx);
	if (timeline_switch_kv(conv->tl, text, &why) == 0) {
		timeline_tokens(conv->tl, &left);
	} else if (why.code != ERR_FIT) {
		return err_set(e, why.code, "%s", why.msg);
	} else {
		/* There is no memory for two caches, so close the old one first. If the new one cannot be opened, open
		 * one with the old policy again; it is empty. */
		timeline_close(conv->tl);
		conv->tl = NULL;
		conv->pinned = -1;
		o.kv = text;
		if (timeline_open_for(&conv->tl, conv->engine, &o, o.ctx, e) < 0) {
			o.kv = conv->kv ? conv->kv : conv->o->kv;
			if (timeline_open_for(&conv->tl, conv->engine, &o, o.ctx, &why) < 0)
				conv->by = NULL;
			return -1;
		}
	}
	conv->pinned = -1;
	conv->outgrown = 0;
	turn_hooks_changed(conv, CHANGE_CACHE);
	free(conv->kv);
	conv->kv = xstrndup(text, strlen(text));
	return (int32_t)(had - left);
}

/* Free all messages and the redo stack. */
static void forget_messages(struct conversation *conv)
{
	turn_hooks_changed(conv, CHANGE_EMPTIED);
	while (conv->n_msg)
		message_free(&conv->msg[--conv->n_msg]);
	undo_forget(conv);
	conv->outgrown = 0;
}

void conversation_clear(struct conversation *conv)
{
	forget_messages(conv);
	conversation_emit(conv, EVENT_CLEARED, 0);
}

void conversation_empty(struct conversation *conv)
{
	forget_messages(conv);
	conversation_drop_documents(conv);
	conversation_emit(conv, EVENT_CLEARED, 0);
}

void conversation_close(struct conversation *conv)
{
	signals_watch(NULL);
	conv->n_observer = 0;
	conversation_empty(conv);
	rendered_free(&conv->rendered);
	tokens_free(&conv->prefix);
	free(conv->msg);
	free(conv->undone);
	free(conv->kv);
	str_free(&conv->system);
	turn_hooks_free(conv);
	local_close(conv);
	served_close(conv);
	conv->by = NULL;
	conv->msg = NULL;
	conv->undone = NULL;
	conv->kv = NULL;
}

void conversation_system(struct conversation *conv, const char *text)
{
	str_clear(&conv->system);
	conv->has_system = text != NULL;
	conv->prefix_known = 0;
	if (text)
		str_adds(&conv->system, text);
}
