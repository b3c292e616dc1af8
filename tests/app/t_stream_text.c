/* tests/app/t_stream_text.c - texts without an end: the streamed message (app/stream/streamed_message.c), questions
 * about it (aside.c), and the source of its text (app/chat/text_source.c). */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "app/chat/text_source.h"
#include "app/conversation/conversation.h"
#include "app/retrieval/retrieval.h"
#include "app/stream/stream.h"
#include "app/term/term.h"
#include "sessions/import/import.h"
#include "tests/lib/test.h"
#include "engine/engine_snapshot.h"

#define TINY "tests/vectors/models/llama-block32.gguf"

/* ---- cutting ---- */

/* Append random letters of several scripts, blanks, punctuation and digits, which tokenizers treat differently. */
static void wild_text(struct str *out, size_t n)
{
	/* clang-format off */
	static const char *const bits[] = {
		" ", " ", " ", "\n", "  ", "\n\n", "\t", "a", "the", "I", "'s", "'", "don't", "Weir", "x1", "2024", "3.14", ".", ", ", "?!", "\"", "-",
		"\xc3\xa9t\xc3\xa9", "\xd0\xbc\xd0\xb8\xd1\x80", "\xe4\xb8\xad\xe6\x96\x87", "\xe3\x80\x82", "\xef\xbc\x8c", "\xe3\x81\xae",
		"\xed\x95\x9c\xea\xb8\x80", "\xf0\x9f\x98\x80", "\xe0\xa4\xa8\xe0\xa5\x87", "e\xcc\x81", "\xc2\xa0", "_", "//", "#", "<|im_end|>", "\xef\xbf\xbd",
	};
	/* clang-format on */

	while (out->n < n)
		str_adds(out, bits[test_rand() % LEN(bits)]);
}

/* Compare the tokens of a text with those of its pieces, cut by text_cut() after at most `most` bytes each. Returns 1
 * if they differ, else 0. */
static int differs(struct engine *engine, const char *text, size_t n, size_t most)
{
	struct tokens whole = { 0 }, pieces = { 0 };
	struct err e = { 0 };
	size_t at = 0, have = 0;
	int diff;

	engine_tokenize(engine, text, n, 0, &whole, &e);
	while (have < n) {
		size_t more = 1 + test_rand() % most, cut;

		have = more < n - have ? have + more : n;
		have = have < n ? at + utf8_complete(text + at, have - at) : n;
		cut = have == n ? n : text_cut(text, at, have);
		if (cut == at)
			continue;
		if (at)
			text_tokens_behind(engine, text + at, cut - at, &pieces, &e);
		else
			engine_tokenize(engine, text, cut, 0, &pieces, &e);
		at = cut;
	}
	CHECK_MSG(!e.code, "%s", e.msg);
	diff = whole.n != pieces.n || (whole.n && memcmp(whole.id, pieces.id, whole.n * sizeof *whole.id));
	tokens_free(&whole);
	tokens_free(&pieces);
	return diff;
}

static void try_vocabulary(const char *path, const char *pre)
{
	static const char *const texts[] = { "README.md", "man/weir.1", "app/options/parse.c", "LICENSE" };
	struct engine *engine;
	struct err e = { 0 };

	if (engine_open(&engine, &(struct engine_options){ .model_path = path, .vocab_only = 1, .pre = pre }, &e) < 0) {
		CHECK_MSG(0, "%s", e.msg);
		return;
	}
	for (size_t i = 0; i < LEN(texts); i++) {
		size_t n;
		char *text = test_read(test_file(texts[i]), &n);

		for (size_t most = 7; text && most < 10000; most *= 17)
			CHECK_MSG(!differs(engine, text, n, most), "%s in pieces of %zu under %s %s", texts[i], most,
			          path, pre ? pre : "");
		free(text);
	}
	for (int i = 0; i < 20; i++) {
		struct str wild = { 0 };

		wild_text(&wild, 3000);
		CHECK_MSG(!differs(engine, wild.p, wild.n, 300), "wild text %d under %s %s", i, path, pre ? pre : "");
		str_free(&wild);
	}
	engine_close(engine);
}

TEST(pieces_of_the_default_tokenizer)
{
	try_vocabulary(test_model(), NULL);
}

