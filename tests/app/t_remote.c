/* tests/app/t_remote.c - app/remote without a server: server-sent events that arrive in pieces of any size, the JSON of
 * answers and errors, addresses and keys, requests. tests/cli/s_remote.sh has the server. */
#include "app/conversation/conversation.h"
#include "app/remote/remote_private.h"
#include "tests/lib/test.h"
#include "engine/base/json.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* ---- server-sent events ---- */

static int add_event(const char *data, size_t n, void *ud, struct err *e)
{
	struct str *out = ud;

	(void)e;
	str_adds(out, "<");
	str_add(out, data, n);
	str_adds(out, ">");
	return 0;
}

/* Append the events of a stream that arrives in pieces of `step` bytes. */
static void events_of(const char *text, size_t n, size_t step, struct str *out)
{
	struct sse s = { 0 };
	struct err e = { 0 };

	str_clear(out);
	str_adds(out, "");
	for (size_t i = 0; i < n; i += step)
		CHECK(sse_feed(&s, text + i, n - i < step ? n - i : step, add_event, out, &e) == 0);
	CHECK(sse_end(&s, add_event, out, &e) == 0);
	sse_free(&s);
}

TEST(events_do_not_depend_on_how_they_are_cut)
{
	/* clang-format off */
	static const struct { const char *stream, *events; } all[] = {
		{"data: a\n\ndata: b\n\n", "<a><b>"}, {"data: a\r\n\r\ndata: b\r\n\r\n", "<a><b>"}, {"data: a\r\rdata: b\r\r", "<a><b>"},
		{"data:a\n\n", "<a>"}, {"data:  a\n\n", "< a>"}, {"data\n\n", "<>"}, {"data:\n\n", "<>"}, {"data: a\ndata: b\n\n", "<a\nb>"},
		{"data\ndata\n\n", "<\n>"}, {": comment\n\n", ""}, {":\ndata: a\n: b\ndata: c\n\n", "<a\nc>"}, {"\n\n\n", ""},
		{"event: x\nid: 1\nretry: 2\ndata: a\n\n", "<a>"}, {"\xef\xbb\xbf" "data: a\n\n", "<a>"}, {"data: a\n\n\xef\xbb\xbf" "data: b\n\n", "<a>"},
		{"dataa: x\ndat: y\nDATA: z\n\n", ""}, {"data: a", "<a>"}, {"data: a\n", "<a>"}, {"data: {\"x\": \"a:b\"}\n\n", "<{\"x\": \"a:b\"}>"},
		{"data: gr\xc3\xbc\xc3\x9f\n\n", "<gr\xc3\xbc\xc3\x9f>"}, {"data: a\n\r\ndata: b\r\r\n\n", "<a><b>"},
	};
	/* clang-format on */
	struct str out = { 0 };

	for (size_t i = 0; i < LEN(all); i++)
		for (size_t step = 1; step <= 8; step++) {
			events_of(all[i].stream, strlen(all[i].stream), step, &out);
			CHECK_STR(out.p, all[i].events);
		}
	str_free(&out);
}

TEST(random_bytes_give_the_same_events_whole_and_cut)
{
	static const char letters[] = "data: \r\n\r\n\n:x\xef\xbb\xbf";
	struct str whole = { 0 }, cut = { 0 };

	for (int round = 0; round < 3000; round++) {
		char text[64];
		size_t n = test_rand() % sizeof text;

		for (size_t i = 0; i < n; i++)
			text[i] = letters[test_rand() % (sizeof letters - 1)];
		events_of(text, n, sizeof text, &whole);
		events_of(text, n, 1, &cut);
		CHECK(whole.n == cut.n && !memcmp(whole.p, cut.p, whole.n));
	}
	str_free(&whole);
	str_free(&cut);
}

