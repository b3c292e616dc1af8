/* app/summary/summarize.c - summarizes sections of a text, then joins neighbouring summaries, level by level, until
 * only one is left. In this file a "part" is a summary of one or more consecutive sections. */
#include "app/summary/summary.h"
#include "app/models/models.h"
#include "engine/base/sentences.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum {
	/* usual number of tokens of a section; choose_sizes() adapts it to the context and to the wanted number of
	 * words */
	SECTION_TOKENS = 1024,
	SECTION_LEAST = 128, /* minimum number of tokens of a section */
	PART_WORDS = 60,     /* minimum number of words that are asked for in a section's summary */
	/* maximum number of tokens of an answer for each wanted word; this is enough in most languages */
	TOKENS_PER_WORD = 3,
	/* number of tokens of a prompt without the section's text: template, name, heading, instruction */
	FRAME_TOKENS = 256,
	/* number of tokens that are added to an answer's limit if the model's reasoning cannot be switched off */
	REASONING_TOKENS = 1024,
	RUNAWAY = 64,   /* an answer is stopped when its last RUNAWAY bytes have occurred in it before */
	NAME_MOST = 80, /* maximum number of bytes of a name or heading in a prompt */
};
#define REPEAT_PENALTY 1.1f

/* The summary of sections number `first` to `last`. `tokens` is the number of tokens of `text`, set by
 * count_tokens(). */
struct part {
	struct str text;
	int32_t tokens;
	size_t first, last;
};

struct maker {
	struct engine *engine;
	const struct options *o;
	const struct summary_hooks *hooks;
	struct timeline *tl; /* NULL until the first prompt that the model must answer */
	struct sampling sampling;
	/* `words` is the wanted length of the whole summary. `section`, `ctx` and `reasoning` are the maximum numbers
	 * of tokens in a section, in the context, and in an answer's reasoning. */
	int32_t words, section, ctx, reasoning;
	struct summary_progress at;
	size_t ahead; /* estimated number of prompts on the later levels, which join the summaries of this level */
	/* times at which the timeline was opened and the last answer ended, to estimate the time left */
	double began, last;
	size_t made; /* number of prompts that the model has answered */
	struct summary *out;
};

void summary_free(struct summary *s)
{
	str_free(&s->text);
	str_free(&s->empty);
}

/* ---- settings ---- */

/* Return how many tokens an answer of `words` words may have. */
static int32_t answer_tokens(int32_t words)
{
	return TOKENS_PER_WORD * words + 32;
}

/* Unless the user has set a temperature, sample greedily, with a repeat penalty over the whole answer. */
static void choose_sampling(struct maker *m)
{
	struct sampling_choice c;

	sampling_choose(m->o, m->engine, &c);
	m->sampling = c.s;
	if (c.from[SAMPLING_TEMP] == SAMPLING_USER)
		return;
	m->sampling = sampling_default;
	m->sampling.temperature = 0;
	m->sampling.repeat_penalty = REPEAT_PENALTY;
	m->sampling.repeat_last = -1;
}

/* Set m->section, m->ctx and m->reasoning so that a prompt and its answer fit the model's context. A prompt has
 * FRAME_TOKENS and one section, or FRAME_TOKENS and two summaries. Returns 0, or -1 with ERR_FIT. */
static int choose_sizes(struct maker *m, struct err *e)
{
	const struct engine_info *info = engine_info(m->engine);
	int32_t most = MAX(info->ctx_train, m->o->ctx), words = MAX(m->words, PART_WORDS);

	m->reasoning = info->thinks_first && !info->think_switch ? REASONING_TOKENS : 0;
	m->section = SECTION_TOKENS > 3 * m->words ? SECTION_TOKENS : 3 * m->words;
	if (m->section > most / 2)
		m->section = most / 2;
	m->ctx = m->section + FRAME_TOKENS + answer_tokens(words) + m->reasoning;
	if (m->ctx > most) {
		m->section -= m->ctx - most;
		m->ctx = most;
	}
	if (m->section < SECTION_LEAST)
		return err_set(e, ERR_FIT, "a summary of %d words does not fit the model's context of %d tokens",
		               m->words, most);
	return 0;
}

/* ---- one prompt ---- */

