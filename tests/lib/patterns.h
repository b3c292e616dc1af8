/* tests/lib/patterns.h - repeating patterns, and a check that processing a text (a pass) takes time in proportion to
 * its length.
 *
 * A pattern fails if processing 2n bytes takes more than three times as long as n bytes, and 4n bytes more than three
 * times as long as 2n bytes. This tells linear and n log n from quadratic. A pattern also fails if it takes OF_MEDIAN
 * times as long as the median of all patterns. The least of several measurements counts, because other programs run.
 * Times below a floor count as noise. A few KB are enough to find a badly quadratic pass. With WEIR_SOAK, texts have 1
 * and 2 MB, and 4 MB for patterns that were suspicious at 2 MB; the slowest pattern of each pass is printed
 * (tests/reliability.md). WEIR_PATTERNS=TEXT runs only passes whose name contains the text. */
#ifndef WEIR_TEST_PATTERNS_H
#define WEIR_TEST_PATTERNS_H

#include "engine/base/base.h"
#include "tests/lib/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- patterns ---- */

/* Each unit is repeated; in each repetition "%d" becomes the next number. */
/* clang-format off */
static const char *const units[] = {
	/* letters and blanks */
	"a", "word ", "word%d ", "Two sentences. They end. ", "\n", "\n\n", " ", "  \n", "\t", "a\n", "a\n\n", "a b\n", "\r", "\r\n", "a\f", "\f", " \f", "\f\n", "Page 1\f",
	"Page %d\f", "\v", "a\v", "0", "1 ", "3.14 ", "1. ", "2.1 Head\n", "%d\n", "\x7f", "\x01",
	/* Markdown */
	"*", "**a ", "**", "_", "_a ", "*a_b*c_ ", "`", "```\n", "```c\nint a;\n```\n", "`a``", "~", "~~~\n", "[", "]", "[a](b", "[a](", "![", "[a]: b\n", "[^1]", "<", "<a ",
	">", "> ", "> > a\n", "- a\n", "- ", "1. a\n", "%d. a\n", "* a\n\n", "  - a\n", "# a\n", "#", "# H%d\n\ntext\n\n", "a\n===\n", "a\n---\n", "---\n", "|", "|a|b|\n", "|a|b|\n|-|-|\n|c|d|\n",
	"|-|-|\n", "\\", "\\*", "!", "&", "&amp;", "&#65;", "http://a.b/ ", "www.a ", "a@b.c ", "$a$ ", "<think>", "<think>a</think>", "[1] ", "\xe2\x80\xa2 a\n",
	/* quotes and full stops */
	"\"", "'", "\"a\" ", "a. ", ".", "?", "! ", "a.b.", "A. ", "e.g. ", ")", "(", ".) ", "a-b ", "a-\nb ", "abcde-fghi ", "-", "\xc2\xad", "\xe2\x80\x90\n", "\xef\xac\x81",
	"====\n", "== T\n", "CHAPTER %d\n\n", "1.1\n\nTitle\n", "1.1\nTitle\nb\n", "@a ", "a,b,c\n", "a\tb\tc\n", "a;b;c;d\n",
	/* LaTeX, Org, manual pages */
	"\\section{", "\\section{a}\n", "\\begin{verbatim}\n", "* TODO a :b:\n", "#+TODO: a b\n", ".SH a\n", ".Nm\n", "\\(em\\fBa\\fR", ".de a\n", ".TS\n",
	/* other scripts, marks, bytes that are no UTF-8 */
	"\xe4\xb8\x80", "\xe3\x80\x82", "\xe4\xb8\x80\xe3\x80\x82", "\xe0\xb8\x81", "\xea\xb0\x80 ", "e\xcc\x81\xcc\x81\xcc\x81", "\xcc\x81", "\xf0\x9f\x91\xa8\xe2\x80\x8d", "\xe2\x80\xae", "\xe2\x80\x8b", "\xd7\x90 ", "\xd8\xa7\xd9\x8e",
	"\xff", "\xe9 ", "caf\xe9 ", "\x80", "\xf0\x9f", "\x1b[31m", "\x1b]0;a\x07", "\x1b", "\x1b[", "\x1b[200~a", "\xef\xbf\xbd",
	/* HTML and XML */
	"<b>", "</b>", "<div>", "<p>a", "<table><tr><td>", "<td>a", "<tr><td>a</td></tr>", "<ul><li>", "<li>a", "<!--", "<!-- a -->", "<script>", "<style>.a{display:none}</style>", "<p class=a>", "<a href=b>",
	"<br>", "<pre>\n", "<math><mi>a", "<h1>a</h1>", "<span hidden>", "<svg>", "<![CDATA[", "<?a ", "<p style='display:none'>a</p>", "&lt", "<select><option>a", "<sup>1</sup>",
	"<w:p><w:r><w:t>a</w:t></w:r></w:p>", "<w:p>", "<w:tbl><w:tr><w:tc><w:p><w:r><w:t>a</w:t></w:r></w:p></w:tc></w:tr></w:tbl>", "<w:tr><w:tc>", "<w:r><w:tab/></w:r>", "<w:r><w:br/></w:r>",
	"<w:p><w:pPr><w:pStyle w:val=\"Heading1\"/></w:pPr><w:r><w:t>a</w:t></w:r></w:p>", "<w:p><w:pPr><w:numPr><w:ilvl w:val=\"0\"/><w:numId w:val=\"1\"/></w:numPr></w:pPr></w:p>", "<w:footnoteReference w:id=\"1\"/>",
	"<text:p>a</text:p>", "<text:span>", "<text:s text:c=\"9\"/>", "<text:list><text:list-item><text:p>a</text:p></text:list-item></text:list>", "<text:h text:outline-level=\"1\">a</text:h>",
	"<table:table><table:table-row><table:table-cell><text:p>a</text:p></table:table-cell></table:table-row></table:table>", "<text:p text:style-name=\"s%d\">a</text:p>", "<text:tab/>",
	/* RTF */
	"{", "}", "{\\b ", "\\par ", "\\'e9", "\\u8364?", "\\bin1 a", "{\\*\\x ", "\\trowd\\cell\\row ", "{\\field{\\*\\fldinst a}}", "{\\fonttbl{\\f%d a;}}", "\\line ", "{\\footnote a}", "\\pard\\intbl a\\cell ", "\\f%d ", "{\\header a}",
	/* events and JSON */
	"data: a\n\n", "data: {}\n", "data:\n", ":\n", "event: a\n", "id: %d\n\n", "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n", "[1,", "{\"a\":", "{\"a%d\":1},", "{},", "\"a\",", "\\u0041", "\\n", "\\\\", "null,", "1e5,",
	"link: <a>; rel=\"next\"\n", "content-range: bytes 1-2/3\n", "location: a\n",
	/* code */
	"/*", "*/", "//", "\"a", "\\\"", "'''", "\"\"\"", "#", "int a = 1; /* c */ ", "f(", "R\"(", "<<EOF\n", "$(", "${a", "0x1 ", "--[[", "=begin\n",
};
/* clang-format on */
enum { UNITS = LEN(units), SHAPES = 7, RANDOM = 40, PATTERNS = UNITS + SHAPES + RANDOM, UNIT_MOST = 400 };

