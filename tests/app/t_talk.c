/* tests/app/t_talk.c - the commands of a conversation, without a front end (app/chat, app/conversation;
 * tests/lib/scene.h). */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "app/conversation/conversation_private.h"
#include "app/conversation/conversation.h"
#include "app/retrieval/retrieval_private.h"
#include "tests/lib/keyed.h"
#include "tests/lib/scene.h"
#include "engine/encoder.h"
#include "engine/token/token.h"

#define OTHER "tests/vectors/models/qwen3.gguf"

/* ---- back and forth ---- */

TEST(redo_is_the_opposite_of_undo)
{
	struct scene s;
	struct str at[5] = { { 0 } }, now = { 0 };

	open_scene(&s, "-n 6 --private");
	for (int i = 0; i < 4; i++) {
		whole(&s.c.conv, &at[i]);
		do_line(&s, "a question of some words");
	}
	whole(&s.c.conv, &at[4]);
	/* Any sequence of /undo and /redo gives the expected messages. */
	for (int step = 0, here = 4; step < 200; step++) {
		int n = 1 + (int)(test_rand() % 5), up = test_rand() % 2 == 0;
		char line[20];

		snprintf(line, sizeof line, "/%s %d", up ? "redo" : "undo", n);
		do_line(&s, line);
		here = up ? here + n > 4 ? 4 : here + n : here - n < 0 ? 0 : here - n;
		whole(&s.c.conv, &now);
		SAME(now, at[here]);
	}
	do_line(&s, "/redo 5");
	do_line(&s, "/redo");
	CHECK(has(&s.said, "nothing to redo"));
	/* Undo and redo did not change the cache, so nothing is prefilled again. */
	do_line(&s, "/undo 2");
	do_line(&s, "/redo 2");
	do_line(&s, "and once more");
	CHECK(s.c.conv.last.reused_tokens + 40 > s.c.conv.last.prompt_tokens);
	do_line(&s, "/redo");
	CHECK(has(&s.said, "nothing to redo"));
	for (int i = 0; i < 5; i++)
		str_free(&at[i]);
	str_free(&now);
	close_scene(&s);
}

TEST(a_new_question_ends_what_can_be_brought_back)
{
	struct scene s;
	struct str now = { 0 }, before = { 0 };

	open_scene(&s, "-n 4 -s branches");
	do_line(&s, "one");
	do_line(&s, "two");
	whole(&s.c.conv, &before);
	do_line(&s, "/undo");
	do_line(&s, "another two");
	do_line(&s, "/redo");
	CHECK(has(&s.said, "nothing to redo"));
	CHECK_INT(s.c.conv.n_msg, 4);
	/* The session stores both branches; redo follows the newest answered question. */
	do_line(&s, "/undo");
	do_line(&s, "/edit 1");
	CHECK_STR(s.draft.p, "one");
	CHECK_INT(s.c.conv.n_msg, 0);
	do_line(&s, "/redo 9");
	CHECK_INT(s.c.conv.n_msg, 4);
	CHECK_STR(s.c.conv.msg[2].text.p, "another two");
	close_scene(&s);
	/* Redo turns that an earlier run has undone. */
	open_scene(&s, "-n 4 -s branches");
	do_line(&s, "/undo 2");
	close_scene(&s);
	open_scene(&s, "-n 4 -s branches");
	CHECK_INT(s.c.conv.n_msg, 0);
	do_line(&s, "/redo");
	CHECK_INT(s.c.conv.n_msg, 2);
	do_line(&s, "/redo 3");
	CHECK_INT(s.c.conv.n_msg, 4);
	CHECK_STR(s.c.conv.msg[2].text.p, "another two");
	CHECK(s.c.conv.msg[3].id.n > 0);
	close_scene(&s);
	str_free(&now);
	str_free(&before);
}

/* The next prefill removes the tokens of undone turns from the cache; they are no longer counted. */
TEST(undone_tokens_leave_with_the_next_prefill)
{
	struct scene s;
	struct err e = { 0 };
	struct timeline_stats st;

	open_scene(&s, "-n 4 --private");
	do_line(&s, "one");
	do_line(&s, "two");
	timeline_stats(s.c.conv.tl, &st);
	CHECK_INT(conversation_cached_tokens(&s.c.conv, &st), st.n_tokens);
	do_line(&s, "/undo");
	CHECK(conversation_cached_tokens(&s.c.conv, &st) < st.n_tokens);
	CHECK(!chat_document_bytes(&s.c, "ferry.txt", "The ferry sails at nine.", 24, &e));
	CHECK(conversation_prefill(&s.c.conv, NULL, NULL, &e) > 0);
	timeline_stats(s.c.conv.tl, &st);
	CHECK_INT(conversation_cached_tokens(&s.c.conv, &st), st.n_tokens);
	close_scene(&s);
}

/* If the disk is full (simulated by a limit on file sizes), no partial file is left, and the next try can use the same
 * name. */
TEST(a_file_that_cannot_be_written_whole_is_removed)
{
	static const char *const command[] = { "/export ", "/export json ", "/kv dump " };
	struct rlimit had, small;
	struct scene s;
	char path[100], line[140];
	void (*before)(int) = signal(SIGXFSZ, SIG_IGN);

	open_scene(&s, "-n 4 -s written");
	do_line(&s, "one question that is longer than the limit");
	snprintf(path, sizeof path, "%s/half.md", home);
	getrlimit(RLIMIT_FSIZE, &had);
	small = had;
	small.rlim_cur = 16;
	for (size_t i = 0; i < LEN(command); i++) {
		snprintf(line, sizeof line, "%s%s", command[i], path);
		setrlimit(RLIMIT_FSIZE, &small);
		do_line(&s, line);
		setrlimit(RLIMIT_FSIZE, &had);
		CHECK(has(&s.errors, "cannot write '"));
		CHECK(has(&s.errors, strerror(EFBIG)));
		CHECK(access(path, F_OK) < 0 && errno == ENOENT);
		do_line(&s, line);
		CHECK(has(&s.said, i == 2 ? "written to" : i ? "half.md, as JSON]" : "half.md, as Markdown]"));
		CHECK(!unlink(path));
	}
	/* Without arguments /export writes Markdown into the working directory, to a file named after the session. */
	unlink("weir-written.md");
	do_line(&s, "/export");
	CHECK(has(&s.said, "[written to weir-written.md, as Markdown]"));
	CHECK(!unlink("weir-written.md"));
	close_scene(&s);
	signal(SIGXFSZ, before);
}

TEST(a_fork_has_nothing_to_bring_back_of_the_other)
{
	struct scene s;

	open_scene(&s, "-n 4 -s forked");
	do_line(&s, "one");
	do_line(&s, "two");
	do_line(&s, "/undo");
	do_line(&s, "/fork aside");
	do_line(&s, "/redo");
	CHECK(has(&s.said, "nothing to redo"));
	do_line(&s, "three");
	CHECK(!s.errors.n);
	CHECK(!s.c.log->failed);
	CHECK_INT(s.c.conv.n_msg, 4);
	close_scene(&s);
}

/* ---- a session's cache ---- */

static void kept_policy(const struct scene *s, struct str *out)
{
	struct err e = { 0 };

	str_clear(out);
	CHECK_MSG(session_value(s->c.log->store, s->c.log->session, "kv", out, &e) == 1, "%s", e.msg);
}

/* A session stores all settings of its policy, so that it does not depend on the defaults of the version that resumes
 * it. */
TEST(a_session_keeps_all_settings_of_its_cache)
{
	struct scene s;
	struct str kept = { 0 };

	open_scene(&s, "-n 4 -c 256 -s settings --kv sift:k=1/3");
	do_line(&s, "one");
	kept_policy(&s, &kept);
	CHECK_STR(kept.p, "sift:k=1/3,bits=2,split=need,sample=0");
	do_line(&s, "/set kv auto:n=3,s=0.8512345678");
	kept_policy(&s, &kept);
	CHECK_STR(kept.p, "auto:prefix=sift,k=256,bits=2,split=need,sample=128,qc=5,s=0.8512345678,pool=15,size=0,n=3");
	close_scene(&s);
	/* /set shows only the settings that differ from the defaults. */
	open_scene(&s, "-n 4 -c 256 -s settings");
	do_line(&s, "/set kv");
	CHECK(has(&s.said, "kv auto:s=0.8512345678,n=3\n"));
	close_scene(&s);
	str_free(&kept);
}

