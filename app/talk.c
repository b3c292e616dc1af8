/* app/talk.c - see talk.h. */
#include "app/talk.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "app/app.h"
#include "app/record.h"

/* ---- life ---- */

static uint64_t random_seed(void)
{
	uint64_t seed;

	if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) != sizeof seed)
		seed = (uint64_t)time(NULL) * 1000003u + (uint64_t)getpid();
	return seed;
}

void talk_sampling(struct talk *t, int reseed)
{
	struct sampling s = t->o->sampling;

	memcpy(s.rng, t->sampling.rng, sizeof s.rng);
	t->sampling = s;
	if (reseed)
		sampling_seed(&t->sampling, t->o->seed_set ? t->o->seed : random_seed());
}

int talk_open(struct talk *t, const struct options *o, struct err *e)
{
	const struct engine_info *info;
	struct timeline_stats st;

	*t = (struct talk){.o = o, .pinned = -1};
	if (model_open(&t->engine, o, MODEL_RUN, e) < 0)
		return -1;
	info = engine_info(t->engine);
	/* A template that is there but unknown is refused now, not after the question was typed.  A model without
	 * any is a base model: it continues plain text. */
	if (!info->template_name[0] && info->has_template) {
		err_set(e, ERR_MODEL, "%s", info->template_error);
		talk_close(t);
		return -1;
	}
	if (!info->template_name[0] && !o->quiet)
		say("the model has no chat template: it continues the text as it stands");
	if (timeline_open_for(&t->tl, t->engine, o, o->ctx, e) < 0) {
		talk_close(t);
		return -1;
	}
	timeline_stats(t->tl, &st);
	if (st.endless && o->ctx > info->ctx_train && !o->quiet)
		say("the model was trained with %d tokens: the cache holds %d of a talk at once", info->ctx_train, st.ctx);
	else if (st.ctx > info->ctx_train && !o->quiet)
		say("the model was trained with %d tokens: beyond these its answers lose their sense", info->ctx_train);
	if (o->verbose) {
		say("%s: %s, %s, %s, context %d, cache %.1f MiB", info->path, info->arch, info->n_types, info->device,
		    st.ctx, (double)st.kv_bytes / 1048576);
	}
	talk_system(t, o->system);
	talk_sampling(t, 1);
	return 0;
}

int32_t talk_policy(struct talk *t, const char *where, const char *text, struct err *e)
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
		return err_set(e, ERR_FIT, "the talk has %zu tokens, more than '%.40s' can hold in a context of %d; /undo, /new and a "
		               "larger -c make room", had, text, ctx);
	if (timeline_switch_kv(t->tl, text, &why) == 0) {
		timeline_tokens(t->tl, &left);
	} else if (why.code != ERR_FIT) {
		return err_set(e, why.code, "%s", why.msg);
	} else {
		/* Not both caches at once: the old one goes first, and comes back, empty, if the new one cannot be had alone. */
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
	free(t->kv);
	t->kv = xstrndup(text, strlen(text));
	return (int32_t)(had - left);
}

void message_free(struct message *m)
{
	str_free(&m->text);
	tokens_free(&m->id);
}

static void forget_messages(struct talk *t)
{
	while (t->n_msg)
		message_free(&t->msg[--t->n_msg]);
	talk_stream_close(t);
	talk_forget_taken(t);
	t->outgrown = 0;
}

void talk_new(struct talk *t)
{
	forget_messages(t);
	record_begin_anew(t->record, t);
}

void talk_empty(struct talk *t)
{
	forget_messages(t);
	talk_drop_documents(t);
}

void talk_close(struct talk *t)
{
	signals_watch(NULL);
	talk_empty(t);
	tokens_free(&t->prefix);
	tokens_free(&t->streamed.pending);
	free(t->msg);
	free(t->taken);
	free(t->kv);
	str_free(&t->system);
	str_free(&t->evidence);
	timeline_close(t->tl);
	engine_close(t->engine);
	t->tl = NULL;
	t->engine = NULL;
	t->msg = NULL;
	t->taken = NULL;
	t->kv = NULL;
}

/* ---- the message list ---- */

static struct message *message_add(struct talk *t, enum chat_role role)
{
	if (t->n_msg == t->cap_msg) {
		t->cap_msg = t->cap_msg ? t->cap_msg * 2 : 16;
		t->msg = xrealloc(t->msg, t->cap_msg * sizeof *t->msg);
	}
	t->msg[t->n_msg] = (struct message){.role = role};
	return &t->msg[t->n_msg++];
}