TEST(pieces_of_every_pre_tokenizer)
{
	const char *path = test_model(), *pre;

	for (size_t i = 0; (pre = engine_pre_name(i)); i++)
		try_vocabulary(path, pre);
}

TEST(pieces_of_sentencepiece)
{
	try_vocabulary(test_file("tests/vectors/stories260K/stories260K-f16.gguf"), NULL);
}

TEST(pieces_of_a_tiny_sentencepiece)
{
	try_vocabulary(test_file(TINY), NULL);
}

TEST(a_text_without_blanks_is_cut)
{
	struct str s = { 0 };

	for (int i = 0; i < 6000; i++)
		str_adds(&s, i % 20 ? "\xe4\xb8\xad" : "\xe3\x80\x82");
	CHECK(text_cut(s.p, 0, 300) == 0);
	CHECK(text_cut(s.p, 0, 3000) > 2900);
	str_clear(&s);
	for (int i = 0; i < 6000; i++)
		str_adds(&s, "\xe4\xb8\xad");
	CHECK(text_cut(s.p, 0, 16000) == 0);
	CHECK(text_cut(s.p, 0, 17999) == 17997); /* in whole characters */
	str_free(&s);
}

/* ---- the streamed message ---- */

struct reader {
	struct options o;
	struct conversation t;
	struct err e;
};
static uint64_t reader_memory; /* value of --kv-memory for readers that are opened later */

static int reader_open(struct reader *r, const char *model, const char *kv, const char *template)
{
	const char *argv[] = {
		"weir",   "-q", "--temp", "0", "-n", "6", "-m", model, "--kv", kv, template ? "--chat-template" : NULL,
		template, NULL,
	};

	struct timeline_stats st;
	int failed;

	*r = (struct reader){ .e = { 0 } };
	failed = options_parse(&r->o, template ? 12 : 10, (char **)(uintptr_t)argv, &r->e) < 0;

	r->o.kv_memory = reader_memory;
	if (failed || conversation_open(&r->t, &r->o, NULL, NULL, &r->e) < 0) {
		CHECK_MSG(0, "%s", r->e.msg);
		options_free(&r->o);
		return -1;
	}
	stream_join(&r->t);
	timeline_stats(r->t.tl, &st);
	CHECK_INT(st.kv_disk_bytes > 0, reader_memory > 0);
	return 0;
}

static void reader_close(struct reader *r)
{
	CHECK_MSG(!r->e.code, "%s", r->e.msg);
	conversation_close(&r->t);
	options_free(&r->o);
}

/* Append random words with blanks between them, at which the text can be cut. */
static void words(struct str *out, size_t n)
{
	static const char *const word[] = { "water", "wheel", "a", "miller", "went", "over", "stone", "by", "river" };

	while (out->n < n) {
		size_t at = out->n;

		str_adds(out, word[test_rand() % 9]);
		if (at > 1 && out->p[at - 2] == '.') /* a sentence begins with a capital */
			out->p[at] = (char)(out->p[at] - 'a' + 'A');
		str_adds(out, test_rand() % 12 ? " " : test_rand() % 2 ? ".\n" : ", ");
	}
}

static void feed(struct reader *r, const char *text, size_t n, size_t most)
{
	for (size_t at = 0; at < n && !r->e.code;) {
		size_t k = 1 + test_rand() % most;

		k = k < n - at ? k : n - at;
		conversation_grow(&r->t, text + at, k, test_rand() % 4 == 0, NULL, NULL, &r->e);
		at += k;
	}
	if (!r->e.code)
		conversation_grow(&r->t, "", 0, 1, NULL, NULL, &r->e);
}

static void ask(struct reader *r, const char *question, struct turn *turn)
{
	struct answer_hooks hooks = { .text = NULL };

	conversation_ask(&r->t, question, strlen(question), &hooks, turn, &r->e);
}

/* Ask with the whole text and the question as one message. */
static void ask_whole(struct reader *r, const struct str *text, const char *question, struct turn *turn)
{
	struct str all = { 0 };

	str_add(&all, text->p, text->n);
	str_addf(&all, "\n\n%s", question);
	ask(r, all.p, turn);
	str_free(&all);
}

static void check_same(const struct reader *a, const struct reader *b)
{
	size_t n, m;
	const int32_t *x = timeline_tokens(a->t.tl, &n), *y = timeline_tokens(b->t.tl, &m);

	CHECK_INT(n, m);
	CHECK(n == m && !memcmp(x, y, n * sizeof *x));
}

