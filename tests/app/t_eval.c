/* tests/app/t_eval.c - evaluations: scores, prompts (hidden texts are at the wanted depth, lengths match the target),
 * the JSON that prompts are made from, and several policies measured one after the other on one timeline. */
#include "tests/lib/test.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "app/lab/checkpoint.h"
#include "app/lab/entry_fit.h"
#include "app/lab/lab.h"
#include "app/lab/given.h"
#include "app/lab/policies.h"
#include "app/lab/tasks.h"
#include "engine/base/json.h"
#include "engine/lab/lab.h"

/* ---- scores ---- */

TEST(text_is_found_in_any_case)
{
	CHECK(text_has("The Answer is ABC-def.", "abc-DEF"));
	CHECK(text_has("xaab", "aab"));
	CHECK(text_has("x", ""));
	CHECK(!text_has("ab", "abc"));
	CHECK(!text_has("", "a"));
}

TEST(string_match_all_and_any)
{
	const char *three[] = { "123", "Foo", "bar" };
	struct words ref = { three, 3, 3 };

	CHECK(score_all(&ref, "bar and 0123") == 2.0 / 3);
	CHECK(score_all(&ref, "FOO bar 123") == 1);
	CHECK(score_all(&ref, "") == 0);
	CHECK(score_any(&ref, "nothing") == 0);
	CHECK(score_any(&ref, "a fool") == 1);
}

TEST(digits_are_compared_by_their_place)
{
	CHECK(score_digits("12345", "is 12345, I think 999") == 1);
	CHECK(score_digits("12345", "92345") == 0.8);
	CHECK(score_digits("12345", "1234") == 0.8);
	/* the first digit is missing, so all others are at the wrong place */
	CHECK(score_digits("12345", "2345") == 0);
	CHECK(score_digits("12345", "123 45") == 0.6); /* only the first run of digits counts */
	CHECK(score_digits("12345", "123456") == 1);
	CHECK(score_digits("12345", "none") == 0);
}

TEST(chains_count_to_the_first_mistake)
{
	const char *list[] = { "red-dog", "dog-sun", "sun-oak", "oak-red", "ice-ice" };
	struct words keys = { list, 5, 5 };

	CHECK(score_chain(&keys, "red-dog, dog-sun, sun-oak, oak-red", 4) == 1);
	CHECK(score_chain(&keys, "Red-Dog\n2. dog-sun", 4) == 0.5);
	/* the second key does not begin with "dog" */
	CHECK(score_chain(&keys, "red-dog, sun-oak, oak-red", 4) == 0.25);
	CHECK(score_chain(&keys, "red-dog, dog-oak", 4) == 0.25); /* the second key is not in the list */
	CHECK(score_chain(&keys, "red dog", 4) == 0);
	CHECK(score_chain(&keys, "the keys: sun-oak, oak-red, red-dog, dog-sun, sun-oak, oak-red", 4) == 1);
	CHECK(score_chain(&keys, "", 4) == 0);
}

TEST(rows_are_scored_by_f1)
{
	const char *list[] = { "Red-dog is: 1234567", "sun-oak is: 7654321", "sun-oak is: 1111111", "9000000" };
	const char *two[] = { "12 34" }, *one[] = { "34" };
	struct words keys = { list, 4, 4 };

	CHECK(score_rows(&keys, "red-dog is: 1234567\nsun-oak is: 7654321\nsun-oak is: 1111111\n9000000\n") == 1);
	/* Order, list marks, punctuation, case and empty lines do not count. */
	CHECK(score_rows(
		      &keys,
		      "1. 9000000.\n\n2) SUN-OAK is 1111111\n- Red dog is: \"1234567\"\n  * sun-oak is: 7654321\n") ==
	      1);
	CHECK(answer_rows("1. 9000000.\n\n2) SUN-OAK is 1111111\n---\n") == 2);
	/* Two of four rows, and no wrong one: precision 1, recall 1/2. */
	CHECK(fabs(score_rows(&keys, "9000000\nsun-oak is: 7654321\n") - 2 * 0.5 / 1.5) < 1e-12);
	/* Two of four rows among four answered ones; a repeated row counts as wrong. */
	CHECK(score_rows(&keys, "9000000\n9000001\nsun-oak is: 7654321\nred-dog is: 1111111\n") == 0.5);
	CHECK(score_rows(&keys, "9000000\n9000000\n9000000\n9000000\n") == 0.25);
	/* A row that the token limit has cut is ignored. */
	CHECK(score_rows(&keys, "9000000\nsun-oak is: 76543") == 2 * 1.0 / 5);
	CHECK(score_rows(&keys, "9000000\nsun-oak is: 7654321") == 2 * 1.0 / 5);
	CHECK(score_rows(&keys, "") == 0);
	CHECK(answer_rows("") == 0 && answer_rows("a") == 0 && answer_rows("\na\nb\n") == 2);
	/* A row may begin with a number that is no list mark. */
	CHECK(score_rows(&(struct words){ two, 1, 1 }, "12 34\n") == 1);
	CHECK(score_rows(&(struct words){ one, 1, 1 }, "12 34\n") == 0);
	CHECK(score_answer(METRIC_ROWS, &keys, NULL, "9000000\n") == 2 * 1.0 / 5);
}

static double published(enum eval_metric metric, const char *ref, const char *answer)
{
	struct words refs = { .n = 0 }, classes = { .n = 0 };
	double x;

	words_add(&refs, "nothing of it"); /* of several references, the one with the best score counts */
	words_add(&refs, ref);
	words_add(&classes, "Person");
	words_add(&classes, "Place");
	words_add(&classes, "Other place");
	x = score_answer(metric, &refs, &classes, answer);
	words_free(&refs);
	words_free(&classes);
	return x;
}

TEST(published_metrics)
{
	static const struct {
		enum eval_metric metric;
		const char *ref, *answer;
		double score;
	} c[] = {
		{ METRIC_F1, "1874", "1874 by 1874", 2 * 1.0 / 4 },
		{ METRIC_F1, "The Old Mill", "an old mill.", 1 },
		{ METRIC_F1, "it's red red", "Its RED, blue", 2 * 2.0 / 6 },
		{ METRIC_F1, "yes", "", 0 },
		{ METRIC_ROUGE_L, "the cat sat on the mat", "The cat was on the mat!", 2 * 5.0 / 12 },
		{ METRIC_ROUGE_L, "a b c d", "d c b a", 2 * 1.0 / 8 },
		{ METRIC_EDIT, "return x;", "```c\n# no\nreturn x;\nmore", 1 },
		{ METRIC_EDIT, "abcd", "abxd", 2 * 3.0 / 8 },
		{ METRIC_CLASS, "Place", "a Place", 1 },
		{ METRIC_CLASS, "Place", "Place or Person", 0.5 },
		{ METRIC_CLASS, "Other place", "Other place", 1 },
		{ METRIC_CLASS, "Place", "Thing", 0 },
		{ METRIC_NUMBERS, "Paragraph 12", "12, 3 and 12", 2.0 / 3 },
		{ METRIC_NUMBERS, "Paragraph 12", "the twelfth", 0 },
		{ METRIC_NUMBER, "so\n#### 1,234", "It is $1,234.", 1 },
		{ METRIC_NUMBER, "#### -5", "2 - 7 = -5", 1 },
		{ METRIC_NUMBER, "#### 5", "7-5", 1 },
		{ METRIC_NUMBER, "#### 12", "#### 12\nThe answer is 13.", 1 },
		{ METRIC_NUMBER, "#### 3.5", "about 3.6", 0 },
		{ METRIC_CHOICE, "B", " B. iron", 1 },
		{ METRIC_CHOICE, "B", "Because of A", 0 },
		{ METRIC_CHOICE, "C", "A", 0 },
	};

	for (size_t i = 0; i < LEN(c); i++)
		CHECK_MSG(fabs(published(c[i].metric, c[i].ref, c[i].answer) - c[i].score) < 1e-12,
		          "metric %d of '%s' against '%s': %g, expected %g", c[i].metric, c[i].answer, c[i].ref,
		          published(c[i].metric, c[i].ref, c[i].answer), c[i].score);
}