/* Make the random unit number `seed`. */
static inline void random_unit(size_t seed, struct str *out)
{
	static const char letters[] = "\n\n\n  \t\f#*_`[]()<>|-=+~!&\\\"'.:,;1a A0/@$%^{}\r";
	uint64_t r = 0x9e3779b97f4a7c15u * (seed + 1);
	size_t n;

	r ^= r >> 29;
	n = 1 + r % (r & 64 ? 6 : 20);
	for (size_t i = 0; i < n; i++) {
		r = r * 6364136223846793005u + 1442695040888963407u;
		str_add(out, &letters[(r >> 33) % (sizeof letters - 1)], 1);
	}
}

/* Append shape i, a pattern of n bytes or more that is not just a repeated unit. Returns its name. */
static inline const char *shape(size_t i, size_t n, struct str *out)
{
	switch (i) {
	case 0: /* lists within lists, 60 deep */
		while (out->n < n)
			for (int deep = 0; deep < 60; deep++)
				str_addf(out, "%*s- a\n", 2 * deep, "");
		return "60 lists in each other";
	case 1: /* a table 400 columns wide */
		while (out->n < n)
			for (int row = 0; row < 3; row++) {
				for (int col = 0; col < 400; col++)
					str_adds(out, row == 1 ? "|-" : "|a");
				str_adds(out, "|\n");
			}
		return "a table 400 columns wide";
	case 2: /* quotes within quotes */
		while (out->n < n)
			for (int deep = 1; deep < 100; deep++) {
				for (int j = 0; j < deep; j++)
					str_adds(out, ">");
				str_adds(out, " a\n");
			}
		return "100 quotes in each other";
	case 3: /* a heading, then lines of words without a blank line */
		str_adds(out, "# head\n");
		while (out->n < n)
			str_adds(out, "line of text\n");
		return "one heading and lines";
	case 4: /* code that never ends */
		str_adds(out, "```c\n");
		while (out->n < n)
			str_adds(out, "int a = \"b\"; /* c */ ");
		return "a line of code that never ends";
	case 5: /* ascending section numbers without titles */
		str_adds(out, "6. Head\n\n");
		while (out->n < n)
			str_adds(out, "x\n6.1\n\n");
		return "the number of a section without a title";
	default: /* brackets that close */
		for (size_t j = 0; j < n / 2; j++)
			str_adds(out, "[");
		for (size_t j = 0; j < n / 2; j++)
			str_adds(out, "]");
		return "brackets that open, then close";
	}
}

