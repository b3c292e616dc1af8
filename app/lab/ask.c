/* app/lab/ask.c - weir eval ask: measures how many questions about documents are answered correctly, with different
 * contexts.
 *
 * The questions are a JSON list of {"question": TEXT, "answers": [TEXT, ...]}; "answers" is empty if the documents do
 * not answer the question. Each question is asked in a new conversation, --seeds times with each of these contexts: no
 * documents; the best sentence; 1, 3 and 5 passages; the whole text, if it fits. An answer is right if it contains one
 * of "answers". */
#include <stdlib.h>
#include <string.h>

#include "app/conversation/conversation.h"
#include "app/retrieval/retrieval.h"
#include "app/lab/lab.h"
#include "app/lab/score.h"
#include "sessions/import/import.h"
#include "sessions/store/store.h"

enum { QUESTIONS_MAX = 64 << 20, FIRST = 5, ANSWER_TOKENS = 48, SEED = 42 };

/* A combination of settings. All questions are asked with it, and `good`, `tokens` and `first_s` are means over the
 * questions. `good` is the share of right answers. `tokens` is the number of prompt tokens. `first_s` is the time to
 * the first token in seconds. */
struct setting {
	const char *name, *docs; /* `docs` is the value of --docs in this setting */
	int32_t passages;        /* value of --passages; -1 = no documents are given */
	struct mean good, tokens, first_s;
};

struct asking {
	struct options o;
	const struct lab_options *lab;
	struct conversation conv;
	struct passage_index *index;
	uint64_t seed; /* seed of the first answer to a question */
	int32_t seeds;
	/* Results of the search, as means over the questions. Over the questions that the documents answer: `first` is
	 * the share whose first passage contains an answer, `among` the share for which one of the first five passages
	 * contains an answer, `quote` the share whose best sentence contains an answer, and `found` the share for which
	 * passages were found. Over the other questions: `not_found` is the share for which no passage was found.
	 * `seconds` is the time of the search. */
	struct mean first, among, quote, seconds, found, not_found;
};

/* ---- the search ---- */

/* Search by passages_score(), with an index in memory (ud) and without a database of sessions. */
static int documents_search(const struct indexed_text *text, size_t n_text, const char *question, size_t n,
                            struct found_passage **out, size_t *n_out, struct passage_index **index, void *ud,
                            struct err *e)
{
	*index = ud;
	return passages_score(ud, text, n_text, question, n, out, n_out, e);
}

/* 1 if one of the right answers, `gold`, occurs in bytes [from, to) of the document. */
static int passage_holds(const struct asking *a, const struct words *gold, const struct source *s, size_t from,
                         size_t to)
{
	char *text = xstrndup(a->conv.doc[s->doc].text.p + a->conv.doc[s->doc].body + from, to - from);
	int good = score_any(gold, text) > 0;

	free(text);
	return good;
}

/* Search the documents for the question, and check which passages contain one of the right answers, `gold`. */
static int judge_search(struct asking *a, const char *question, const struct words *gold, struct err *e)
{
	struct sources s;
	size_t at;

	if (conversation_sources(&a->conv, question, strlen(question), &s, e) < 0)
		return -1;
	mean_add(&a->seconds, s.seconds);
	mean_add(gold->n ? &a->found : &a->not_found, gold->n ? s.found : !s.found);
	if (gold->n) {
		for (at = 0; at < s.n && at < FIRST && !passage_holds(a, gold, &s.at[at], s.at[at].from, s.at[at].to);
		     at++)
			;
		mean_add(&a->first, s.n && !at);
		mean_add(&a->among, at < s.n && at < FIRST);
		mean_add(&a->quote, s.n && passage_holds(a, gold, &s.at[0], s.at[0].quote, s.at[0].quote_end));
	}
	sources_free(&s);
	return 0;
}

/* ---- one question in one setting ---- */