static int give(struct given *g, const char *text, struct err *e)
{
	char folder[] = "/tmp/t_eval_XXXXXX", path[64];
	const char *file[] = { path };
	FILE *f;
	int rc;

	CHECK(mkdtemp(folder) != NULL);
	snprintf(path, sizeof path, "%s/given.jsonl", folder);
	f = fopen(path, "w");
	CHECK(f && fputs(text, f) >= 0 && !fclose(f));
	*e = (struct err){ 0 };
	rc = given_load(g, file, 1, e);
	remove(path);
	remove(folder);
	return rc;
}

TEST(prompts_of_files)
{
	static const char *const bad[][2] = {
		{ "", "no record" },
		{ "nonsense\n", "line 1: it is no JSON" },
		{ "\n[1]\n", "record 1: it is no object" },
		{ "{\"prompt\":\"x\"}", "none of the records" },
		{ "{\"question\":\"q\",\"choices\":[\"a\"],\"answer\":4}", "none of its choices" },
		{ "{\"prompt\":\"x\",\"metric\":\"bleu\",\"answers\":[\"y\"]}", "none of all, any" },
		{ "{\"prompt\":\"x\",\"metric\":\"any\",\"answers\":[]}", "no answers" },
		{ "{\"question\":\"q\",\"answer\":\"#### 1\"}\n{\"prompt\":\"x\",\"reference_output\":\"y\"}",
		  "line 2: task 'given' has records of another kind" },
		{ "{\"context\":\"c\",\"input\":\"i\",\"answers\":[\"a\"],\"dataset\":\"dureader\"}",
		  "'dureader' is none that weir can score" },
	};
	struct given g;
	struct err e;
	struct corpus m = { .lists = { 0 } };
	struct sample s = { .depth = 0 };

	for (size_t i = 0; i < LEN(bad); i++)
		CHECK_MSG(give(&g, bad[i][0], &e) < 0 && strstr(e.msg, bad[i][1]), "%s: %s", bad[i][0], e.msg);
	CHECK_MSG(
		!give(&g,
	              "{\"question\":\"one and one\",\"answer\":\"2\\n#### 2\"}\n\n"
	              "{\"question\":\"Which?\",\"choices\":[\"air\",\"iron\"],\"answer\":\"B\",\"subject\":\"x\",\"task\":\"stem\"}\n"
	              "{\"context\":\"Some text.\",\"input\":\"Who?\",\"answers\":[\"I\",\"we\"],\"dataset\":\"musique_e\"}\n"
	              "{\"context\":\"x\",\"input\":\"y\",\"answers\":[\"z\"],\"dataset\":\"lsht\"}\n"
	              "{\"prompt\":\"\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\",\"answers\":\"a\",\"metric\":\"f1\",\"task\":\"own\",\"max_tokens\":7,\"head\":\"So:\"}\n"
	              "{\"prompt\":\"Copy.\",\"reference_output\":\"a b\\n\\nc d\\n\",\"task\":\"rows\"}\n",
	              &e),
		"%s", e.msg);
	CHECK(g.n == 5 && g.left_out == 1 && !strcmp(g.left_out_name, "lsht"));
	CHECK(g.task[0].metric == METRIC_NUMBER && g.task[1].metric == METRIC_CHOICE && g.task[2].metric == METRIC_F1 &&
	      g.task[2].gen == 32);
	CHECK(!strcmp(g.task[0].name, "given") && !strcmp(g.task[1].name, "stem") &&
	      !strcmp(g.task[2].name, "musique_e"));
	m.set = g.task[2].set;
	CHECK(!given_build(&m, rng_for(1, "x", 1, 1), 99, 100, 0, &s, &e) && strstr(s.prompt.p, "\n\nSome text.\n\n") &&
	      strstr(s.prompt.p, "Question: Who?") && s.ref.n == 2);
	sample_free(&s);
	/* A text that is too long loses its middle; no character is cut. */
	m.set = g.task[3].set;
	for (int32_t units = 0; units <= 20; units++) {
		CHECK(!given_build(&m, rng_for(1, "x", 1, 1), units, 21, 0, &s, &e) && !strcmp(s.head.p, "So:"));
		CHECK_MSG(s.prompt.n % 2 == 0 && (int32_t)s.prompt.n >= units - 2 && (int32_t)s.prompt.n <= units + 2,
		          "%d units: %zu bytes", units, s.prompt.n);
		sample_free(&s);
	}
	m.set = g.task[4].set;
	CHECK(!given_build(&m, rng_for(1, "x", 1, 1), 20, 21, 0, &s, &e) && s.ref.n == 2 &&
	      !strcmp(s.ref.w[1], "c d") && g.task[4].gen > 32);
	sample_free(&s);
	given_free(&g);
}

TEST(means_and_their_errors)
{
	struct mean m = { 0 };

	CHECK(mean_get(&m) == 0 && mean_error(&m) == 0);
	mean_add(&m, 1);
	CHECK(mean_get(&m) == 1 && mean_error(&m) == 0);
	mean_add(&m, 3);
	mean_add(&m, 5);
	CHECK(mean_get(&m) == 3);
	CHECK(fabs(mean_error(&m) - 2 / sqrt(3)) < 1e-12);
}

TEST(what_shares_nothing_runs_first)
{
	struct policy_list l = { { "full", "cascade:size=64", "sift", "h2o:k=8", "sink", "h2o+", "h2o:k=1/8" }, 7 };
	static const int want[] = { 1, 4, 3, 6, 0, 2, 5 };
	int order[LIST_MAX];

	policies_order(&l, order);
	for (int i = 0; i < l.n; i++)
		CHECK_INT(order[i], want[i]);
}

TEST(rows_of_a_policy_text)
{
	CHECK_INT(policy_entries_read("sift:k=512,bits=2", 4096), 512);
	CHECK_INT(policy_entries_read("snapkv:window=32,k=1/8", 4096), 512);
	CHECK_INT(policy_entries_read("full", 4096), 0);
	CHECK_INT(policy_entries_read("sink:size=1024", 4096), 0);
}