TEST(lines_and_events_have_an_end)
{
	struct sse s = { 0 };
	struct str out = { 0 };
	struct err e = { 0 };
	static char many[1 << 16];
	int rc = 0, rounds = 0;

	memset(many, 'a', sizeof many);
	for (; !rc && rounds < 100; rounds++)
		rc = sse_feed(&s, many, sizeof many, add_event, &out, &e);
	CHECK_INT(rc, -1);
	CHECK_INT(rounds, 17);
	CHECK_STR(e.msg, "the server sent a line of more than 1 MiB");
	sse_free(&s);
	memcpy(many, "data: ", 6);
	many[sizeof many - 1] = '\n';
	for (rc = rounds = 0; !rc && rounds < 100; rounds++)
		rc = sse_feed(&s, many, sizeof many, add_event, &out, &e);
	CHECK_STR(e.msg, "the server sent an event of more than 1 MiB");
	CHECK_INT(rounds, 17);
	sse_free(&s);
	str_free(&out);
}

/* ---- JSON ---- */

TEST(only_json_is_json)
{
	/* clang-format off */
	static const char *const good[] = {
		"{}", "[]", "0", "-1.5e-3", "true", " null ", "\"\"", "\"\\u00e9\\n\"", "{\"a\":[1,2,{\"b\":null}],\"c\":\"}\"}", "[[[]]]", "1e300", "\"\xff\"",
	};
	/* clang-format on */
	static const char *const bad[] = {
		"",           " ",         "{",   "}",       "[1,]",        "{\"a\"}",   "{\"a\":}", "{a:1}",
		"{\"a\":1,}", "[1 2]",     "\"",  "\"\\x\"", "\"\\u12g4\"", "\"\\u12\"", "\"a\nb\"", "01",
		"+1",         "1.",        ".5",  "1e",      "-",           "truex",     "nul",      "{}{}",
		"[1]]",       "{\"a\":1]", "NaN", "\"\\",    "{\"a\" 1}",   "//",        "'a'",
	};
	struct str deep = { 0 };

	for (size_t i = 0; i < LEN(good); i++)
		CHECK_MSG(json_valid(good[i], strlen(good[i])), "%s is JSON", good[i]);
	for (size_t i = 0; i < LEN(bad); i++)
		CHECK_MSG(!json_valid(bad[i], strlen(bad[i])), "%s is no JSON", bad[i]);
	CHECK(!json_valid("{}\0", 3));
	for (int depth = 1; depth < 100; depth++) {
		str_clear(&deep);
		for (int i = 0; i < depth; i++)
			str_adds(&deep, i % 2 ? "{\"a\":" : "[");
		str_adds(&deep, "1");
		for (int i = depth; i--;)
			str_adds(&deep, i % 2 ? "}" : "]");
		CHECK_INT(json_valid(deep.p, deep.n), depth <= 64);
		CHECK(!json_valid(deep.p, deep.n - 1));
	}
	str_free(&deep);
}

static void parse(struct chunk *c, const char *json, int rc)
{
	chunk_clear(c);
	CHECK_INT(chunk_parse(c, json, strlen(json)), rc);
}

