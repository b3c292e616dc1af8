/* tests/app/t_json.c - the JSON writer of engine/base: the JSON parser must read what it writes. */
#include "engine/base/json.h"
#include "tests/lib/test.h"

#include <math.h>

TEST(members_have_commas_between_them)
{
	struct str s = { 0 }, list = { 0 };

	json_open(&s, NULL, '{');
	json_string(&s, "a", "x{[,:");
	json_text(&s, "n", "two\"lines\n", 10);
	json_text(&s, "empty", NULL, 0);
	json_string(&s, "none", NULL);
	json_int(&s, "i", INT64_MIN);
	json_uint(&s, "u", UINT64_MAX);
	json_hash(&s, "h", 0xabc);
	json_bool(&s, "yes", 2);
	json_bool(&s, "no", 0);
	json_null(&s, "null");
	json_real(&s, "r", 0.5, "%.3f");
	json_open(&s, "o", '{');
	json_close(&s, '}');
	json_open(&s, "l", '[');
	json_int(&s, NULL, 1);
	json_open(&s, NULL, '[');
	json_close(&s, ']');
	json_string(&s, NULL, "{");
	json_int(&s, NULL, 2);
	json_close(&s, ']');
	for (int i = 0; i < 3; i++)
		json_int(&list, NULL, i);
	json_list(&s, "list", &list);
	str_clear(&list);
	json_list(&s, "nothing", &list);
	json_close(&s, '}');
	CHECK_STR(
		s.p,
		"{\"a\":\"x{[,:\",\"n\":\"two\\\"lines\\n\",\"empty\":\"\",\"none\":null,\"i\":-9223372036854775808,"
		"\"u\":18446744073709551615,\"h\":\"0000000000000abc\",\"yes\":true,\"no\":false,\"null\":null,\"r\":0.500,"
		"\"o\":{},\"l\":[1,[],\"{\",2],\"list\":[0,1,2],\"nothing\":[]}");
	str_free(&s);
	str_free(&list);
}

TEST(what_json_lacks_is_null)
{
	struct str s = { 0 };

	json_open(&s, NULL, '[');
	json_real(&s, NULL, NAN, "%.3f");
	json_real(&s, NULL, INFINITY, "%.3f");
	json_real(&s, NULL, -INFINITY, "%.3f");
	json_real(&s, NULL, -0.25, "%.3f");
	json_close(&s, ']');
	CHECK_STR(s.p, "[null,null,null,-0.250]");
	str_free(&s);
}

TEST(lines_begin_without_a_comma)
{
	struct str s = { 0 };

	for (int i = 0; i < 2; i++) {
		json_open(&s, NULL, '{');
		json_int(&s, "i", i);
		json_close(&s, '}');
		str_adds(&s, "\n");
	}
	CHECK_STR(s.p, "{\"i\":0}\n{\"i\":1}\n");
	str_free(&s);
}

TEST(what_is_written_is_read)
{
	static const char text[] = "quotes \" and \\ and\ttabs, \xe2\x82\xac";
	struct str s = { 0 }, back = { 0 };
	struct jv root, inner;
	double x;

	json_open(&s, NULL, '{');
	json_string(&s, "text", text);
	json_open(&s, "inner", '{');
	json_real(&s, "x", 1.0 / 3, "%.17g");
	json_close(&s, '}');
	json_string(&s, "last", "}");
	json_close(&s, '}');
	root = jv_parse(s.p, s.n);
	CHECK(root.end == s.p + s.n);
	CHECK_INT(jv_text(jv_get(root, "text"), &back), 0);
	CHECK_STR(back.p, text);
	inner = jv_get(root, "inner");
	CHECK_INT(jv_number(jv_get(inner, "x"), &x), 0);
	CHECK(x == 1.0 / 3);
	CHECK(jv_is(jv_get(root, "last"), "}"));
	str_free(&s);
	str_free(&back);
}