static void pieces_and_whole(const char *model, const char *kv, const char *template, size_t bytes, int same_answer)
{
	struct reader a, b;
	struct turn turn, whole;
	struct str text = { 0 };
	size_t had, other;
	uint64_t streamed;

	words(&text, bytes);
	if (reader_open(&a, model, kv, template) < 0)
		return;
	if (reader_open(&b, model, kv, template) == 0) {
		feed(&a, text.p, text.n, 900);
		timeline_tokens(a.t.tl, &had);
		streamed = conversation_grown(&a.t);
		CHECK_MSG(streamed > 0 && streamed <= had, "%llu tokens streamed, the sequence has %zu",
		          (unsigned long long)streamed, had);
		ask(&a, "Who went over?", &turn);
		/* The question prefills nothing again: the prefilled tokens are the beginning of its prompt. */
		CHECK_INT(turn.recomputed, 0);
		CHECK_INT(turn.reused_tokens, had);
		ask_whole(&b, &text, "Who went over?", &whole);
		CHECK_INT(turn.prompt_tokens, whole.prompt_tokens);
		CHECK_INT(a.t.n_msg, 2);
		CHECK(a.t.msg[0].text.n == b.t.msg[0].text.n &&
		      !memcmp(a.t.msg[0].text.p, b.t.msg[0].text.p, a.t.msg[0].text.n));
		if (same_answer)
			check_same(&a, &b);
		else
			CHECK(timeline_tokens(a.t.tl, &had) &&
			      !memcmp(timeline_tokens(a.t.tl, &had), timeline_tokens(b.t.tl, &other),
			              (size_t)turn.prompt_tokens * sizeof(int32_t)));
		reader_close(&b);
	}
	reader_close(&a);
	str_free(&text);
}

TEST(in_pieces_as_at_once)
{
	pieces_and_whole(test_file(TINY), "auto", NULL, 120, 1);
	pieces_and_whole(test_file(TINY), "auto", "chatml", 60, 1);
}

TEST(in_pieces_beyond_the_cache)
{
	pieces_and_whole(test_file(TINY), "auto", NULL, 9000, 0);
	pieces_and_whole(test_file(TINY), "cascade:size=64,stride=64", "chatml", 9000, 0);
	pieces_and_whole(test_file(TINY), "sink:size=64,stride=64", "llama2", 9000, 0);
}

TEST(in_pieces_with_a_larger_sentencepiece)
{
	const char *model = test_file("tests/vectors/stories260K/stories260K-f16.gguf");

	pieces_and_whole(model, "auto", NULL, 9000, 0);
	pieces_and_whole(model, "cascade:size=64,stride=64", "mistral", 9000, 0);
}

TEST(in_pieces_with_the_default_model)
{
	pieces_and_whole(test_model(), "auto", NULL, 1500, 0);
}

TEST(ask_in_between_and_read_on)
{
	struct reader a;
	struct turn turn;
	struct str text = { 0 };
	size_t had;

	words(&text, 6000);
	if (reader_open(&a, test_file(TINY), "cascade:size=64,stride=64", "chatml") < 0)
		return;
	for (int i = 0; i < 4; i++) {
		feed(&a, text.p + 1500 * i, 1500, 300);
		timeline_tokens(a.t.tl, &had);
		ask(&a, i % 2 ? "What?" : "And then, who was it?", &turn);
		CHECK_INT(turn.recomputed, 0);
		CHECK_INT(turn.reused_tokens, had);
		CHECK_INT(a.t.n_msg, 2 * (i + 1));
	}
	/* A question without new text before it is a message of its own. */
	ask(&a, "Who?", &turn);
	CHECK_INT(a.t.n_msg, 10);
	CHECK_INT(a.t.msg[8].text.n, 4);
	str_free(&text);
	reader_close(&a);
}