struct message *talk_message(struct talk *t, enum chat_role role, const char *text, size_t n, const int32_t *id, size_t n_id)
{
	struct message *m = message_add(t, role);

	str_add(&m->text, text, n);
	tokens_append(&m->id, id, n_id);
	return m;
}

void talk_system(struct talk *t, const char *text)
{
	str_clear(&t->system);
	t->has_system = text != NULL;
	t->prefix_known = 0;
	if (text)
		str_adds(&t->system, text);
}

size_t talk_undo(struct talk *t, size_t n)
{
	size_t done = 0;

	while (done < n && t->n_msg) {
		/* An exchange ends at its question. */
		size_t from = t->n_msg - 1;
		struct message *m;
		while (from && t->msg[from].role != ROLE_USER)
			from--;
		m = &t->msg[from];
		if (m->read) {
			/* What was read of a text without an end has gone on since, or is gone: no way back. */
			talk_forget_taken(t);
			while (t->n_msg > from + 1)
				message_free(&t->msg[--t->n_msg]);
			if (m->read < m->text.n) {
				talk_stream_open(t);
			} else {
				message_free(m);
				t->n_msg--;
				talk_stream_close(t);
			}
		} else {
			talk_keep_exchange(t, from);
		}
		done++;
	}
	if (done)
		record_taken_back(t->record, t);
	return done;
}

const struct message *talk_answer(const struct talk *t)
{
	return t->n_msg && t->msg[t->n_msg - 1].role == ROLE_ASSISTANT ? &t->msg[t->n_msg - 1] : NULL;
}

/* ---- the turn ---- */

/* The first question, behind the documents. */
static void add_question(const struct talk *t, const struct str *text, int first, struct str *out)
{
	for (size_t i = 0; first && i < t->n_doc; i++)
		str_add(out, t->doc[i].text.p, t->doc[i].text.n);
	if (text->n)
		str_add(out, text->p, text->n);
}

/* A base model: the texts one after the other, answers by their ids. */
static int render_plain(const struct talk *t, const struct message *msg, size_t n_msg, struct tokens *want, struct err *e)
{
	unsigned flags = engine_info(t->engine)->add_bos ? TOKENIZE_BOS : 0;
	struct str text = {0};
	int rc = 0;

	if (t->has_system && t->system.n)
		str_addf(&text, "%s\n", t->system.p);
	for (size_t i = 0; !rc && i < n_msg; i++) {
		const struct message *m = &msg[i];
		if (m->role == ROLE_USER) {
			add_question(t, &m->text, !i, &text);
			rc = engine_tokenize(t->engine, text.p ? text.p : "", text.n, flags, want, e);
			flags = 0;
			str_clear(&text);
		} else {
			tokens_append(want, m->id.id, m->id.n);
			/* Without tokens it came from another model. */
			if (!m->id.n)
				str_add(&text, m->text.p ? m->text.p : "", m->text.n);
			str_adds(&text, "\n");
		}
	}
	str_free(&text);
	if (!rc && !want->n)
		rc = err_set(e, ERR_USAGE, "there is no text to continue");
	return rc;
}

static int render(const struct talk *t, const struct message *msg, size_t n_msg, int reply_head, struct tokens *want,
                  struct err *e)
{
	struct chat_msg *list;
	struct str first = {0};
	size_t n = 0;
	int rc;

	if (!engine_info(t->engine)->template_name[0])
		return render_plain(t, msg, n_msg, want, e);
	list = xcalloc(n_msg + 1, sizeof *list);
	if (t->has_system)
		list[n++] = (struct chat_msg){.role = ROLE_SYSTEM, .text = t->system.p ? t->system.p : "", .len = t->system.n};
	for (size_t i = 0; i < n_msg; i++) {
		const struct message *m = &msg[i];
		const struct str *text = &m->text;
		if (!i && t->n_doc) {
			add_question(t, text, 1, &first);
			text = &first;
		}
		list[n++] = (struct chat_msg){
			.role = m->role, .text = text->p ? text->p : "", .len = text->n,
			.id = m->id.id, .n_id = m->id.n,
		};
	}
	rc = engine_render(t->engine, list, n, (reply_head ? REPLY_HEAD : 0) | (t->o->think && !strcmp(t->o->think, "off") ? REPLY_NO_THOUGHT : 0),
	                   want, e);
	free(list);
	str_free(&first);
	return rc;
}

