/* sessions/import/rtf.c - converts RTF (Rich Text Format Specification 1.9.1).
 *
 * Writes the text that a reader sees: hidden and deleted text, field codes, headers and footers are left out. Labels
 * of list items are written as stored. Footnotes appear as "[1]" where they are referred to; their text follows at
 * the end. RTF does not store where pages end. */
#include "sessions/import/rtf.h"
#include "engine/base/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORD_MAX   32
#define FORM_UNSET 25 /* value of \ffres if the user has not set the form field */

/* ---- text ---- */

enum { PAGE_SYMBOL = 2, PAGE_MAC = 10000, PAGE_WESTERN = 1252 };

static const struct charset *charset_of_page(int page)
{
	static const struct {
		int page;
		const char *label;
	} others[] = {
		{ 932, "shift_jis" },      { 936, "gbk" },     { 949, "euc-kr" },
		{ 950, "big5" },           { 866, "ibm866" },  { 850, "ibm850" },
		{ 437, "ibm850" },         { 852, "ibm852" },  { 737, "ibm737" },
		{ PAGE_MAC, "macintosh" }, { 65001, "utf-8" }, { 1361, "euc-kr" },
	};
	char label[24];
	const struct charset *c = NULL;

	for (size_t i = 0; i < LEN(others); i++)
		if (others[i].page == page)
			c = charset_by_label(others[i].label, strlen(others[i].label));
	if (!c)
		c = charset_by_label(label, (size_t)snprintf(label, sizeof label, "windows-%d", page));
	return c ? c : charset_by_label("windows-1252", 12);
}

/* Return the code page for a font's \fcharset; 0: use the document's code page. */
static int page_of_charset(int charset)
{
	static const struct {
		int charset, page;
	} pages[] = {
		{ 0, PAGE_WESTERN }, { 2, PAGE_SYMBOL }, { 77, PAGE_MAC }, { 128, 932 },  { 129, 949 },  { 130, 1361 },
		{ 134, 936 },        { 136, 950 },       { 161, 1253 },    { 162, 1254 }, { 163, 1258 }, { 177, 1255 },
		{ 178, 1256 },       { 186, 1257 },      { 204, 1251 },    { 222, 874 },  { 238, 1250 },
	};

	for (size_t i = 0; i < LEN(pages); i++)
		if (pages[i].charset == charset)
			return pages[i].page;
	return 0;
}

/* Write a byte in a symbol font, such as Wingdings. */
static void show_sign(struct rtf *x, unsigned char c)
{
	const struct rtf_font *f = rtf_font_now(x);
	const char *s = c == ' ' ? " " : symbol_text(f ? f->symbol : 0, c);

	rtf_shown(x, s, strlen(s));
}

/* Decode and write the collected bytes. Call before the font or code page changes. */
static void write_bytes(struct rtf *x)
{
	const struct rtf_font *f = rtf_font_now(x);
	int page = f && f->page ? f->page : x->page, plain = 1;
	struct str utf8 = { 0 };
	size_t replaced = 0;

	x->high = 0;
	if (!x->bytes.n)
		return;
	for (size_t i = 0; i < x->bytes.n && plain; i++)
		plain = (unsigned char)x->bytes.p[i] < 0x80;
	if (page == PAGE_SYMBOL && x->g->to != RTF_FONTS)
		for (size_t i = 0; i < x->bytes.n; i++)
			show_sign(x, (unsigned char)x->bytes.p[i]);
	else if (plain)
		rtf_shown(x, x->bytes.p, x->bytes.n);
	else if (!charset_decode(charset_of_page(page), x->bytes.p, x->bytes.n, &utf8, &replaced))
		rtf_shown(x, str_text(&utf8), utf8.n);
	if (x->g->to == RTF_TEXT && !x->g->hidden)
		x->replaced += replaced;
	str_free(&utf8);
	str_clear(&x->bytes);
}

static void add_character(struct rtf *x, int32_t cp)
{
	char s[4];

	if (cp > 0)
		rtf_shown(x, s, (size_t)utf8_encode(cp, s));
}

static void add_byte(struct rtf *x, char c)
{
	if (x->drop)
		x->drop--;
	else if (c)
		str_add(&x->bytes, &c, 1);
}