/* Ask a question in one setting, once with each seed, and add the results to *how. */
static int ask(struct asking *a, struct setting *how, const char *question, const struct words *gold, struct err *e)
{
	struct answer_hooks hooks = { .without_documents = how->passages < 0 };
	const struct message *m;
	struct turn turn;
	int32_t good = 0;

	a->o.passages = how->passages;
	for (int32_t k = 0; k < a->seeds; k++) {
		conversation_clear(&a->conv);
		a->o.seed = a->seed + (uint64_t)k;
		conversation_sampling(&a->conv, 1);
		if (conversation_ask(&a->conv, question, strlen(question), &hooks, &turn, e) < 0)
			return -1;
		m = turn.answered ? conversation_answer(&a->conv) : NULL;
		good += m && m->text.p && score_any(gold, m->text.p) > 0;
		if (turn.answered) {
			mean_add(&how->tokens, turn.prompt_tokens);
			mean_add(&how->first_s, turn.ttft_s);
		}
	}
	/* Answers to the same question are not independent, so each question counts once, with the share of right
	 * answers among its answers. */
	mean_add(&how->good, (double)good / a->seeds);
	return 0;
}

static void gold_of(struct jv entry, struct words *out)
{
	struct jv list = jv_get(entry, "answers"), it = { 0 };
	struct str s = { 0 };

	while (jv_next(list, &it, NULL)) {
		str_clear(&s);
		if (!jv_text(it, &s) && s.n)
			words_add(out, xstrndup(s.p, s.n));
	}
	str_free(&s);
}

/* Ask every question of the list in every setting. */
static int ask_all(struct asking *a, struct jv list, struct setting *all, size_t n, struct err *e)
{
	struct jv it = { 0 };
	struct str question = { 0 };
	int32_t asked = 0;
	int rc = 0;

	for (; !rc && asked < a->lab->samples && jv_next(list, &it, NULL); asked++) {
		struct words gold = { 0 };

		str_clear(&question);
		if (jv_text(jv_get(it, "question"), &question) < 0)
			rc = err_set(e, ERR_DOCUMENT, "'%s': entry %d has no \"question\"", a->lab->questions,
			             asked + 1);
		gold_of(it, &gold);
		for (size_t i = 0; i < n && !rc && gold.n; i++) {
			if (strcmp(all[i].docs, a->o.docs) != 0) {
				a->o.docs = all[i].docs;
				conversation_options_changed(&a->conv, 0);
			}
			rc = ask(a, &all[i], question.p, &gold, e);
		}
		conversation_clear(&a->conv);
		if (!rc)
			rc = judge_search(a, question.p, &gold, e);
		if (a->o.verbose)
			say("%d questions", asked + 1);
		words_free_owned(&gold);
	}
	if (!rc && !asked)
		rc = err_set(
			e, ERR_DOCUMENT,
			"'%s' holds no questions: it should be a JSON list of {\"question\": TEXT, \"answers\": [TEXT, ...]}",
			a->lab->questions);
	str_free(&question);
	return rc;
}

/* ---- the result ---- */

static void share_add(const struct asking *a, struct str *out, const char *name, const char *key, const struct mean *m)
{
	if (a->o.json) {
		json_open(out, NULL, '{');
		json_string(out, "task", "ask");
		json_string(out, "what", key);
		json_real(out, "share", mean_get(m), "%.4f");
		json_real(out, "error", mean_error(m), "%.4f");
		json_int(out, "questions", m->n);
		json_close(out, '}');
		str_adds(out, "\n");
	} else if (m->n) {
		str_addf(out, "%-44s %5.1f %% +- %.1f  (%d questions)\n", name, 100 * mean_get(m), 100 * mean_error(m),
		         m->n);
	}
}