TEST(a_question_is_taken_back_and_the_text_stays)
{
	struct reader a;
	struct turn turn;
	struct str text = { 0 };

	words(&text, 800);
	if (reader_open(&a, test_file(TINY), "auto", "chatml") < 0)
		return;
	feed(&a, text.p, 400, 90);
	ask(&a, "What?", &turn);
	CHECK_INT(conversation_undo(&a.t, 1), 1);
	CHECK_INT(a.t.n_msg, 1);
	CHECK_INT(a.t.msg[0].text.n, 400);
	CHECK(a.t.grows);
	feed(&a, text.p + 400, 400, 90);
	CHECK_INT(a.t.n_msg, 1);
	ask(&a, "Who?", &turn);
	CHECK_INT(a.t.n_msg, 2);
	CHECK_INT(a.t.msg[0].text.n, 806);
	CHECK(!memcmp(a.t.msg[0].text.p, text.p, 800));
	/* The second undo removes the text, too. */
	CHECK_INT(conversation_undo(&a.t, 2), 2);
	CHECK_INT(a.t.n_msg, 0);
	CHECK(!a.t.grows);
	CHECK(conversation_regenerate(&a.t, &(struct answer_hooks){ .text = NULL }, &turn, &(struct err){ 0 }) < 0);
	str_free(&text);
	reader_close(&a);
}

/* Cancel the prefill before every third piece of text: no text may be lost. */
TEST(a_stop_loses_nothing)
{
	struct reader a, b;
	struct turn turn;
	struct str text = { 0 };

	words(&text, 5000);
	if (reader_open(&a, test_file(TINY), "cascade:size=64,stride=64", "chatml") < 0 ||
	    reader_open(&b, test_file(TINY), "cascade:size=64,stride=64", "chatml") < 0)
		return;
	for (size_t at = 0; at < text.n; at += 500) {
		struct err e = { 0 };

		if (at % 1500 == 0)
			timeline_cancel(a.t.tl);
		if (conversation_grow(&a.t, text.p + at, text.n - at < 500 ? text.n - at : 500, 1, NULL, NULL, &e) < 0)
			CHECK_INT(e.code, ERR_CANCELLED);
		else
			CHECK(at % 1500 != 0);
		timeline_resume(a.t.tl);
	}
	conversation_grow(&a.t, "", 0, 1, NULL, NULL, &a.e);
	feed(&b, text.p, text.n, 500);
	CHECK_INT(conversation_grown(&a.t), conversation_grown(&b.t));
	check_same(&a, &b);
	ask(&a, "Who?", &turn);
	CHECK(turn.answered);
	str_free(&text);
	reader_close(&a);
	reader_close(&b);
}

TEST(another_cache_in_the_middle)
{
	struct reader a;
	struct turn turn;
	struct err e = { 0 };
	struct doc doc;
	struct str text = { 0 };
	size_t had;

	words(&text, 4000);
	if (reader_open(&a, test_file(TINY), "cascade:size=64,stride=64", "chatml") < 0)
		return;
	feed(&a, text.p, 2000, 300);
	CHECK(conversation_change_policy(&a.t, "test", "sink:size=96,stride=64", &a.e) >= 0);
	feed(&a, text.p + 2000, 2000, 300);
	timeline_tokens(a.t.tl, &had);
	ask(&a, "Who?", &turn);
	CHECK_INT(turn.recomputed, 0);
	CHECK_INT(turn.reused_tokens, had);
	/* The same with a document, which is rendered before the text. */
	feed(&a, text.p, 1000, 300);
	doc_decode("note.txt", "The mill burned.", 16, &doc, &a.e);
	conversation_add_document(&a.t, &doc, &a.e);
	doc_free(&doc);
	feed(&a, text.p, 1000, 300);
	timeline_tokens(a.t.tl, &had);
	ask(&a, "Who?", &turn);
	CHECK_INT(turn.recomputed, 0);
	CHECK_INT(turn.reused_tokens, had);
	reader_close(&a);
	if (reader_open(&a, test_file(TINY), "full", "chatml") < 0)
		return;
	CHECK(conversation_grow(&a.t, "some words", 10, 1, NULL, NULL, &e) < 0);
	CHECK_INT(e.code, ERR_USAGE);
	CHECK(strstr(e.msg, "--kv auto"));
	CHECK_INT(a.t.n_msg, 0);
	str_free(&text);
	reader_close(&a);
}

/* ---- questions beside the text ---- */

static void add_document(struct reader *r, const char *text)
{
	struct doc doc;

	if (doc_decode("note.txt", text, strlen(text), &doc, &r->e) == 0) {
		conversation_add_document(&r->t, &doc, &r->e);
		doc_free(&doc);
	}
}