TEST(chunks_of_all_servers_are_understood)
{
	struct chunk c = { .fault = 0 };

	parse(&c, "{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\\u00e9\"},\"finish_reason\":null}]}", 0);
	CHECK_STR(c.text.p, "a\xc3\xa9");
	CHECK_INT(c.finish, CHUNK_GOES_ON);
	CHECK_INT(c.usage.prompt, -1);
	parse(&c, "{\"choices\":[{\"delta\":{\"reasoning_content\":\"x\",\"content\":null}}]}", 0);
	CHECK_STR(c.thought.p, "x");
	CHECK_INT(c.text.n, 0);
	parse(&c, "{\"choices\":[{\"delta\":{\"reasoning\":\"y\",\"reasoning_content\":null}}]}", 0);
	CHECK_STR(c.thought.p, "y");
	parse(&c,
	      "{\"choices\":[{\"message\":{\"content\":[{\"type\":\"text\",\"text\":\"p\"},{\"text\":\"q\"},3]},\"finish_reason\":\"length\"}]}",
	      0);
	CHECK_STR(c.text.p, "pq");
	CHECK_INT(c.finish, CHUNK_LENGTH);
	parse(&c, "{\"choices\":[{\"delta\":{},\"finish_reason\":\"content_filter\"}]}", 0);
	CHECK_INT(c.finish, CHUNK_REFUSED);
	CHECK_STR(c.why.p, "content_filter");
	parse(&c,
	      "{\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":3,\"prompt_tokens_details\":{\"cached_tokens\":5}}}",
	      0);
	CHECK(c.usage.prompt == 7 && c.usage.answer == 3 && c.usage.cached == 5 && !c.fault);
	parse(&c,
	      "{\"usage\":{\"prompt_tokens\":1e300,\"completion_tokens\":-4},\"timings\":{\"cache_n\":2,\"predicted_per_second\":12.5}}",
	      0);
	CHECK(c.usage.prompt == -1 && c.usage.answer == -1 && c.usage.cached == 2 && c.usage.decode_tps > 12.4);
	parse(&c, "{\"prompt_progress\":{\"total\":100,\"processed\":250}}", 0);
	CHECK(c.total == 100 && c.done == 100);
	parse(&c, "{\"choices\":{\"a\":1},\"usage\":[],\"error\":null}", 0);
	CHECK(!c.fault && !c.text.n);
	/* Mistral sends reasoning as a part of the content. */
	parse(&c,
	      "{\"choices\":[{\"delta\":{\"content\":[{\"type\":\"thinking\",\"thinking\":[{\"type\":\"text\",\"text\":\"t\"}]},{\"type\":\"text\",\"text\":\"u\"}]}}]}",
	      0);
	CHECK_STR(c.thought.p, "t");
	CHECK_STR(c.text.p, "u");
	/* OpenRouter sends reasoning under two names, or only as reasoning_details. */
	parse(&c,
	      "{\"choices\":[{\"delta\":{\"content\":\"\",\"reasoning\":\"r\",\"reasoning_details\":[{\"type\":\"reasoning.text\",\"text\":\"r\"}]}}]}",
	      0);
	CHECK_STR(c.thought.p, "r");
	parse(&c,
	      "{\"choices\":[{\"delta\":{\"reasoning\":null,\"reasoning_details\":[{\"type\":\"reasoning.summary\",\"summary\":\"s\"}]}}]}",
	      0);
	CHECK_STR(c.thought.p, "s");
	parse(&c, "{\"choices\":[{\"delta\":{\"reasoning_content\":\"\",\"reasoning\":\"v\"}}]}", 0);
	CHECK_STR(c.thought.p, "v");
	/* The older completions protocol names the member "text". */
	parse(&c, "{\"choices\":[{\"index\":0,\"text\":\"a\"}]}", 0);
	CHECK_STR(c.text.p, "a");
	parse(&c, "{\"choices\":[{\"delta\":{\"text\":\"b\"}}]}", 0);
	CHECK_STR(c.text.p, "b");
	parse(&c, "{\"choices\":[{\"delta\":{\"content\":\"c\"},\"text\":\"c\"}]}", 0);
	CHECK_STR(c.text.p, "c");
	/* DeepSeek's name for the number of cached tokens. */
	parse(&c, "{\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"prompt_cache_hit_tokens\":8}}", 0);
	CHECK_INT(c.usage.cached, 8);
	parse(&c, "[]", -1);
	parse(&c, "[1]", -1);
	parse(&c, "{\"choices\":[", -1);
	chunk_free(&c);
}

TEST(an_answer_ends_for_one_of_three_reasons)
{
	/* clang-format off */
	static const struct { const char *word; int finish; } all[] = {
		{"null", CHUNK_GOES_ON}, {"\"\"", CHUNK_GOES_ON}, {"\"null\"", CHUNK_GOES_ON}, {"\"stop\"", CHUNK_STOP}, {"\"eos_token\"", CHUNK_STOP},
		{"\"stop_sequence\"", CHUNK_STOP}, {"\"length\"", CHUNK_LENGTH}, {"\"max_tokens\"", CHUNK_LENGTH}, {"\"model_length\"", CHUNK_LENGTH},
		{"\"content_filter\"", CHUNK_REFUSED}, {"\"abort\"", CHUNK_REFUSED}, {"\"error\"", CHUNK_REFUSED}, {"\"insufficient_system_resource\"", CHUNK_REFUSED},
	};
	/* clang-format on */
	struct chunk c = { .fault = 0 };
	char json[100];

	for (size_t i = 0; i < LEN(all); i++) {
		snprintf(json, sizeof json, "{\"choices\":[{\"delta\":{\"content\":\"a\"},\"finish_reason\":%s}]}",
		         all[i].word);
		parse(&c, json, 0);
		CHECK_MSG((int)c.finish == all[i].finish, "%s: %d", all[i].word, c.finish);
	}
	chunk_free(&c);
}