/* Set key to a hash of all properties that determine the result of a prompt. */
static void prompt_key(const struct maker *m, const struct str *prompt, int32_t words, char key[SUMMARY_KEY])
{
	const struct engine_info *info = engine_info(m->engine);
	const struct sampling *s = &m->sampling;
	struct str all = { 0 };
	XXH128_hash_t hash;

	str_addf(&all, "1\n%s\n%s\n%s\n%llu %llu\n%d %d\n", info->name, info->quant, info->template_name,
	         (unsigned long long)info->n_params, (unsigned long long)info->weight_bytes, words, m->reasoning);
	str_addf(&all, "%g %d %g %g %g %g %g\n", (double)s->temperature, s->top_k, (double)s->top_p, (double)s->min_p,
	         (double)s->repeat_penalty, (double)s->presence_penalty, (double)s->frequency_penalty);
	if (m->o->seed_set)
		str_addf(&all, "%llu\n", (unsigned long long)m->o->seed);
	str_add(&all, prompt->p, prompt->n);
	hash = XXH3_128bits(all.p, all.n);
	snprintf(key, SUMMARY_KEY, "%016llx%016llx", (unsigned long long)hash.high64, (unsigned long long)hash.low64);
	str_free(&all);
}

/* Call the progress hook. Returns 0, or -1 with ERR_CANCELLED if the hook or a signal stops the summary. */
static int progress_report(struct maker *m, struct err *e)
{
	double each = m->made ? (m->last - m->began) / (double)m->made : 0,
	       within = m->made ? now_seconds() - m->last : 0;

	/* for the estimate, assume that all prompts take the same time */
	m->at.left =
		m->made ? each * (double)(m->at.parts - m->at.part + m->ahead) + (within < each ? each - within : 0)
			: -1;
	if (m->hooks->progress && m->hooks->progress(&m->at, m->hooks->ud))
		return err_set(e, ERR_CANCELLED, "stopped");
	/* before m->tl is open, signals_stopped() may report an earlier stop: ignore it */
	return m->tl && signals_stopped() ? err_set(e, ERR_CANCELLED, "stopped") : 0;
}

/* Report progress during a prefill. If progress_report() returns -1, cancel the prefill. */
static void on_prefill(int32_t done, int32_t total, void *ud)
{
	struct maker *m = ud;
	struct err e = { 0 };

	(void)done, (void)total;
	if (progress_report(m, &e) < 0)
		timeline_cancel(m->tl);
}

/* Open m->tl if it is not open yet. */
static int open_timeline(struct maker *m, struct err *e)
{
	struct options o = *m->o;
	struct err why = { 0 };

	if (m->tl)
		return 0;
	o.kv = "full"; /* no entry needs to be evicted, because choose_sizes() makes every prompt fit */
	if (timeline_open_for(&m->tl, m->engine, &o, m->ctx, &why) < 0)
		return err_set(e, why.code, "there is no room to summarize in: %.200s", why.msg);
	signals_watch(m->tl);
	m->began = now_seconds();
	return 0;
}

/* Prefill a prompt, followed by the tokens with which the template begins an answer. */
static int read_prompt(struct maker *m, const struct str *prompt, struct err *e)
{
	struct chat_msg msg = { .role = ROLE_USER, .text = prompt->p, .len = prompt->n };
	struct rendered r = { 0 };
	int rc = engine_render(m->engine, &msg, 1, REPLY_HEAD | REPLY_NO_THOUGHT, NULL, &r, e);

	if (!rc && timeline_sync(m->tl, r.id.id, r.id.n, on_prefill, m, e) < 0)
		rc = -1;
	rendered_free(&r);
	return rc;
}

static size_t words_of(const struct str *s)
{
	size_t n = 0;

	for (size_t i = 0; i < s->n; i++)
		n += (unsigned char)s->p[i] > ' ' && (!i || (unsigned char)s->p[i - 1] <= ' ');
	return n;
}

/* Return the byte at which the last sentence of s[0 .. n) ends; 0 = no sentence ends. A period after a digit at the end
 * of s does not count, because more digits may follow. */
static size_t last_sentence(const char *s, size_t n)
{
	int number = n > 1 && s[n - 1] == '.' && s[n - 2] >= '0' && s[n - 2] <= '9';

	for (size_t end = n - (size_t)number; end; end--)
		if (sentence_ends(s, n, end))
			return end;
	return 0;
}

/* Truncate an answer after its last complete sentence. If it has none, leave it unchanged. */
static void cut_to_sentence(struct str *s)
{
	size_t end = last_sentence(str_text(s), s->n);

	if (end) {
		s->n = end;
		s->p[end] = 0;
	}
}