/* Write \uN, a signed UTF-16 unit. */
static void write_utf16_unit(struct rtf *x, long n)
{
	int32_t cp = (int32_t)(n & 0xffff), high = x->high;

	write_bytes(x);
	x->drop = x->g->skip;
	if (cp >= 0xd800 && cp < 0xdc00)
		x->high = cp;
	else if (cp >= 0xdc00 && cp < 0xe000)
		add_character(x, high ? 0x10000 + ((high - 0xd800) << 10) + (cp - 0xdc00) : 0xfffd);
	else if (cp >= 0xf020 && cp < 0xf100) /* symbol fonts use this range of private characters */
		show_sign(x, (unsigned char)(cp & 0xff));
	else
		add_character(x, cp);
}

/* ---- groups ---- */

static void group_begin(struct rtf *x)
{
	write_bytes(x);
	x->drop = 0;
	if (x->depth + 1 == RTF_GROUPS_MAX) {
		x->deeper++;
		return;
	}
	x->g->heading = x->heading;
	x->g->level = x->level;
	x->g->in_table = x->in_table;
	x->g->program = x->program;
	x->group[x->depth + 1] = *x->g;
	if (x->g->alternatives == 1) {
		x->g->alternatives = 2;
		x->group[x->depth + 1].to = RTF_NOWHERE;
	}
	x->g = &x->group[++x->depth];
	x->g->note = x->g->part = x->g->bracket = x->g->alternatives = 0;
}

static void font_end(struct rtf *x)
{
	size_t n = x->name.n;

	if (n && x->name.p[n - 1] == ';')
		n--;
	if (x->n_font && n)
		x->font[x->n_font - 1].symbol = symbol_font(x->name.p, n);
	str_clear(&x->name);
}

static void style_end(struct rtf *x)
{
	static const char *const program[] = { "Source Code;", "HTML Preformatted;", "Preformatted Text;" };
	const char *s = str_text(&x->name);

	for (size_t i = 0; x->n_style && i < LEN(program); i++)
		if (!strncasecmp(s, program[i], strlen(program[i])))
			x->style[x->n_style - 1].program = 1;

	if (x->n_style && !x->style[x->n_style - 1].level) {
		if (!strncasecmp(s, "heading ", 8) && s[8] >= '1' && s[8] <= '9')
			x->style[x->n_style - 1].level = s[8] - '0';
		else if (!strncasecmp(s, "title;", 6))
			x->style[x->n_style - 1].level = 1;
	}
	str_clear(&x->name);
}

/* Write the value of a form field. Called when the instruction of the field has ended. */
static void write_form(struct rtf *x)
{
	const char *value = form_field_value(&x->form);

	if (value)
		rtf_shown(x, value, strlen(value));
	form_field_clear(&x->form);
}

static void group_end(struct rtf *x)
{
	int instruction;

	write_bytes(x);
	x->drop = 0;
	if (x->deeper) {
		x->deeper--;
		return;
	}
	if (!x->depth)
		return;
	if (x->g->to == RTF_STYLES)
		style_end(x);
	else if (x->g->to == RTF_FONTS)
		font_end(x);
	else if (x->g->to == RTF_ENTRY)
		form_field_entry(&x->form, str_text(&x->name), x->name.n), str_clear(&x->name);
	if (x->g->bracket)
		rtf_shown(x, ")", 1);
	if (x->g->part)
		writer_part_end(x->w, x->g->part_at);
	if (x->g->note)
		rtf_note_end(x);
	instruction = x->g->instruction;
	x->g = &x->group[--x->depth];
	x->heading = x->g->heading;
	x->level = x->g->level;
	x->in_table = x->g->in_table;
	x->program = x->g->program;
	if (instruction && !x->g->instruction)
		write_form(x);
}

/* ---- control words ---- */

