/* app/conversation/conversation.c - opening, closing and emptying a conversation, and its settings (conversation.h). */
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

	if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) != sizeof seed)
		seed = (uint64_t)time(NULL) * 1000003u + (uint64_t)getpid();
	return seed;
}

void conversation_sampling(struct conversation *t, int reseed)
{
	struct sampling before = t->sampling;

	sampling_choose(t->o, t->engine, &t->sampled);
	t->sampling = t->sampled.s;
	memcpy(t->sampling.rng, before.rng, sizeof before.rng);
	if (reseed)
		sampling_seed(&t->sampling, t->o->seed_set ? t->o->seed : random_seed());
}

void conversation_options_changed(struct conversation *t, int reseed)
{
	conversation_sampling(t, reseed);
	t->prefix_known = 0; /* some templates say in the prefix whether the model is to reason */
	if (strcmp(t->docs, t->o->docs) != 0) {
		t->docs = t->o->docs;
		documents_choose(t);
	}
	conversation_emit(t, EVENT_SETTINGS, 0);
}

int conversation_open(struct conversation *t, const struct options *o, observer_fn *observer, void *ud, struct err *e)
{
	*t = (struct conversation){ .o = o, .docs = o->docs ? o->docs : "auto", .pinned = -1 };
	if (observer)
		conversation_observe(t, observer, ud);
	if (model_server(o) ? served_check_options(o, e) < 0 || served_open(t, o, e) < 0 : local_open(t, o, e) < 0)
		return -1;
	conversation_system(t, o->system);
	conversation_sampling(t, 1);
	return 0;
}

int32_t conversation_change_policy(struct conversation *t, const char *where, const char *text, struct err *e)
{
	struct options o = *t->o;
	struct timeline_stats st;
	struct err why = { 0 };
	size_t had, left = 0;
	int32_t ctx;

	if (kv_policy_check(text, &why) < 0)
		return err_set(e, ERR_USAGE, "%s: %.300s", where, why.msg);
	if (!t->tl)
		return err_set(e, ERR_USAGE,
		               "%s: the server has its own cache; a policy is for a model in this process", where);
	timeline_tokens(t->tl, &had);
	timeline_stats(t->tl, &st);
	ctx = t->o->ctx ? t->o->ctx : st.ctx;
	if (!kv_policy_endless(text) && had > (size_t)ctx)
		return err_set(
			e, ERR_FIT,
			"the conversation has %zu tokens, more than '%.40s' can hold in a context of %d; /undo, /new and a "
			"larger -c make room",
			had, text, ctx);
	if (timeline_switch_kv(t->tl, text, &why) == 0) {
		timeline_tokens(t->tl, &left);
	} else if (why.code != ERR_FIT) {
		return err_set(e, why.code, "%s", why.msg);
	} else {
		/* There is no memory for both caches: close the old one first, and open it again, empty, if the new one
		 * fails even so. */
		timeline_close(t->tl);
		t->tl = NULL;
		t->pinned = -1;
		o.kv = text;
		if (timeline_open_for(&t->tl, t->engine, &o, o.ctx, e) < 0) {
			o.kv = t->kv ? t->kv : t->o->kv;
			if (timeline_open_for(&t->tl, t->engine, &o, o.ctx, &why) < 0)
				t->by = NULL;
			return -1;
		}
	}
	t->pinned = -1;
	t->outgrown = 0;
	companions_changed(t, CHANGE_CACHE);
	free(t->kv);
	t->kv = xstrndup(text, strlen(text));
	return (int32_t)(had - left);
}

static void forget_messages(struct conversation *t)
{
	companions_changed(t, CHANGE_EMPTIED);
	while (t->n_msg)
		message_free(&t->msg[--t->n_msg]);
	undo_forget(t);
	t->outgrown = 0;
}

void conversation_clear(struct conversation *t)
{
	forget_messages(t);
	conversation_emit(t, EVENT_CLEARED, 0);
}

void conversation_empty(struct conversation *t)
{
	forget_messages(t);
	conversation_drop_documents(t);
	conversation_emit(t, EVENT_CLEARED, 0);
}

void conversation_close(struct conversation *t)
{
	signals_watch(NULL);
	t->n_observer = 0;
	conversation_empty(t);
	rendered_free(&t->rendered);
	tokens_free(&t->prefix);
	free(t->msg);
	free(t->undone);
	free(t->kv);
	str_free(&t->system);
	companions_free(t);
	local_close(t);
	served_close(t);
	t->by = NULL;
	t->msg = NULL;
	t->undone = NULL;
	t->kv = NULL;
}

void conversation_system(struct conversation *t, const char *text)
{
	str_clear(&t->system);
	t->has_system = text != NULL;
	t->prefix_known = 0;
	if (text)
		str_adds(&t->system, text);
}
