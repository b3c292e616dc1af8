/* tests/sessions/t_import_markup.c - headings of reStructuredText, Org, AsciiDoc and LaTeX; manual pages; texts that
 * look like them and are not. */
#include "sessions/import/import_private.h"
#include "tests/lib/test.h"

#include <stdlib.h>
#include <string.h>

static void read_text(const char *name, const char *s, struct doc *d)
{
	struct err e = { 0 };

	CHECK_MSG(!doc_decode(name, s, strlen(s), d, &e), "%s", e.msg);
	CHECK_INT(d->type, DOC_TEXT);
}

/* Check the headings of a text, each "LEVEL TITLE|". Also check that the text is unchanged, except for manual pages. */
static void headings(const char *name, const char *s, const char *want)
{
	struct doc d;
	struct str got = { 0 };

	read_text(name, s, &d);
	for (size_t i = 0; i < d.n_mark; i++)
		if (d.mark[i].kind == MARK_HEADING)
			str_addf(&got, "%d %s|", d.mark[i].level, d.mark[i].text);
	CHECK_STR(str_text(&got), want);
	if (!man_is_source(s, strlen(s)))
		CHECK_STR(d.text.p, s);
	str_free(&got);
	doc_free(&d);
}

static void page(const char *s, const char *text)
{
	struct doc d;

	read_text("page.1", s, &d);
	CHECK_STR(d.text.p, text);
	doc_free(&d);
}

TEST(restructured_text)
{
	headings("a.rst",
	         ".. _mill:\n\n========\nThe Mill\n========\n\n:Date: today\n\nOf the river\n============\nWater.\n\n"
	         "Wheels\n------\n\nText that\nis longer\n\nOf iron\n-------\n\n.. note::\n   No title\n   --------\n\n"
	         "Of wood\n'''''''\n\nThe end\n=======\n",
	         "1 The Mill|2 Of the river|3 Wheels|3 Of iron|4 Of wood|2 The end|");
	headings(
		"b.REST",
		":mod:`mill` --- grain\n+++++++++++++++++++++\n.. index:: water\nWater\n*****\n\n1. First\n********\n\nEin Müller\n**********\n\nA title that is longer than its line\n----\n",
		"1 :mod:`mill` --- grain|2 Water|2 1. First|2 Ein Müller|3 A title that is longer than its line|");
	/* Literal text, transitions, tables and items of lists are no titles. */
	headings(
		"c.rst",
		"Code::\n\n    Title\n    =====\n\n----\n\nText\n\n=====  =====\nA      B\n=====  =====\n1      2\n=====  =====\n\n"
		"+------+\n| Cell |\n+------+\n\n- an item\n---------\n\n=====\nTitle\n=======\n\na b c\n--\n\n>>> 1 + 1\n=========\n\n====\n",
		"");
}

TEST(org)
{
	headings(
		"a.org",
		"#+TITLE: The mill\n#+AUTHOR: none\n* TODO [#A] Build it :work:home:\n** DONE the wheel\n*** Notes: a list\n"
		"*not bold*\n- item\n  * item\n* COMMENTS are kept\n",
		"1 The mill|1 Build it|2 the wheel|3 Notes: a list|1 COMMENTS are kept|");
	headings(
		"b.org",
		"#+todo: NEXT(n) LATER | CANCELLED(c)\n* NEXT Grind\n* LATER Sweep\n* CANCELLED Sing\n* TODAY\n* TODO\n"
		"#+begin_src sh\n* no heading\n#+end_src\n  #+BEGIN_EXAMPLE\n* nor here\n  #+END_EXAMPLE\n********* Deep :x:\n",
		"1 Grind|1 Sweep|1 Sing|1 TODAY|1 TODO|6 Deep|");
}

TEST(asciidoc)
{
	headings(
		"a.adoc",
		"= The mill\nno author\n:toc:\n\n== Water == of the river\n\ntext\n== not here\n\n[[wheel]]\n=== Wheel ===\n\n"
		"[source,c]\n----\n== no\n\n== nor here\n----\n\n....\nTitle\n-----\n\n== no\n....\n\n```c\n\n== no\n```\n\n"
		"== [[x]]Of wood\n\n== Iron[[iron]]\n\n////\n\n== no\n////\n\n## Of grain\n\n  == no\n",
		"1 The mill|2 Water == of the river|3 Wheel|2 Of wood|2 Iron|2 Of grain|");
	headings(
		"b.asciidoc",
		"mill(1)\n=======\n\nNAME\n----\nmill - grinds\n\nifdef::wind[]\nWind\n~~~~\nendif::wind[]\n\nA longer line of text\n----\nTitle\n-----\n\ncode\n----\n\n.Listing\n--------\nno\n--------\n",
		"1 mill(1)|2 NAME|3 Wind|");
}