/* ---- JSON of others ---- */

TEST(json_is_read)
{
	static const char text[] =
		" { \"a\" : [1, \"x\\u00e9\\ud83d\\ude00\\n\", {\"b\":[]}, true], \"c\":{\"d\":\"e\"} , \"f\":\"\"}";
	struct jv root = jv_parse(text, strlen(text)), it = { NULL, NULL };
	struct str s = { 0 };
	int n = 0;

	while (jv_next(jv_get(root, "a"), &it, NULL))
		if (++n == 2)
			CHECK_INT(jv_text(it, &s), 0);
	CHECK_INT(n, 4);
	CHECK_STR(s.p, "x\xc3\xa9\xf0\x9f\x98\x80\n");
	CHECK(jv_is(jv_get(jv_get(root, "c"), "d"), "e"));
	CHECK(jv_is(jv_get(root, "f"), ""));
	CHECK(!jv_get(root, "none").p);
	CHECK(jv_text(jv_get(root, "a"), &s) < 0);
	str_free(&s);
}

/* Walk through a JSON value that may be cut or damaged at any byte. The walk must end and must not read outside the
 * text; sanitizers check the latter. */
static int walk(struct jv v, int depth)
{
	struct jv it = { NULL, NULL }, key;
	struct str s = { 0 };
	int n = 1;

	jv_text(v, &s);
	str_free(&s);
	while (depth < 8 && n < 1000 && jv_next(v, &it, &key))
		n += walk(it, depth + 1);
	return n;
}

TEST(broken_json_does_no_harm)
{
	static const char text[] = "{\"a\":[1,\"x\\u00e9\\ud83d\\ude00\",{\"b\":[[]]},true],\"c\":\"\\\\\"}";
	static const char bytes[] = "\"\\{}[],:u1 ";
	size_t n = strlen(text);

	for (size_t cut = 0; cut <= n; cut++) {
		char *part = malloc(cut ? cut : 1);
		memcpy(part, text, cut);
		CHECK(walk(jv_parse(part, cut), 0) < 1000);
		for (size_t k = 0; cut && k < sizeof bytes; k++) { /* also the final NUL */
			char was = part[cut - 1];
			part[cut - 1] = bytes[k];
			CHECK(walk(jv_parse(part, cut), 0) < 1000);
			part[cut - 1] = was;
		}
		free(part);
	}
	for (size_t at = 0; at < n; at++)
		for (size_t k = 0; k < sizeof bytes; k++) {
			char *all = malloc(n);
			memcpy(all, text, n);
			all[at] = bytes[k];
			CHECK(walk(jv_parse(all, n), 0) < 1000);
			free(all);
		}
}

/* ---- material ---- */

TEST(installed_words)
{
	struct corpus m;
	struct err e = { 0 };
	int sorted = 1;

	CHECK_MSG(corpus_load(&m, NULL, &e) == 0, "%s", e.msg);
	CHECK_INT(m.adjective.n, 912);
	CHECK_INT(m.noun.n, 6782);
	CHECK_INT(m.all.n, 8166);
	for (size_t i = 1; i < m.all.n; i++)
		sorted &= strcmp(m.all.w[i - 1], m.all.w[i]) < 0;
	CHECK(sorted);
	CHECK_INT(m.essay.n, 0);
	corpus_free(&m);
}

enum { HOTPOT = 80 };

TEST(folder_gives_essays_and_questions)
{
	struct corpus m;
	struct err e = { 0 };
	size_t answers = 0;

	CHECK_MSG(corpus_load(&m, test_shared("data/ruler"), &e) == 0, "%s", e.msg);
	CHECK(m.sentence.n > 5000);
	CHECK(!strstr(m.essay.p, "  ") && !strchr(m.essay.p, '\n'));
	/* the file has 250 questions; the others lack a document that supports their answer */
	CHECK_INT(m.hotpot.n, HOTPOT);
	CHECK(m.squad.n > 300 && m.squad.doc.n > 100);
	/* Every answer of SQuAD is in its paragraph; so is every answer of HotpotQA other than yes and no. */
	for (size_t i = 0; i < m.squad.n; i++) {
		const struct question *q = &m.squad.q[i];
		CHECK_INT(q->n_gold, 1);
		CHECK_MSG(q->answer.n && strstr(m.squad.doc.w[q->doc[0]], q->answer.w[0]), "question '%s'", q->text);
	}
	for (size_t i = 0; i < m.hotpot.n; i++) {
		const struct question *q = &m.hotpot.q[i];
		int found = 0;
		CHECK(q->n_gold >= 1 && q->n_gold <= q->n_doc);
		for (int k = 0; k < q->n_gold; k++)
			found |= text_has(m.hotpot.doc.w[q->doc[k]], q->answer.w[0]);
		answers += (size_t)(found || !strcmp(q->answer.w[0], "yes") || !strcmp(q->answer.w[0], "no"));
	}
	CHECK_MSG(answers >= HOTPOT - 5, "%zu answers of 80 stand in the documents that support them", answers);
	corpus_free(&m);
}

/* ---- prompts ---- */

static const struct task_def *find_task(const char *name)
{
	for (const struct task_def *t = ruler_tasks; t->name; t++)
		if (!strcmp(t->name, name))
			return t;
	for (const struct task_def *t = passkey_chain_tasks; t->name; t++)
		if (!strcmp(t->name, name))
			return t;
	return NULL;
}

static void build(const struct corpus *m, const char *name, int32_t units, int32_t len, int32_t i, struct sample *s)
{
	const struct task_def *t = find_task(name);
	struct err e = { 0 };

	*s = (struct sample){ .depth = -1 };
	CHECK_MSG(t->build(m, rng_for(42, t->name, len, i), units, len, i, s, &e) == 0, "%s: %s", name, e.msg);
}

static int count(const char *text, const char *what)
{
	int n = 0;

	for (const char *p = text; (p = strstr(p, what)); p += strlen(what))
		n++;
	return n;
}

/* Fill the essay with numbered sentences. */
static void number_essay(struct corpus *m)
{
	struct err e = { 0 };
	char path[] = "/tmp/t_eval_XXXXXX";
	int fd = mkstemp(path);
	FILE *f = fdopen(fd, "w");

	for (int i = 0; i < 1000; i++)
		fprintf(f, "This is sentence %d of it.%s", i, i % 7 ? " " : "\n\n");
	fclose(f);
	CHECK_MSG(corpus_load(m, path, &e) == 0, "%s", e.msg);
	remove(path);
	CHECK_INT(m->sentence.n, 1000);
}