static void take_head(const struct reader *r, struct str *out)
{
	struct err e = { 0 };

	CHECK_MSG(timeline_head_save(r->t.tl, out, &e) == 0, "%s", e.msg);
}

/* Check that both readers have equal tokens, caches, policy states and logits, which decide all later results. */
static void check_heads(const struct reader *a, const struct reader *b)
{
	struct str x = { 0 }, y = { 0 };
	const float *p = timeline_logits(a->t.tl), *q = timeline_logits(b->t.tl);

	take_head(a, &x);
	take_head(b, &y);
	CHECK_INT(x.n, y.n);
	CHECK(x.n == y.n && !memcmp(x.p, y.p, x.n));
	CHECK((p && q && !memcmp(p, q, (size_t)engine_info(a->t.engine)->n_vocab * sizeof *p)) || (!p && !q));
	str_free(&x);
	str_free(&y);
}

static void stop_it(int32_t done, int32_t total, void *ud)
{
	(void)done, (void)total;
	timeline_cancel(ud);
}

/* Interrupt the stream of `a` before piece i in one of five ways; conversation_return() then restores its state. */
static void interrupt(struct reader *a, int i, const char *piece, size_t n)
{
	struct turn turn;
	struct err e = { 0 };
	size_t messages = a->t.n_msg;
	int32_t first;

	switch (i % 5) {
	case 0: /* a question, and one that refers to it */
		ask(a, "Who went over?", &turn);
		first = turn.prompt_tokens;
		CHECK(conversation_is_beside(&a->t));
		ask(a, "And why?", &turn);
		CHECK(turn.prompt_tokens > first);
		CHECK_INT(a->t.n_msg, messages + 3);
		break;
	case 1: /* a prefill is stopped */
		timeline_cancel(a->t.tl);
		while (conversation_grow(&a->t, piece, n, 0, NULL, NULL, &e) == 0)
			piece += n, n = 0;
		CHECK_INT(e.code, ERR_CANCELLED);
		timeline_resume(a->t.tl);
		return;
	case 2: /* the question is undone, and another one asked */
		ask(a, "What?", &turn);
		CHECK_INT(conversation_undo(&a->t, 1), 1);
		CHECK(a->t.grows && streamed_of(&a->t)->known);
		ask(a, "Where was it?", &turn);
		break;
	case 3: /* the answer is generated again */
		ask(a, "What?", &turn);
		conversation_regenerate(&a->t, &(struct answer_hooks){ .text = NULL }, &turn, &a->e);
		break;
	case 4: /* the question is stopped before its answer */
		CHECK(conversation_ask(&a->t, "Who?", 4,
		                       &(struct answer_hooks){ .progress = stop_it, .progress_ud = a->t.tl }, &turn,
		                       &e) < 0);
		CHECK_INT(e.code, ERR_CANCELLED);
		CHECK(!turn.answered && streamed_of(&a->t)->known);
		break;
	}
	conversation_return(&a->t);
	CHECK(a->t.grows);
	CHECK_INT(a->t.n_msg, messages);
	conversation_grow(&a->t, piece, n, 0, NULL, NULL, &a->e);
}

/* The streamed message itself is undone while the rendering lacks its newest tokens. The next text is a new message. */
TEST(a_streamed_message_is_undone)
{
	struct reader a;
	struct turn turn;
	struct str text = { 0 };

	words(&text, 4000);
	if (reader_open(&a, test_file(TINY), "cascade:size=64,stride=64", "chatml") < 0)
		return;
	feed(&a, text.p, 2000, 300);
	CHECK(streamed_of(&a.t)->known && streamed_of(&a.t)->rendered < streamed_of(&a.t)->at);
	CHECK_INT(conversation_undo(&a.t, 1), 1);
	CHECK(!a.t.grows && !a.t.n_msg);
	feed(&a, text.p + 2000, 2000, 300);
	ask(&a, "Who?", &turn);
	CHECK(turn.answered);
	CHECK_INT(a.t.n_msg, 2);
	str_free(&text);
	reader_close(&a);
}