TEST(errors_of_all_servers_are_understood)
{
	/* clang-format off */
	static const struct { const char *json, *text; int overflow, ctx; } all[] = {
		{"{\"error\":{\"message\":\"a\",\"code\":500}}", "a", 0, 0}, {"{\"error\":\"b\"}", "b", 0, 0}, {"{\"object\":\"error\",\"message\":\"c\"}", "c", 0, 0},
		{"{\"detail\":\"d\"}", "d", 0, 0}, {"{\"detail\":[{\"msg\":\"e\"}]}", "e", 0, 0}, {"{\"error\":{}}", "", 0, 0}, {"{\"error\":[1]}", "[1]", 0, 0},
		{"{\"error\":{\"message\":\"f\",\"type\":\"exceed_context_size_error\",\"n_ctx\":512}}", "f", 1, 512},
		{"{\"error\":{\"message\":\"g\",\"code\":\"context_length_exceeded\"}}", "g", 1, 0},
		{"{\"error\":{\"message\":\"This model's maximum context length is 8192 tokens.\"}}", "This model's maximum context length is 8192 tokens.", 1, 8192},
		/* Gemini */
		{"[{\"error\":{\"code\":400,\"message\":\"API key not valid.\"}}]", "API key not valid.", 0, 0},
		{"{\"object\":\"error\",\"message\":{\"detail\":[{\"loc\":[\"body\",\"messages\",0,\"name\"],\"msg\":\"Not permitted\"}]}}", "messages.0.name: Not permitted", 0, 0},
		{"{\"error\":{\"message\":\"Provider returned error\",\"code\":429,\"metadata\":{\"raw\":\"busy upstream\"}}}", "Provider returned error: busy upstream", 0, 0},
		{"{\"error\":{\"message\":\"Provider returned error\",\"metadata\":{\"raw\":\"{\\\"error\\\":{\\\"message\\\":\\\"no\\\"}}\"}}}", "Provider returned error: no", 0, 0},
		{"{\"message\":\"no Route matched\"}", "no Route matched", 0, 0}, {"{\"success\":false,\"errors\":[{\"code\":7,\"message\":\"h\"}]}", "h", 0, 0},
		{"{\"error\":\"Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000\",\"error_type\":\"validation\"}",
		 "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000", 1, 4096},   /* TGI */
		{"{\"error\":\"Trying to keep the first 900 tokens. However, the model is loaded with context length of only 512 tokens\"}",
		 "Trying to keep the first 900 tokens. However, the model is loaded with context length of only 512 tokens", 1, 512},   /* LM Studio */
		{"{\"error\":{\"message\":\"the request exceeds the available context size (300 tokens)\"}}", "the request exceeds the available context size (300 tokens)", 1, 300},
		{"{\"error\":{\"message\":\"Context size has been exceeded.\"}}", "Context size has been exceeded.", 1, 0},
	};
	/* clang-format on */
	struct chunk c = { .fault = 0 };

	parse(&c, "{\"choices\":[],\"error\":false,\"errors\":[],\"detail\":\"x\",\"message\":\"y\"}", 0);
	CHECK_INT(c.fault, 0);
	for (size_t i = 0; i < LEN(all); i++) {
		parse(&c, all[i].json, 0);
		CHECK_INT(c.fault, 1);
		CHECK_STR(str_text(&c.error), all[i].text);
		CHECK_INT(c.overflow, all[i].overflow);
		CHECK_INT(c.ctx, all[i].ctx);
	}
	chunk_free(&c);
}

/* ---- reasoning ---- */

/* The prompt has the opening mark of reasoning, so the answer has only the closing one. length 0: the text only
 * mentions the mark. */