TEST(needles_are_hidden_where_they_should_be)
{
	struct corpus m;
	double least = 1, most = 0;

	number_essay(&m);
	for (int i = 0; i < 60; i++) {
		struct sample s;
		const char *needle, *text, *end;
		double at;

		build(&m, "niah_single_2", 400, 4096, i, &s);
		CHECK_INT(s.ref.n, 1);
		CHECK_INT(strlen(s.ref.w[0]), 7);
		CHECK_INT(count(s.prompt.p, s.ref.w[0]), 1);
		CHECK_INT(count(s.prompt.p, "This is sentence"), 400);
		text = strchr(s.prompt.p, '\n') + 1;
		end = strrchr(s.prompt.p, '\n');
		needle = strstr(text, "One of the special magic numbers for ");
		CHECK(needle != NULL);
		at = needle ? (double)(needle - text) / (double)(end - text) : -1;
		CHECK_MSG(fabs(at - s.depth) < 0.01, "needle at %.3f, wanted %.3f", at, s.depth);
		CHECK(needle && (needle == text || needle[-1] == ' '));
		least = MIN(at, least);
		most = MAX(at, most);
		sample_free(&s);
	}
	CHECK_MSG(least < 0.1 && most > 0.9, "depths %.2f to %.2f", least, most);
	corpus_free(&m);
}

TEST(a_needle_lies_where_it_is_asked_for)
{
	struct corpus m[2];
	struct err e = { 0 };

	number_essay(&m[0]);
	CHECK_MSG(corpus_load(&m[1], NULL, &e) == 0, "%s", e.msg);
	for (int h = 0; h < 2; h++)
		for (int i = 0; i < 11; i++) {
			const struct task_def *t = find_task("needle");
			struct sample s = { .depth = i / 10.0 };
			const char *needle, *text, *end;
			double at;

			CHECK_MSG(t->build(&m[h], rng_for(42, t->name, 4096, i), 400, 4096, i, &s, &e) == 0, "%s",
			          e.msg);
			CHECK(s.depth == i / 10.0);
			CHECK_INT(s.ref.n, 1);
			CHECK_INT(count(s.prompt.p, s.ref.w[0]), 1);
			CHECK_INT(count(s.prompt.p, "This is sentence"), h ? 0 : 400);
			text = strchr(s.prompt.p, '\n') + 1;
			end = strrchr(s.prompt.p, '\n');
			needle = strstr(text, "One of the special magic numbers for ");
			CHECK(needle != NULL);
			at = needle ? (double)(needle - text) / (double)(end - text) : -1;
			CHECK_MSG(fabs(at - s.depth) < 0.04, "needle at %.3f, wanted %.3f", at, s.depth);
			CHECK(i || needle == text);
			sample_free(&s);
		}
	corpus_free(&m[0]);
	corpus_free(&m[1]);
}

TEST(keys_and_values_by_task)
{
	struct corpus m;
	struct sample s;

	number_essay(&m);
	for (int i = 0; i < 20; i++) {
		build(&m, "niah_multikey_1", 100, 2048, i, &s);
		CHECK_INT(s.ref.n, 1);
		CHECK_INT(count(s.prompt.p, "One of the special magic numbers"), 4);
		sample_free(&s);
		build(&m, "niah_multivalue", 100, 2048, i, &s);
		CHECK_INT(s.ref.n, 4);
		CHECK_INT(count(s.prompt.p, "One of the special magic numbers"), 4);
		sample_free(&s);
		build(&m, "niah_multiquery", 100, 2048, i, &s);
		CHECK_INT(s.ref.n, 4);
		for (size_t k = 0; k < s.ref.n; k++)
			CHECK_INT(count(s.prompt.p, s.ref.w[k]), 1);
		sample_free(&s);
		build(&m, "niah_multikey_3", 100, 2048, i, &s);
		CHECK_INT(count(s.prompt.p, "One of the special magic uuids"), 101);
		CHECK_INT(strlen(s.ref.w[0]), 36);
		CHECK(s.ref.w[0][14] == '4' && strchr("89ab", s.ref.w[0][19]));
		sample_free(&s);
		/* The references themselves, given as the answer, get the best score. */
		for (int keyed = 0; keyed < 2; keyed++) {
			struct str answer = { 0 };

			build(&m, keyed ? "copy_rows" : "list_numbers", 100, 2048, i, &s);
			CHECK_INT(s.ref.n, keyed ? 8 : 12);
			CHECK_INT(count(s.prompt.p, "One of the special magic numbers"), keyed ? 16 : 12);
			for (size_t k = 0; k < s.ref.n; k++) {
				CHECK_INT(count(s.prompt.p, s.ref.w[k]), 1);
				str_addf(&answer, "%s\n", s.ref.w[k]);
			}
			CHECK(score_answer(METRIC_ROWS, &s.ref, NULL, answer.p) == 1);
			str_free(&answer);
			sample_free(&s);
		}
		build(&m, "vt", 60, 2048, i, &s);
		CHECK_INT(s.ref.n, 5);
		/* nine assignments in the solved example, nine in the question */
		CHECK_INT(count(s.prompt.p, "VAR "), 2 * 9);
		for (size_t k = 0; k < s.ref.n; k++)
			CHECK_INT(count(s.prompt.p, s.ref.w[k]), k + 1 < s.ref.n ? 2 : 1);
		sample_free(&s);
	}
	corpus_free(&m);
}

/* Chains can be followed from the value to the last name. */
TEST(variables_form_one_chain)
{
	struct corpus m;
	struct err e = { 0 };
	struct sample s;
	char line[80];

	CHECK_MSG(corpus_load(&m, NULL, &e) == 0, "%s", e.msg);
	build(&m, "vt", 50, 4096, 3, &s);
	for (size_t k = 1; k < s.ref.n; k++) {
		snprintf(line, sizeof line, "VAR %s = VAR %s \n", s.ref.w[k], s.ref.w[k - 1]);
		CHECK_INT(count(s.prompt.p, line), 1);
	}
	sample_free(&s);
	corpus_free(&m);
}

TEST(common_and_frequent_words_are_counted_right)
{
	static const struct {
		int32_t len;
		int often, rarely, example;
	} size[] = { { 2048, 6, 1, 3 }, { 4096, 30, 3, 10 } };
	struct corpus m;
	struct err e = { 0 };
	struct sample s;

	CHECK_MSG(corpus_load(&m, NULL, &e) == 0, "%s", e.msg);
	for (int i = 0; i < 2; i++) {
		const char *list, *second;
		char what[80];
		int entries = 0;

		build(&m, "cwe", 40, size[i].len, 1, &s);
		CHECK_INT(s.ref.n, 10);
		list = strstr(s.prompt.p, "1. ");
		second = strstr(strstr(list, "Answer:"), "numbered list");
		for (size_t k = 0; k < s.ref.n; k++) {
			snprintf(what, sizeof what, ". %s ", s.ref.w[k]);
			CHECK_INT(count(second, what), size[i].often);
		}
		for (int k = 1;; k++) {
			snprintf(what, sizeof what, "%d. ", k);
			if (!strstr(second, what))
				break;
			entries = k;
		}
		CHECK_INT(entries, 10 * size[i].often + 40 * size[i].rarely);
		sample_free(&s);
	}
	build(&m, "fwe", 1000, 4096, 1, &s);
	CHECK_INT(s.ref.n, 3);
	/* Zipf's law with exponent 2: the words of rank 2, 3 and 4 occur 1000 / zeta(2) / 4, 9 and 16 times */
	for (int k = 0; k < 3; k++)
		CHECK_INT(count(s.prompt.p, s.ref.w[k]), (int)(1000 / 1.6449340668482264 / ((k + 2) * (k + 2))));
	sample_free(&s);
	corpus_free(&m);
}

