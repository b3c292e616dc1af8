/* app/conversation/conversation.c - opening, closing and emptying a conversation, and its settings (conversation.h). */
#include "app/conversation/conversation_private.h"

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
	struct sampling s = t->o->sampling;

	memcpy(s.rng, t->sampling.rng, sizeof s.rng);
	t->sampling = s;
	if (reseed)
		sampling_seed(&t->sampling, t->o->seed_set ? t->o->seed : random_seed());
}

void conversation_options_changed(struct conversation *t, int reseed)
{
	conversation_sampling(t, reseed);
	t->prefix_known = 0;   /* some templates say in the prefix whether the model is to reason */
	if (strcmp(t->docs, t->o->docs) != 0) {
		t->docs = t->o->docs;
		documents_choose(t);
	}
	emit(t, EVENT_SETTINGS, 0);
}

int conversation_open(struct conversation *t, const struct options *o, struct err *e)
{
	const struct engine_info *info;
	struct timeline_stats st;

	*t = (struct conversation){.o = o, .docs = o->docs ? o->docs : "auto", .pinned = -1};
	if (model_open(&t->engine, o, MODEL_RUN, e) < 0)
		return -1;
	info = engine_info(t->engine);
	/* A template that is there but unknown is refused now, not after the question was typed.  A model without
	 * any is a base model: it continues plain text. */
	if (!info->template_name[0] && info->has_template) {
		err_set(e, ERR_MODEL, "%s", info->template_error);
		conversation_close(t);
		return -1;
	}
	if (!info->template_name[0] && !o->quiet)
		say("the model has no chat template: it continues the text as it stands");
	if (timeline_open_for(&t->tl, t->engine, o, o->ctx, e) < 0) {
		conversation_close(t);
		return -1;
	}
	timeline_stats(t->tl, &st);
	if (st.endless && o->ctx > info->ctx_train && !o->quiet)
		say("the model was trained for a context of %d tokens: the cache holds %d of a conversation at once", info->ctx_train, st.ctx);
	else if (st.ctx > info->ctx_train && !o->quiet)
		say("quality degrades beyond the context of %d tokens that the model was trained for", info->ctx_train);
	if (o->verbose) {
		say("%s: %s, %s, %s, context %d, cache %.1f MiB", info->path, info->arch, info->n_types, info->device,
		    st.ctx, (double)st.kv_bytes / 1048576);
	}
	conversation_system(t, o->system);
	conversation_sampling(t, 1);
	return 0;
}

int32_t conversation_change_policy(struct conversation *t, const char *where, const char *text, struct err *e)
{
	struct options o = *t->o;
	struct timeline_stats st;
	struct err why = {0};
	size_t had, left = 0;
	int32_t ctx;

	if (kv_policy_check(text, &why) < 0)
		return err_set(e, ERR_USAGE, "%s: %.300s", where, why.msg);
	timeline_tokens(t->tl, &had);
	timeline_stats(t->tl, &st);
	ctx = t->o->ctx ? t->o->ctx : st.ctx;
	if (!kv_policy_endless(text) && had > (size_t)ctx)
		return err_set(e, ERR_FIT, "the conversation has %zu tokens, more than '%.40s' can hold in a context of %d; /undo, /new and a "
		               "larger -c make room", had, text, ctx);
	if (timeline_switch_kv(t->tl, text, &why) == 0) {
		timeline_tokens(t->tl, &left);
	} else if (why.code != ERR_FIT) {
		return err_set(e, why.code, "%s", why.msg);
	} else {
		/* There is no memory for both caches: close the old one first, and open it again, empty, if the new one fails even so. */
		timeline_close(t->tl);
		t->tl = NULL;
		t->pinned = -1;
		o.kv = text;
		if (timeline_open_for(&t->tl, t->engine, &o, o.ctx, e) < 0) {
			o.kv = t->kv ? t->kv : t->o->kv;
			timeline_open_for(&t->tl, t->engine, &o, o.ctx, &why);
			return -1;
		}
	}
	t->pinned = -1;
	t->outgrown = 0;
	aside_forget(t);
	free(t->kv);
	t->kv = xstrndup(text, strlen(text));
	return (int32_t)(had - left);
}

static void forget_messages(struct conversation *t)
{
	growing_close(t);
	aside_forget(t);
	surprise_forget(t);
	sources_forget(t);
	while (t->n_msg)
		message_free(&t->msg[--t->n_msg]);
	undo_forget(t);
	t->outgrown = 0;
}

void conversation_clear(struct conversation *t)
{
	forget_messages(t);
	emit(t, EVENT_CLEARED, 0);
}

void conversation_empty(struct conversation *t)
{
	forget_messages(t);
	conversation_drop_documents(t);
	emit(t, EVENT_CLEARED, 0);
}

void conversation_close(struct conversation *t)
{
	signals_watch(NULL);
	t->n_observer = 0;
	conversation_empty(t);
	rendered_free(&t->rendered);
	tokens_free(&t->prefix);
	tokens_free(&t->growing.pending);
	free(t->msg);
	free(t->undone);
	free(t->kv);
	str_free(&t->system);
	recall_forget(t);
	rerank_close(t);
	timeline_close(t->tl);
	engine_close(t->engine);
	t->tl = NULL;
	t->engine = NULL;
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
