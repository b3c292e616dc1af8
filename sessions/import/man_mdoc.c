/* sessions/import/man_mdoc.c - the macros of mdoc(7), in which manual pages of BSD systems are written. A line begins
 * with a macro, and its words may be macros again: ".Op Fl f Ar file ," prints "[-f file],". Punctuation that is a word
 * of its own belongs to no macro. */
#include "sessions/import/man.h"
#include "engine/base/utf8.h"

#include <stdio.h>
#include <string.h>

#define AROUND_MAX 16 /* maximum number of macros in a line that enclose the rest of the line */

enum kind {
	PLAIN,      /* print the words of the macro, or `open` if the macro has no words */
	FLAG,       /* print a dash before each word */
	NAME,       /* print the words, or the name of the page if there are none */
	SYSTEM,     /* print `open` before the words */
	AROUND,     /* print `open` and `close` around the rest of the line */
	OPEN,       /* print `open` before the text that follows, in this line or the next ones */
	CLOSE,      /* print `close` after the text before the macro */
	OPEN_WORD,  /* its word is an opening bracket */
	CLOSE_WORD, /* its word is a closing bracket */
	JOIN,       /* no blank */
	APOSTROPHE, /* print "'" without blanks around it */
	PREFIX,     /* print the word, and no blank after it */
	PAGE,       /* the name and section of a page: "ls(1)" */
	LINK,       /* an address and its text */
	FUNCTION,   /* a name, and arguments in brackets */
	FUNCTION_BEGIN,
	FUNCTION_END,
	ARGUMENT, /* an argument of a function; commas separate arguments */
	INCLUDE,  /* a header in angle brackets */
	BSD,      /* a release of BSD: "4.3BSD" */
	CELL,     /* begin a cell */
	SPREAD,   /* the tag of an item continues after this line */
	SPREAD_END,
};
struct macro {
	const char *name;
	enum kind kind;
	const char *open, *close;
};
/* The macros that may also be words of a line. */
static const struct macro macros[] = {
	{ "Ad", PLAIN, 0, 0 },
	{ "An", PLAIN, 0, 0 },
	{ "Ar", PLAIN, "file ...", 0 },
	{ "Cd", PLAIN, 0, 0 },
	{ "Cm", PLAIN, 0, 0 },
	{ "Dv", PLAIN, 0, 0 },
	{ "Em", PLAIN, 0, 0 },
	{ "Er", PLAIN, 0, 0 },
	{ "Ev", PLAIN, 0, 0 },
	{ "Fr", PLAIN, 0, 0 },
	{ "Ft", PLAIN, 0, 0 },
	{ "Ic", PLAIN, 0, 0 },
	{ "Li", PLAIN, 0, 0 },
	{ "Ms", PLAIN, 0, 0 },
	{ "Mt", PLAIN, "~", 0 },
	{ "No", PLAIN, 0, 0 },
	{ "Pa", PLAIN, "~", 0 },
	{ "Sx", PLAIN, 0, 0 },
	{ "Sy", PLAIN, 0, 0 },
	{ "Tn", PLAIN, 0, 0 },
	{ "Va", PLAIN, 0, 0 },
	{ "Vt", PLAIN, 0, 0 },
	{ "At", SYSTEM, "AT&T UNIX", 0 },
	{ "Bsx", SYSTEM, "BSD/OS", 0 },
	{ "Dx", SYSTEM, "DragonFly", 0 },
	{ "Fx", SYSTEM, "FreeBSD", 0 },
	{ "Nx", SYSTEM, "NetBSD", 0 },
	{ "Ox", SYSTEM, "OpenBSD", 0 },
	{ "Ux", SYSTEM, "UNIX", 0 },
	{ "Aq", AROUND, "<", ">" },
	{ "Bq", AROUND, "[", "]" },
	{ "Brq", AROUND, "{", "}" },
	{ "Dq", AROUND, "“", "”" },
	{ "Op", AROUND, "[", "]" },
	{ "Pq", AROUND, "(", ")" },
	{ "Ql", AROUND, "‘", "’" },
	{ "Qq", AROUND, "\"", "\"" },
	{ "Sq", AROUND, "‘", "’" },
	{ "Ao", OPEN, "<", 0 },
	{ "Bo", OPEN, "[", 0 },
	{ "Bro", OPEN, "{", 0 },
	{ "Do", OPEN, "“", 0 },
	{ "Oo", OPEN, "[", 0 },
	{ "Po", OPEN, "(", 0 },
	{ "Qo", OPEN, "\"", 0 },
	{ "So", OPEN, "‘", 0 },
	{ "Ac", CLOSE, 0, ">" },
	{ "Bc", CLOSE, 0, "]" },
	{ "Brc", CLOSE, 0, "}" },
	{ "Dc", CLOSE, 0, "”" },
	{ "Oc", CLOSE, 0, "]" },
	{ "Pc", CLOSE, 0, ")" },
	{ "Qc", CLOSE, 0, "\"" },
	{ "Sc", CLOSE, 0, "’" },
	{ "Eo", OPEN_WORD, 0, 0 },
	{ "Ec", CLOSE_WORD, 0, 0 },
	{ "Fl", FLAG, "-", 0 },
	{ "Nm", NAME, 0, 0 },
	{ "Ns", JOIN, 0, 0 },
	{ "Ap", APOSTROPHE, 0, 0 },
	{ "Pf", PREFIX, 0, 0 },
	{ "Xr", PAGE, 0, 0 },
	{ "Lk", LINK, 0, 0 },
	{ "Fn", FUNCTION, 0, 0 },
	{ "Fo", FUNCTION_BEGIN, 0, 0 },
	{ "Fc", FUNCTION_END, 0, 0 },
	{ "Fa", ARGUMENT, 0, 0 },
	{ "In", INCLUDE, 0, 0 },
	{ "Bx", BSD, "BSD", 0 },
	{ "Ta", CELL, 0, 0 },
	{ "Xo", SPREAD, 0, 0 },
	{ "Xc", SPREAD_END, 0, 0 },
};
static const struct macro plain = { "", PLAIN, 0, 0 };