/* 1 if the last RUNAWAY bytes of the text also occur earlier in it. */
static int answer_repeats(const struct str *s)
{
	return s->n > 2 * RUNAWAY && memmem(s->p, s->n - RUNAWAY, s->p + s->n - RUNAWAY, RUNAWAY) != NULL;
}

static void text_trim(struct str *s)
{
	size_t from = 0;

	while (s->n && (unsigned char)s->p[s->n - 1] <= ' ')
		s->p[--s->n] = 0;
	while (from < s->n && (unsigned char)s->p[from] <= ' ')
		from++;
	if (from) {
		memmove(s->p, s->p + from, s->n - from + 1);
		s->n -= from;
	}
}

/* Append the text of a token to *out, without reasoning. */
static void add_piece(struct maker *m, struct reasoning *think, int32_t id, struct str *out)
{
	struct str piece = { 0 };

	engine_piece_add(m->engine, id, 0, &piece);
	reasoning_feed(think, str_text(&piece), piece.n, out);
	str_free(&piece);
}

/* Generate an answer of about `words` words. It ends when the model ends its turn; at the token limit; when it repeats
 * itself; or, after 1.5 times `words`, at the end of a sentence. If the model has not ended its turn, the answer is
 * truncated after its last complete sentence. Returns 0 or -1. */
static int read_answer(struct maker *m, int32_t words, struct str *out, struct err *e)
{
	struct reasoning think = { .first = engine_info(m->engine)->thinks_first && m->reasoning };
	int32_t most = answer_tokens(words) + m->reasoning, n = 0;
	size_t prompt;
	int rc = 1, whole = 0;

	timeline_speculate(m->tl, strcmp(m->o->speculate, "off") != 0);
	timeline_tokens(m->tl, &prompt);
	m->sampling.answer = (int32_t)prompt;
	if (most > m->ctx - (int32_t)prompt)
		most = m->ctx - (int32_t)prompt;
	while (n < most && (rc = progress_report(m, e)) == 0) {
		struct step_out step;

		rc = timeline_step(m->tl, &m->sampling, &step, e);
		if (rc <= 0) {
			whole = rc == 0;
			break;
		}
		n++;
		add_piece(m, &think, step.id, out);
		if (answer_repeats(out)) {
			out->n -= RUNAWAY;
			out->p[out->n] = 0;
			break;
		}
		if (words_of(out) >= (size_t)words * 3 / 2 && last_sentence(out->p, out->n) == out->n)
			break;
	}
	if (whole)
		reasoning_end(&think, out);
	else
		cut_to_sentence(out);
	text_trim(out);
	reasoning_free(&think);
	return rc < 0 ? -1 : 0;
}

void summary_without(struct str *s, const char *instruction)
{
	size_t n = strlen(instruction);
	char *at = s->n && n ? strstr(s->p, instruction) : NULL;

	if (at == s->p && at) {
		memmove(s->p, s->p + n, s->n - n + 1);
		s->n -= n;
	} else if (at) {
		s->n = (size_t)(at - s->p);
		*at = 0;
	}
	text_trim(s);
}

/* Set *out to the result of a prompt. If the result is not stored, let the model answer the prompt, and store the
 * answer. Returns 0 or -1. */
static int prompt_answer(struct maker *m, const struct str *prompt, int32_t words, struct str *out, struct err *e)
{
	char key[SUMMARY_KEY];

	prompt_key(m, prompt, words, key);
	str_clear(out);
	if (m->hooks->get && m->hooks->get(key, out, m->hooks->ud) > 0)
		return progress_report(m, e);
	if (open_timeline(m, e) < 0 || progress_report(m, e) < 0)
		return -1;
	sampling_seed(&m->sampling, m->o->seed_set ? m->o->seed : 0);
	if (read_prompt(m, prompt, e) < 0 || read_answer(m, words, out, e) < 0)
		return -1;
	summary_without(out, strrchr(prompt->p, '\n') + 1);
	m->made++;
	m->last = now_seconds();
	if (m->hooks->put)
		m->hooks->put(key, str_text(out), out->n, m->hooks->ud);
	return 0;
}

/* ---- the levels ---- */

/* Append a name or heading in quotes, as one line of at most NAME_MOST bytes. So a document cannot add lines to the
 * prompt. */
static void add_name(struct str *out, const char *name)
{
	size_t n = strlen(name);

	if (n > NAME_MOST)
		n = utf8_complete(name, NAME_MOST);
	str_adds(out, "\"");
	for (size_t i = 0; i < n; i++)
		str_add(out, (unsigned char)name[i] < ' ' ? " " : name + i, 1);
	str_adds(out, "\"");
}

