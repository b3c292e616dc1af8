/* tests/sessions/t_import_clean.c - cleaning of logs (escape sequences, overstrikes, progress lines, NULs), and
 * of addresses that hold pictures. */
#include "sessions/import/import_private.h"
#include "tests/lib/test.h"

#include <string.h>

static void becomes_bytes(const char *name, const char *s, size_t n, const char *want, const char *note)
{
	struct doc d = { 0 };
	struct err e = { 0 };

	CHECK_MSG(!doc_decode(name, s, n, &d, &e), "%s", e.msg);
	CHECK_STR(str_text(&d.text), want);
	CHECK_MSG(note ? strstr(str_text(&d.notices), note) != NULL : !d.notices.n, "%s", str_text(&d.notices));
	doc_free(&d);
}
#define BECOMES(name, s, want, note) becomes_bytes(name, s, sizeof s - 1, want, note)

TEST(escape_sequences)
{
	BECOMES("a.log", "12:01 \033[1;31mERROR\033[0m \033]8;;http://x\033\\pump\033]8;;\a stopped\033[K\n",
	        "12:01 ERROR pump stopped\n", "5 escape sequences were left out");
	BECOMES("a.log",
	        "a\033(Bb\0337c\033[4Cd\033[2;3He\033[Gf\xc2\x9b"
	        "1mg\n",
	        "abc d\ne\nfg\n", "6 escape");
	/* A sequence that does not end does not remove the text after it. */
	BECOMES("a.log", "a\033]0;title\nb\033[3\nc\033", "a0;title\nb\nc", "3 escape");
	BECOMES("a.md", "# T\033[1mitle\n", "# Title\n", "1 escape");
	BECOMES("a.c", "char s[] = \"\033[1m\";\n", "char s[] = \"\033[1m\";\n", NULL);
}

TEST(overstrikes)
{
	BECOMES("man.txt", "N\bNA\bAM\bME\bE _\bf_\bi\xc3\xa9\b\xc3\xa9 s_\b_x\n", "NAME fi\xc3\xa9 s_x\n",
	        "overstruck characters were left out");
	BECOMES("a.log", "at 10%\b\b\b20%\n\b\bx\nbold line\rbold line\nunder\r_____\n",
	        "at 20%\nx\nbold line\nunder\n", "overstruck");
}

TEST(progress)
{
	BECOMES("a.log", "Get:  10% (1/10)\rGet:  50% (5/10)\rGet: 100% (10/10), done.\r\nnext\n",
	        "Get: 100% (10/10), done.\nnext\n", "2 earlier states of a progress line were left out");
	BECOMES("a.log", "| wait\r/ wait\r- wait\r\n", "- wait\n", "2 earlier states");
	/* Different lines, rows of tables and list items are not states of a progress line. */
	BECOMES("a.log", "one 10%\rother 20%\n- a\r- b\n01/02/2026 up\r02/02/2026 up\n",
	        "one 10%\nother 20%\n- a\n- b\n01/02/2026 up\n02/02/2026 up\n", NULL);
	BECOMES("a.csv", "1;10%\r2;20%\n", "1;10%\r2;20%\n", NULL);
}

TEST(nul_runs)
{
	char s[4096] = "the pump started at noon\nthe pu";

	memcpy(s + sizeof s - 30, "valve 17 opened\nall is well.\n", 30);
	becomes_bytes("a.log", s, sizeof s - 1, "the pump started at noon\nthe pu\nvalve 17 opened\nall is well.\n",
	              "NUL characters were left out");
	memset(s, 0, 40);
	becomes_bytes("a.log", s, sizeof s - 1, "valve 17 opened\nall is well.\n", "4066 NUL characters were left out");
}

#define TEN "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ"
TEST(pictures)
{
	BECOMES("a.md",
	        "![x](data:image/png;base64," TEN TEN " \"t\") a\n[i]: <data:image/jpeg;base64," TEN TEN
	        "==>\nend data:x, y\n",
	        "![x](data:image/png;base64 \"t\") a\n[i]: <data:image/jpeg;base64>\nend data:x, y\n",
	        "2 files inside the text (data: addresses, ");
	BECOMES("a.md", "<img src=\"data:image/png;base64,\n" TEN "\n" TEN "\nab=\">next\n",
	        "<img src=\"data:image/png;base64\">next\n", "1 file");
	BECOMES("a.css", "a { background: url('data:image/svg+xml,%3Csvg%20" TEN TEN "') }\n",
	        "a { background: url('data:image/svg+xml') }\n", "1 file");
	BECOMES("a.txt", "metadata:image/png;base64," TEN TEN "\n", "metadata:image/png;base64," TEN TEN "\n", NULL);
	BECOMES("a.html", "<html><p>a <img src='data:image/png;base64," TEN TEN "'> b", "a b", NULL);
}