static const struct macro *macro_of(struct part w)
{
	for (size_t i = 0; !w.quoted && i < LEN(macros); i++)
		if (part_is(w, macros[i].name))
			return &macros[i];
	return NULL;
}

static int is_closing(struct part w)
{
	return w.n == 1 && !w.quoted && strchr(".,:;)]?!", *w.s);
}

/* ---- a line of words ---- */

/* The state of a line: the macro whose words are being read, how many of them were read, and the signs that end the
 * line. */
struct line_state {
	const struct macro *macro;
	size_t words;
	struct part link;
	const char *close[AROUND_MAX];
	size_t n_close;
};

static void say(struct page *page, const char *text)
{
	page_blank(page);
	writer_text(&page->w, text, strlen(text));
}

static void say_glued(struct page *page, const char *text)
{
	page->glue = 1;
	say(page, text);
}

static void say_part(struct page *page, const char *before, struct part word, const char *after)
{
	page_blank(page);
	writer_text(&page->w, before, strlen(before));
	page_text(page, word);
	writer_text(&page->w, after, strlen(after));
}

/* End the macro whose words were read. `next` is 1 if another macro follows in this line. */
static void macro_end(struct page *page, struct line_state *l, int next)
{
	const struct macro *m = l->macro;

	l->macro = &plain;
	if (m->kind == NAME && !l->words && page->named.n < 64) {
		say_part(page, "", page->named, "");
	} else if (m->kind == FUNCTION && l->words) {
		say_glued(page, page->synopsis ? ");" : ")");
	} else if (m->kind == LINK && l->words) {
		if (l->words > 1)
			say_glued(page, ":");
		say_part(page, "", l->link, "");
	} else if (m->open && !l->words) {
		say(page, m->open);
		page->glue = m->kind == FLAG && next;
	}
}