TEST(passkeys_go_through_the_depths)
{
	struct corpus m;
	struct err e = { 0 };
	struct sample s;

	CHECK_MSG(corpus_load(&m, NULL, &e) == 0, "%s", e.msg);
	for (int i = 0; i < 20; i++) {
		const char *at;
		double depth;

		build(&m, "passkey", 2000, 8192, i, &s);
		CHECK(s.depth * 5 >= i % 5 && s.depth * 5 < i % 5 + 1);
		CHECK_INT(count(s.prompt.p, s.ref.w[0]), 2);
		at = strstr(s.prompt.p, "The pass key is");
		depth = (double)(at - s.prompt.p) / (double)s.prompt.n;
		CHECK_MSG(fabs(depth - s.depth) < 0.04, "at %.3f, wanted %.3f", depth, s.depth);
		sample_free(&s);
	}
	corpus_free(&m);
}

TEST(every_key_has_one_successor)
{
	struct corpus m;
	struct err e = { 0 };
	struct sample s;
	struct str answer = { 0 };
	const char *key;

	CHECK_MSG(corpus_load(&m, NULL, &e) == 0, "%s", e.msg);
	build(&m, "chain", 200, 2048, 5, &s);
	CHECK_INT(s.ref.n, 200);
	CHECK_INT(count(s.prompt.p, "Name of key: "), 200);
	/* The answer is found by following the list from key to key. */
	key = s.ref.w[7];
	for (int i = 0; i < 10; i++) {
		const char *next = NULL;
		char first[64];

		str_addf(&answer, "%s, ", key);
		snprintf(first, sizeof first, "%s-", strchr(key, '-') + 1);
		for (size_t k = 0; k < s.ref.n; k++)
			if (!strncmp(s.ref.w[k], first, strlen(first))) {
				CHECK(!next);
				next = s.ref.w[k];
			}
		CHECK(next != NULL);
		key = next ? next : key;
	}
	CHECK(score_answer(METRIC_CHAIN, &s.ref, NULL, answer.p) == 1);
	str_free(&answer);
	sample_free(&s);
	corpus_free(&m);
}

TEST(samples_differ_and_repeat)
{
	struct corpus m;
	struct err e = { 0 };
	struct sample a, b, c;

	CHECK_MSG(corpus_load(&m, NULL, &e) == 0, "%s", e.msg);
	for (const struct task_def *t = ruler_tasks; t->name; t++) {
		if (t->needs)
			continue;
		build(&m, t->name, 80, 2048, 1, &a);
		build(&m, t->name, 80, 2048, 1, &b);
		build(&m, t->name, 80, 2048, 2, &c);
		CHECK_STR(a.prompt.p, b.prompt.p);
		CHECK_STR(a.head.p, b.head.p);
		CHECK_MSG(strcmp(a.prompt.p, c.prompt.p) != 0, "%s", t->name);
		sample_free(&b);
		/* A longer prompt of the same sample has the same answer. */
		build(&m, t->name, 120, 2048, 1, &b);
		CHECK_MSG(b.prompt.n > a.prompt.n, "%s", t->name);
		for (size_t k = 0; k < a.ref.n; k++)
			CHECK_STR(b.ref.w[k], a.ref.w[k]);
		sample_free(&a);
		sample_free(&b);
		sample_free(&c);
	}
	corpus_free(&m);
}

/* ---- finished pieces ---- */

static char *file_of(char *path, const char *text, size_t n)
{
	int fd;
	FILE *f;

	snprintf(path, 32, "/tmp/t_eval_XXXXXX");
	fd = mkstemp(path);
	f = fdopen(fd, "wb");
	CHECK(fwrite(text, 1, n, f) == n);
	fclose(f);
	return path;
}

static double known_score(struct checkpoint *p, const char *what)
{
	struct str s = { 0 };
	struct jv result;
	double x = -1;

	str_adds(&s, what);
	if (checkpoint_get(p, &s, &result) && jv_number(jv_get(result, "score"), &x) < 0)
		x = -2;
	str_free(&s);
	return x;
}

static void put_score(struct checkpoint *p, const char *what, double x)
{
	struct str s = { 0 }, result = { 0 };
	struct err e = { 0 };

	str_adds(&s, what);
	str_addf(&result, "{\"score\":%g}", x);
	CHECK_MSG(checkpoint_put(p, &s, &result, &e) == 0, "%s", e.msg);
	str_free(&s);
	str_free(&result);
}

TEST(pieces_are_kept_and_found)
{
	char path[32], what[64];
	struct lab_options o = { .o.quiet = 1, .resume = file_of(path, "", 0) };
	struct checkpoint p, second;
	struct err e = { 0 };

	CHECK_MSG(checkpoint_open(&p, &o.o, &e) == 0, "%s", e.msg);
	CHECK(checkpoint_open(&second, &o.o, &e) < 0); /* two runs at once would damage each other's lines */
	CHECK(strstr(e.msg, "another run"));
	for (int i = 0; i < 300; i++) {
		snprintf(what, sizeof what, "{\"task\":\"x\",\"sample\":%d}", i * 7 % 300);
		put_score(&p, what, i * 7 % 300);
	}
	put_score(&p, "{\"task\":\"x\",\"sample\":5}", 0.5); /* measured again: the later score counts */
	CHECK(known_score(&p, "{\"task\":\"x\",\"sample\":5}") == -1);
	checkpoint_close(&p);
	CHECK_MSG(checkpoint_open(&p, &o.o, &e) == 0, "%s", e.msg);
	CHECK_INT(p.n, 301);
	for (int i = 0; i < 300; i++) {
		snprintf(what, sizeof what, "{\"task\":\"x\",\"sample\":%d}", i);
		CHECK(known_score(&p, what) == (i == 5 ? 0.5 : i));
	}
	CHECK(known_score(&p, "{\"task\":\"x\",\"sample\":300}") == -1);
	CHECK(known_score(&p, "{\"task\":\"x\",\"sample\":1") == -1);
	CHECK(known_score(&p, "") == -1);
	CHECK(known_score(&p, "~") == -1);
	checkpoint_close(&p);
	remove(path);
}