TEST(reasoning_that_was_not_opened_ends_at_its_mark_and_a_mention_is_none)
{
	/* clang-format off */
	static const struct { const char *text; size_t length; } cases[] = {
		{"I wonder</think>\n\nAnswer", 18}, {"I wonder\n</think>\n\nAnswer", 19}, {"I wonder.</think>\nanswer", 18}, {"I wonder</think>Answer", 16},
		{"I wonder.</think> It is 4.", 18}, {"I wonder. </think>\n\nyes", 20}, {"one\n\ntwo?\n</think>\n\nyes", 20}, {"I wonder</think>", 16},
		{"</think>\n\nAnswer", 10}, {"\n\n</think>\n\nAnswer", 12}, {"I wonder[/THINK]\n\nAnswer", 18}, {"I wonder</thinking>\nAnswer", 20},
		{"I will say \"Hello!\"</think>\n\nHello!", 29}, {"Use `x`.\n</think>\n\n`y` is better.", 19}, {"```\ncode\n```\n</think>\n\nDone.", 23},
		{"我想想。</think>\n\n答案", 22}, {"我想想</think>答案", 17}, {"I wonder.</think>**4**", 17}, {"I wonder.</think>\n1. one\n2. two", 18},
		/* text that only mentions the mark */
		{"plain words", 0}, {"The `</think>` tag ends it.\n\nIt is said.", 0}, {"The tag </think> ends it.", 0}, {"It ends with </think>", 0}, {"It ends with </think>\n\nSo do I.", 0},
		{"It is called \"</think>\".\n", 0}, {"Look:\n\n```\nI wonder\n</think>\n\nAnswer\n```\n", 0}, {"Look:\n\n    </think>\n\nSo.", 0}, {"The model writes:\n\n</think>\n\nThen it goes on.", 0},
		{"It ends with the tag\n</think>\nand then the answer comes.", 0}, {"- <think> opens\n- </think> closes", 0}, {"Wonder</think>\n\nThis was <think> without its beginning.", 0},
		{"One</think>\n\nTwo</think>\n\nThree", 0}, {"## </think>\n\nThis mark ends it.", 0}, {"**</think>** ends it", 0}, {"| </think> | ends it |\n", 0}, {"(</think>)\n\nIt", 0},
		{"It writes reasoning</think>answer in one go.", 0}, {"„</think>“ beendet es.", 0}, {"`I wonder</think>`\n\nSo it is.", 0}, {"It ends with </think>, and then it goes on.", 0},
		{"<think>a</think>b", 16}, {"a <think>b</think>\n\nc", 0},
	};
	/* clang-format on */

	for (size_t i = 0; i < LEN(cases); i++) {
		size_t n = strlen(cases[i].text), seen = 0, found = 0, whole = 0;
		const char *text = cases[i].text;

		CHECK_MSG(reasoning_length(text, n) == cases[i].length, "case %zu, '%s': %zu bytes", i, text,
		          reasoning_length(text, n));
		/* Parse the text in growing pieces. The result for the whole text may be 0 although an earlier piece
		 * looked like reasoning. */
		for (size_t k = 1; k <= n && !found; k++)
			found = reasoning_unopened(text, k, k == n, &seen);
		seen = 0;
		whole = reasoning_unopened(text, n, 1, &seen);
		CHECK_MSG(!whole || found == whole, "case %zu in pieces: %zu, whole %zu", i, found, whole);
	}
}

/* A server may send blanks and marks endlessly. */
TEST(reasoning_takes_time_in_proportion_to_the_text)
{
	static const char *const unit[] = {
		"\n",        " ",      "</think>",       "<",     "[",         "`",      "</think>\n\n",
		"a</think>", "<think", "\n    </think>", "```\n", " </think>", "<think>"
	};

	for (size_t i = 0; i < LEN(unit); i++) {
		double took[2];

		for (int k = 0; k < 2; k++) {
			struct reasoning t = { .first = 0 };
			struct str text = { 0 }, out = { 0 };
			size_t most = (size_t)(k + 1) << 20, seen = 0;
			clock_t begin;

			while (text.n < most)
				str_adds(&text, unit[i]);
			begin = clock();
			for (size_t at = 0; at < text.n; at += 16) {
				reasoning_feed(&t, text.p + at, text.n - at < 16 ? text.n - at : 16, &out);
				reasoning_unopened(text.p, text.n - at < 16 ? text.n : at + 16, 0, &seen);
			}
			reasoning_end(&t, &out);
			reasoning_length(text.p, text.n);
			took[k] = (double)(clock() - begin) / CLOCKS_PER_SEC;
			reasoning_free(&t);
			str_free(&text);
			str_free(&out);
		}
		CHECK_MSG(took[1] < 3 * took[0] + 0.1, "'%s': %.2f s and %.2f s", unit[i], took[0], took[1]);
	}
}