/* Begin a macro. Returns 1 if the words after it are words of this macro. */
static int macro_begin(struct page *page, struct line_state *l, const struct macro *m)
{
	switch (m->kind) {
	case AROUND:
		if (l->n_close < AROUND_MAX)
			l->close[l->n_close++] = m->close; /* fall through */
	case OPEN:
		say(page, m->open);
		page->glue = 1;
		return 0;
	case CLOSE: say_glued(page, m->close); return 0;
	case JOIN: page->glue = 1; return 0;
	case APOSTROPHE:
		say_glued(page, "'");
		page->glue = 1;
		return 0;
	case CELL:
		writer_cell_begin(&page->w);
		page->glue = 1;
		return 0;
	case SPREAD:
	case SPREAD_END: page->spread = m->kind == SPREAD; return 0;
	case FUNCTION_END:
		say_glued(page, page->synopsis ? ");" : ")");
		page->arguments = 0;
		return 0;
	default: return 1;
	}
}

/* Write a word of a macro. The word is not punctuation. */
static void macro_word(struct page *page, struct line_state *l, struct part word)
{
	const struct macro *m = l->macro;
	size_t k = l->words++;

	switch (m->kind) {
	case FLAG: say_part(page, "-", word, ""); return;
	case NAME:
		if (!page->named.n)
			page->named = word;
		break;
	case SYSTEM:
		if (!k)
			say(page, m->open);
		break;
	case BSD:
		page->glue |= k > 0;
		say_part(page, k ? "-" : "", word, k ? "" : "BSD");
		return;
	case PAGE:
		page->glue |= k == 1;
		say_part(page, k == 1 ? "(" : "", word, k == 1 ? ")" : "");
		return;
	case LINK:
		if (!k)
			l->link = word;
		else
			break;
		return;
	case FUNCTION:
		if (k > 1)
			say_glued(page, ",");
		say_part(page, "", word, k ? "" : "(");
		page->glue = !k;
		return;
	case FUNCTION_BEGIN:
		say_part(page, "", word, "(");
		page->glue = page->arguments = 1;
		return;
	case ARGUMENT:
		if (k || page->arguments > 1)
			say_glued(page, ",");
		page->arguments += page->arguments > 0 && page->arguments < 2;
		break;
	case INCLUDE: say_part(page, page->synopsis ? "#include <" : "<", word, ">"); return;
	case CLOSE_WORD: page->glue = 1; break;
	default: break;
	}
	say_part(page, "", word, "");
	page->glue = (m->kind == PREFIX || m->kind == OPEN_WORD) && !k;
	if (m->kind == PREFIX || m->kind == OPEN_WORD || m->kind == CLOSE_WORD)
		l->macro = &plain;
}

static void put_word(struct page *page, struct line_state *l, struct part word)
{
	if (is_closing(word)) {
		enum kind kind = l->macro->kind;
		const struct macro *again = kind == FLAG || kind == ARGUMENT ? l->macro : &plain;

		macro_end(page, l, 0);
		l->macro = again;
		l->words += again != &plain;
		page->glue = 1;
		say_part(page, "", word, "");
	} else if (!word.quoted && (part_is(word, "(") || part_is(word, "[") || part_is(word, "|"))) {
		say_part(page, "", word, "");
		page->glue = *word.s != '|';
	} else {
		macro_word(page, l, word);
	}
}

void mdoc_words(struct page *page, const struct words *w, size_t from)
{
	struct line_state l = { .macro = &plain };
	size_t end = w->n;

	while (end > from + 1 && is_closing(w->at[end - 1]))
		end--;
	for (size_t i = from; i <= w->n; i++) {
		const struct macro *m = i < end && l.macro->kind != PREFIX ? macro_of(w->at[i]) : NULL;

		if (m || i == end)
			macro_end(page, &l, m != NULL);
		if (i == end)
			while (l.n_close)
				say_glued(page, l.close[--l.n_close]);
		if (m) {
			l.macro = macro_begin(page, &l, m) ? m : &plain;
			l.words = 0;
		} else if (i < w->n) {
			put_word(page, &l, w->at[i]);
		}
	}
}