/* Set *out to pattern i with n bytes or a few more, and name to its name. */
static inline void pattern(size_t i, size_t n, struct str *out, char name[UNIT_MOST])
{
	struct str unit = { 0 };
	size_t k = 0;

	str_clear(out);
	if (i >= UNITS && i < UNITS + SHAPES) {
		snprintf(name, UNIT_MOST, "%s", shape(i - UNITS, n, out));
		str_free(&unit);
		return;
	}
	if (i < UNITS)
		str_adds(&unit, units[i]);
	else
		random_unit(i - UNITS - SHAPES, &unit);
	for (size_t j = 0; j < unit.n && k + 5 < UNIT_MOST; j++) {
		unsigned char c = (unsigned char)unit.p[j];
		k += (size_t)snprintf(name + k, UNIT_MOST - k,
		                      c == '\n'             ? "\\n"
		                      : c == '\f'           ? "\\f"
		                      : c == '\t'           ? "\\t"
		                      : c > ' ' && c < 0x7f ? "%c"
		                      : c == ' '            ? "%c"
		                                            : "\\x%02x",
		                      c);
	}
	name[k] = 0;
	if (i < UNITS && strstr(unit.p, "%d")) {
		const char *at = strstr(unit.p, "%d");
		for (int count = 1; out->n < n; count++)
			str_addf(out, "%.*s%d%s", (int)(at - unit.p), unit.p, count, at + 2);
	} else {
		while (out->n < n)
			str_add(out, unit.p, unit.n);
	}
	str_free(&unit);
}

/* Set *out to `before`, the pattern and `behind`, joined. escape: 1 = escape the pattern as text of XML. */
static inline void wrap(struct str *out, const char *before, const char *p, size_t n, int escape, const char *behind)
{
	str_clear(out);
	str_adds(out, before);
	for (size_t i = 0; i < n && escape; i++) {
		if (p[i] == '<' || p[i] == '&')
			str_adds(out, p[i] == '<' ? "&lt;" : "&amp;");
		else if ((unsigned char)p[i] >= ' ' || p[i] == '\n' || p[i] == '\t')
			str_add(out, p + i, 1);
	}
	if (!escape)
		str_add(out, p, n);
	str_adds(out, behind);
}

/* ---- the measure ---- */

/* A pass over a text. share: > 1 = a slow pass, which gets only 1/share of the bytes. */
struct pass {
	const char *name;
	void (*run)(const char *, size_t);
	int share;
};

#define FACTOR    3.0
#define OF_MEDIAN 150 /* finds passes that are quadratic up to some length and linear beyond it, but slow */
#define AGAIN     5   /* most measurements of a pattern that looks worse than linear */