/* A session of an older version, whose policy had a setting that was removed, can be resumed without that setting. */
TEST(a_setting_that_was_removed_is_left_out_of_a_session)
{
	static const char *const then[] = { "sift:k=1/3,bits=2,every=1,split=need,dense=0,sample=0,pool=7",
		                            "sift:k=1/3,bits=2,every=3,split=need,dense=0,sample=0,pool=9" };
	struct timeline_stats st;
	struct scene s;
	struct err e = { 0 };
	int32_t tokens;

	open_scene(&s, "-n 4 -c 256 -s older --kv sift:k=1/3");
	do_line(&s, "one");
	timeline_stats(s.c.conv.tl, &st);
	tokens = st.n_tokens;
	for (size_t i = 0; i < LEN(then); i++) {
		CHECK_MSG(!session_set(s.c.log->store, s.c.log->session, "kv", then[i], strlen(then[i]), &e), "%s",
		          e.msg);
		close_scene(&s);
		open_scene(&s, "-n 4 -c 256 -s older");
		timeline_stats(s.c.conv.tl, &st);
		CHECK_STR(st.kv, "sift:k=1/3");
		CHECK_INT(st.n_tokens, tokens);
		CHECK_MSG(!s.errors.n, "%s", s.errors.p);
	}
	close_scene(&s);
}

enum { QUESTIONS = 12 };

static void ask_all(struct scene *s, int from, int to)
{
	char line[80];

	for (int i = from; i < to; i++) {
		snprintf(line, sizeof line, "question %d, which has some words so that the rings are full", i);
		do_line(s, line);
		CHECK_MSG(!s->errors.n, "%s", s->errors.p);
	}
}

/* Resume a session of an old version, which stored only settings that differed from the defaults; the default number of
 * rings was four. kv: the policy then used; then: the text that was stored for it; shown: the text that /set shows
 * now. */
static void from_when_there_were_four(const char *kv, const char *then, const char *shown)
{
	static int number;
	struct scene s;
	struct str want = { 0 }, got = { 0 };
	struct timeline_stats st;
	struct err e = { 0 };
	char words[120];
	int64_t id;
	int32_t tokens;

	number++;
	snprintf(words, sizeof words, "-n 8 -c 256 -s four-%d --kv %s", number, kv);
	open_scene(&s, words);
	ask_all(&s, 0, QUESTIONS);
	timeline_stats(s.c.conv.tl, &st);
	tokens = st.n_tokens;
	id = s.c.log->session;
	CHECK_MSG(st.rings.evicted > 0, "%s: nothing has left", kv);
	close_scene(&s);
	/* Resumed or switched to, the session is restored completely and answers as it would have without a break. */
	for (int switched = 0; switched < 2; switched++) {
		open_scene(&s, "-n 8 -c 256 -s elsewhere");
		CHECK_MSG(!session_set(s.c.log->store, id, "kv", then, strlen(then), &e), "%s", e.msg);
		snprintf(words, sizeof words, switched ? "/switch four-%d" : "-n 8 -c 256 -s four-%d", number);
		if (switched) {
			do_line(&s, "one");
			do_line(&s, words);
			CHECK_MSG(!s.errors.n, "%s", s.errors.p);
		} else {
			close_scene(&s);
			open_scene(&s, words);
		}
		timeline_stats(s.c.conv.tl, &st);
		CHECK_STR(st.kv, shown);
		CHECK_MSG(st.n_tokens == tokens, "%s: %d of %d tokens are back", then, st.n_tokens, tokens);
		if (switched)
			ask_all(&s, QUESTIONS, QUESTIONS + 1);
		whole(&s.c.conv, &got);
		close_scene(&s);
	}
	snprintf(words, sizeof words, "-n 8 -c 256 --private --kv %s", kv);
	open_scene(&s, words);
	ask_all(&s, 0, QUESTIONS + 1);
	whole(&s.c.conv, &want);
	CHECK_MSG(want.n == got.n && !memcmp(want.p, got.p, got.n), "%s: another answer after a break", then);
	close_scene(&s);
	str_free(&want);
	str_free(&got);
}

TEST(sessions_from_when_there_were_four_rings_have_four)
{
	from_when_there_were_four("auto:n=4", "auto", "auto:n=4");
	from_when_there_were_four("auto:size=96,n=4", "auto:size=96", "auto:size=96,n=4");
	from_when_there_were_four("cascade:size=64,stride=32,n=4", "cascade:size=64,stride=32",
	                          "cascade:size=64,n=4,stride=32");
	from_when_there_were_four("auto:n=3", "auto:n=3", "auto:n=3");
	from_when_there_were_four("sink:size=64,stride=32", "sink:size=64,stride=32", "sink:size=64,stride=32");
}

TEST(edit_puts_the_question_into_the_line)
{
	struct scene s;

	open_scene(&s, "-n 4 --private");
	do_line(&s, "/edit");
	CHECK(has(&s.errors, "no question"));
	do_line(&s, "the first");
	do_line(&s, "the second");
	do_line(&s, "/edit 2");
	CHECK_STR(s.draft.p, "the first");
	CHECK_INT(s.c.conv.n_msg, 0);
	do_line(&s, "/redo 2");
	CHECK_INT(s.c.conv.n_msg, 4);
	do_line(&s, "/edit 3");
	CHECK(has(&s.errors, "no question of 3"));
	CHECK_INT(s.c.conv.n_msg, 4);
	do_line(&s, "/edit in other words");
	CHECK_INT(s.c.conv.n_msg, 4);
	CHECK_STR(s.c.conv.msg[2].text.p, "in other words");
	close_scene(&s);
}

/* ---- what a turn costs ---- */

static int64_t tokenized_by(struct scene *s, const char *line)
{
	uint64_t before = vocab_encoded();

	do_line(s, line);
	CHECK_MSG(!s->errors.n, "%s", s->errors.p);
	return (int64_t)(vocab_encoded() - before);
}

#define CHECK_LEAST(cost, most)                                                                                        \
	do {                                                                                                           \
		int64_t got_ = cost;                                                                                   \
		CHECK_MSG(got_ <= most, "%lld bytes tokenized", (long long)got_);                                      \
	} while (0)

/* A turn tokenizes only its question and the template's text around it, however long the conversation is. */
TEST(a_question_tokenizes_only_itself)
{
	static const char question[] = "a question of some words";
	/* around: bytes that the template adds. searched: bytes that reranking tokenizes: each found passage together
	 * with the question. */
	static const int64_t around = 110;
	int64_t searched;
	struct scene s;
	struct tokens all = { 0 }, afresh = { 0 };
	struct err e = { 0 };
	int64_t cost;

	open_scene(&s, "-n 2 --private --kv auto --chat-template chatml");
	do_line(&s, "/read tests/screens/note.txt");
	CHECK_INT(s.c.conv.n_doc, 1);
	for (int i = 0; i < 200; i++)
		do_line(&s, question);
	CHECK_INT(s.c.conv.n_msg, 400);
	searched = (int64_t)(s.c.conv.doc[0].text.n + 2 * sizeof question);
	CHECK_LEAST(tokenized_by(&s, question), (int64_t)sizeof question + around + searched);
	CHECK_LEAST(tokenized_by(&s, "/undo 3"), around);
	CHECK_LEAST(tokenized_by(&s, question), (int64_t)sizeof question + around + searched);
	CHECK_LEAST(tokenized_by(&s, "/regen"), around);
	CHECK_LEAST(tokenized_by(&s, "/system Be kind."), around);
	CHECK_LEAST(tokenized_by(&s, question), (int64_t)sizeof question + 2 * around + searched);
	/* A new document is tokenized once; the messages after it keep their tokens. */
	cost = tokenized_by(&s, "/pin 1");
	CHECK_INT(s.c.conv.n_doc, 2);
	CHECK(cost <= (int64_t)s.c.conv.doc[1].text.n + 3 * around);
	CHECK_LEAST(tokenized_by(&s, "/drop 1"), 2 * around);
	/* The pinned message answers the question, so its sentence is quoted before the question. */
	cost = tokenized_by(&s, question);
	CHECK(s.c.conv.msg[s.c.conv.n_msg - 2].context.n > 0);
	CHECK(cost <= (int64_t)(sizeof question + s.c.conv.msg[s.c.conv.n_msg - 2].context.n) + 2 * around + searched);
	/* The tokens equal those of a complete new rendering. */
	CHECK(conversation_render(&s.c.conv, 1, &all, &e) == 0);
	rendered_free(&s.c.conv.rendered);
	CHECK(conversation_render(&s.c.conv, 1, &afresh, &e) == 0);
	CHECK(all.n == afresh.n && !memcmp(all.id, afresh.id, all.n * sizeof *all.id));
	tokens_free(&all);
	tokens_free(&afresh);
	close_scene(&s);
}