/* ---- macros that only begin lines ---- */

int mdoc_in_columns(const struct page *page)
{
	return page->lists > 0 && page->lists <= LISTS_MAX && page->list[page->lists - 1].kind == LIST_OF_ROWS;
}

static void list_begin(struct page *page, const struct words *w)
{
	enum man_list kind = LIST_OF_TAGS;

	for (size_t i = 1; i < w->n; i++)
		if (part_is_one_of(w->at[i], "-bullet -dash -hyphen -item"))
			kind = LIST_OF_SIGNS;
		else if (part_is(w->at[i], "-enum"))
			kind = LIST_OF_NUMBERS;
		else if (part_is(w->at[i], "-column"))
			kind = LIST_OF_ROWS;
	if (page->lists < LISTS_MAX) {
		page->list[page->lists].kind = kind;
		page->list[page->lists].count = 0;
	}
	page->lists++;
	if (mdoc_in_columns(page))
		writer_table_begin(&page->w);
	writer_gap(&page->w, GAP_BLOCK);
}

static void list_end(struct page *page)
{
	if (mdoc_in_columns(page))
		writer_table_end(&page->w);
	page->lists -= page->lists > 0;
	writer_gap(&page->w, GAP_BLOCK);
}

static void list_item(struct page *page, const struct words *w)
{
	int depth = page->lists - 1;
	enum man_list kind = depth >= 0 && depth < LISTS_MAX ? page->list[depth].kind : LIST_OF_TAGS;
	char number[16];

	page->spread = 0;
	if (kind == LIST_OF_ROWS) {
		writer_row_begin(&page->w);
		writer_cell_begin(&page->w);
		page->glue = 1;
		mdoc_words(page, w, 1);
		return;
	}
	page_item(page);
	if (kind == LIST_OF_TAGS) {
		mdoc_words(page, w, 1);
		return;
	}
	page->tag = 0;
	snprintf(number, sizeof number, "%d.", ++page->list[depth].count);
	say(page, kind == LIST_OF_NUMBERS ? number : "•");
}

static void display(struct page *page, const struct words *w, int begins)
{
	int kept = 0;

	for (size_t i = 1; i < w->n; i++)
		kept |= part_is_one_of(w->at[i], "-literal -unfilled");
	page->displays = begins ? page->displays << 1 | (uint64_t)kept : page->displays >> 1;
	writer_gap(&page->w, GAP_BLOCK);
	page->w.pre = (int)(page->displays & 1);
}

/* Write the name of a standard. */
static void standard(struct page *page, const struct words *w)
{
	static const char *const names[][2] = {
		{ "-ansiC", "ANSI X3.159-1989 (“ANSI C89”)" },
		{ "-ansiC-89", "ANSI X3.159-1989 (“ANSI C89”)" },
		{ "-isoC", "ISO/IEC 9899:1990 (“ISO C90”)" },
		{ "-isoC-90", "ISO/IEC 9899:1990 (“ISO C90”)" },
		{ "-isoC-99", "ISO/IEC 9899:1999 (“ISO C99”)" },
		{ "-isoC-2011", "ISO/IEC 9899:2011 (“ISO C11”)" },
		{ "-p1003.1", "IEEE Std 1003.1 (“POSIX.1”)" },
		{ "-p1003.1-88", "IEEE Std 1003.1-1988 (“POSIX.1”)" },
		{ "-p1003.1-90", "IEEE Std 1003.1-1990 (“POSIX.1”)" },
		{ "-p1003.1-2001", "IEEE Std 1003.1-2001 (“POSIX.1”)" },
		{ "-p1003.1-2004", "IEEE Std 1003.1-2004 (“POSIX.1”)" },
		{ "-p1003.1-2008", "IEEE Std 1003.1-2008 (“POSIX.1”)" },
		{ "-p1003.2", "IEEE Std 1003.2 (“POSIX.2”)" },
		{ "-p1003.2-92", "IEEE Std 1003.2-1992 (“POSIX.2”)" },
		{ "-xpg4", "X/Open Portability Guide Issue 4 (“XPG4”)" },
		{ "-susv2", "Version 2 of the Single UNIX Specification (“SUSv2”)" },
		{ "-susv3", "Version 3 of the Single UNIX Specification (“SUSv3”)" },
		{ "-susv4", "Version 4 of the Single UNIX Specification (“SUSv4”)" },
	};

	for (size_t i = 0; w->n > 1 && i < LEN(names); i++)
		if (part_is(w->at[1], names[i][0])) {
			say(page, names[i][1]);
			mdoc_words(page, w, 2);
			return;
		}
	mdoc_words(page, w, 1);
}