TEST(latex)
{
	headings(
		"a.tex",
		"% \\section{no}\n\\documentclass{book}\n\\newcommand{\\head}[1]{\\section{#1}}\n\\title{The \\emph{mill}\\thanks{Nobody}}\n"
		"\\begin{document}\n\\part{One}\n\\chapter*{Preface % no\n of it}\n\\section[short]{A long {\\bf title} \\label{a}}\n"
		"\\verb|\\section{no}|\n\\begin{verbatim}\n\\section{no}\n\\end{verbatim}\n\\subsection\n {C\\# \\& $\\alpha^2$~``x''}\n"
		"\\subsubsection{Schr\\\"odinger, \\'{E}tude, \\c{c}a, Stra\\ss e, na\\\"{\\i}ve}\n\\paragraph{\\texorpdfstring{$x$}{x} of\\\\it} text\n"
		"\\sectionmark{no} \\\\section{no}\n\\end{document}\n\\section{no}\n",
		"1 The mill|1 One|2 Preface of it|3 A long title|4 C# & alpha^2 \"x\"|"
		"5 Schrödinger, Étude, ça, Straße, naïve|6 x of it|");
	headings(
		"standard input",
		"% of a mill\n\\documentclass[a4paper]{article}\n\\section{On \\LaTeX{} and \\TeX}\n\\subsection*{}\n\\section{Open\n",
		"2 On LaTeX and TeX|");
	headings("c.ltx",
	         "\\begin{lstlisting}[language=C]\n\\section{no}\n\\end{lstlisting}\n\\begin{comment}\n\\section{no}",
	         "");
}

TEST(pages_of_man)
{
	static const char ls[] =
		"'\\\" t\n.\\\" a comment\n.de Sp\n.if n .sp\n..\n.TH MILL 1 \"May 2024\"\n.SH NAME\nmill \\- grinds\n"
		".SH \"SEE ALSO\"\n.BR wheel (1),\n.B \"water mill\"\n.SS\nOptions\n.TP\n\\fB\\-\\-fine\\fR[=\\fIN\\fR]\n"
		"as \\(lqdust\\(rq \\(em \\[u2014] \\s-1SMALL\\s0 \\h'1'x \\*(C+ \\e \\\" gone\n.ie n .IP \"$x\\->y\" 4\n.el .IP \"no\" 4\n"
		".TS\nallbox;\nl l.\nT{\none\nT}\ttwo\n.TE\n";

	page(ls, "MILL(1)\n\nNAME\n\nmill - grinds\n\nSEE ALSO\n\nwheel(1), water mill\n\nOptions\n\n--fine[=N]\n"
	         "as “dust” — — SMALL x C++ \\\n\n$x->y\n\none | two");
	headings("page.1", ls, "1 MILL(1)|2 NAME|2 SEE ALSO|3 Options|");
}

TEST(pages_of_mdoc)
{
	struct err e = { 0 };
	static const char mill[] =
		".Dd May 1, 2024\n.Dt MILL 8\n.Os\n.Sh NAME\n.Nm mill\n.Nd grinds grain\n.Sh SEE ALSO\n.Nm\n"
		".Op Fl a\n.Fl f Ar file Ns s ,\n.Pp\nSee\n.Xr wheel 1 ,\n.Fl -help .\n.Ss Of Wood\n.Bl -tag\n.It Cm stop ( now )\n.El\n";

	page(mill,
	     "MILL(8)\n\nNAME\n\nmill – grinds grain\n\nSEE ALSO\n\nmill [-a] -f files,\n\nSee wheel(1), --help.\n\n"
	     "Of Wood\n\nstop (now)");
	headings("mill.8", mill, "1 MILL(8)|2 NAME|2 SEE ALSO|3 Of Wood|");
	CHECK(doc_decode("empty.8", ".Dd May 1\n.Os\n", 14, &(struct doc){ 0 }, &e) < 0);
	CHECK_STR(e.msg, "document 'empty.8' holds no text");
	CHECK(!doc_is_plain("mill.8", mill, sizeof mill - 1));
	CHECK(doc_is_plain("mill.txt", "Text", 4));
}

TEST(requests_of_man)
{
	page(".ds Gr mill \\(bu stone\n.nr HM 1\n.TH A 1\n.SH A\nThe \\*(Gr isn\\*(Aqt \\\nold.\n"
	     ".if \\n(HM Wind.\n.ie t \\{\nprinted\n.if n no\n.\\}\n.el \\{\\\nshown\\h'+2'here\n.\\}\n.if !t .B \"a \"\"b\"\"\" \n",
	     "A(1)\n\nA\n\nThe mill • stone isn't old. Wind. shown here a \"b\"");
	page(".TH A 1\n.SH A\n.TP\n.B one\n.TQ\n.B two\nboth\n.IP \\(bu 2\nitem\n.IP\nmore\n.RS\n.EX\n  a  b\n\n  c\n.EE\n.RE\nend\n  indented\n.br\nline\n",
	     "A(1)\n\nA\n\none\ntwo\nboth\n\n• item\n\nmore\n\n  a  b\n\n  c\n\nend\nindented\nline");
	page(".TH A 1\n.SH A\n.SY mill\n.OP -f file\n.YS\nSee\n.UR http://a\nthe site\n.UE .\n.I a\\c\nb\n",
	     "A(1)\n\nA\n\nmill [-f file]\n\nSee the site <http://a>. ab");
	page(".TH A 1\n.SH A\n.TS\ntab(;) box;\nl | l\nl | l.\nGrain;Price\n_\nrye;T{\n7 or\n.B more\nT};x\n;2\n.T&\nl.\nend\n.TE\nAfter.\n",
	     "A(1)\n\nA\n\nGrain | Price\nrye | 7 or more | x\n | 2\nend\n\nAfter.");
}