static size_t common_prefix(const struct tokens *a, const int32_t *b, size_t n_b)
{
	size_t n = 0;

	while (n < a->n && n < n_b && a->id[n] == b[n])
		n++;
	return n;
}

/* What stands before the first question whatever is asked: what two conversations with nothing in common share. */
static int render_prefix(const struct talk *t, struct tokens *out, struct err *e)
{
	struct message probe = {.role = ROLE_USER};
	struct tokens other = {0};
	int rc;

	str_adds(&probe.text, "A");
	rc = render(t, &probe, 1, 0, out, e);
	str_clear(&probe.text);
	str_adds(&probe.text, "1");
	if (!rc)
		rc = render(t, &probe, 1, 0, &other, e);
	out->n = common_prefix(out, other.id, other.n);
	tokens_free(&other);
	str_free(&probe.text);
	return rc;
}

int talk_render(const struct talk *t, int reply_head, struct tokens *out, struct err *e)
{
	return t->n_msg ? render(t, t->msg, t->n_msg, reply_head, out, e) : render_prefix(t, out, e);
}

int talk_pin(struct talk *t, const struct tokens *want, struct err *e)
{
	int32_t n;

	if (!t->prefix_known) {
		t->prefix.n = 0;
		if (render_prefix(t, &t->prefix, e) < 0)
			return -1;
		t->prefix_known = 1;
	}
	n = (int32_t)common_prefix(&t->prefix, want->id, want->n);
	if (n == t->pinned)
		return 0;
	if (timeline_pin(t->tl, n, e) < 0)
		return -1;
	t->pinned = n;
	return 0;
}

/* Progress, and what is read is kept. */
struct reading {
	struct talk *t;
	timeline_progress_fn *progress;
	void *ud;
};

static void read_on(int32_t done, int32_t total, void *ud)
{
	struct reading *r = ud;

	if (r->progress)
		r->progress(done, total, r->ud);
	record_rows(r->t->record, r->t, 0);
}

/* Make the sequence the conversation so far.  Returns the tokens reused, or -1; *again: tokens that were there, and had to be
 * read again because the cache cannot go back over what has left it.  begun: of an answer that goes on, behind its head. */
static int32_t talk_sync(struct talk *t, int reply_head, const struct tokens *begun, size_t *n, int32_t *again,
                         timeline_progress_fn *progress, void *ud, struct err *e)
{
	struct tokens want = {0};
	size_t n_had;
	const int32_t *had = timeline_tokens(t->tl, &n_had);
	int32_t reused = -1;

	*n = 0;
	*again = 0;
	if (!talk_render(t, reply_head, &want, e)) {
		struct reading reading = {.t = t, .progress = progress, .ud = ud};
		struct err why = {0};
		size_t same;
		if (begun)
			tokens_append(&want, begun->id, begun->n);
		same = common_prefix(&want, had, n_had);
		/* The token sampled last gets its row as a generated one, not as one that is read: some caches know the difference. */
		if (begun && same == want.n && n_had == want.n)
			timeline_extend(t->tl, NULL, 0, 1, NULL, NULL, &why);
		if (!talk_pin(t, &want, e)) {
			record_fetch(t->record, t, &want, same);
			reused = timeline_sync(t->tl, want.id, want.n, read_on, &reading, e);
			if (reused < 0)
				record_rows(t->record, t, 1);
		}
		*n = want.n;
		if (reused >= 0 && (size_t)reused + 1 < same)   /* the last token is computed again for its logits */
			*again = (int32_t)same - reused;
	}
	tokens_free(&want);
	return reused;
}

int32_t talk_read(struct talk *t, timeline_progress_fn *progress, void *ud, struct err *e)
{
	struct timeline_stats st;
	size_t n;
	int32_t reused, again;

	timeline_resume(t->tl);
	signals_watch(t->tl);
	if (t->streamed.open) {   /* its end is not known yet */
		reused = talk_stream(t, "", 0, 1, progress, ud, e);
		timeline_stats(t->tl, &st);
		n = reused < 0 ? 0 : (size_t)st.prefill_tokens;
	} else {
		reused = talk_sync(t, 0, NULL, &n, &again, progress, ud, e);
	}
	signals_watch(NULL);
	timeline_resume(t->tl);
	if (reused >= 0)
		record_rows(t->record, t, 1);
	return reused < 0 ? -1 : (int32_t)n - reused;
}