/* Write the standard sentence about exit codes (".Ex") or returned values (".Rv"). */
static void exits(struct page *page, const struct words *w, int function)
{
	say(page, "The");
	say_part(page, "", w->n > 2 ? w->at[2] : page->named, function ? "()" : "");
	say(page, function ? "function returns the value 0 if successful; otherwise the value -1 is returned and the "
	                     "global variable errno is set to indicate the error."
	                   : "utility exits 0 on success, and >0 if an error occurs.");
}

/* Write a part of a reference, such as its title (".%T"). If another part was written before it, write a comma
 * first. */
static void reference(struct page *page, const struct words *w)
{
	if (page->arguments > 1)
		say_glued(page, ",");
	page->arguments = 2;
	mdoc_words(page, w, 1);
}

void mdoc_macro(struct page *page, const struct words *w)
{
	static const char silent[] = "Dd Os Tg Bk Ek Bf Ef Db Hf Ud Bt";
	struct part name = w->at[0];
	int nosplit = w->n > 1 && part_is(name, "An") && part_is_one_of(w->at[1], "-split -nosplit");

	if (nosplit || part_is_one_of(name, silent))
		return;
	if (page->synopsis && part_is_one_of(name, "Nm Ft Fn Fo Fd In Vt Cd"))
		writer_gap(&page->w, GAP_LINE);
	if (part_is_one_of(name, "Pp Lp"))
		writer_gap(&page->w, GAP_BLOCK);
	else if (part_is(name, "Bl"))
		list_begin(page, w);
	else if (part_is(name, "El"))
		list_end(page);
	else if (part_is(name, "It"))
		list_item(page, w);
	else if (part_is_one_of(name, "Bd Ed"))
		display(page, w, *name.s == 'B');
	else if (part_is(name, "Sm"))
		page->spacing = (w->n > 1 ? part_is(w->at[1], "off") : !page->spacing) ? SPACING_ENDS : SPACING_ON;
	else if (part_is(name, "St"))
		standard(page, w);
	else if (part_is_one_of(name, "Ex Rv"))
		exits(page, w, *name.s == 'R');
	else if (*name.s == '%')
		reference(page, w);
	else if (part_is(name, "Rs"))
		page->arguments = 1;
	else if (part_is(name, "Re"))
		say_glued(page, "."), page->arguments = 0;
	else if (part_is(name, "Lb"))
		say(page, "library"), say_part(page, "“", w->n > 1 ? w->at[1] : name, "”");
	else if (part_is(name, "Nd"))
		say(page, "–"), mdoc_words(page, w, 1);
	else if (part_is_one_of(name, "D1 Dl"))
		writer_gap(&page->w, GAP_LINE), mdoc_words(page, w, 1), writer_gap(&page->w, GAP_LINE);
	else
		mdoc_words(page, w, macro_of(name) ? 0 : 1);
}