/* 1 for control words that begin a group whose text is not part of the document. */
static int begins_skipped_group(const char *word)
{
	/* clang-format off */
	static const char *const words[] = {
		"author", "bkmkend", "bkmkstart", "category", "colortbl", "comment", "company", "creatim", "datastore", "docvar", "filetbl", "fldinst",
		"mgrow", "mlimLoc", "msubHide", "msupHide",
		"footer", "footerf", "footerl", "footerr", "ftncn", "ftnsep", "ftnsepc", "aftncn", "aftnsep", "aftnsepc", "generator", "header", "headerf",
		"headerl", "headerr", "info", "latentstyles", "listoverridetable", "listtable", "manager", "nesttableprops", "nonesttables",
		"nonshppict", "objdata", "operator", "panose", "pict", "pgdsctbl", "private", "revtbl", "rsidtbl", "rxe", "shprslt", "sn", "sp", "sv", "tc",
		"tcn", "themedata", "wgrffmtfilter", "xe", "xmlnstbl", "atnid", "atnauthor", "annotation", "atrfstart", "atrfend", "atntime", "atndate", "atnref",
	};
	/* clang-format on */

	size_t n = strlen(word);

	for (size_t i = 0; i < LEN(words); i++)
		if (!strcmp(word, words[i]))
			return 1;
	/* a word such as \mfPr begins properties of a formula */
	return n > 3 && *word == 'm' && !strcmp(word + n - 2, "Pr") && strcmp(word, "mnaryPr") != 0;
}

/* 1 for control words that begin an optional (\*) group whose text is part of the document. */
static int is_text_though_starred(const char *word)
{
	static const char *const words[] = { "shpinst",    "shptxt",   "do",       "ud",    "moMath",
		                             "moMathPara", "footnote", "listtext", "pntext" };

	for (size_t i = 0; i < LEN(words); i++)
		if (!strcmp(word, words[i]))
			return 1;
	return 0;
}

static const struct sign {
	const char *word, *text;
} signs[] = {
	{ "bullet", "•" },    { "emdash", "—" }, { "emspace", " " }, { "endash", "–" },    { "enspace", " " },
	{ "ldblquote", "“" }, { "lquote", "‘" }, { "qmspace", " " }, { "rdblquote", "”" }, { "rquote", "’" },
	{ "tab", " " },       { "zwj", "" },     { "zwnj", "" },
};

static const char *part_sign(const char *word)
{
	static const struct sign parts[] = {
		{ "mnum", "" }, { "mden", "/" }, { "msup", "^" }, { "msub", "_" }, { "mdeg", "√" }
	};

	for (size_t i = 0; i < LEN(parts); i++)
		if (!strcmp(word, parts[i].word))
			return parts[i].text;
	return NULL;
}

/* Handle control words of a form field. Returns 0 for other words. */
static int form_word(struct rtf *x, const char *word, long n)
{
	if (!strcmp(word, "fftype"))
		x->form.kind = n == 1 ? FORM_BOX : n == 2 ? FORM_LIST : FORM_NONE;
	else if (!strcmp(word, "ffres") && n != FORM_UNSET)
		form_field_set(&x->form, n, 1);
	else if (!strcmp(word, "ffdefres"))
		form_field_set(&x->form, n, 0);
	else if (!strcmp(word, "ffl"))
		x->g->to = RTF_ENTRY, str_clear(&x->name);
	else
		return 0;
	return 1;
}

/* Handle control words that begin a font or style table, a note, a part of a formula, or the label of a list item.
 * Returns 0 for other words. */
static int destination_word(struct rtf *x, const char *word, long n)
{
	if (x->g->to == RTF_NOWHERE)
		return x->g->instruction && form_word(x, word, n);
	if (!strcmp(word, "fonttbl"))
		x->g->to = RTF_FONTS;
	else if (!strcmp(word, "stylesheet"))
		x->g->to = RTF_STYLES;
	else if (!strcmp(word, "listtext") || !strcmp(word, "pntext"))
		x->g->to = RTF_LABEL, str_clear(&x->label);
	else if (!strcmp(word, "footnote"))
		rtf_note_begin(x);
	else if (part_sign(word) && x->g->to == RTF_TEXT)
		rtf_part_begin(x, part_sign(word));
	else if (!strcmp(word, "upr"))
		x->g->alternatives = 1;
	else if (!strcmp(word, "md") && x->g->to == RTF_TEXT)
		rtf_shown(x, "(", 1), x->g->bracket = 1;
	else if (begins_skipped_group(word)) {
		x->g->to = RTF_NOWHERE;
		x->g->instruction |= !strcmp(word, "fldinst");
		x->comments += !strcmp(word, "annotation");
	} else
		return 0;
	return 1;
}