/* Check that the ends of sentences are in order and each follows a full stop or similar mark. */
static void check_sentences(const struct reader *r, size_t bytes)
{
	const struct surprise *s = surprise_of(&r->t);
	const struct str *text = &r->t.msg[r->t.n_msg - 1].text;

	CHECK_MSG(s->n > bytes / 400, "%zu sentences", s->n);
	for (size_t i = 0; i < s->n; i++) {
		CHECK(s->at[i].nll > 0 && s->at[i].level <= SURPRISE_LEVELS);
		CHECK(s->at[i].end <= text->n && (!i || s->at[i].end > s->at[i - 1].end));
	}
}

static void beside_the_text(const char *model, const char *kv, const char *template, size_t bytes, size_t piece,
                            const char *document)
{
	struct reader a, b;
	struct turn x, y;
	struct str text = { 0 };
	int i = 0;

	words(&text, bytes);
	if (reader_open(&a, model, kv, template) < 0)
		return;
	if (reader_open(&b, model, kv, template) == 0) {
		if (document) {
			add_document(&a, document);
			add_document(&b, document);
		}
		conversation_beside(&a.t, 1);
		a.o.surprise = "on"; /* must not change the results of the stream either */
		for (size_t at = 0; at < bytes && !a.e.code; at += piece, i++) {
			size_t n = bytes - at < piece ? bytes - at : piece;

			conversation_grow(&b.t, text.p + at, n, 0, NULL, NULL, &b.e);
			if (i % 3 == 2)
				interrupt(&a, i / 3, text.p + at, n);
			else
				conversation_grow(&a.t, text.p + at, n, 0, NULL, NULL, &a.e);
		}
		conversation_grow(&a.t, "", 0, 1, NULL, NULL, &a.e);
		conversation_grow(&b.t, "", 0, 1, NULL, NULL, &b.e);
		CHECK_INT(conversation_grown(&a.t), conversation_grown(&b.t));
		check_heads(&a, &b);
		check_sentences(&a, bytes);
		/* The last question stays in the conversation. Both readers give the same answer. */
		conversation_beside(&a.t, 0);
		ask(&a, "Who went over?", &x);
		ask(&b, "Who went over?", &y);
		CHECK_INT(x.recomputed, 0);
		CHECK_INT(x.reused_tokens, y.reused_tokens);
		check_same(&a, &b);
		CHECK(!conversation_return(&a.t));
		reader_close(&b);
	}
	reader_close(&a);
	str_free(&text);
}

TEST(a_question_beside_the_text_leaves_the_stream_as_it_was)
{
	const char *tiny = test_file(TINY);

	beside_the_text(tiny, "cascade:size=64,stride=64", "chatml", 9000, 170, NULL);
	beside_the_text(tiny, "sink:size=64,stride=64", "llama2", 9000, 170, NULL);
	beside_the_text(tiny, "auto", NULL, 9000, 450, NULL);
	beside_the_text(tiny, "cascade:size=64,stride=64", "chatml", 6000, 170, "The mill burned down.");
}

TEST(a_question_beside_the_text_with_the_default_model)
{
	beside_the_text(test_model(), "cascade:size=256,stride=64", NULL, 1600, 180, NULL);
}

/* With --kv-memory, the snapshot before the question is on disk, too. */
TEST(a_question_beside_the_text_whose_cache_lies_on_disk)
{
	reader_memory = 6 << 20;
	beside_the_text(test_model(), "cascade:size=256,stride=64", NULL, 1000, 180, NULL);
	reader_memory = 0;
}

TEST(a_document_that_is_added_beside_the_text)
{
	struct reader a;
	struct turn turn;
	struct str text = { 0 };
	size_t had;

	words(&text, 4000);
	if (reader_open(&a, test_file(TINY), "cascade:size=64,stride=64", "chatml") < 0)
		return;
	conversation_beside(&a.t, 1);
	feed(&a, text.p, 2000, 300);
	ask(&a, "Who?", &turn);
	add_document(&a, "The mill burned.");
	CHECK(conversation_return(&a.t));
	CHECK(!streamed_of(&a.t)->known); /* all tokens after the document are recomputed */
	feed(&a, text.p + 2000, 2000, 300);
	CHECK_INT(a.t.n_msg, 1);
	timeline_tokens(a.t.tl, &had);
	ask(&a, "Who?", &turn);
	CHECK_INT(turn.reused_tokens, had);
	/* After a change of the cache policy the snapshot cannot be loaded, so the text is prefilled again. */
	CHECK(conversation_change_policy(&a.t, "test", "sink:size=96,stride=64", &a.e) >= 0);
	CHECK(!conversation_return(&a.t));
	str_free(&text);
	reader_close(&a);
}