static int say_piece(struct talk *t, struct message *m, int32_t id, const struct talk_hooks *h, struct err *e)
{
	char small[64], *piece = small;
	size_t n = engine_piece(t->engine, id, 0, small, sizeof small);
	int rc = 0;

	if (n > sizeof small) {
		piece = xmalloc(n);
		engine_piece(t->engine, id, 0, piece, n);
	}
	str_add(&m->text, piece, n);
	if (h->text)
		rc = h->text(piece, n, h->text_ud, e);
	if (piece != small)
		free(piece);
	return rc;
}

/* Tokens of an answer that goes on: as they were sampled, or (of another model's) as its text is cut by this one. */
static int begun_tokens(const struct talk *t, const struct message *begun, struct tokens *out, struct err *e)
{
	if (begun->id.n || !begun->text.n)
		tokens_append(out, begun->id.id, begun->id.n);
	else
		return engine_tokenize(t->engine, begun->text.p, begun->text.n, 0, out, e);
	return 0;
}

/* The answer to the messages so far, as a new message.  begun: it goes on behind this one, whose text and tokens it takes over once
 * it has come so far. */
static int answer(struct talk *t, struct message *begun, const struct talk_hooks *h, struct turn *turn, struct err *e)
{
	struct timeline_stats st;
	struct message *m = NULL;
	double start = now_seconds();
	struct timeline_rows *rows = &st.rows;
	struct tokens so_far = {0};
	size_t n = 0;
	int32_t reused = -1, most = t->o->predict;
	int rc = 0, by_text = begun && !begun->id.n && begun->text.n;

	*turn = (struct turn){.stop = STOP_LENGTH};
	timeline_resume(t->tl);
	signals_watch(t->tl);
	evidence_begin(t);
	if (!begun || begun_tokens(t, begun, &so_far, e) == 0)
		reused = talk_sync(t, 1, begun ? &so_far : NULL, &n, &turn->again, h->progress, h->progress_ud, e);
	tokens_free(&so_far);
	turn->prompt_tokens = (int32_t)n;
	if (reused < 0) {
		rc = -1;
		goto done;
	}
	turn->answered = 1;
	turn->reused_tokens = reused;
	m = message_add(t, ROLE_ASSISTANT);
	if (begun) {
		*m = *begun;
		m->stored = 0;   /* a message of its own: the one that was cut stays in the session, and in its forks */
		record_goes_on(t->record);
	}
	timeline_stats(t->tl, &st);
	/* Where nothing ever fills, a model that repeats itself would answer for ever. */
	if (most < 0 && st.endless)
		most = st.ctx;
	while (most < 0 || turn->answer_tokens < most) {
		struct step_out step;
		int got = timeline_step(t->tl, &t->sampling, &step, e);
		if (turn->ttft_s == 0)
			turn->ttft_s = now_seconds() - start;
		if (got == 0)
			turn->stop = STOP_EOS;
		if (got < 0)
			rc = -1;
		if (got <= 0)
			break;
		if (!by_text)
			tokens_add(&m->id, step.id);
		turn->answer_tokens++;
		if (say_piece(t, m, step.id, h, e) < 0) {
			rc = -1;
			break;
		}
		record_piece(t->record, t);
	}
done:
	signals_watch(NULL);
	timeline_resume(t->tl);
	if (rc < 0 && e->code == ERR_CANCELLED)
		turn->stop = STOP_CANCEL;
	evidence_end(t);
	if (!turn->answered)
		return rc;
	timeline_stats(t->tl, &st);
	if (st.prefill_seconds > 0)
		turn->prefill_tps = st.prefill_tokens / st.prefill_seconds;
	/* The first token comes out of the prompt's own logits: it is free. */
	if (st.decode_tokens > 1 && st.decode_seconds > 0)
		turn->decode_tps = (st.decode_tokens - 1) / st.decode_seconds;
	turn->outgrown = !t->outgrown && rows->evicted + rows->evicted_in_part > 0;
	t->outgrown = rows->evicted + rows->evicted_in_part > 0;
	t->total_answer += (uint64_t)turn->answer_tokens;
	if (begun && !turn->answer_tokens) {
		m->stored = begun->stored;   /* nothing new */
		return rc;
	}
	talk_forget_taken(t);
	t->last = *turn;
	record_turn(t->record, t, turn);
	return rc;
}