/* If the model has no chat template, it only continues text: end the prompt with the beginning of the answer. */
static void add_end(const struct maker *m, struct str *prompt)
{
	if (!engine_info(m->engine)->template_name[0])
		str_adds(prompt, "\n\nSummary:");
}

/* Set *out to the prompt that summarizes a section. `whole` is 1 if the text has no other section. */
static void section_prompt(const struct maker *m, const struct summary_text *t, const struct section *s, int whole,
                           int32_t words, struct str *out)
{
	str_clear(out);
	str_adds(out, whole ? "Document " : "Part of the document ");
	add_name(out, t->name);
	if (!whole && s->heading) {
		str_adds(out, ", section ");
		add_name(out, s->heading);
	}
	str_adds(out, ":\n\n");
	str_add(out, t->text + s->from, s->to - s->from);
	str_addf(out, "\n\nSummarize this %s in about %d words.", whole ? "document" : "part", words);
	add_end(m, out);
}

/* Set *out to the prompt that joins n summaries. If `whole` is 1, there are no other summaries, so the result is the
 * summary of the whole text. */
static void join_prompt(const struct maker *m, const char *name, const struct part *p, size_t n, int whole,
                        int32_t words, struct str *out)
{
	str_clear(out);
	str_addf(out, "Summaries of %sconsecutive parts of ", whole ? "all " : "");
	add_name(out, name);
	str_adds(out, ":\n");
	for (size_t i = 0; i < n; i++) {
		str_adds(out, "\n");
		str_add(out, str_text(&p[i].text), p[i].text.n);
		str_adds(out, "\n");
	}
	str_addf(out, "\nJoin them into one summary of the whole in about %d words.", words);
	add_end(m, out);
}

/* Add sections number `first` to `last` (from 0) to out->empty, the list of sections for which the model gave no
 * summary. */
static void note_empty(struct maker *m, size_t first, size_t last, const char *heading)
{
	struct str *s = &m->out->empty;

	if (s->n)
		str_adds(s, ", ");
	str_addf(s, first == last ? "%zu" : "%zu to %zu", first + 1, last + 1);
	if (heading) {
		str_adds(s, " (");
		add_name(s, heading);
		str_adds(s, ")");
	}
}

/* Set p->tokens. A summary that is longer than half a section is truncated, so that any two summaries fit one
 * prompt. */
static int count_tokens(const struct maker *m, struct part *p, struct err *e)
{
	struct tokens id = { 0 };
	int32_t most = m->section / 2 - 2;
	int rc = engine_tokenize(m->engine, str_text(&p->text), p->text.n, 0, &id, e);

	if (!rc && id.n > (size_t)most) {
		p->text.n = utf8_complete(p->text.p, p->text.n * (size_t)most / id.n);
		p->text.p[p->text.n] = 0;
		id.n = (size_t)most;
	}
	p->tokens = (int32_t)id.n + 2;
	tokens_free(&id);
	return rc;
}

/* Return how many of the first n summaries are joined by one prompt: at least 2, but 1 if n is 1. */
static size_t group_of(const struct maker *m, const struct part *p, size_t n)
{
	size_t take = 1;
	int32_t tokens = p->tokens;

	while (take < n && (take < 2 || tokens + p[take].tokens <= m->section))
		tokens += p[take++].tokens;
	return take;
}

/* Return the number of prompts that are needed to join n summaries on this level. */
static size_t groups_of(const struct maker *m, const struct part *p, size_t n)
{
	size_t groups = 0;

	for (size_t i = 0; i < n; i += group_of(m, p + i, n - i))
		groups++;
	return groups;
}

/* Return how many words to ask for in the summary of one section. The summaries of all sections together may have twice
 * as many words as the final summary. Any two of these section summaries must fit into one prompt. */
static int32_t part_words(const struct maker *m, size_t sections)
{
	int32_t fits = (m->section / 2 - 32) / TOKENS_PER_WORD, words = (int32_t)(2 * (size_t)m->words / sections);

	if (words < PART_WORDS)
		words = PART_WORDS;
	if (words > m->words)
		words = MAX(m->words, PART_WORDS);
	return MIN(words, fits);
}

/* Summarize n sections, which is the first level. Append the summaries that are not empty to p, and set *n_part to
 * their number. The caller frees their texts. Returns 0 or -1. */
static int summarize_sections(struct maker *m, const struct summary_text *text, const struct section *s, size_t n,
                              struct part *p, size_t *n_part, struct err *e)
{
	int32_t words = n == 1 ? m->words : part_words(m, n);
	struct str prompt = { 0 };
	int rc = 0;