static void font_word(struct rtf *x, const char *word, long n)
{
	struct rtf_font *f = x->n_font ? &x->font[x->n_font - 1] : NULL;

	if (!strcmp(word, "f") && x->n_font < RTF_FONTS_MAX)
		x->font[x->n_font++] = (struct rtf_font){ .number = (int)n };
	else if (!strcmp(word, "fcharset") && f)
		f->page = page_of_charset((int)n);
	else if (!strcmp(word, "cpg") && f)
		f->page = (int)n;
	else if (!strcmp(word, "fmodern") && f)
		f->fixed = 1;
}

static void style_word(struct rtf *x, const char *word, long n)
{
	if (!strcmp(word, "s") && x->n_style < RTF_STYLES_MAX)
		x->style[x->n_style++] = (struct rtf_style){ .number = (int)n };
	else if (!strcmp(word, "outlinelevel") && x->n_style && n >= 0 && n < 9)
		x->style[x->n_style - 1].level = (int)n + 1;
}

/* Handle control words about the paragraph. Returns 0 for other words. */
static int paragraph_word(struct rtf *x, const char *word, long n)
{
	if (!strcmp(word, "par") || !strcmp(word, "sect") || !strcmp(word, "page") || !strcmp(word, "nestcell") ||
	    !strcmp(word, "nestrow")) {
		rtf_paragraph_end(x);
	} else if (!strcmp(word, "line")) {
		writer_line(x->w, x->begun);
	} else if (!strcmp(word, "cell")) {
		rtf_cell_end(x);
	} else if (!strcmp(word, "row")) {
		rtf_row_end(x);
	} else if (!strcmp(word, "pard")) {
		rtf_paragraph_plain(x);
	} else if (!strcmp(word, "intbl") || !strcmp(word, "trowd")) {
		x->in_table = 1;
	} else if (!strcmp(word, "ilvl")) {
		x->level = n > 0 && n < 9 ? (int)n : 0;
	} else if (!strcmp(word, "outlinelevel")) {
		x->heading = n >= 0 && n < 9 ? (int)n + 1 : 0;
	} else if (!strcmp(word, "s")) {
		for (int i = 0; i < x->n_style; i++)
			if (x->style[i].number == n) {
				x->heading = x->style[i].level;
				x->program = x->style[i].program;
			}
	} else {
		return 0;
	}
	return 1;
}

/* Handle control words that set properties of characters, such as \b and \b0. `on` is 0 for a word with the number 0,
 * else 1. */
static void character_word(struct rtf *x, const char *word, long n, int on)
{
	if (!strcmp(word, "f"))
		x->g->font = (int)n;
	else if (!strcmp(word, "v") || !strcmp(word, "deleted"))
		x->g->hidden = on;
	else if (!strcmp(word, "super"))
		x->g->raised = on;
	else if (!strcmp(word, "up"))
		x->g->raised = n > 0;
	else if (!strcmp(word, "nosupersub") || !strcmp(word, "sub"))
		x->g->raised = 0;
	else if (!strcmp(word, "plain"))
		x->g->raised = x->g->hidden = 0, x->g->font = x->default_font;
	else if (!strcmp(word, "uc"))
		x->g->skip = n >= 0 && n < 16 ? (int)n : 1;
}

static void document_word(struct rtf *x, const char *word, long n)
{
	if (!strcmp(word, "ansicpg") && n > 0)
		x->page = (int)n;
	else if (!strcmp(word, "mac"))
		x->page = PAGE_MAC;
	else if (!strcmp(word, "pc"))
		x->page = 437;
	else if (!strcmp(word, "pca"))
		x->page = 850;
	else if (!strcmp(word, "deff"))
		x->default_font = x->g->font = (int)n;
}

static void word_read(struct rtf *x, const char *word, int has_number, long n)
{
	int starred = x->starred;

	x->starred = 0;
	if (!strcmp(word, "u") && has_number) {
		write_utf16_unit(x, n);
		return;
	}
	write_bytes(x);
	if (x->drop) {
		x->drop--;
		return;
	}
	if (!strcmp(word, "bin")) {
		x->p += n > 0 && n < x->end - x->p ? n : n > 0 ? x->end - x->p : 0;
		return;
	}
	if (x->deeper || destination_word(x, word, n))
		return;
	if (starred && !is_text_though_starred(word)) {
		x->g->to = RTF_NOWHERE;
		return;
	}
	for (size_t i = 0; i < LEN(signs); i++)
		if (!strcmp(word, signs[i].word)) {
			rtf_shown(x, x->w->pre && !strcmp(word, "tab") ? "\t" : signs[i].text, strlen(signs[i].text));
			return;
		}
	if (x->g->to == RTF_FONTS)
		font_word(x, word, n);
	else if (x->g->to == RTF_STYLES)
		style_word(x, word, n);
	else if (x->g->to != RTF_TEXT || !paragraph_word(x, word, n))
		character_word(x, word, n, !has_number || n != 0);
	if (x->depth <= 1)
		document_word(x, word, n);
}