/* ---- sources of the text ---- */

static int stream_all(const char *path, struct str *out, struct err *e)
{
	struct text_source *s;
	int got;

	if (text_source_open(&s, path, e) < 0)
		return -1;
	while ((got = text_source_next(s, 100, out, e)) == SOURCE_TEXT || got == SOURCE_LATER)
		;
	if (got == SOURCE_END) {
		struct source_progress place;

		text_source_progress(s, &place);
		CHECK_INT(place.at, place.total);
	}
	text_source_close(s);
	return got < 0 ? -1 : 0;
}

static void check_stream(const char *bytes, size_t n, const char *want)
{
	char path[] = "/tmp/weir-text-XXXXXX";
	int fd = mkstemp(path);
	struct str out = { 0 };
	struct err e = { 0 };

	CHECK(fd >= 0 && write(fd, bytes, n) == (ssize_t)n);
	close(fd);
	if (stream_all(path, &out, &e) < 0)
		CHECK_MSG(!want || strstr(e.msg, want), "%s", e.msg);
	else
		CHECK_STR(str_text(&out), want ? want : "(refused)");
	unlink(path);
	str_free(&out);
}

TEST(what_a_file_holds)
{
	struct str s = { 0 }, want = { 0 };

	check_stream("one\r\ntwo\rthree\n", 15, "one\ntwo\nthree\n");
	check_stream("\xef\xbb\xbfmark", 7, "mark");
	check_stream("\xff\xfeh\0\xe9\0\n\0", 8, "h\xc3\xa9\n");
	check_stream("\xfe\xff\0h\x4e\x2d", 6, "h\xe4\xb8\xad");
	check_stream("caf\xe9 cr\xe8me\n", 11, "caf\xc3\xa9 cr\xc3\xa8me\n");
	check_stream("\x7f"
	             "ELF\1\1",
	             6, "program");
	check_stream(" \n\n", 3, "white space");
	check_stream("", 0, "empty");
	/* Escape sequences, overstrikes and overwritten progress are left out. A line is returned when it ends. */
	check_stream("\033[1mbold\033[0m _\bu\n10%\r20%\rdone\n", 30, "bold u\ndone\n");
	check_stream("one\rtwo\rthree", 13, "one\ntwo\nthree");
	for (int i = 0; i < 1500; i++)
		str_adds(&s, "x\bx");
	str_adds(&s, "\r\n");
	for (int i = 0; i < 1500; i++)
		str_adds(&want, "x");
	str_adds(&want, "\n");
	check_stream(s.p, s.n, want.p);
	str_clear(&s);
	str_clear(&want);
	/* A bad byte late in a text, and a character across the border of two reads. */
	for (int i = 0; i < 3000; i++)
		str_adds(&s, "\xe4\xb8\xad");
	str_add(&want, s.p, s.n);
	str_adds(&s, "\xff!\xe4\xb8");
	str_adds(&want, "\xef\xbf\xbd!\xef\xbf\xbd");
	check_stream(s.p, s.n, want.p);
	str_free(&s);
	str_free(&want);
}

/* A file of another format gives the text of doc_read() in pieces of whole characters, and then SOURCE_END. */
TEST(documents_of_other_formats)
{
	static const char *const files[] = { "page.html",    "text.gz",    "body.docx",
		                             "package.epub", "table.html", "printed.pdf" };

	for (size_t i = 0; i < LEN(files); i++) {
		struct str path = { 0 }, got = { 0 };
		struct doc doc;
		struct err e = { 0 };

		str_addf(&path, "tests/fuzz/documents/%s", files[i]);
		if (doc_read(test_file(path.p), &doc, &e) == 0) {
			CHECK_MSG(stream_all(test_file(path.p), &got, &e) == 0, "%s", e.msg);
			CHECK_MSG(got.n == doc.text.n && !memcmp(got.p, doc.text.p, got.n), "%s has other text",
			          path.p);
			doc_free(&doc);
		} else {
			struct err stream = { 0 };

			CHECK(stream_all(test_file(path.p), &got, &stream) < 0);
			CHECK_STR(stream.msg, e.msg);
		}
		str_free(&path);
		str_free(&got);
	}
}