/* ---- system prompts ---- */

/* Return the offset of these bytes in the rendered text from token `first` on; SIZE_MAX if they do not occur. */
static size_t find_from(struct scene *s, int32_t first, const char *bytes, size_t n)
{
	const struct rendered *r = &s->c.conv.rendered;
	struct str all = { 0 };
	const char *at;
	size_t found;

	for (size_t i = (size_t)first; i < r->id.n; i++)
		engine_piece_add(s->c.conv.engine, r->id.id[i], 1, &all);
	at = all.n ? memmem(all.p, all.n, bytes, n) : NULL;
	found = at ? (size_t)(at - all.p) : SIZE_MAX;
	str_free(&all);
	return found;
}

/* 1 if the text begins in token `first`. */
static int stands_at(struct scene *s, int32_t first, const char *bytes, size_t n)
{
	size_t in = find_from(s, first, bytes, n);

	return first >= 0 && in != SIZE_MAX && (!in || find_from(s, first + 1, bytes, n) == SIZE_MAX);
}

/* The template of Gemma 2 refuses system messages: the system prompt is put before the first question and pinned with
 * the documents; the places of all texts are still right. */
TEST(a_template_without_a_system_prompt_has_it_in_the_first_question)
{
	static const char *const templates[] = { "gemma", "chatml" };

	for (size_t i = 0; i < 2; i++) {
		struct scene s;
		struct conversation *conv = &s.c.conv;
		struct tokens all = { 0 };
		struct err e = { 0 };
		char words[120];
		struct str head = { 0 };
		size_t at;

		snprintf(words, sizeof words, "-n 2 --private --kv auto --docs whole --chat-template %s", templates[i]);
		open_scene(&s, words);
		CHECK_INT(conv->info->takes_system, i == 1);
		do_line(&s, "/system Be kind.");
		CHECK(has(
			&s.said,
			i ? "[system prompt set; it holds from the start of the conversation]"
			  : "[system prompt set; it holds from the start of the conversation, in front of the first question: the model's template has no place for it]"));
		do_line(&s, "/read tests/screens/note.txt");
		do_line(&s, "Who are you?");
		do_line(&s, "Why?");
		CHECK_MSG(!s.errors.n, "%s", s.errors.p);
		CHECK_INT(conv->n_msg, 4);
		CHECK_INT(conversation_render(conv, 1, &all, &e), 0);
		at = conv->doc[0].prompt_at.byte;
		str_add(&head, "Be kind.\n\n", i ? 8 : 10);
		str_add(&head, conv->doc[0].text.p, i ? 0 : conv->doc[0].text.n);
		CHECK(find_from(&s, 0, head.p, head.n) != SIZE_MAX);
		CHECK(stands_at(&s, conv->doc[0].prompt_at.first, conv->doc[0].text.p, conv->doc[0].text.n));
		CHECK(stands_at(&s, conv->msg[0].prompt_at.first, "Who are you?", 12) &&
		      stands_at(&s, conv->msg[2].prompt_at.first, "Why?", 4));
		CHECK(conv->pinned >= conv->doc[0].prompt_at.first + (int32_t)document_count(conv, 0, &e) - 1);
		/* Without a system prompt, only the document precedes the first question. */
		do_line(&s, "/system \"\"");
		tokens_free(&all);
		CHECK_INT(conversation_render(conv, 1, &all, &e), 0);
		CHECK(conv->doc[0].prompt_at.byte + 10 <= at &&
		      stands_at(&s, conv->doc[0].prompt_at.first, conv->doc[0].text.p, conv->doc[0].text.n));
		tokens_free(&all);
		str_free(&head);
		close_scene(&s);
	}
}

/* A question may have no answer, because the program was killed. Templates that demand alternating roles then get both
 * questions as one message. */
TEST(a_question_without_an_answer_does_not_block_the_next_one)
{
	static const char *const templates[] = { "gemma", "mistral-v3", "chatml" };

	for (size_t i = 0; i < 3; i++) {
		struct scene s;
		struct conversation *conv = &s.c.conv;
		struct tokens all = { 0 };
		struct err e = { 0 };
		char words[120];

		snprintf(words, sizeof words, "-n 2 --private --kv auto --docs whole --chat-template %s", templates[i]);
		open_scene(&s, words);
		CHECK_INT(conv->info->wants_turns, i < 2);
		do_line(&s, "/read tests/screens/note.txt");
		do_line(&s, "Who are you?");
		message_free(&conv->msg[--conv->n_msg]);
		do_line(&s, "Why?");
		do_line(&s, "How?");
		message_free(&conv->msg[--conv->n_msg]);
		do_line(&s, "Where?");
		CHECK_MSG(!s.errors.n, "%s: %s", templates[i], s.errors.p);
		CHECK_INT(conv->n_msg, 6);
		CHECK_INT(conversation_render(conv, 1, &all, &e), 0);
		CHECK_INT(conv->rendered.n_msg, i < 2 ? 4 : 6);
		CHECK(i == 2 || (find_from(&s, 0, "Who are you?\n\nWhy?", 18) != SIZE_MAX &&
		                 find_from(&s, 0, "How?\n\nWhere?", 12) != SIZE_MAX));
		CHECK(stands_at(&s, conv->doc[0].prompt_at.first, conv->doc[0].text.p, conv->doc[0].text.n));
		CHECK(stands_at(&s, conv->msg[0].prompt_at.first, "Who are you?", 12) &&
		      stands_at(&s, conv->msg[1].prompt_at.first, "Why?", 4));
		CHECK(stands_at(&s, conv->msg[3].prompt_at.first, "How?", 4) &&
		      stands_at(&s, conv->msg[4].prompt_at.first, "Where?", 6));
		tokens_free(&all);
		close_scene(&s);
	}
}

/* gpt-oss writes its answers in channels, which its template refuses in earlier messages, so earlier answers are
 * rendered without channels. With reasoning off, the prompt ends with the beginning of the answer's channel. */