/* ---- the file ---- */

static int hex(char c)
{
	return byte_is_digit(c) ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
}

/* Read a control word or control symbol. Its backslash was read before. */
static void read_control(struct rtf *x)
{
	char word[WORD_MAX];
	size_t n = 0;
	long number = 0;
	int has_number = 0, minus = 0;

	if (x->p == x->end)
		return;
	if (((*x->p | 32) < 'a' || (*x->p | 32) > 'z')) {
		char c = *x->p++;

		if (c == '\'' && x->end - x->p >= 2 && hex(x->p[0]) >= 0 && hex(x->p[1]) >= 0) {
			add_byte(x, (char)(hex(x->p[0]) << 4 | hex(x->p[1])));
			x->p += 2;
		} else if (c == '*') {
			x->starred = 1;
		} else if (c == '~') {
			add_byte(x, ' ');
		} else if (c == '_') {
			add_byte(x, '-');
		} else if (c == '\n' || c == '\r') {
			word_read(x, "par", 0, 0);
		} else if (c == '\\' || c == '{' || c == '}') {
			add_byte(x, c);
		}
		return;
	}
	for (; x->p < x->end && (*x->p | 32) >= 'a' && (*x->p | 32) <= 'z'; x->p++)
		if (n + 1 < sizeof word)
			word[n++] = *x->p;
	word[n] = 0;
	if (x->p < x->end && *x->p == '-')
		minus = 1, x->p++;
	for (; x->p < x->end && byte_is_digit(*x->p); x->p++, has_number = 1)
		number = number < 100000000 ? 10 * number + (*x->p - '0') : number;
	if (x->p < x->end && *x->p == ' ')
		x->p++;
	word_read(x, word, has_number, minus ? -number : number);
}

static void read_all(struct rtf *x)
{
	while (x->p < x->end && !x->document->full) {
		char c = *x->p++;

		if (c == '\\')
			read_control(x);
		else if (c == '{')
			group_begin(x);
		else if (c == '}')
			group_end(x);
		else if (c == '\t')
			add_byte(x, ' ');
		else if (c != '\n' && c != '\r' && x->g->to != RTF_NOWHERE)
			add_byte(x, c);
	}
	while (x->depth || x->deeper)
		group_end(x);
	write_bytes(x);
}

int rtf_import(const char *p, size_t n, struct doc *d, struct err *e)
{
	struct doc notes = { 0 };
	struct writer document = { .doc = d }, notes_writer = { .doc = &notes };
	struct rtf *x = xcalloc(1, sizeof *x);

	x->w = x->document = &document;
	x->notes = &notes_writer;
	x->p = p;
	x->end = p + n;
	x->g = x->group;
	x->g->skip = 1;
	x->page = PAGE_WESTERN;
	read_all(x);
	rtf_paragraph_end(x);
	rtf_table_end(x);
	writer_gap(&document, GAP_BLOCK);
	document.pre = 1;
	writer_text(&document, str_text(&notes.text), notes.text.n);
	writer_end(&document);
	writer_end(&notes_writer);
	doc_free(&notes);
	doc_note_left_out(d, x->comments, "comment");
	if (x->hidden)
		doc_note(d, HIDDEN_TEXT, x->hidden, x->hidden == 1 ? " was" : "s were");
	if (x->replaced)
		doc_note(d, "%zu byte sequence%s replaced by U+FFFD", x->replaced,
		         x->replaced == 1 ? " that cannot be decoded was" : "s that cannot be decoded were");
	str_free(&x->bytes);
	str_free(&x->name);
	str_free(&x->label);
	form_field_clear(&x->form);
	free(x);
	return d->text.n ? 0 : err_set(e, ERR_DOCUMENT, "holds no text");
}