/* ---- addresses and keys ---- */

TEST(addresses_are_completed_and_their_hosts_known)
{
	/* clang-format off */
	static const struct { const char *url, *api, *root, *server; int secure, here; } all[] = {
		{"http://127.0.0.1:8080", "http://127.0.0.1:8080/v1", "http://127.0.0.1:8080", "http://127.0.0.1:8080", 0, 1},
		{"http://127.0.0.1:8080/", "http://127.0.0.1:8080/v1", "http://127.0.0.1:8080", "http://127.0.0.1:8080", 0, 1},
		{"http://127.0.0.1:8080/v1/", "http://127.0.0.1:8080/v1", "http://127.0.0.1:8080", "http://127.0.0.1:8080", 0, 1},
		{"HTTPS://host/api/v1", "HTTPS://host/api/v1", "HTTPS://host/api", "HTTPS://host", 1, 0},
		{"https://host/openai", "https://host/openai", "https://host/openai", "https://host", 1, 0},
		{"http://[::1]:80", "http://[::1]:80/v1", "http://[::1]:80", "http://[::1]:80", 0, 1},
		{"http://localhost", "http://localhost/v1", "http://localhost", "http://localhost", 0, 1},
		{"http://127.0.0.1.example", "http://127.0.0.1.example/v1", "http://127.0.0.1.example", "http://127.0.0.1.example", 0, 0},
		{"http://localhost.example", "http://localhost.example/v1", "http://localhost.example", "http://localhost.example", 0, 0},
		{"http://127.1", "http://127.1/v1", "http://127.1", "http://127.1", 0, 0},
		{"https://host/openai/?api-version=1", "https://host/openai", "https://host/openai", "https://host", 1, 0},
		{"https://host?a=/b@c", "https://host/v1", "https://host", "https://host", 1, 0},
	};
	/* clang-format on */
	/* clang-format off */
	static const char *const bad[] = {
		"", "127.0.0.1:8080", "ftp://x", "http://", "http:///v1", "http://:80/", "http://a b/", "http://a@b/", "http://a/#x", "http://me:pass@host", "me:pass@host", "http://me:pa/ss@host/", "http://me:pa ss@host", "http://[::1/v1", "http://a\nb",
	};
	/* clang-format on */
	struct address a;
	struct err e = { 0 };

	for (size_t i = 0; i < LEN(all); i++) {
		CHECK_MSG(address_read(&a, all[i].url, &e) == 0, "%s: %s", all[i].url, e.msg);
		CHECK_STR(a.api.p, all[i].api);
		CHECK_STR(a.root.p, all[i].root);
		CHECK_STR(a.server.p, all[i].server);
		CHECK_INT(a.secure, all[i].secure);
		CHECK_INT(a.here, all[i].here);
		address_free(&a);
	}
	for (size_t i = 0; i < LEN(bad); i++) {
		CHECK_MSG(address_read(&a, bad[i], &e) < 0 && e.code == ERR_USAGE, "'%s' is an address", bad[i]);
		CHECK_MSG(!strstr(e.msg, "pa"), "a password is repeated: %s", e.msg);
		address_free(&a);
	}
}

TEST(a_key_goes_encrypted_or_to_this_machine)
{
	/* clang-format off */
	static const struct { const char *url, *key; int insecure, rc; } all[] = {
		{"http://127.0.0.1", "k", 0, 0}, {"http://localhost", "k", 0, 0}, {"https://host", "k", 0, 0}, {"http://host", "k", 0, -1}, {"http://host", "k", 1, 0},
		{"http://host", NULL, 0, 0}, {"http://host", "", 0, 0}, {"https://host", "a b", 0, -1}, {"https://host", "a\r\nX: 1", 0, -1}, {"https://host", "\xc3\xbc", 0, -1},
	};
	/* clang-format on */

	for (size_t i = 0; i < LEN(all); i++) {
		struct remote_options o = { .key = all[i].key, .insecure = all[i].insecure };
		struct address a;
		struct str key = { 0 };
		struct err e = { 0 };

		CHECK(address_read(&a, all[i].url, &e) == 0);
		CHECK_INT(key_read(&o, &a, &key, &e), all[i].rc);
		if (all[i].key && strlen(all[i].key) > 2)
			CHECK_MSG(!strstr(e.msg, all[i].key), "the key is in the error");
		str_free(&key);
		address_free(&a);
	}
}