TEST(answers_with_channels)
{
	static const char thought[] =
		"<|channel|>analysis<|message|>Hm, hm.<|end|><|start|>assistant<|channel|>final<|message|>";
	struct scene s;
	struct conversation *conv = &s.c.conv;
	struct tokens all = { 0 };
	struct err e = { 0 };
	struct str *text;

	open_scene(&s, "-n 2 --private --kv full -c 4000 --chat-template gpt-oss");
	CHECK(conv->info->channels && conv->info->think_switch && !conv->info->thinks_first);
	do_line(&s, "Who are you?");
	text = &conv->msg[1].text;
	str_clear(text);
	str_adds(text, thought);
	str_adds(text, "I am.");
	do_line(&s, "Why?");
	CHECK_MSG(!s.errors.n, "%s", s.errors.p);
	CHECK_INT(conv->n_msg, 4);
	CHECK_INT(conversation_render(conv, 1, &all, &e), 0);
	CHECK(find_from(&s, 0, "<|channel|>final<|message|>I am.<|end|>", 39) != SIZE_MAX &&
	      find_from(&s, 0, "Hm, hm.", 7) == SIZE_MAX);
	CHECK(stands_at(&s, conv->msg[1].prompt_at.first, "I am.", 5));
	CHECK(find_from(&s, (int32_t)conv->rendered.id.n - 20, "<|start|>assistant<|channel|>", 29) == SIZE_MAX);
	do_line(&s, "/think off");
	tokens_free(&all);
	CHECK_INT(conversation_render(conv, 1, &all, &e), 0);
	CHECK(find_from(&s, (int32_t)conv->rendered.id.n - 60, "<|start|>assistant<|channel|>final<|message|>", 45) !=
	      SIZE_MAX);
	do_line(&s, "How?");
	CHECK_MSG(!s.errors.n, "%s", s.errors.p);
	tokens_free(&all);
	close_scene(&s);
}

/* ---- going on ---- */

TEST(an_answer_in_parts_is_the_answer)
{
	static const char *const policies[] = { "full", "auto", "cascade:size=96,n=3,stride=32", "sift:k=24",
		                                "refresh:k=24" };
	/* Penalties must also count the part of the answer that is continued. */
	static const char *const sampling[] = { "", "--temp 0.9 --seed 7", "--repeat-penalty 1.5",
		                                "--temp 0.9 --seed 7 --frequency-penalty 0.5" };

	for (size_t i = 0; i < LEN(policies); i++)
		for (size_t k = 0; k < LEN(sampling); k++) {
			struct scene s;
			struct str one = { 0 }, parts = { 0 };
			char words[120];

			snprintf(words, sizeof words, "-n 24 --private --kv %s %s", policies[i], sampling[k]);
			open_scene(&s, words);
			do_line(&s, "a question");
			whole(&s.c.conv, &one);
			close_scene(&s);
			snprintf(words, sizeof words, "-n 8 --private --kv %s %s", policies[i], sampling[k]);
			open_scene(&s, words);
			do_line(&s, "a question");
			do_line(&s, "/continue");
			do_line(&s, "/go");
			whole(&s.c.conv, &parts);
			CHECK_MSG(one.n == parts.n && !memcmp(one.p, parts.p, one.n), "%s %s", policies[i],
			          sampling[k]);
			close_scene(&s);
			str_free(&one);
			str_free(&parts);
		}
}

TEST(a_stopped_answer_goes_on)
{
	struct scene s;
	struct str one = { 0 }, parts = { 0 };

	open_scene(&s, "-n 12 --private");
	do_line(&s, "a question");
	whole(&s.c.conv, &one);
	do_line(&s, "/undo");
	s.stop_after = 5;
	do_line(&s, "a question");
	CHECK(has(&s.said, "[stopped]"));
	CHECK_INT(s.c.conv.msg[1].id.n, 5);
	do_line(&s, "/set n 7");
	do_line(&s, "/continue");
	whole(&s.c.conv, &parts);
	SAME(one, parts);
	/* There is no answer to continue. */
	do_line(&s, "/new");
	do_line(&s, "/continue");
	CHECK(has(&s.errors, "no answer yet"));
	CHECK_INT(s.c.conv.n_msg, 0);
	str_free(&one);
	str_free(&parts);
	close_scene(&s);
}

TEST(what_was_cut_stays_in_the_session_and_its_forks)
{
	struct scene s;
	struct session_tree tree;
	struct err e = { 0 };
	struct str before = { 0 }, after = { 0 }, back = { 0 };

	open_scene(&s, "-n 5 -s cut");
	do_line(&s, "a question");
	whole(&s.c.conv, &before);
	do_line(&s, "/fork copy");
	do_line(&s, "/continue");
	whole(&s.c.conv, &after);
	CHECK(after.n > before.n);
	do_line(&s, "/switch cut");
	whole(&s.c.conv, &back);
	SAME(before, back);
	do_line(&s, "/switch copy");
	whole(&s.c.conv, &back);
	SAME(after, back);
	CHECK_INT(session_tree(s.c.log->store, s.c.log->session, &tree, &e), 0);
	CHECK_INT(tree.shown, 2);
	CHECK_INT(tree.all, 3);
	close_scene(&s);
	/* A later run continues the longer answer without prefilling it again. */
	open_scene(&s, "-n 5 -s copy");
	do_line(&s, "/continue");
	CHECK(s.c.conv.last.prompt_tokens - s.c.conv.last.reused_tokens <= 1);
	CHECK_INT(s.c.conv.msg[1].id.n, 15);
	close_scene(&s);
	str_free(&before);
	str_free(&after);
	str_free(&back);
}

/* ---- a program that was killed ---- */

/* End the process during the second answer. The second question is stored, and maybe the beginning of its answer; the
 * snapshot is that of the first answer. */
