/* tests/sessions/t_import_texts.c - notebooks and subtitles. */
#include "sessions/import/import_private.h"
#include "tests/lib/test.h"

#include <stdlib.h>
#include <string.h>

static void becomes(const char *name, const char *s, enum doc_type type, const char *want, const char *note)
{
	struct doc d = { 0 };
	struct err e = { 0 };

	CHECK_MSG(!doc_decode(name, s, strlen(s), &d, &e), "%s", e.msg);
	CHECK_STR(str_text(&d.text), want);
	CHECK_STR(str_text(&d.notices), note);
	CHECK_INT(d.type, type);
	doc_free(&d);
}

/* Check that any beginning of a file is read, or refused with a message. */
static void cut_short(int (*import)(const char *, size_t, struct doc *, struct err *), const char *s)
{
	for (size_t n = 0; n < strlen(s); n++) {
		struct doc d = { 0 };
		struct err e = { 0 };
		char *copy = xstrndup(s, n);

		CHECK(import(copy, n, &d, &e) ? *e.msg : d.text.n > 0);
		free(copy);
		doc_free(&d);
	}
}

#define NOTEBOOK(cells)       "{\"cells\":[" cells "],\"metadata\":{\"kernelspec\":{\"language\":\"python\"}},\"nbformat\":4}"
#define CODE(source, outputs) "{\"cell_type\":\"code\",\"source\":[" source "],\"outputs\":[" outputs "]}"
static const char notebook[] = NOTEBOOK("{\"cell_type\":\"markdown\",\"source\":[\"# Rain\\n\",\"in March\"]}," CODE(
	"\"# no heading\\n\",\"print('```')\"",
	"{\"output_type\":\"stream\",\"text\":[\"10%\\r\",\"20%\\n\"]},{\"output_type\":\"stream\",\"text\":\"more\"},"
	"{\"output_type\":\"execute_result\",\"data\":{\"text/html\":\"<table>\",\"text/plain\":[\"a b\\n\",\"1 2\"]}},"
	"{\"output_type\":\"display_data\",\"data\":{\"image/png\":\"iVBO\",\"text/plain\":\"<Figure>\"}},"
	"{\"output_type\":\"display_data\",\"data\":{\"text/html\":[\"<p>only <b>so</b>\"],\"text/plain\":\"<HTML object>\"}},"
	"{\"output_type\":\"display_data\",\"data\":{\"application/x\":{}}},"
	"{\"output_type\":\"error\",\"ename\":\"E\",\"evalue\":\"v\",\"traceback\":[\"\\u001b[31mE\\u001b[0m: v\\u0000w\"]}") ","
                                                                                                                              "{\"cell_type\":\"raw\",\"source\":\"raw\"}");

TEST(notebooks)
{
	struct doc d = { 0 };
	struct err e = { 0 };

	becomes("a.ipynb", notebook, DOC_NOTEBOOK,
	        "# Rain\nin March\n\n````python\n# no heading\nprint('```')\n````\n\nOutput:\n\n```\n20%\nmore\na b\n1 2\nonly so\nE: v w\n```\n\nraw",
	        "1 picture among the outputs was left out\n1 output without text was left out\n2 escape sequences were left out\n"
	        "1 earlier state of a progress line was left out\n");
	CHECK_MSG(!doc_decode("standard input", notebook, strlen(notebook), &d, &e), "%s", e.msg);
	CHECK_INT(d.type, DOC_NOTEBOOK);
	CHECK_INT(d.mark[0].kind, MARK_HEADING);
	CHECK_STR(d.mark[0].text, "Rain");
	for (size_t i = 1; i < d.n_mark; i++)
		CHECK_INT(d.mark[i].kind, MARK_PARAGRAPH);
	doc_free(&d);
	cut_short(notebook_import, notebook);
}

TEST(notebooks_of_the_old_format)
{
	becomes("a.ipynb",
	        "{\"worksheets\":[{\"cells\":[{\"cell_type\":\"heading\",\"level\":2,\"source\":\"Top\"},"
	        "{\"cell_type\":\"code\",\"input\":\"x\",\"outputs\":[{\"output_type\":\"pyout\",\"text\":[\"41\"]}]}]}],\"nbformat\":3}",
	        DOC_NOTEBOOK, "## Top\n\n```\nx\n```\n\nOutput:\n\n```\n41\n```", "");
	becomes("a.ipynb",
	        "{\"cells\":[{\"cell_type\":\"raw\",\"source\":\"first\"},{\"cell_type\":\"raw\",\"source\":\"sec",
	        DOC_NOTEBOOK, "first", "the notebook is damaged or cut off: the text ends there\n");
}

TEST(subtitles)
{
	static const char srt[] =
		"\xef\xbb\xbf"
		"1\r\n00:00:01,000 --> 00:00:02,500\r\n<i>The mill</i>\r\nstopped.\r\n\r\n2\r\n00:00:02,600 --> 00:00:04,000\r\n{\\an8}1984\r\n\r\n"
		"3\r\n01:02:10,000 --> 01:02:12,000 X1:5\r\nLater &amp; a < b.\r\n";

	becomes("a.srt", srt, DOC_SUBTITLES, "[0:00:01] The mill stopped. 1984\n\n[1:02:10] Later & a < b.", "");
	becomes("x", srt + 3, DOC_SUBTITLES, "[0:00:01] The mill stopped. 1984\n\n[1:02:10] Later & a < b.", "");
	becomes("a.vtt",
	        "WEBVTT\n\nNOTE no\nno\n\nname\n00:01.000 --> 00:02.000 align:left\n<v Ann Lee>One <00:01.5><c>two</c></v>\nthree\n\n00:02.000 --> 00:03.000\nthree\nfour\n",
	        DOC_SUBTITLES, "[0:00:01] Ann Lee: One two three four", "");
	becomes("a.sbv", "0:00:01.000,0:00:03.000\none\n", DOC_SUBTITLES, "[0:00:01] one", "");
	becomes("a.ass",
	        "[Events]\nFormat: Layer\nDialogue: 0,0:01:01.00,0:01:03.00,D,,0,0,0,,One {\\i1}two\\Nthree, four\n",
	        DOC_SUBTITLES, "[0:01:01] One two three, four", "");
	cut_short(subtitles_import, srt);
}

TEST(times_are_places)
{
	struct doc d = { 0 };
	struct err e = { 0 };
	static const char vtt[] = "WEBVTT\n\n00:01.000 --> 00:02.000\none\n\n00:09.000 --> 00:10.000\ntwo\n";

	CHECK_MSG(!doc_decode("a.vtt", vtt, strlen(vtt), &d, &e), "%s", e.msg);
	CHECK_INT(d.pages, 2);
	CHECK_STR(doc_mark_at(&d, MARK_PAGE, d.text.n - 1)->text, "0:00:09");
	doc_free(&d);
	CHECK(doc_decode("a.vtt", "WEBVTT\n\n", 8, &d, &e) < 0);
	CHECK_STR(e.msg, "document 'a.vtt' holds no subtitles");
}