TEST(macros_of_mdoc)
{
	static const char head[] = ".Dd May 1, 2024\n.Dt A 1\n.Sh NAME\n.Nm mill\n.Sh ";
	static const struct {
		const char *source, *text;
	} sections[] = {
		{ "A\n.Tg grind\nIn\n.Nm ,\ngrain\n.Aq Pa dir ,\n.Dq Li a Ns b .\n.Pf + Ar x Ap s\n",
		  "In mill, grain <dir>, “ab”. +x's" },
		{ "A\n.Bl -tag -width x -compact\n.It Xo Ic split\n.Op Fl bd\n.Oo\n.Fl c Ar dir Oc\n.Xc\n.D1 Pq alias : Ic sp\n"
		  "Splits.\n.It Fl a , Fl b\n.It Fl c\nBoth.\n.El\nEnd.\n",
		  "split [-bd] [-c dir]\n(alias: sp)\nSplits.\n\n-a, -b\n-c\nBoth.\n\nEnd." },
		{ "A\n.Bl -column a b\n.It Sy Key Ta Sy Use\n.It Li q Ta quit\nnow\n.It a\tb\n.El\n.Bl -enum\n.It\nOne\n.Bl -bullet\n.It\nx\n.El\n.It\nTwo\n.El\n",
		  "Key | Use\nq | quit now\na | b\n\n1. One\n\n• x\n\n2. Two" },
		{ "SYNOPSIS\n.In mill.h\n.Ft int\n.Fn grind \"char *s\" int\n.Fo stop\n.Fa a\n.Fa b\n.Fc\n.Sh B\n.Fn grind ,\n.Lk http://a site\n",
		  "#include <mill.h>\nint\ngrind(char *s, int);\nstop(a, b);\n\nB\n\ngrind(), site: http://a" },
		{ "A\n.Bx 4.3\nor\n.Nx 1.0 ,\n.St -isoC-99 .\n.Rs\n.%A N. N.\n.%T Mills\n.Re\n.Ex -std\nTo\n.Sm off\n.Ar a : Ar b\n.Sm on\nEnd\n",
		  "4.3BSD or NetBSD 1.0, ISO/IEC 9899:1999 (“ISO C99”). N. N., Mills. The mill utility exits 0 on success, "
		  "and >0 if an error occurs. To a:b End" },
		{ "A\nText\n.Bd -literal\n$ mill  x\n\n.Fl a\n.Ed\nEnd.\n", "Text\n\n$ mill  x\n\n-a\n\nEnd." },
	};

	for (size_t i = 0; i < LEN(sections); i++) {
		struct str source = { 0 }, text = { 0 };

		str_addf(&source, "%s%s", head, sections[i].source);
		str_addf(&text, "A(1)\n\nNAME\n\nmill\n\n%.*s\n\n%s", (int)strcspn(sections[i].source, "\n"),
		         sections[i].source, sections[i].text);
		page(source.p, text.p);
		str_free(&source);
		str_free(&text);
	}
}

TEST(texts_that_only_look_like_markup)
{
	struct doc d;

	/* Rulers in plain text are no underlines of titles. */
	headings("a.txt",
	         "Text above\n\n=====================================\n\nmore of it.\n\n-----\n\nand the end\n", "");
	headings("b.txt", "* a list\n* of things\n\n** more **\n\n\\section{no}\n", "");
	/* A mail that quotes a manual page, source code and a patch have no headings. */
	headings("letter", "Hello,\n\n.SH NAME\n.TH X 1\nis how a page begins.\n", "");
	for (const char *const *name = (const char *const[]){ "a.c", "a.patch", "a.py", NULL }; *name; name++) {
		struct err e = { 0 };
		static const char s[] =
			"* x\n= y\n\nTitle\n=====\n\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n\\section{x}\n.SH NAME\n";
		CHECK(!doc_decode(*name, s, sizeof s - 1, &d, &e));
		CHECK(!doc_mark_at(&d, MARK_HEADING, d.text.n));
		CHECK_STR(d.text.p, s);
		doc_free(&d);
	}
}