/* A file that is cut at any byte gives the results of its complete lines, and new results can be appended. */
TEST(pieces_of_a_torn_file)
{
	char path[32];
	struct lab_options o = { .o.quiet = 1, .resume = file_of(path, "", 0) };
	struct checkpoint p;
	struct err e = { 0 };
	size_t n, line;
	char *text, *now;

	CHECK_MSG(checkpoint_open(&p, &o.o, &e) == 0, "%s", e.msg);
	put_score(&p, "{\"a\":1}", 1);
	put_score(&p, "{\"b\":\"\\\"}\"}", 2);
	checkpoint_close(&p);
	text = test_read(path, &n);
	remove(path);
	line = (size_t)(strchr(text, '\n') - text) + 1;
	for (size_t cut = 0; cut <= n; cut++) {
		struct err why = { 0 };
		size_t left;

		o.resume = file_of(path, text, cut);
		/* too short to be recognised as a checkpoint of weir */
		if (cut > 0 && cut < strlen("{\"weir\":\"eval\",\"piece\":")) {
			CHECK(checkpoint_open(&p, &o.o, &why) < 0);
			free(test_read(path, &left));
			CHECK_INT(left, cut);
			remove(path);
			continue;
		}
		CHECK_MSG(checkpoint_open(&p, &o.o, &why) == 0, "cut at %zu: %s", cut, why.msg);
		CHECK(known_score(&p, "{\"a\":1}") == (cut >= line ? 1 : -1));
		CHECK(known_score(&p, "{\"b\":\"\\\"}\"}") == (cut >= n ? 2 : -1));
		if (cut < line)
			put_score(&p, "{\"a\":1}", 1);
		if (cut < n)
			put_score(&p, "{\"b\":\"\\\"}\"}", 2);
		checkpoint_close(&p);
		now = test_read(path, &left);
		CHECK_MSG(left == n && !memcmp(now, text, n), "cut at %zu", cut);
		free(now);
		remove(path);
	}
	free(text);
}

TEST(files_of_others_are_refused_and_left_alone)
{
	static const char *const foreign[] = {
		"hello",
		"hello\n",
		"\n",
		"{\"task\":\"ppl\"}\n",
		"{\"weir\":\"eval\",\"piece\":1}\n",
		"{\"weir\":\"eval\",\"piece\":{}}\n",
		"{\"weir\":\"eval\",\"piece\":{},\"result\":3}\n",
		"{\"weir\":\"eval\",\"piece\":{},\"result\":{}\n",
		"{\"weir\":\"eval\",\"piece\":{},\"result\":{}}\n\nnotes\n",
		"{\"weir\":\"eval\",\"piece\":{},\"result\":{}} x}\n",
		"{\"weir\":\"eval\",\"piece\":{},\"result\":{}}\nnotes\nand more",
	};

	for (size_t i = 0; i < LEN(foreign); i++) {
		char path[32], *now;
		size_t n = strlen(foreign[i]), left;
		struct lab_options o = { .o.quiet = 1, .resume = file_of(path, foreign[i], n) };
		struct checkpoint p;
		struct err e = { 0 };

		CHECK_MSG(checkpoint_open(&p, &o.o, &e) < 0 && e.code == ERR_USAGE, "taken: %s", foreign[i]);
		now = test_read(path, &left);
		CHECK(left == n && !memcmp(now, foreign[i], n));
		free(now);
		remove(path);
	}
}

/* ---- with a model ---- */

TEST(prompts_are_as_long_as_they_may_be)
{
	struct engine *engine;
	struct corpus m;
	struct err e = { 0 };

	CHECK_MSG(corpus_load(&m, test_shared("data/ruler"), &e) == 0, "%s", e.msg);
	if (engine_open(&engine, &(struct engine_options){ .model_path = test_model(), .vocab_only = 1 }, &e))
		test_skip("%s", e.msg);
	for (int h = 0; h < 2; h++)
		for (const struct task_def *t = h ? passkey_chain_tasks : ruler_tasks; t->name; t++) {
			struct sample s = { .depth = -1 };
			struct tokens out = { 0 };
			/* upper bound of the tokens of one more unit: a document, a sentence or a word */
			size_t unit = strncmp(t->name, "qa", 2) ? !strncmp(t->name, "niah", 4) ? 160 : 40 : 800;

			for (int32_t len = 1500; len <= 3000; len += 1500) {
				CHECK_MSG(task_fit(engine, t, &m, 42, len, 3, &s, &out, &e) == 0, "%s: %s", t->name,
				          e.msg);
				CHECK_MSG(out.n + (size_t)t->gen <= (size_t)len &&
				                  out.n + (size_t)t->gen + unit > (size_t)len,
				          "%s: %zu tokens and %d for the answer, wanted %d", t->name, out.n, t->gen,
				          len);
			}
			CHECK(task_fit(engine, t, &m, 42, 64, 3, &s, &out, &e) < 0);
			sample_free(&s);
			tokens_free(&out);
		}
	corpus_free(&m);
	engine_close(engine);
}

static void keep_sum(int32_t pos, const float *logits, void *ud)
{
	double *sum = ud;

	for (int i = 0; i < 512; i++)
		*sum += logits[i] * ((pos + i) % 7 + 1);
}

/* Several policies that are measured one after the other after a single prefill give the same scores as each one
 * alone. */
TEST(policies_that_follow_each_other_give_what_each_gives_alone)
{
	static const char *const kv[] = { "full",
		                          "sift:k=48",
		                          "snapkv:k=48,window=32",
		                          "full",
		                          "quest:k=64",
		                          "h2o:k=48",
		                          "refresh:k=48",
		                          "h2o+:k=80",
		                          "recycled:k=48,stride=3",
		                          "sift:k=40,bits=4",
		                          "snapkv:k=48,window=1",
		                          "kvzip:k=48",
		                          "kvzip:k=1/4" };
	enum { N = LEN(kv), READ = 400, STEPS = 24 };
	struct engine *engine;
	struct timeline *shared = NULL;
	struct err e = { 0 };
	int32_t id[READ + STEPS];

	if (engine_open(&engine,
	                &(struct engine_options){ .model_path =
	                                                  test_file("tests/vectors/stories260K/stories260K-q8_0.gguf"),
	                                          .threads = 2 },
	                &e))
		test_skip("cannot open the story model: %s", e.msg);
	for (int i = 0; i < READ + STEPS; i++)
		id[i] = 3 + (int32_t)(test_rand() % 500);
	CHECK(timeline_open(&shared, engine, &(struct timeline_options){ .ctx = 512, .kv = kv[0], .batch = 128 }, &e) ==
	      0);
	for (int k = 0; k < N; k++) {
		struct timeline *alone = NULL;
		double sum[2] = { 0, 0 };
		int32_t reused;

		CHECK_MSG(timeline_open(&alone, engine,
		                        &(struct timeline_options){ .ctx = 512, .kv = kv[k], .batch = 128 }, &e) == 0,
		          "%s: %s", kv[k], e.msg);
		CHECK_MSG(timeline_sync(alone, id, READ, NULL, NULL, &e) == 0, "%s: %s", kv[k], e.msg);
		CHECK_MSG(timeline_extend(alone, id + READ, STEPS, 1, keep_sum, &sum[0], &e) == 0, "%s: %s", kv[k],
		          e.msg);
		if (k)
			CHECK_MSG(timeline_switch_kv(shared, kv[k], &e) == 0, "%s: %s", kv[k], e.msg);
		CHECK(!k || !timeline_logits(shared));
		reused = timeline_sync(shared, id, READ, NULL, NULL, &e);
		CHECK_MSG(reused >= (!k || !strncmp(kv[k], "h2o:", 4) ? 0 : READ - 128), "%s: %d reused, %s", kv[k],
		          reused, e.msg);
		CHECK(timeline_logits(shared) != NULL);
		CHECK_MSG(timeline_extend(shared, id + READ, STEPS, 1, keep_sum, &sum[1], &e) == 0, "%s: %s", kv[k],
		          e.msg);
		CHECK_MSG(sum[0] == sum[1], "%s: %.17g after others, %.17g alone", kv[k], sum[1], sum[0]);
		timeline_close(alone);
	}
	CHECK(timeline_switch_kv(shared, "no such policy", &e) < 0);
	CHECK_INT(timeline_sync(shared, id, READ, NULL, NULL, &e) >= 0, 1);
	timeline_close(shared);
	engine_close(engine);
}