	m->at = (struct summary_progress){ .parts = n };
	m->ahead = n > 1 ? n * (size_t)answer_tokens(words) / 2 / (size_t)m->section + 1 : 0;
	for (size_t i = 0; i < n && !rc; i++) {
		struct part *to = &p[*n_part];

		m->at.part = i + 1;
		section_prompt(m, &text[s[i].text], &s[i], n == 1, words, &prompt);
		to->first = to->last = i;
		rc = prompt_answer(m, &prompt, words, &to->text, e);
		if (!rc) {
			m->out->done++;
			if (n > 1)
				rc = count_tokens(m, to, e);
		}
		if (!rc && !to->text.n)
			note_empty(m, i, i, s[i].heading);
		*n_part += to->text.n > 0;
	}
	str_free(&prompt);
	return rc;
}

/* Join neighbouring summaries in place, which adds one level. Returns the new number of summaries, or 0 on error. */
static size_t join_level(struct maker *m, const char *name, struct part *p, size_t n, struct err *e)
{
	size_t groups = groups_of(m, p, n), to = 0, take;
	int32_t words = groups == 1 ? m->words : part_words(m, groups);
	struct str prompt = { 0 }, text = { 0 };
	int rc = 0;

	m->at = (struct summary_progress){ .joining = 1, .parts = groups };
	m->ahead = groups > 1 ? groups / 4 + 1 : 0;
	for (size_t i = 0; i < n && !rc; i += take) {
		struct part joined = { .first = p[i].first };

		take = group_of(m, p + i, n - i);
		joined.last = p[i + take - 1].last;
		m->at.part++;
		if (take == 1) {
			joined = p[i];
			p[i].text = (struct str){ 0 };
		} else {
			join_prompt(m, name, p + i, take, groups == 1, words, &prompt);
			rc = prompt_answer(m, &prompt, words, &text, e);
			joined.text = text;
			text = (struct str){ 0 };
			if (!rc && !joined.text.n) {
				note_empty(m, joined.first, joined.last, NULL);
				/* the model gave no text: keep the group's first summary instead */
				joined.text = p[i].text;
				p[i].text = (struct str){ 0 };
			}
		}
		for (size_t k = i; k < i + take; k++)
			str_free(&p[k].text);
		p[to] = joined;
		if (!rc && groups > 1)
			rc = count_tokens(m, &p[to], e);
		to++;
	}
	str_free(&prompt);
	return rc ? 0 : to;
}

/* Run all levels and put the summary into m->out->text. */
static int levels_run(struct maker *m, const struct summary_text *text, size_t n_text, struct err *e)
{
	struct section *s = NULL;
	struct part *p;
	struct str name = { 0 };
	size_t n = 0, n_part = 0, all;
	int rc;

	if (sections_cut(m->engine, text, n_text, m->section, &s, &n, e) < 0)
		return -1;
	m->out->sections = n;
	if (n_text == 1)
		str_adds(&name, text[0].name);
	else
		str_addf(&name, "%zu documents", n_text);
	p = xcalloc(n + 1, sizeof *p);
	rc = n ? summarize_sections(m, text, s, n, p, &n_part, e)
	       : err_set(e, ERR_DOCUMENT, "there is no text to summarize");
	all = n_part;
	while (!rc && n_part > 1) {
		n_part = join_level(m, name.p, p, n_part, e);
		rc = n_part ? 0 : -1;
	}
	if (!rc && !n_part)
		rc = err_set(e, ERR_FAIL, "the model returned nothing for any of the %zu sections", n);
	if (!rc)
		str_add(&m->out->text, p[0].text.p, p[0].text.n);
	for (size_t i = 0; i <= all && i <= n; i++)
		str_free(&p[i].text);
	free(p);
	free(s);
	str_free(&name);
	return rc;
}

int summarize(struct engine *engine, const struct options *o, const struct summary_text *text, size_t n_text,
              int32_t words, const struct summary_hooks *hooks, struct summary *out, struct err *e)
{
	struct maker m = { .engine = engine, .o = o, .hooks = hooks, .words = words, .out = out };
	int rc;

	*out = (struct summary){ .sections = 0 };
	choose_sampling(&m);
	rc = choose_sizes(&m, e);
	if (!rc)
		rc = levels_run(&m, text, n_text, e);
	if (m.tl) {
		signals_watch(NULL);
		timeline_close(m.tl);
	}
	out->made = m.made;
	return rc;
}