static void die_in_the_second_answer(const char *words)
{
	pid_t child = fork();
	struct scene s;
	int status;

	if (!child) {
		open_scene(&s, words);
		do_line(&s, "a first question that has some words");
		s.kill_after = 5;
		do_line(&s, "a second question");
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

TEST(after_a_crash_the_snapshot_before_it_is_used)
{
	static const char *const policies[] = { "full", "auto", "cascade:size=96,n=3,stride=32", "sift:k=24" };

	for (size_t i = 0; i < LEN(policies); i++) {
		struct scene s;
		struct str want = { 0 }, got = { 0 }, first = { 0 };
		struct timeline_stats st;
		char words[120];

		snprintf(words, sizeof words, "-n 8 -s crash-%zu --kv %s", i, policies[i]);
		open_scene(&s, "--private"); /* creates the directory that both processes use */
		close_scene(&s);
		die_in_the_second_answer(words);
		open_scene(&s, words);
		timeline_stats(s.c.conv.tl, &st);
		/* The notice is right: the restored tokens are reused, and only the others are prefilled. */
		human_count(&first, (uint64_t)st.n_tokens);
		CHECK_MSG(st.n_tokens > 20, "%s: nothing restored: '%s'", policies[i], s.resumed.p);
		CHECK_MSG(has(&s.resumed, "restored ") && has(&s.resumed, first.p), "%s: '%s'", policies[i],
		          s.resumed.p);
		CHECK_MSG(!has(&s.resumed, "again"), "%s: '%s'", policies[i], s.resumed.p);
		do_line(&s, "/regen");
		CHECK_INT(s.c.conv.last.recomputed, 0);
		CHECK_MSG(s.c.conv.last.reused_tokens + 1 >= st.n_tokens, "%s: %d of %d reused", policies[i],
		          s.c.conv.last.reused_tokens, st.n_tokens);
		whole(&s.c.conv, &got);
		close_scene(&s);
		snprintf(words, sizeof words, "-n 8 --private --kv %s", policies[i]);
		open_scene(&s, words);
		do_line(&s, "a first question that has some words");
		do_line(&s, "a second question");
		whole(&s.c.conv, &want);
		SAME(want, got);
		close_scene(&s);
		str_free(&want);
		str_free(&got);
		str_free(&first);
	}
}

/* ---- documents ---- */

TEST(documents_one_by_one)
{
	struct scene s;

	open_scene(&s, "-n 4 -s docs -c 200");
	do_line(&s, "/drop 1");
	CHECK(has(&s.errors, "no document"));
	do_line(&s, "/read tests/screens/note.txt");
	do_line(&s, "/pin");
	CHECK(has(&s.said, "1 document)"));
	do_line(&s, "a question");
	do_line(&s, "/pin 1");
	CHECK_INT(s.c.conv.n_doc, 2);
	CHECK_STR(s.c.conv.doc[1].name, "message 1 (question)");
	do_line(&s, "/pin 1");
	CHECK_INT(s.c.conv.n_doc, 2);
	do_line(&s, "/pin 3");
	CHECK(has(&s.errors, "from 1 to 2"));
	do_line(&s, "/pin 2-1");
	CHECK(has(&s.errors, "from 1 to 2"));
	do_line(&s, "/pin p12-14");
	CHECK(has(&s.errors, "pages of documents"));
	do_line(&s, "/drop note");
	CHECK_INT(s.c.conv.n_doc, 1);
	do_line(&s, "/drop 9");
	CHECK(has(&s.errors, "no document '9'"));
	do_line(&s, "/redo");
	CHECK(has(&s.said, "document 'note.txt' is there again"));
	CHECK_INT(s.c.conv.n_doc, 2);
	CHECK_STR(s.c.conv.doc[0].name, "note.txt");
	do_line(&s, "/docs");
	CHECK(has(&s.said, "1  note.txt"));
	CHECK(!s.c.log->failed);
	close_scene(&s);
	/* The resumed session has the documents in the same order, with their texts. */
	open_scene(&s, "-n 4 -s docs -c 200");
	CHECK_INT(s.c.conv.n_doc, 2);
	CHECK_STR(s.c.conv.doc[0].name, "note.txt");
	CHECK(has(&s.c.conv.doc[1].text, "a question"));
	do_line(&s, "and on");
	CHECK(!s.errors.n);
	close_scene(&s);
}

/* ---- another model ---- */

TEST(another_model_reads_the_talk_again)
{
	struct scene s;
	struct str before = { 0 }, after = { 0 };

	open_scene(&s, "-n 4 -s model");
	do_line(&s, "one");
	do_line(&s, "two");
	whole(&s.c.conv, &before);
	do_line(&s, "/model");
	CHECK(has(&s.said, "llama-block32"));
	do_line(&s, "/model tests/no-such-file.gguf");
	CHECK(has(&s.errors, "no-such-file"));
	do_line(&s, "/model README.md");
	CHECK(s.errors.n > 0);
	whole(&s.c.conv, &after);
	SAME(before, after);
	do_line(&s, "still there");
	CHECK_INT(s.c.conv.n_msg, 6);
	do_line(&s, "/undo");
	do_line(&s, "/model " OTHER);
	CHECK_MSG(has(&s.said, "will be recomputed"), "%s%s", str_text(&s.said), str_text(&s.errors));
	CHECK(strstr(engine_info(s.c.conv.engine)->path, "qwen3") != NULL);
	CHECK_INT(s.c.conv.n_msg, 4);
	do_line(&s, "three");
	CHECK_INT(s.c.conv.n_msg, 6);
	do_line(&s, "/continue");
	/* Back to the first model: the texts have not changed, and the answers' stored token ids are used again. */
	do_line(&s, "/model " TINY);
	CHECK(!s.errors.n);
	do_line(&s, "/retry");
	CHECK(!s.errors.n);
	CHECK(!s.c.quit);
	close_scene(&s);
	str_free(&before);
	str_free(&after);
}

TEST(a_model_that_cannot_hold_the_talk_is_refused)
{
	struct scene s;
	struct str long_text = { 0 };

	open_scene(&s, "-n 4 --private --kv full -c 200");
	for (int i = 0; i < 20; i++)
		str_adds(&long_text, "word ");
	do_line(&s, long_text.p);
	s.c.o.ctx = 40; /* as if the other model had a smaller context */
	do_line(&s, "/model " OTHER);
	CHECK_MSG(has(&s.errors, "holds 40"), "%s", str_text(&s.errors));
	CHECK(strstr(engine_info(s.c.conv.engine)->path, "llama-block32") != NULL);
	do_line(&s, "and on");
	CHECK_INT(s.c.conv.n_msg, 4);
	str_free(&long_text);
	close_scene(&s);
}

/* ---- deleting ---- */

static int exists(struct scene *s, const char *name)
{
	struct err e = { 0 };
	int64_t id;

	return session_find(s->c.log->store, name, &id, &e) == 0;
}

TEST(deleting_can_be_undone_and_is_done_later)
{
	struct scene s;

	open_scene(&s, "-n 4 -s keep");
	do_line(&s, "one");
	do_line(&s, "/fork victim");
	do_line(&s, "xylophones");
	do_line(&s, "/switch keep");
	do_line(&s, "/delete victim");
	CHECK(has(&s.said, "delete session 'victim' (4 messages)?"));
	CHECK(has(&s.said, "it stays"));
	s.answer = 1;
	do_line(&s, "/delete victim");
	CHECK(has(&s.said, "/undelete"));
	do_line(&s, "/sessions");
	CHECK(!has(&s.said, "victim"));
	do_line(&s, "/find xylophones");
	CHECK(has(&s.said, "nothing found"));
	do_line(&s, "/switch victim");
	CHECK(has(&s.errors, "is deleted"));
	do_line(&s, "/delete victim");
	CHECK(has(&s.errors, "deleted already"));
	CHECK(exists(&s, "victim")); /* it is still on the disk */
	do_line(&s, "/undelete");
	do_line(&s, "/sessions");
	CHECK(has(&s.said, "victim"));
	do_line(&s, "/undelete");
	CHECK(has(&s.errors, "nothing to undelete"));
	/* The time to restore the session has passed. */
	do_line(&s, "/delete victim");
	s.c.deleted[0].until = now_seconds() - 1;
	chat_delete_due(&s.c, 0);
	CHECK(!exists(&s, "victim"));
	do_line(&s, "/undelete");
	CHECK(has(&s.errors, "nothing to undelete"));
	/* Delete the current session; /undelete opens it again. */
	do_line(&s, "/delete");
	CHECK_INT(s.c.conv.n_msg, 0);
	do_line(&s, "/undelete");
	CHECK_INT(s.c.conv.n_msg, 2);
	CHECK_INT(s.came_back, 2);
	/* The name of a deleted session can be used at once. */
	do_line(&s, "/delete");
	do_line(&s, "a new one");
	do_line(&s, "/rename keep");
	CHECK_MSG(!s.errors.n, "%s", s.errors.p);
	/* A normal end of the program deletes the session from the disk. */
	do_line(&s, "/delete");
	close_scene(&s);
	open_scene(&s, "-n 4 -s other");
	CHECK(!exists(&s, "keep"));
	close_scene(&s);
	cleanup();
}

/* ---- reasoning ---- */

static void fold(const char *text, int first, size_t piece, struct str *out, struct str *note)
{
	struct reasoning t = { .first = first };
	size_t n = strlen(text);

	str_clear(out);
	str_clear(note);
	str_adds(out, "");
	str_adds(note, "");
	for (size_t i = 0; i < n; i += piece)
		reasoning_feed(&t, text + i, piece < n - i ? piece : n - i, out);
	reasoning_end(&t, out);
	reasoning_describe(&t, note);
	reasoning_free(&t);
}

TEST(thoughts_are_told_apart_however_they_are_cut)
{
	static const struct {
		const char *text;
		int first;
		const char *shown, *note;
	} cases[] = {
		{ "plain words", 0, "plain words", "" },
		{ "<think>\none two\nthree\n</think>\n\nThe answer.", 0, "The answer.", "reasoned for 3 words first" },
		{ "\n <think>a</think>b", 0, "b", "reasoned for 1 word first" },
		{ "one two</think>\nyes", 1, "yes", "reasoned for 2 words first" },
		{ "<think>one</think>yes", 1, "yes", "reasoned for 1 word first" },
		{ "one two three", 1, "", "reasoned for 3 words and came to no answer" },
		{ "<think>one < two </thin", 0, "", "reasoned for 4 words and came to no answer" },
		{ "<thin air", 0, "<thin air", "" },
		{ "<think", 0, "<think", "" },
		{ "  spaces stay", 0, "  spaces stay", "" },
		{ "<think></think>x <think>y</think>", 0, "x <think>y</think>", "" },
		{ "a <think>not at the beginning</think>", 0, "a <think>not at the beginning</think>", "" },
		{ "", 0, "", "" },
		{ "", 1, "", "" },
		{ " \n", 0, " \n", "" },
		{ "<think>", 0, "", "" },
		/* other families' marks */
		{ "[THINK]one [two][/THINK]\n\nyes", 0, "yes", "reasoned for 2 words first" },
		{ "one [two][/THINK]yes", 1, "yes", "reasoned for 2 words first" },
		{ "[THIN ice]", 0, "[THIN ice]", "" },
		{ "<|channel>thought\none two<channel|>yes", 0, "yes", "reasoned for 3 words first" },
		{ "<seed:think>a</think></seed:think>b", 0, "b", "reasoned for 1 word first" },
		{ "<|channel|>final<|message|>yes <|x|>", 0, "yes <|x|>", "" },
		{ "<|channel|>analysis<|message|>one < two<|end|><|start|>assistant<|channel|>final<|message|> yes", 0,
		  " yes", "reasoned for 3 words first" },
		{ "<|channel|>analysis<|message|>one<|end|><|start|>assistant<|channel|>commentary<|message|>two<|end|><|start|>assistant<|channel|>final"
		  "<|message|>yes",
		  0, "yes", "reasoned for 2 words first" },
		{ "<|channel|>analysis<|message|>one<|end|><|start|>assis", 0, "",
		  "reasoned for 1 word and came to no answer" },
		{ "<|channel|>analysis<|message|>one two", 0, "", "reasoned for 2 words and came to no answer" },
		{ "<|channel|>fin", 0, "", "" },
		{ "<|chan", 0, "<|chan", "" },
	};
	struct str out = { 0 }, note = { 0 };

	for (size_t i = 0; i < LEN(cases); i++)
		for (size_t piece = 1; piece < 200; piece++) {
			fold(cases[i].text, cases[i].first, piece, &out, &note);
			CHECK_MSG(!strcmp(out.p, cases[i].shown) && !strcmp(note.p, cases[i].note),
			          "case %zu in pieces of %zu: '%s', '%s'", i, piece, out.p, note.p);
			CHECK(cases[i].first ||
			      reasoning_length(cases[i].text, strlen(cases[i].text)) == strlen(cases[i].text) - out.n);
		}
	str_free(&out);
	str_free(&note);
}

/* A channel's head has at most 200 bytes, however the text is cut into pieces. */
TEST(a_channel_whose_name_does_not_end_is_cut_at_one_place)
{
	static const char *const before[] = { "<|channel|>", "<|channel|>analysis<|message|>one<|end|>" },
				 *const behind[] = { "<|message|>yes", "<|channel|>final<|message|>yes" };
	struct str text = { 0 }, out = { 0 }, note = { 0 };

	for (int i = 0; i < 2; i++) {
		str_clear(&text);
		str_addf(&text, "%s%0300d%s", before[i], 0, behind[i]);
		for (size_t piece = 1; piece <= text.n; piece++) {
			fold(text.p, 0, piece, &out, &note);
			CHECK_MSG(out.n == 100 + strlen(behind[i]) && !strcmp(out.p + 100, behind[i]),
			          "in pieces of %zu: '%s'", piece, out.p);
		}
	}
	str_free(&text);
	str_free(&out);
	str_free(&note);
}

/* Whole and incomplete marks in any order: the result does not depend on how the text is cut into pieces. */
TEST(marks_in_any_order_are_told_apart_in_any_pieces)
{
	static const char *const part[] = { "<think>", "</think>",    "<|channel|>", "analysis",
		                            "final",   "<|message|>", "<|end|>",     "<|start|>assistant",
		                            "[THINK]", "[/THINK]",    "<|channel>",  "<channel|>",
		                            "<",       "[",           "word ",       "\n",
		                            "<thi",    "<|mess",      " ",           "</seed:think>" };
	struct str text = { 0 }, whole = { 0 }, out = { 0 }, note = { 0 }, pieces = { 0 };
	unsigned seed = 7;

	for (int i = 0; i < 4000; i++) {
		int first = i % 3 == 0;

		str_clear(&text);
		str_adds(&text, "");
		for (int n = 1 + i % 12; n; n--) {
			seed = seed * 1103515245u + 12345u;
			str_adds(&text, part[(seed >> 16) % LEN(part)]);
		}
		fold(text.p, first, text.n + 1, &whole, &note);
		for (size_t piece = 1; piece < 9; piece++) {
			fold(text.p, first, piece, &out, &pieces);
			CHECK_MSG(!strcmp(out.p, whole.p) && !strcmp(note.p, pieces.p),
			          "'%s' in pieces of %zu: '%s', '%s' instead of '%s', '%s'", text.p, piece, out.p,
			          pieces.p, whole.p, note.p);
		}
		/* the answer is the end of the text */
		CHECK(out.n <= text.n && !memcmp(out.p, text.p + text.n - out.n, out.n));
	}
	str_free(&text);
	str_free(&whole);
	str_free(&out);
	str_free(&note);
	str_free(&pieces);
}

TEST(think_is_a_setting)
{
	struct scene s;
	struct str out = { 0 }, note = { 0 };
	struct message *m;

	open_scene(&s, "-n 4 --private");
	do_line(&s, "/think");
	CHECK(has(&s.said, "folded"));
	do_line(&s, "a question");
	m = &s.c.conv.msg[1];
	str_clear(&m->text);
	str_adds(&m->text, "<think>so, well</think>Yes.");
	chat_message(&s.c, m, &out, &note);
	CHECK_STR(out.p, "Yes.");
	CHECK_STR(note.p, "reasoned for 2 words first");
	do_line(&s, "/think show");
	CHECK(has(&s.said, "shown"));
	CHECK_INT(s.came_back, 1);
	str_clear(&out);
	chat_message(&s.c, m, &out, NULL);
	CHECK_STR(out.p, "<think>so, well</think>Yes.");
	do_line(&s, "/think show");
	CHECK_INT(s.came_back, 1);
	do_line(&s, "/think off");
	CHECK(has(&s.said, "no way to ask"));
	do_line(&s, "/think on");
	CHECK(has(&s.said, "folded"));
	do_line(&s, "/think perhaps");
	CHECK(has(&s.errors, "on, off, show or hide"));
	do_line(&s, "/set think show");
	do_line(&s, "/set think");
	CHECK(has(&s.said, "think show"));
	do_line(&s, "/set parameter temperature 0.5");
	do_line(&s, "/set temp");
	CHECK(has(&s.said, "temp 0.5"));
	str_free(&out);
	str_free(&note);
	close_scene(&s);
}

/* A sampling setting is the user's, else that of the model file, else the advice of the model's makers, which may
 * depend on reasoning, else the default. */
TEST(sampling_is_the_models)
{
	struct scene s;
	struct mk m = { 0 };
	char path[64], words[200];

	open_scene(&s, "-n 2 --private -c 500 -m " OTHER " --chat-template qwen3 --temp auto");
	do_line(&s, "/set temp");
	CHECK(!strncmp(s.said.p, "temp 0.6 (family: Qwen3): ", 26)); /* the model reasons by default */
	do_line(&s, "/think off");
	do_line(&s, "/set top-p");
	CHECK(!strncmp(s.said.p, "top-p 0.8 (family: Qwen3): ", 27));
	CHECK(s.c.conv.sampling.top_p > 0.79f && s.c.conv.sampling.top_p < 0.81f && s.c.conv.sampling.top_k == 20);
	do_line(&s, "/set repeat-penalty");
	CHECK(!strncmp(s.said.p, "repeat-penalty 1 (default): ", 28));
	do_line(&s, "/set temp 0.9");
	CHECK_STR(s.said.p, "[temp 0.9]\n");
	/* Settings that the user has not set are those of the next model. */
	do_line(&s, "/model " TINY);
	CHECK_MSG(!s.errors.n, "%s", s.errors.p);
	do_line(&s, "/set");
	CHECK_MSG(
		has(&s.said,
	            "temp               0.9 (yours)\ntop-k              40 (default)\ntop-p              0.9 (default)\n"),
		"%s", s.said.p);
	CHECK(s.c.conv.sampling.temperature > 0.89f && s.c.conv.sampling.top_k == 40);
	do_line(&s, "/model " OTHER);
	do_line(&s, "/set temp auto");
	CHECK_STR(s.said.p, "[temp 0.7 (family: Qwen3)]\n");
	do_line(&s, "/set top-k warm");
	CHECK(has(&s.errors, "from 0 up or auto, not 'warm'"));
	close_scene(&s);
	snprintf(path, sizeof path, "/tmp/weir-talk-keys-%d.gguf", (int)getpid());
	mk_f32(&m, "general.sampling.temp", 0.25f);
	keyed_model(OTHER, &m, path);
	snprintf(words, sizeof words, "-n 2 --private -c 500 -m %s --chat-template qwen3 --temp auto --min-p 0.5",
	         path);
	open_scene(&s, words);
	do_line(&s, "/set");
	CHECK_MSG(has(&s.said, "temp               0.25 (model file)\ntop-k              20 (family: Qwen3)\n"), "%s",
	          s.said.p);
	CHECK_MSG(has(&s.said, "min-p              0.5 (yours)\n"), "%s", s.said.p);
	CHECK(s.c.conv.sampling.temperature > 0.24f && s.c.conv.sampling.temperature < 0.26f);
	close_scene(&s);
	unlink(path);
}

/* A session stores only the sampling settings that the user has set. Sessions of old versions stored all of them, with
 * the defaults of that time. */
TEST(a_session_keeps_the_sampling_that_was_set)
{
	/* clang-format off */
	static const struct { const char *name, *value; } old[] = {
		{"temp", "0.3"}, {"top-k", "40"}, {"top-p", "0.7"}, {"min-p", "0.05"}, {"repeat-penalty", "1.1"}, {"presence-penalty", "0"}, {"frequency-penalty", "0"},
	};
	/* clang-format on */
	struct scene s;
	struct err e = { 0 };

	open_scene(&s, "-n 2 -c 500 -s sampled");
	do_line(&s, "/set top-p 0.9"); /* equal to the default, but set by the user */
	do_line(&s, "a question");
	close_scene(&s);
	open_scene(&s, "-n 2 -c 500 -s sampled -m " OTHER " --chat-template qwen3");
	do_line(&s, "/set");
	CHECK_MSG(has(&s.said, "top-k              20 (family: Qwen3)\ntop-p              0.9 (yours)\n"), "%s",
	          s.said.p);
	for (size_t i = 0; i < LEN(old); i++)
		CHECK(!session_set(s.c.log->store, s.c.log->session, old[i].name, old[i].value, strlen(old[i].value),
		                   &e));
	close_scene(&s);
	open_scene(&s, "-n 2 -c 500 -s sampled");
	do_line(&s, "/set");
	CHECK_MSG(has(&s.said, "top-k              40 (default)\ntop-p              0.7 (yours)\n"), "%s", s.said.p);
	CHECK_MSG(has(&s.said, "repeat-penalty     1 (default)\n"), "%s", s.said.p);
	/* Another session, without settings of the user. */
	do_line(&s, "a question");
	close_scene(&s);
	open_scene(&s, "-n 2 -c 500 -s plain");
	do_line(&s, "a question");
	do_line(&s, "/switch sampled");
	do_line(&s, "/set top-p");
	CHECK(!strncmp(s.said.p, "top-p 0.7 (yours): ", 19));
	do_line(&s, "/switch plain");
	do_line(&s, "/set top-p");
	CHECK(!strncmp(s.said.p, "top-p 0.9 (default): ", 21));
	close_scene(&s);
}

/* The template opens reasoning only if asked to: /think on asks. */
TEST(reasoning_is_asked_for)
{
	static const char text[] =
		"{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
		"{% if add_generation_prompt %}assistant:{% if thinking %}<think>\n{% endif %}{% endif %}";
	char path[] = "/tmp/weir-talk-XXXXXX.jinja", words[100];
	int fd = mkstemps(path, 6);
	struct tokens all = { 0 };
	struct err e = { 0 };
	struct scene s;

	CHECK(fd >= 0 && write(fd, text, sizeof text - 1) == sizeof text - 1);
	close(fd);
	snprintf(words, sizeof words, "-n 4 --private --kv full -c 2000 --chat-template %s", path);
	open_scene(&s, words);
	unlink(path);
	CHECK(s.c.conv.info->think_ask && s.c.conv.info->asked_thinks_first && !s.c.conv.info->thinks_first);
	do_line(&s, "a question");
	CHECK(s.shown.n > 0);
	do_line(&s, "/think on");
	CHECK(has(&s.said, "[reasoning: on, the model is asked to reason, and that is folded]"));
	str_clear(&s.shown);
	do_line(&s, "a question");
	CHECK(!s.shown.n && s.c.think.at == REASONING_WITHIN);
	CHECK_INT(conversation_render(&s.c.conv, 1, &all, &e), 0);
	CHECK(find_from(&s, 0, "assistant:<think>", 17) != SIZE_MAX);
	tokens_free(&all);
	do_line(&s, "/think off");
	str_clear(&s.shown);
	do_line(&s, "a question");
	CHECK(s.shown.n > 0);
	CHECK_MSG(!s.errors.n, "%s", s.errors.p);
	close_scene(&s);
}

/* The template opens the reasoning, so all text before the closing mark is reasoning. */
TEST(a_model_whose_template_begins_the_reasoning)
{
	struct scene s;
	struct str out = { 0 };

	open_scene(&s, "-n 6 --private --chat-template qwen3.5 -c 200");
	do_line(&s, "a question");
	CHECK_INT(s.c.conv.msg[1].id.n, 6);
	CHECK_INT(s.shown.n, 0);
	CHECK(s.c.think.at == REASONING_WITHIN);
	do_line(&s, "/continue");
	CHECK_INT(s.shown.n, 0);
	CHECK_INT(s.c.conv.msg[1].id.n, 12);
	do_line(&s, "/think show");
	CHECK_INT(s.came_back, 1);
	chat_message(&s.c, &s.c.conv.msg[1], &out, NULL);
	CHECK(out.n == s.c.conv.msg[1].text.n);
	do_line(&s, "/think off");
	CHECK(has(&s.said, "answer at once"));
	do_line(&s, "another");
	CHECK(s.shown.n > 0);
	CHECK(s.shown.n == s.c.conv.msg[3].text.n);
	do_line(&s, "/think on");
	do_line(&s, "a third");
	CHECK_INT(s.shown.n, 0);
	str_free(&out);
	close_scene(&s);
}

/* ---- answers that repeat themselves ---- */

/* A loop of any period is detected after 96 tokens and four periods. If one token differs in each period, there is no
 * loop. */
TEST(a_loop_is_noticed)
{
	for (int period = 1; period <= LOOP_PERIOD; period++)
		for (int counted = 0; counted < 2; counted++) {
			struct loop_watch w = { .n = 0 };
			int found = 0, at = 0;

			for (int i = 0; i < 50; i++)
				CHECK_INT(loop_add(&w, 1000 + i), 0);
			for (; at < 2000 && !found; at++)
				found = loop_add(&w, counted && at % period == 0 ? 5000 + at : at % period);
			if (counted) {
				CHECK_INT(found, 0);
			} else {
				CHECK_INT(found, period);
				CHECK_INT(at, period + (4 * period > 96 ? 4 * period : 96));
			}
		}
}

/* This model repeats its last token forever. */
TEST(an_answer_in_a_loop_is_stopped)
{
	const struct message *m;
	struct scene s;

	open_scene(&s, "-n 200 --private --temp 0 -m tests/vectors/models/llama-linear.gguf");
	s.c.interactive = 0; /* in scripts, too */
	do_line(&s, "a question");
	s.c.interactive = 1;
	CHECK(s.c.conv.last.stop == STOP_LOOP);
	CHECK_INT(s.c.conv.last.loop, 1);
	CHECK(s.c.conv.last.answer_tokens < 140);
	CHECK(has(&s.said, "repeats the same"));
	/* the repetitions are not kept: the next answer would go on with them */
	m = conversation_answer(&s.c.conv);
	CHECK_INT((int)m->id.n, s.c.conv.last.answer_tokens - 96);
	CHECK(tokens_match_text(s.c.conv.engine, m->id.id, m->id.n, str_text(&m->text), m->text.n));
	/* With /set loops go the answer is not stopped. */
	do_line(&s, "/set loops go");
	do_line(&s, "/continue");
	CHECK(s.c.conv.last.stop == STOP_LENGTH);
	CHECK_INT(s.c.conv.last.answer_tokens, 200);
	close_scene(&s);
}

/* ---- what weir says ---- */

TEST(a_line_that_was_meant_as_a_command_becomes_one)
{
	struct scene s;

	open_scene(&s, "-n 4 --private");
	do_line(&s, "quit");
	CHECK_STR(s.draft.p, "/quit");
	CHECK(has(&s.said, "'quit.' is a message"));
	CHECK_INT(s.c.quit, 0);
	do_line(&s, "? ");
	CHECK_STR(s.draft.p, "/help");
	do_line(&s, " '/usr/../usr' ");
	CHECK_STR(s.draft.p, "/open '/usr/../usr'");
	do_line(&s, "/usr/../usr");
	CHECK_STR(s.draft.p, "/open /usr/../usr");
	CHECK_INT(s.c.conv.n_msg, 0);
	/* A path that does not exist is no file, and a longer line is a message. */
	do_line(&s, "/usr/no such file");
	CHECK(has(&s.errors, "unknown command"));
	do_line(&s, "quit.");
	CHECK_INT(s.c.conv.n_msg, 2);
	/* A word that several commands have names all of them. */
	do_line(&s, "/remove 1");
	CHECK(has(&s.errors, "is it /undo, /drop or /delete? /help lists them"));
	do_line(&s, "/upload");
	CHECK(has(&s.errors, "/open wants a file"));
	close_scene(&s);
}

/* Only a word with a slash is a command, and the prompt files of the user go before the synonyms of commands. */
TEST(a_prompt_of_the_user_goes_before_a_synonym)
{
	struct scene s;
	char path[200];
	FILE *f;

	open_scene(&s, "-n 4 --private");
	CHECK(slash_named("/sessions", "/list", "/history", 8) && slash_named("/sessions", "/list", "/list", 5));
	CHECK(!slash_named("/sessions", "/list", "old", 3) && !slash_named("/sessions", "/list", "//list", 6));
	snprintf(path, sizeof path, "mkdir -p '%s/weir/prompts'", home);
	CHECK(!system(path));
	snprintf(path, sizeof path, "%s/weir/prompts/history.md", home);
	f = fopen(path, "w");
	CHECK(f && fputs("Tell its history.", f) >= 0 && !fclose(f));
	CHECK(!slash_named("/sessions", "/list", "/history", 8));
	do_line(&s, "/history");
	CHECK_INT(s.c.conv.n_msg, 2);
	CHECK_STR(s.c.conv.msg[0].text.p, "Tell its history.");
	unlink(path);
	close_scene(&s);
}

TEST(the_log_remembers)
{
	struct scene s;

	open_scene(&s, "-n 4 --private");
	do_line(&s, "/nonsense");
	CHECK(has(&s.errors, "unknown command '/nonsense'; /help"));
	do_line(&s, "/undoo");
	CHECK(has(&s.errors, "is it /undo?"));
	do_line(&s, "/dele");
	CHECK(has(&s.errors, "is it /delete?"));
	do_line(&s, "/contineu");
	CHECK(has(&s.errors, "is it /continue?"));
	do_line(&s, "/log 2");
	CHECK(has(&s.said, "/contineu"));
	CHECK(has(&s.said, "/dele"));
	CHECK(!has(&s.said, "nonsense"));
	do_line(&s, "/log x");
	CHECK(has(&s.errors, "number of lines"));
	for (int i = 0; i < 1000; i++)
		log_add("line", 4);
	do_line(&s, "/log 1000");
	CHECK(has(&s.said, "  line"));
	CHECK(!has(&s.said, "/dele"));
	close_scene(&s);
	cleanup();
}

/* ---- another encoder ---- */

static void link_encoder(const char *cache, const char *name, const char *model)
{
	struct str path = { 0 };
	char *file = realpath(test_file(model), NULL);

	str_addf(&path, "%s/weir/encoders/%s.gguf", cache, name);
	CHECK_MSG(file && !symlink(file, path.p), "%s: %s", path.p, strerror(errno));
	free(file);
	str_free(&path);
}

/* Check that the documents are searched with an encoder of this width; 0: by words alone. */
static void check_encoder(struct scene *s, int dims)
{
	struct sources found;
	struct err e = { 0 };
	const struct encoder *encoder;

	CHECK_MSG(!conversation_sources(&s->c.conv, "where is the whale", 18, &found, &e), "%s", e.msg);
	encoder = search_of(&s->c.conv)->meaning.encoder;
	CHECK_INT(encoder ? encoder_dims(encoder) : 0, dims);
	sources_free(&found);
}

TEST(an_encoder_is_set_by_its_name)
{
	char cache[] = "/tmp/t_talk.XXXXXX", command[80];
	struct str dir = { 0 };
	const char *before = getenv("XDG_CACHE_HOME");
	char *saved = before ? strdup(before) : NULL;
	struct scene s;

	CHECK(mkdtemp(cache) != NULL);
	str_addf(&dir, "%s/weir/encoders/x", cache);
	CHECK(!make_parents(dir.p));
	str_free(&dir);
	link_encoder(cache, "first-a", "tests/vectors/models/nomic-bert.gguf");
	link_encoder(cache, "first-b", "tests/vectors/models/jina-bert-v2.gguf");
	link_encoder(cache, "first-b-reader", "tests/vectors/models/bert-reranker.gguf");
	link_encoder(cache, "first-b-reader-en", "tests/vectors/models/bert-reranker.gguf");
	link_encoder(cache, "bare", "tests/vectors/models/bert.gguf");
	setenv("XDG_CACHE_HOME", cache, 1);
	open_scene(&s, "-n 2 -s encoders --docs passages -e off tests/vectors/README.md");
	check_encoder(&s, 0);
	do_line(&s, "/set encoder first-a");
	CHECK(has(&s.said, "[encoder first-a]"));
	check_encoder(&s, 32);
	/* An ambiguous or unknown name of an encoder is refused and changes nothing. */
	do_line(&s, "/set encoder first");
	CHECK(has(&s.errors, "'first' is the beginning of 2 encoders: first-a, first-b"));
	do_line(&s, "/set encoder second");
	CHECK(has(&s.errors, "there is no file and no encoder 'second' here"));
	do_line(&s, "/set encoder /nowhere/encoder.gguf");
	CHECK(has(&s.errors, "cannot open '/nowhere/encoder.gguf': No such file or directory"));
	do_line(&s, "/set encoder");
	CHECK(has(&s.said, "encoder first-a"));
	check_encoder(&s, 32);
	do_line(&s, "/set encoder first-b");
	check_encoder(&s, 48);
	CHECK_INT(encoder_reads(search_of(&s.c.conv)->meaning.encoder, READER_ANY), READS_SCORES);
	CHECK_INT(encoder_reads(search_of(&s.c.conv)->meaning.encoder, READER_ENGLISH), READS_SCORES);
	do_line(&s, "/set encoder off");
	check_encoder(&s, 0);
	/* An encoder that cannot encode plain text is not used: documents are searched by words alone, with one
	 * notice. */
	do_line(&s, "/set encoder bare");
	check_encoder(&s, 0);
	CHECK(has(&s.said, "documents are searched by words alone"));
	do_line(&s, "/set encoder first-a");
	check_encoder(&s, 32);
	close_scene(&s);
	if (saved)
		setenv("XDG_CACHE_HOME", saved, 1);
	else
		unsetenv("XDG_CACHE_HOME");
	free(saved);
	snprintf(command, sizeof command, "rm -r %s", cache);
	CHECK(!system(command));
}