/* A sample that follows one with the same beginning gives the same score as with an emptied cache. So results do not
 * depend on where a run was interrupted. */
TEST(texts_that_follow_each_other_give_what_each_gives_alone)
{
	static const char *const kv[] = { "full",
		                          "sink:size=96,stride=32",
		                          "cascade:size=128,stride=32",
		                          "h2o:k=48",
		                          "snapkv:k=48",
		                          "kvzip",
		                          "quest:k=64",
		                          "refresh:k=48",
		                          "sift:k=48",
		                          "streaming++:size=60,stride=40" };
	enum { READ = 300, STEPS = 12, SAME = 37 };
	struct engine *engine;
	struct err e = { 0 };
	int32_t id[2][READ + STEPS];

	if (engine_open(&engine,
	                &(struct engine_options){ .model_path =
	                                                  test_file("tests/vectors/stories260K/stories260K-q8_0.gguf"),
	                                          .threads = 2 },
	                &e))
		test_skip("cannot open the story model: %s", e.msg);
	for (int i = 0; i < READ + STEPS; i++) {
		id[0][i] = 3 + (int32_t)(test_rand() % 500);
		id[1][i] = i < SAME ? id[0][i] : 3 + (int32_t)(test_rand() % 500);
	}
	for (size_t k = 0; k < LEN(kv); k++) {
		double sum[2] = { 0, 0 };

		for (int after = 0; after < 2; after++) {
			struct timeline *tl = NULL;

			CHECK_MSG(timeline_open(&tl, engine,
			                        &(struct timeline_options){ .ctx = 512, .kv = kv[k], .batch = 128 },
			                        &e) == 0,
			          "%s: %s", kv[k], e.msg);
			for (int text = !after; text < 2; text++) {
				sum[after] = 0;
				CHECK_INT(timeline_sync(tl, id[text], 0, NULL, NULL, &e), 0);
				CHECK_MSG(timeline_sync(tl, id[text], READ, NULL, NULL, &e) >= 0, "%s: %s", kv[k],
				          e.msg);
				CHECK_MSG(timeline_extend(tl, id[text] + READ, STEPS, 1, keep_sum, &sum[after], &e) ==
				                  0,
				          "%s: %s", kv[k], e.msg);
			}
			timeline_close(tl);
		}
		CHECK_MSG(sum[0] == sum[1], "%s: %.17g after another text, %.17g alone", kv[k], sum[1], sum[0]);
	}
	engine_close(engine);
}

/* Selections by the attention of earlier tokens recover less mass than the oracle, which selects the entries with the
 * most mass. Selecting all entries recovers all mass. */
TEST(guesses_stand_below_the_oracle)
{
	static const char *const watch[] = { "sift:k=32,split=even", "recycled:k=32", "sift:k=512" };
	enum { READ = 300, STEPS = 20 };
	struct engine *engine;
	struct timeline *tl = NULL;
	struct recovered r;
	struct err e = { 0 };
	int32_t id[READ + STEPS];

	if (engine_open(&engine,
	                &(struct engine_options){ .model_path =
	                                                  test_file("tests/vectors/stories260K/stories260K-q8_0.gguf"),
	                                          .threads = 2 },
	                &e))
		test_skip("cannot open the story model: %s", e.msg);
	for (int i = 0; i < READ + STEPS; i++)
		id[i] = 3 + (int32_t)(test_rand() % 60);
	CHECK_MSG(timeline_open(&tl, engine, &(struct timeline_options){ .ctx = 512, .kv = "full" }, &e) == 0 &&
	                  timeline_watch(tl, watch, 3, &e) == 0,
	          "%s", e.msg);
	for (int again = 0; again < 2; again++) {
		CHECK(timeline_sync(tl, id, READ, NULL, NULL, &e) >= 0);
		CHECK(timeline_extend(tl, id + READ, STEPS, 1, NULL, NULL, &e) == 0);
	}
	for (int i = 0; i < 3; i++) {
		CHECK_INT(timeline_recovery(tl, i, &r), 0);
		CHECK_INT(r.steps, 2 * STEPS);
		/* the first token after the prefill has no earlier token to guess from */
		CHECK_INT(r.guesses, 2 * (STEPS - 1));
		if (i < 2) {
			double n = (double)r.steps, g = (double)r.guesses;
			CHECK_MSG(r.last_row / g < r.oracle / n + 0.01 && r.mean_row / g < r.oracle / n + 0.01,
			          "oracle %.4f, last %.4f, mean %.4f", r.oracle / n, r.last_row / g, r.mean_row / g);
			CHECK(r.last_row / g > 32.0 / 400);
		} else {
			CHECK(fabs(r.last_row / (double)r.guesses - 1) < 1e-6 &&
			      fabs(r.mass / (double)r.steps - 1) < 1e-3);
		}
	}
	timeline_close(tl);
	engine_close(engine);
}

/* Return how many entries a policy reads on average in a sequence of 1,000 tokens under the setting `value`. */
static double reads(int kind, double value)
{
	/* [kind] the share of steps and layers that read all entries */
	static const double whole[] = { 0, 0.1, 2.0 / 30, 0.4 };

	if (kind == 4)
		return value + 128; /* 128 generated tokens are read in addition */
	if (kind == 5)
		return floor(value / 16) * 16 - 7.5; /* whole pages of 16; the last one is on average half full */
	return whole[kind] * 1000 + (1 - whole[kind]) * value;
}