static inline double time_of(const struct pass *pass, const struct str *s, size_t n)
{
	double from = cpu_seconds();

	pass->run(s->p, MIN(n, s->n));
	return cpu_seconds() - from;
}

struct slowest {
	double half, whole, median;
	char name[UNIT_MOST];
};

static inline int by_time(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Check a suspicious pattern again, with two and then with four times the bytes. A pass that is worse than linear is too
 * slow at both sizes, too. Otherwise the time came from the allocator, which maps large blocks anew each time, or from
 * other programs. */
static inline void check_larger(const struct pass *pass, size_t i, size_t bytes, double half, double whole)
{
	double time[] = { whole, 0, 0 };
	struct str s = { 0 };
	char name[UNIT_MOST];

	for (int size = 1; size < 3 && time[size - 1] > 0; size++) {
		pattern(i, bytes << size, &s, name);
		for (int n = 0; n < AGAIN && (!n || time[size] > FACTOR * time[size - 1]); n++) {
			double again = time_of(pass, &s, bytes << size);
			time[size] = !n || again < time[size] ? again : time[size];
		}
		if (time[size] <= FACTOR * time[size - 1])
			break;
	}
	str_free(&s);
	CHECK_MSG(time[2] <= FACTOR * time[1],
	          "%s: '%s': %zu KB take %.3f s, %zu KB %.3f s, %zu KB %.3f s, %zu KB %.3f s", pass->name, name,
	          bytes >> 11, half, bytes >> 10, whole, bytes >> 9, time[1], bytes >> 8, time[2]);
}

/* Measure a pass over all patterns. floor: times below this many seconds count as noise. */
static inline void measure(const struct pass *pass, size_t bytes, double floor, struct slowest *slowest)
{
	static struct str s;
	double all[PATTERNS], median;
	char name[UNIT_MOST];

	for (size_t i = 0; i < PATTERNS; i++) {
		double whole, half = 0;

		pattern(i, bytes, &s, name);
		whole = time_of(pass, &s, bytes);
		if (whole > floor) {
			half = time_of(pass, &s, bytes / 2);
			for (int more = 1; more < AGAIN && whole > FACTOR * half; more++) {
				double again = time_of(pass, &s, bytes);
				whole = MIN(again, whole);
				again = time_of(pass, &s, bytes / 2);
				half = MIN(again, half);
			}
			if (whole > FACTOR * half && whole > floor)
				check_larger(pass, i, bytes, half, whole);
		}
		all[i] = whole;
		if (whole > slowest->whole) {
			*slowest = (struct slowest){ .half = half, .whole = whole };
			memcpy(slowest->name, name, sizeof name);
		}
	}
	qsort(all, PATTERNS, sizeof *all, by_time);
	median = all[PATTERNS / 2];
	/* If a pass refuses most patterns at once, the median is too small for a comparison: use a floor. */
	if (median < bytes * 1e-8)
		median = bytes * 1e-8;
	CHECK_MSG(slowest->whole <= OF_MEDIAN * median || slowest->whole <= 5 * floor,
	          "%s: '%s' takes %.3f s, which is %.0f times the median of %d patterns", pass->name, slowest->name,
	          slowest->whole, slowest->whole / median, PATTERNS);
	slowest->median = median;
}

static inline void measure_all(const struct pass *passes, size_t n_pass)
{
	const char *only = getenv("WEIR_PATTERNS");
	int soak = getenv("WEIR_SOAK") != NULL;
	double from = cpu_seconds();

	for (size_t i = 0; i < n_pass; i++) {
		struct slowest slowest = { 0 };
		size_t n = soak ? 2 << 20 : (128 << 10) / (size_t)passes[i].share;

		if (only && !strstr(passes[i].name, only))
			continue;
		measure(&passes[i], n, (soak ? 0.05 : 0.01) * test_patience(), &slowest);
		if (soak || getenv("V"))
			test_note("| %s | %.3f | %.3f | %.3f | `%.60s` |", passes[i].name, slowest.median, slowest.half,
			          slowest.whole, slowest.name);
	}
	test_note("%d patterns, %zu passes, %.1f s", PATTERNS, n_pass, cpu_seconds() - from);
}

#endif