TEST(a_key_file_is_its_owners_alone)
{
	static const struct {
		mode_t mode;
		int rc;
	} all[] = { { 0600, 0 }, { 0400, 0 }, { 0640, -1 }, { 0604, -1 }, { 0660, -1 }, { 0700, 0 } };
	char path[] = "/tmp/t_remote.XXXXXX";
	int fd = mkstemp(path);
	struct address a;
	struct err e = { 0 };

	CHECK(fd >= 0 && write(fd, "secret \r\n", 9) == 9);
	CHECK(address_read(&a, "https://host", &e) == 0);
	for (size_t i = 0; i < LEN(all); i++) {
		struct remote_options o = { .key_file = path };
		struct str key = { 0 };

		fchmod(fd, all[i].mode);
		CHECK_INT(key_read(&o, &a, &key, &e), all[i].rc);
		if (!all[i].rc)
			CHECK_STR(str_text(&key), "secret");
		str_free(&key);
	}
	CHECK_INT(key_read(&(struct remote_options){ .key_file = "/tmp" }, &a, &(struct str){ 0 }, &e), -1);
	address_free(&a);
	close(fd);
	unlink(path);
}

/* ---- requests ---- */

TEST(a_request_has_what_the_user_has_said)
{
	struct remote r = { .info = { .kind = REMOTE_PLAIN } };
	struct remote_message msg[] = { { ROLE_SYSTEM, "be \"brief\"", 10 },
		                        { ROLE_USER, "hi\n", 3 },
		                        { ROLE_ASSISTANT, "ho", 2 } };
	struct sampling s = sampling_default;
	struct remote_request q = { .msg = msg, .n_msg = 2, .most = -1, .sampling = &s };
	struct str out = { 0 };

	str_adds(&r.model, "m");
	request_json(&r, &q, &out);
	CHECK_STR(
		out.p,
		"{\"model\":\"m\",\"messages\":[{\"role\":\"system\",\"content\":\"be \\\"brief\\\"\"},{\"role\":\"user\",\"content\":\"hi\\n\"}],"
		"\"stream\":true,\"stream_options\":{\"include_usage\":true}}");
	str_clear(&out);
	r.info.kind = REMOTE_VLLM;
	r.info.think_switch = 1;
	s.temperature = 0.5f;
	s.repeat_penalty = 1.25f;
	q = (struct remote_request){ .msg = msg + 1,
		                     .n_msg = 2,
		                     .extends = 1,
		                     .no_thought = 1,
		                     .most = 9,
		                     .sampling = &s,
		                     .said = 1u << SAMPLING_TOP_K | 1u << SAMPLING_TEMP | 1u << SAMPLING_REPEAT,
		                     .seeded = 1,
		                     .seed = 3 };
	request_json(&r, &q, &out);
	CHECK_STR(
		out.p,
		"{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\\n\"},{\"role\":\"assistant\",\"content\":\"ho\"}],"
		"\"stream\":true,\"stream_options\":{\"include_usage\":true},\"temperature\":0.5,\"top_k\":40,\"repetition_penalty\":1.25,\"seed\":3,"
		"\"max_tokens\":9,\"add_generation_prompt\":false,\"continue_final_message\":true,\"chat_template_kwargs\":{\"enable_thinking\":false}}");
	str_clear(&out);
	q = (struct remote_request){
		.msg = msg + 1, .n_msg = 1, .thought = 1, .most = -1, .sampling = &sampling_default
	};
	request_json(&r, &q, &out);
	CHECK(strstr(out.p, "\"chat_template_kwargs\":{\"enable_thinking\":true}}"));
	str_free(&out);
	str_free(&r.model);
}