TEST(entries_are_fitted)
{
	struct entry_fit fit;
	struct policy_list l = { .v = { "sift:k=1/8", "recycled", "h2o+", "recycled:stride=5", "snapkv:window=1",
		                        "quest", "streaming++" },
		                 .n = 7 };
	struct err e = { 0 };
	double got[7];
	int changed = 1, rounds = 0;

	CHECK_MSG(entry_fit_begin(&fit, &l, 300, &e) == 0, "%s", e.msg);
	CHECK_STR(l.v[0], "sift:k=300");
	CHECK_STR(l.v[4], "snapkv:k=300,window=1");
	CHECK_STR(l.v[6], "streaming++:size=300");
	for (; changed && rounds < FIT_ROUNDS; rounds++) {
		changed = 0;
		for (int i = 0; i < 6; i++) {
			got[i] = reads(i, fit.one[i].value);
			changed |= entry_fit_next(&fit, &l, i, got[i], 1000, &e) > 0;
		}
	}
	CHECK_MSG(!changed, "still not fitted after %d rounds", rounds);
	for (int i = 0; i < 6; i++)
		CHECK_MSG(i == 3 ? fit.one[i].whole == 400 : fabs(got[i] - 300) <= (i == 5 ? 4 : 3),
		          "%s reads %.1f entries", l.v[i], got[i]);
	CHECK_STR(l.v[1], "recycled:k=222");
	CHECK_STR(l.v[3], "recycled:k=300,stride=5");
	entry_fit_free(&fit);
	l = (struct policy_list){ .v = { "sift", "cascade" }, .n = 2 };
	CHECK(entry_fit_begin(&fit, &l, 300, &e) == 0);
	CHECK_STR(l.v[1], "cascade:size=300");
	entry_fit_free(&fit);
	l = (struct policy_list){ .v = { "full" }, .n = 1 };
	CHECK(entry_fit_begin(&fit, &l, 300, &e) < 0 && e.code == ERR_USAGE);
	entry_fit_free(&fit);
}

/* The mass that a selected set recovers is counted by layer and by the set's age in tokens. Queries are compared with
 * those of the previous token. */
TEST(recovery_is_told_by_the_age_of_a_set)
{
	static const char *const watch[] = { "recycled:k=24,stride=5", "refresh:k=24,qc=1,s=2",
		                             "refresh:k=24,s=-2",      "h2o:k=24",
		                             "refresh:k=400",          "sift:k=24,sample=200" };
	enum { READ = 300, STEPS = 20, N = LEN(watch) };
	struct engine *engine;
	struct timeline *tl = NULL;
	struct recovered_ages ages;
	struct recovered_layer l;
	struct err e = { 0 };
	int32_t id[READ + STEPS], n_layer, n_head;
	double cosine[64], mass = 0;

	if (engine_open(&engine,
	                &(struct engine_options){ .model_path =
	                                                  test_file("tests/vectors/stories260K/stories260K-q8_0.gguf"),
	                                          .threads = 2 },
	                &e))
		test_skip("cannot open the story model: %s", e.msg);
	n_layer = engine_info(engine)->n_layer;
	n_head = engine_info(engine)->n_head;
	for (int i = 0; i < READ + STEPS; i++)
		id[i] = 3 + (int32_t)(test_rand() % 60);
	CHECK_MSG(timeline_open(&tl, engine, &(struct timeline_options){ .ctx = 512, .kv = "full" }, &e) == 0 &&
	                  timeline_watch(tl, watch, N, &e) == 0,
	          "%s", e.msg);
	CHECK(timeline_sync(tl, id, READ, NULL, NULL, &e) >= 0);
	CHECK(timeline_extend(tl, id + READ, STEPS, 1, NULL, NULL, &e) == 0);
	/* At every fifth token the policy reads all entries and selects a new set. */
	CHECK_INT(timeline_recovery_ages(tl, 0, &ages), 0);
	for (int a = 0; a < RECOVERY_AGES; a++) {
		CHECK_INT(ages.n[a], a < 5 ? 4 * n_layer : 0);
		CHECK(a || fabs(ages.mass[0] / (double)ages.n[0] - 1) < 1e-3);
		CHECK(!ages.n[a] || a == 0 || (ages.mass[a] > 0 && ages.mass[a] < 0.98 * (double)ages.n[a]));
		mass += ages.mass[a];
	}
	for (int32_t i = 0; i < n_layer; i++) {
		CHECK_INT(timeline_recovery_layer(tl, 0, i, &l), 0);
		CHECK(l.tokens == STEPS && l.selected == STEPS / 5);
		/* Here all layers select at every token. */
		CHECK_INT(timeline_recovery_layer(tl, 1, i, &l), 0);
		CHECK(l.tokens == STEPS && l.selected == STEPS);
		/* This policy selects no new set after the prefill. */
		CHECK_INT(timeline_recovery_layer(tl, 2, i, &l), 0);
		CHECK(l.tokens == STEPS && l.selected == 0);
	}
	/* The sum over ages is the sum over tokens and layers. */
	struct recovered r;

	CHECK_INT(timeline_recovery(tl, 0, &r), 0);
	CHECK_MSG(fabs(mass - r.mass * n_layer) < 1e-6 * mass, "%g by ages, %g by tokens", mass, r.mass * n_layer);
	/* A sample that covers all other entries recovers no more than all mass. */
	CHECK_INT(timeline_recovery(tl, 5, &r), 0);
	CHECK_MSG(r.mass <= r.oracle + 1e-3 * (double)r.steps, "%.4f recovered, oracle %.4f", r.mass / (double)r.steps,
	          r.oracle / (double)r.steps);
	CHECK_INT(timeline_recovery_ages(tl, 2, &ages), 0);
	for (int a = 0; a < RECOVERY_AGES; a++)
		CHECK_INT(ages.n[a], a >= 1 && a <= STEPS ? n_layer : 0);
	CHECK(timeline_recovery_ages(tl, 3, &ages) < 0 && timeline_recovery_ages(tl, N, &ages) < 0);
	/* k exceeds the number of entries: there are no selected sets. */
	CHECK_INT(timeline_recovery_ages(tl, 4, &ages), 0);
	for (int a = 0; a < RECOVERY_AGES; a++)
		CHECK_INT(ages.n[a], 0);
	for (int32_t i = 0; i < n_layer; i++) {
		CHECK_INT(timeline_query_cosine(tl, i, cosine), STEPS - 1);
		for (int32_t h = 0; h < n_head; h++)
			CHECK(fabs(cosine[h]) <= STEPS - 1 + 1e-9 && cosine[h] != 0);
	}
	CHECK(timeline_query_cosine(tl, n_layer, cosine) < 0);
	/* With one repeated token, all queries of the first layer are equal before rotation, because they depend on the
	 * token alone. */
	for (int i = 0; i < READ + STEPS; i++)
		id[i] = 30;
	timeline_close(tl);
	CHECK(timeline_open(&tl, engine, &(struct timeline_options){ .ctx = 512, .kv = "full" }, &e) == 0 &&
	      timeline_watch(tl, watch, 1, &e) == 0);
	CHECK(timeline_sync(tl, id, READ, NULL, NULL, &e) >= 0 &&
	      timeline_extend(tl, id + READ, STEPS, 1, NULL, NULL, &e) == 0);
	CHECK_INT(timeline_query_cosine(tl, 0, cosine), STEPS - 1);
	for (int32_t h = 0; h < n_head; h++)
		CHECK_MSG(fabs(cosine[h] / (STEPS - 1) - 1) < 1e-6, "head %d of the first layer: %g", (int)h,
		          cosine[h] / (STEPS - 1));
	timeline_close(tl);
	engine_close(engine);
}