static void report(const struct asking *a, const struct setting *all, size_t n, struct str *out)
{
	share_add(a, out, "the first passage holds the answer", "first", &a->first);
	share_add(a, out, "one of the first five does", "among5", &a->among);
	share_add(a, out, "the best sentence holds it", "sentence", &a->quote);
	share_add(a, out, "found, where there is an answer", "found", &a->found);
	share_add(a, out, "not found, where there is none", "not_found", &a->not_found);
	if (a->o.json) {
		json_open(out, NULL, '{');
		json_string(out, "task", "ask");
		json_int(out, "seeds", a->seeds);
		sampling_json(&a->conv.sampled, "sampling", out);
		json_close(out, '}');
		str_adds(out, "\n");
	} else {
		str_addf(out, "searching takes %.3f s a question\nsampling: ", mean_get(&a->seconds));
		sampling_line(&a->conv.sampled, out);
		str_addf(
			out,
			"; %d seed%s a question\n\nthe answer, with                             right        prompt tokens  first token\n",
			a->seeds, a->seeds == 1 ? "" : "s");
	}
	for (size_t i = 0; i < n; i++) {
		const struct setting *s = &all[i];

		if (!s->good.n)
			continue;
		if (a->o.json) {
			json_open(out, NULL, '{');
			json_string(out, "task", "ask");
			json_string(out, "with", s->name);
			json_real(out, "right", mean_get(&s->good), "%.4f");
			json_real(out, "error", mean_error(&s->good), "%.4f");
			json_real(out, "prompt_tokens", mean_get(&s->tokens), "%.1f");
			json_real(out, "ttft_s", mean_get(&s->first_s), "%.3f");
			json_int(out, "questions", s->good.n);
			json_close(out, '}');
			str_adds(out, "\n");
		} else {
			str_addf(out, "%-44s %5.1f %% +- %.1f %9.0f %12.2f s\n", s->name, 100 * mean_get(&s->good),
			         100 * mean_error(&s->good), mean_get(&s->tokens), mean_get(&s->first_s));
		}
	}
}

static int documents_ask(struct asking *a, struct str *out, struct err *e)
{
	struct setting all[] = {
		{ .name = "nothing", .docs = "passages", .passages = -1 },
		{ .name = "the best sentence", .docs = "passages" },
		{ .name = "1 passage", .docs = "passages", .passages = 1 },
		{ .name = "3 passages", .docs = "passages", .passages = 3 },
		{ .name = "5 passages", .docs = "passages", .passages = 5 },
		{ .name = "the whole text", .docs = "auto" },
	};
	size_t n = LEN(all);
	struct str text = { 0 };
	int whole = 1, rc;

	for (int i = 0; i < a->o.n_file; i++) {
		struct doc doc = { 0 };

		rc = doc_read(a->o.file[i], &doc, e) < 0 ? -1 : conversation_add_document(&a->conv, &doc, e);
		doc_free(&doc);
		if (rc < 0)
			return -1;
	}
	for (size_t i = 0; i < a->conv.n_doc; i++)
		whole &= a->conv.doc[i].whole;
	rc = read_whole(a->lab->questions, QUESTIONS_MAX, &text, e);
	if (!rc)
		rc = ask_all(a, jv_parse(str_text(&text), text.n), all, whole ? n : n - 1, e);
	if (!rc)
		report(a, all, n, out);
	str_free(&text);
	return rc;
}

int cmd_eval_ask(const struct options *o)
{
	struct asking a = { .o = *o, .lab = lab_of(o) };
	struct str out = { 0 };
	struct err e = { 0 };
	int rc;

	a.o.quiet = 1;
	a.o.docs = "auto";
	a.o.predict = ANSWER_TOKENS;
	a.seed = o->seed_set ? o->seed : SEED;
	a.o.seed_set = 1;
	if (!o->n_file)
		rc = err_set(&e, ERR_USAGE, "'weir eval ask' wants documents");
	else if (!lab_of(o)->questions)
		rc = err_set(
			&e, ERR_USAGE,
			"'weir eval ask' wants --questions FILE, a JSON list of {\"question\": TEXT, \"answers\": [TEXT, ...]}");
	else
		rc = conversation_open(&a.conv, &a.o, NULL, NULL, &e);
	if (!rc) {
		/* At temperature 0 the answer is the same with any seed. */
		a.seeds = a.conv.sampled.s.temperature > 0 ? lab_of(o)->seeds : 1;
		rc = passage_index_open(&a.index, NULL, &e);
		retrieval_join(&a.conv);
		sources_search_by(&a.conv, documents_search, NULL, a.index);
		if (!rc)
			rc = documents_ask(&a, &out, &e);
		if (a.index)
			passage_index_close(a.index);
		conversation_close(&a.conv);
	}
	if (!rc && out.n)
		rc = write_all(1, out.p, out.n) < 0 ? err_set(&e, ERR_FAIL, "cannot write to standard output") : 0;
	str_free(&out);
	if (rc < 0)
		say_error(&e);
	return rc < 0 ? exit_code(e.code) : 0;
}
