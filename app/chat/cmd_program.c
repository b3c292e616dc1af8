/* app/chat/cmd_program.c - the commands about weir itself: /stats, /log, /editor and /quit. */
#include "app/chat/chat_private.h"

#include <math.h>
#include <string.h>

enum { LOG_SHOWN = 20 };

void slash_quit(struct chat *c, char *arg)
{
	(void)arg;
	c->quit = 1;
}

/* Append the number of tokens between two selections of a layer: the mean, minimum and maximum over the layers. Appends
 * nothing if the policy makes a new selection for every token. */
static void stats_strides(const struct conversation *conv, struct str *s)
{
	float stride[VIEW_LAYERS], least = INFINITY, most = 0;
	double mean = timeline_strides(conv->tl, stride, VIEW_LAYERS);

	if (mean <= 0)
		return;
	for (int i = 0; i < VIEW_LAYERS; i++)
		if (stride[i] > 0) {
			least = MIN(least, stride[i]);
			most = MAX(most, stride[i]);
		}
	str_addf(s, "           selected anew every %.1f tokens, %.1f to %.1f by layer\n", mean, (double)least,
	         (double)most);
}

/* Append the lines about the cache. */
static void stats_cache(const struct conversation *conv, const struct timeline_stats *st, struct str *s)
{
	const struct ring_stats *r = &st->rings;
	int32_t kept = tokens_in_cache(st), replaced = kept - conversation_cached_tokens(conv, st);
	/* bytes of KV entries that are outside the compute device's memory: on disk, or in host memory beside a
	 * GPU */
	uint64_t apart = st->kv_disk_bytes + st->kv_host_bytes;

	str_addf(s, "context    %s of %s tokens (%d%%), cache %s, %s: ", count_text(kept).s, count_text(st->ctx).s,
	         (int)(100 * (int64_t)kept / (st->ctx ? st->ctx : 1)), st->kv, st->kv_type);
	human_bytes(s, st->kv_used_bytes);
	str_adds(s, " used of ");
	human_bytes(s, MAX(apart, st->kv_bytes));
	str_adds(s, "\n");
	if (apart) {
		str_adds(s, st->kv_host_bytes ? "           in the machine's memory; in the GPU's "
		                              : "           on disk; in memory ");
		human_bytes(s, st->kv_resident_bytes);
		str_adds(s, " of ");
		human_bytes(s, st->kv_bytes);
		if (st->kv_fetched >= 0) {
			str_adds(s, st->kv_host_bytes ? ", fetched " : ", from disk ");
			human_bytes(s, (uint64_t)st->kv_fetched);
			str_adds(s, " a token");
		}
		if (st->kv_overlap >= 0)
			str_addf(s,
			         st->kv_host_bytes ? ", %.0f %% of the selected there already"
			                           : ", %.0f %% selected again",
			         100 * st->kv_overlap);
		str_adds(s, "\n");
	}
	if (replaced)
		str_addf(s, "           %s of %s, until the next question\n", count_text((uint64_t)replaced).s,
		         conv->n_undone ? "undone turns" : "the conversation before");
	stats_strides(conv, s);
	if (!st->endless)
		return;
	str_addf(s, "           %d pinned\n", r->pinned);
	for (int i = 0; i < r->n_ring && r->fill[i]; i++)
		str_addf(s, "           ring %d: %s of %s, tokens %s to %s\n", i + 1, count_text(r->fill[i]).s,
		         count_text(r->ring_slots).s, count_text(r->first[i]).s, count_text(r->last[i]).s);
	str_adds(s, "           ");
	if (!describe_evicted(st, s))
		str_adds(s, "nothing evicted yet");
	str_adds(s, "\n");
}

/* Append the lines about the context of a server. */
static void stats_server(const struct chat *c, const struct timeline_stats *st, struct str *s)
{
	str_addf(s, "context    %s%s", c->conv.served.counted ? "" : "about ", count_text((uint64_t)st->n_tokens).s);
	if (st->ctx)
		str_addf(s, " of %s tokens (%d%%)\n", count_text((uint64_t)st->ctx).s,
		         (int)(100 * (int64_t)st->n_tokens / st->ctx));
	else
		str_adds(s, " tokens; the server does not say how many it has\n");
	if (c->conv.served.left_out)
		str_addf(s, "           the first %zu messages do not fit and are not sent\n", c->conv.served.left_out);
}