int talk_ask(struct talk *t, const char *text, size_t n, const struct talk_hooks *h, struct turn *turn, struct err *e)
{
	int was_open = t->streamed.open, rc;
	struct message *m = was_open ? &t->msg[t->n_msg - 1] : message_add(t, ROLE_USER);

	if (was_open)
		str_adds(&m->text, "\n\n");
	str_add(&m->text, text, n);
	talk_stream_close(t);
	record_question(t->record, t);
	rc = answer(t, NULL, h, turn, e);
	if (turn->answered)
		return rc;
	if (was_open)
		talk_stream_open(t);
	else
		message_free(&t->msg[--t->n_msg]);
	record_taken_back(t->record, t);
	return rc;
}

int talk_again(struct talk *t, const struct talk_hooks *h, struct turn *turn, struct err *e)
{
	struct message old = {.role = ROLE_ASSISTANT};
	int had = 0, rc;

	if (!t->n_msg || t->streamed.open)
		return err_set(e, ERR_USAGE, "there is no question yet to answer again");
	if (t->msg[t->n_msg - 1].role == ROLE_ASSISTANT) {
		old = t->msg[--t->n_msg];
		had = 1;
		record_go_back(t->record, t);
	}
	rc = answer(t, NULL, h, turn, e);
	if (had && !turn->answered)
		*message_add(t, ROLE_ASSISTANT) = old;   /* nothing new: the old answer stays */
	else if (had)
		message_free(&old);
	return rc;
}

int talk_continue(struct talk *t, const struct talk_hooks *h, struct turn *turn, struct err *e)
{
	struct message old;
	int rc;

	if (!t->n_msg || t->streamed.open)
		return err_set(e, ERR_USAGE, "there is no answer yet to go on with");
	if (t->msg[t->n_msg - 1].role != ROLE_ASSISTANT)   /* it was stopped before its first word */
		return answer(t, NULL, h, turn, e);
	old = t->msg[--t->n_msg];
	rc = answer(t, &old, h, turn, e);
	if (!turn->answered)
		*message_add(t, ROLE_ASSISTANT) = old;
	return rc;
}

int32_t talk_kept(const struct timeline_stats *st)
{
	int32_t kept = st->rows.pinned;

	for (int i = 0; i < st->rows.n_ring; i++)
		kept += st->rows.fill[i];
	/* The last token is behind the rings until the next step. */
	return !st->endless || kept > st->n_tokens || st->rows.evicted + st->rows.evicted_in_part == 0 ? st->n_tokens : kept;
}

int talk_left(const struct timeline_stats *st, struct str *out)
{
	const struct timeline_rows *r = &st->rows;

	if (!st->endless || r->evicted + r->evicted_in_part == 0)
		return 0;
	human_count(out, (uint64_t)r->evicted);
	str_adds(out, " of ");
	human_count(out, (uint64_t)r->seen);
	str_adds(out, " tokens have left the cache");
	if (r->evicted_in_part) {
		str_adds(out, ", ");
		human_count(out, (uint64_t)r->evicted_in_part);
		str_adds(out, " in part");
	}
	return 1;
}

/* ---- JSON ---- */

void talk_json(const struct talk *t, const struct turn *turn, struct str *out)
{
	static const char *stop[] = {[STOP_EOS] = "eos", [STOP_LENGTH] = "length", [STOP_CANCEL] = "cancel"};
	const struct message *m = turn->answered ? talk_answer(t) : NULL;
	struct str title = {0};

	str_adds(out, "{\"text\":");
	str_add_json(out, m && m->text.p ? m->text.p : "", m ? m->text.n : 0);
	str_adds(out, ",\"tokens\":[");
	for (size_t i = 0; m && i < m->id.n; i++)
		str_addf(out, "%s%d", i ? "," : "", m->id.id[i]);
	str_addf(out, "],\"prompt_tokens\":%d,\"reused_tokens\":%d,\"ttft_s\":", turn->prompt_tokens, turn->reused_tokens);
	json_number(out, turn->ttft_s, "%.6f");
	str_adds(out, ",\"prefill_tps\":");
	json_number(out, turn->prefill_tps, "%.2f");
	str_adds(out, ",\"decode_tps\":");
	json_number(out, turn->decode_tps, "%.2f");
	str_addf(out, ",\"stop\":\"%s\",\"session\":", stop[turn->stop]);
	record_title(t->record, &title);
	if (title.n)
		str_add_json(out, title.p, title.n);
	else
		str_adds(out, "null");
	str_addf(out, ",\"evidence\":%s}\n", t->evidence.n ? t->evidence.p : "[]");
	str_free(&title);
}