TEST(what_is_no_text)
{
	struct text_source *s;
	struct err e = { 0 };

	CHECK(text_source_open(&s, "/tmp", &e) < 0 && strstr(e.msg, "directory"));
	CHECK(text_source_open(&s, "/dev/zero", &e) < 0 && strstr(e.msg, "device"));
	CHECK(text_source_open(&s, "/nonexistent/file", &e) < 0);
	CHECK_INT(e.code, ERR_DOCUMENT);
}

/* A text is indexed in parts. If it grows or loses its beginning, the boundaries of all parts but the last stay the
 * same. */
TEST(parts_of_a_text_that_grows)
{
	struct str text = { 0 };
	size_t n = 0, ends[20], at = 0, k;

	for (int i = 0; text.n < 500000; i++)
		/* parts of the text have no line breaks */
		str_addf(&text, i % 3000 < 1500 ? "line %d\n" : "\xe4\xb8\xad\xe6\x96\x87 %d", i);
	while (at < text.n && n < 20)
		ends[n++] = at = text_part_end(text.p, text.n, 0, at);
	CHECK(at == text.n && n > 6 && n < 12);
	for (size_t i = 0; i + 1 < n; i++) {
		CHECK(((unsigned char)text.p[ends[i]] & 0xc0) != 0x80);
		for (at = 0, k = 0; (at = text_part_end(text.p, ends[i + 1], 0, at)) < ends[i + 1]; k++)
			CHECK_INT(at, ends[k]);
		for (at = 0, k = i + 1;
		     (at = text_part_end(text.p + ends[i], text.n - ends[i], ends[i], at)) < text.n - ends[i]; k++)
			CHECK_INT(at + ends[i], ends[k]);
		CHECK_INT(k, n - 1);
	}
	str_free(&text);
}

/* A page is shown with its label; if the label is not its number, also with its number. */
TEST(pages_of_what_is_read)
{
	struct reading r = { .tokens = 20, .page = "172", .number = 45, .pages = 92 };
	struct str s = { 0 };

	reading_text(&r, 1, &s);
	CHECK_STR(s.p, "reading 20 p. 172 (45/92)");
	str_clear(&s);
	reading_text(&r, 0, &s);
	CHECK_STR(s.p, "reading 20 tokens, p. 172 (45 of 92)");
	r.page = "45";
	str_clear(&s);
	reading_text(&r, 1, &s);
	CHECK_STR(s.p, "reading 20 p. 45/92");
	str_free(&s);
}

TEST(a_pipe_that_waits)
{
	char path[] = "/tmp/weir-fifo-XXXXXX";
	struct text_source *s;
	struct source_progress place;
	struct str out = { 0 };
	struct err e = { 0 };
	int fd = mkstemp(path), w;

	close(fd);
	unlink(path);
	CHECK(mkfifo(path, 0600) == 0);
	CHECK(text_source_open(&s, path, &e) == 0);
	CHECK_INT(text_source_next(s, 10, &out, &e), SOURCE_LATER); /* no process writes yet */
	w = open(path, O_WRONLY);
	CHECK_INT(text_source_next(s, 10, &out, &e), SOURCE_LATER);
	CHECK(write(w, "one line\n", 9) == 9);
	while (text_source_next(s, 10, &out, &e) == SOURCE_TEXT)
		;
	CHECK_STR(out.p, "one line\n");
	text_source_progress(s, &place);
	CHECK_INT(place.total, 0);
	/* While a pipe is silent, a line is returned before it has ended. A progress line is held back, because later
	 * text may overwrite it. */
	CHECK(write(w, "a part\n40%\r", 11) == 11);
	while (text_source_next(s, 10, &out, &e) == SOURCE_TEXT)
		;
	CHECK_STR(out.p, "one line\na part\n");
	CHECK(write(w, "\n2 parts", 8) == 8);
	while (text_source_next(s, 10, &out, &e) == SOURCE_TEXT)
		;
	CHECK_STR(out.p, "one line\na part\n40%\n2 parts");
	close(w);
	CHECK_INT(text_source_next(s, 10, &out, &e), SOURCE_END);
	text_source_close(s);
	unlink(path);
	str_free(&out);
}