/* Append which share of the attention was computed exactly. If the rest was estimated from a sample, append its share
 * and the standard error of the estimate. */
static void stats_read(const struct attention_read *r, struct str *s)
{
	str_addf(s, "           %.1f%% of attention read exactly", 100 * (double)r->exact);
	if (r->spread > 0)
		str_addf(s, ", %.1f%% by a sample, give or take %.2f%%", 100 * (double)r->sampled,
		         100 * (double)r->spread);
	str_adds(s, "\n");
}

void slash_stats(struct chat *c, char *arg)
{
	const struct turn *turn = &c->conv.last;
	const struct engine_info *info = c->conv.info;
	struct timeline_stats st;
	struct str s = { 0 }, saved = { 0 };
	struct err e = { 0 };

	(void)arg;
	conversation_stats(&c->conv, &st);
	str_adds(&s, "model      ");
	if (c->conv.tl) {
		chat_model_name(c, &s);
		str_addf(&s, ", %s, %s\n", info->quant, info->device);
		stats_cache(&c->conv, &st, &s);
	} else {
		clean_line(info->name, strlen(info->name), &s);
		str_addf(&s, " at %s%s%s\n", info->device, *info->arch ? ", " : "", info->arch);
		stats_server(c, &st, &s);
	}
	if (c->log && session_log_saved(c->log, &saved, &e) == 0 && saved.n)
		str_addf(&s, "saved      %s\n", saved.p);
	if (turn->prompt_tokens)
		str_addf(&s,
		         "last turn  prompt %s tokens: %s reused, %s computed at %.1f t/s\n"
		         "           answer %s tokens at %.1f t/s, first after %.2f s\n",
		         count_text(turn->prompt_tokens).s, count_text(turn->reused_tokens).s,
		         count_text(turn->prompt_tokens - turn->reused_tokens).s, turn->prefill_tps,
		         count_text(turn->answer_tokens).s, turn->decode_tps, turn->ttft_s);
	if (turn->drafted)
		str_addf(&s, "           %s of %s guessed tokens were right (/set speculate)\n",
		         count_text(turn->accepted).s, count_text(turn->drafted).s);
	if (turn->read.known)
		stats_read(&turn->read, &s);
	str_addf(&s, "so far     %s message%s, %s tokens answered", count_text(c->conv.n_msg).s,
	         c->conv.n_msg == 1 ? "" : "s", count_text(c->conv.total_answer).s);
	notice(c, "%s", s.p);
	str_free(&s);
	str_free(&saved);
}

void slash_log(struct chat *c, char *arg)
{
	long n = *arg ? number_of(arg) : LOG_SHOWN;
	struct err e = { 0 };
	struct str s = { 0 };

	if (!n) {
		err_set(&e, ERR_USAGE, "/log wants a number of lines from 1 up, not '%.40s'", arg);
		chat_error(c, &e);
		return;
	}
	log_show((size_t)n, &s);
	/* These lines are from the log already. So show them by front->notice(), which does not log them again. */
	if (!s.n)
		str_adds(&s, "[nothing was said yet]");
	c->front->notice(c, s.p, s.n);
	str_free(&s);
}

void slash_editor(struct chat *c, char *arg)
{
	struct str text = { 0 };
	struct err e = { 0 };

	str_adds(&text, arg);
	if (!c->front->draft || !c->interactive)
		err_set(&e, ERR_USAGE, "/editor wants a terminal");
	else if (external_edit(&text, c->o.private_talk, &e) == 0)
		c->front->draft(c, str_text(&text), text.n);
	untyped_note(str_text(&text), text.n);
	signals_take_int(); /* a Ctrl-C while the editor ran was meant for the editor */
	if (e.code)
		chat_error(c, &e);
	str_free(&text);
}
