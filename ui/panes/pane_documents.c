/* ui/panes/pane_documents.c - the documents pane: a pager for the documents' texts.
 *
 * If there are several documents, the first row has their names. The text follows, wrapped; its evicted words are
 * dimmed, and matches are marked. The last row shows the position or the search line.
 *
 * A document may have many megabytes. Only visible chunks are wrapped, and the last few wrapped chunks are cached. A
 * position is a byte offset, not a line number, so the whole text never has to be wrapped. */
#include "ui/panes/pane_documents.h"
#include "engine/base/utf8.h"
#include "ui/text/text.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { NAME_MOST = 256 };

static struct pane *documents_pane_create(const struct ui_options *o)
{
	struct documents_pane *p = xcalloc(1, sizeof *p);

	p->pane.ops = &documents_pane;
	p->ascii = o->ascii;
	p->w = 80;
	p->h = 20;
	p->count = -1;
	return &p->pane;
}

static void documents_pane_release(struct pane *pane)
{
	struct documents_pane *p = (struct documents_pane *)pane;

	for (size_t i = 0; i < p->n_doc; i++)
		doc_text_free(&p->doc[i]);
	free(p->doc);
	for (int i = 0; i < LAID; i++)
		lines_free(&p->laid[i].lines);
	edit_free(&p->edit);
	str_free(&p->words);
	str_free(&p->say);
	free(p);
}

static void forget_layouts(struct documents_pane *p)
{
	for (int i = 0; i < LAID; i++)
		p->laid[i].w = 0;
}

static int same_text(const struct doc_text *d, const struct ui_document *in, const struct str *name)
{
	return d->name.n == name->n && (!name->n || !memcmp(d->name.p, name->p, name->n)) && d->n_raw == in->n &&
	       (!in->n || !memcmp(d->raw, in->text, in->n));
}

/* Replace the list of documents. A document that was in the old list keeps its prepared text and its position. */
void documents_pane_post(struct pane *pane, const struct ui_document *posted, size_t n)
{
	struct documents_pane *p = (struct documents_pane *)pane;
	struct doc_text *old = p->doc;
	size_t n_old = p->n_doc, was = p->at;
	int stays = 0;

	p->doc = n ? xcalloc(n, sizeof *p->doc) : NULL;
	p->n_doc = n;
	p->at = 0;
	for (size_t i = 0; i < n; i++) {
		struct doc_text *d = &p->doc[i];
		struct ui_document in = posted[i];
		struct str name = { 0 };

		if (in.name)
			clean_line(in.name, strnlen(in.name, NAME_MOST), &name);
		in.n = !in.text ? 0 : MIN(in.n, DOC_TEXT_MOST);
		for (size_t k = 0; k < n_old && !d->raw; k++)
			if (old[k].raw && same_text(&old[k], &in, &name)) {
				*d = old[k];
				memset(&old[k], 0, sizeof old[k]);
				if (k == was) {
					p->at = i;
					stays = 1;
				}
			}
		if (!d->raw) {
			d->name = name;
			d->n_raw = in.n;
			/* d->raw is not a C string: the text may contain NULs. */
			d->raw = xmalloc(in.n + 1);
			memcpy(d->raw, in.n ? in.text : "", in.n);
			d->kept = -1;
			d->n_mark = marks_copy(in.mark, in.n_mark, &d->mark);
		} else {
			str_free(&name);
		}
		d->tokens = in.tokens;
		d->first = in.first;
	}
	for (size_t i = 0; i < n_old; i++)
		doc_text_free(&old[i]);
	free(old);
	forget_layouts(p);
	if (!stays) {
		p->found_n = 0;
		p->outline = 0;
	}
}

void documents_pane_lens(struct pane *pane, size_t document, const struct ui_span *span, size_t n)
{
	struct documents_pane *p = (struct documents_pane *)pane;

	if (document < p->n_doc)
		doc_text_lens(&p->doc[document], span, n);
}

void documents_pane_sources(struct pane *pane, const struct ui_source *source, size_t n)
{
	struct documents_pane *p = (struct documents_pane *)pane;

	p->n_source = n;
	for (size_t i = 0; i < n; i++)
		p->source[i] = source[i];
}

void documents_pane_goto(struct pane *pane, const char *where)
{
	struct documents_pane *p = (struct documents_pane *)pane;
	struct doc_text *d = documents_current(p);
	const char *s = where ? where : "";
	char *end;
	double number;

	while (*s == ' ')
		s++;
	str_clear(&p->say);
	if (!d || !*s)
		return;
	doc_text_ready(d, p->ascii);
	p->outline = 0;
	p->asking = NOTHING;
	if (byte_is_digit(*s) && strlen(s) < 32) {
		number = strtod(s, &end);
		if (end[0] == '%' && !end[1]) {
			documents_go_to_percent(p, number);
			return;
		}
		if (!end[0]) {
			documents_go_to_line(p, number < 1e9 ? (int64_t)number : 1000000000);
			return;
		}
	}
	if (*s == 'p' || *s == 'P') {
		const char *k = s + 1;

		if (!strncasecmp(k, "age", 3))
			k += 3;
		while (*k == '.' || *k == ' ')
			k++;
		number = byte_is_digit(*k) && strlen(k) < 16 ? strtod(k, &end) : -1;
		if (number >= 0 && !*end) {
			documents_go_to_page(p, number < 1e9 ? (int64_t)number : 1000000000);
			return;
		}
	}
	documents_set_words(p, s, strnlen(s, EDIT_MOST));
	p->back = 0;
	documents_find(p, 0);
}

void documents_pane_show(struct pane *pane, size_t document, size_t from, size_t to)
{
	struct documents_pane *p = (struct documents_pane *)pane;
	struct doc_text *d;
	struct pos pos;

	if (document >= p->n_doc)
		return;
	p->at = document;
	d = documents_current(p);
	doc_text_ready(d, p->ascii);
	p->outline = 0;
	p->asking = NOTHING;
	p->count = -1;
	str_clear(&p->say);
	/* end the search, because its highlighted matches would look like the passage that must be shown */
	str_clear(&p->words);
	p->found = doc_text_clean(d, from);
	p->found_n = doc_text_clean(d, MAX(to, from)) - p->found;
	p->asked = p->found;
	p->asked_in = document + 1;
	pos = documents_pos_of(p, p->found);
	documents_walk(p, &pos, -(int64_t)(p->h / 6));
	documents_set_top(p, documents_byte_of(p, pos));
}

static void documents_pane_draw(struct pane *pane, const struct area *a)
{
	documents_draw((struct documents_pane *)pane, a);
}

/* ---- keys ---- */

static enum pane_key ask_key(struct documents_pane *p, const struct key *k)
{
	int control = k->code == K_CHAR && (k->mods & KEY_CTRL);

	if (k->code == K_ESC || (control && (k->cp == 'c' || k->cp == 'g'))) {
		p->asking = NOTHING;
	} else if (k->code == K_ENTER) {
		p->back = p->asking == WORDS_UP;
		p->asking = NOTHING;
		if (p->edit.text.n)
			documents_set_words(p, p->edit.text.p, p->edit.text.n);
		documents_find(p, p->back);
	} else if (k->code == K_BACKSPACE && !p->edit.text.n) {
		p->asking = NOTHING;
	} else {
		edit_key(&p->edit, k);
	}
	return PANE_USED;
}

static enum pane_key outline_key(struct documents_pane *p, const struct key *k)
{
	struct doc_text *d = documents_current(p);
	struct key arrow = { .code = K_UNKNOWN };

	if (k->code == K_ESC || k->code == K_TAB || (k->code == K_CHAR && (k->cp == 'q' || k->cp == 'o'))) {
		p->outline = 0;
		return PANE_USED;
	}
	if (k->code == K_ENTER && p->heads.chosen < (d->n_head ? d->n_head : d->n_page + 1)) {
		p->outline = 0;
		documents_set_top(p, d->n_head         ? d->head[p->heads.chosen].at
		                     : p->heads.chosen ? d->page[p->heads.chosen - 1]
		                                       : 0);
		return PANE_USED;
	}
	if (k->code == K_CHAR && !k->mods)
		arrow.code = k->cp == 'j'                   ? K_DOWN
		             : k->cp == 'k'                 ? K_UP
		             : k->cp == 'g'                 ? K_HOME
		             : k->cp == 'G'                 ? K_END
		             : k->cp == 'b'                 ? K_PAGE_UP
		             : k->cp == 'f' || k->cp == ' ' ? K_PAGE_DOWN
		                                            : K_UNKNOWN;
	if (k->code == K_MOUSE && (k->cp == 4 || k->cp == 5))
		list_move(&p->heads, k->cp == 4 ? -3 : 3);
	else
		list_key(&p->heads, arrow.code != K_UNKNOWN ? &arrow : k, p->heads_rows);
	return PANE_USED;
}

static void outline_open(struct documents_pane *p)
{
	struct doc_text *d = documents_current(p);
	size_t head = doc_text_head(d, d->top);

	if (!d->n_head && !d->n_page) {
		documents_say(p, "this document has neither headings nor pages");
		return;
	}
	p->outline = 1;
	p->heads.n = d->n_head ? d->n_head : d->n_page + 1;
	p->heads.top = 0;
	p->heads.chosen = d->n_head ? head - (head > 0) : doc_text_page(d, d->top) - 1;
}

static enum pane_key other_document(struct documents_pane *p, int step)
{
	if (p->n_doc < 2) {
		p->pane.say = "this is the only document; /open FILE adds another";
		return PANE_USED;
	}
	p->at = (p->at + (step > 0 ? 1 : p->n_doc - 1)) % p->n_doc;
	p->found_n = 0;
	doc_text_ready(documents_current(p), p->ascii);
	return PANE_USED;
}

/* Handle a letter.  `count` is the number that was typed before the letter, -1 = none. */
static enum pane_key letter(struct documents_pane *p, int32_t cp, int64_t count)
{
	int64_t times = count > 0 ? count : 1;
	int page = p->h > 2 ? p->h - 1 : 1, half = p->h > 3 ? p->h / 2 : 1;

	switch (cp) {
	case 'j': documents_scroll(p, times); break;
	case 'k': documents_scroll(p, -times); break;
	case 'd': documents_scroll(p, half); break;
	case 'u': documents_scroll(p, -half); break;
	case 'f':
	case ' ': documents_scroll(p, page); break;
	case 'b': documents_scroll(p, -page); break;
	case 'g': documents_go_to_line(p, count < 0 ? 1 : count); break;
	case 'G':
		if (count < 0)
			documents_set_top(p, (uint32_t)documents_current(p)->text.n);
		else
			documents_go_to_line(p, count);
		break;
	case '%': documents_go_to_percent(p, count < 0 ? 0 : (double)count); break;
	case 'p': documents_go_to_page(p, count < 0 ? 1 : count); break;
	case '/':
	case '?':
		p->asking = cp == '/' ? WORDS_DOWN : WORDS_UP;
		edit_set(&p->edit, "", 0);
		break;
	case 'n': documents_find(p, p->back); break;
	case 'N': documents_find(p, !p->back); break;
	case 'o': outline_open(p); break;
	case ']': return other_document(p, 1);
	case '[': return other_document(p, -1);
	case 'q': return PANE_CLOSE;
	default: return PANE_NOT_MINE;
	}
	return PANE_USED;
}

/* Handle a key while there is no document: keys that need one say so. */
static enum pane_key key_without_document(struct documents_pane *p, const struct key *k)
{
	static const char letters[] = "jkdufb gGp%/?nNo[]";
	int is_letter = k->code == K_CHAR && !(k->mods & KEY_ALT) && k->cp > 0 && k->cp < 0x80;

	if (k->code == K_ESC || (is_letter && !k->mods && k->cp == 'q'))
		return PANE_CLOSE;
	if (!(is_letter && strchr(k->mods ? "dufb" : letters, (int)k->cp)) && k->code != K_PAGE_UP &&
	    k->code != K_PAGE_DOWN && k->code != K_HOME && k->code != K_END && k->code != K_LEFT &&
	    k->code != K_RIGHT && k->code != K_TAB)
		return PANE_NOT_MINE;
	p->pane.say = "there is no document yet to read or search; /open FILE adds one";
	return PANE_USED;
}

static enum pane_key documents_pane_key(struct pane *pane, const struct key *k, struct ui_action *out)
{
	struct documents_pane *p = (struct documents_pane *)pane;
	struct doc_text *d = documents_current(p);
	int64_t count = p->count;
	int page = p->h > 2 ? p->h - 1 : 1;

	if (!d)
		return key_without_document(p, k);
	if (k->code == K_FOCUS)
		return PANE_NOT_MINE;
	doc_text_ready(d, p->ascii);
	if (p->asking)
		return ask_key(p, k);
	str_clear(&p->say);
	if (p->outline)
		return outline_key(p, k);
	p->count = -1;
	switch (k->code) {
	case K_CHAR:
		if (k->mods & KEY_ALT)
			return PANE_NOT_MINE;
		if (k->mods & KEY_CTRL)
			return strchr("dufb", k->cp > 0 && k->cp < 0x80 ? (int)k->cp : 'x') ? letter(p, k->cp, -1)
			                                                                    : PANE_NOT_MINE;
		if (k->cp >= '0' && k->cp <= '9') {
			count = MAX(0, count);
			p->count = count > 99999999 ? count : count * 10 + (k->cp - '0');
			return PANE_USED;
		}
		return letter(p, k->cp, count);
	case K_ENTER: documents_scroll(p, 1); break;
	case K_LEFT: return other_document(p, -1);
	case K_RIGHT: return other_document(p, 1);
	case K_UP: documents_scroll(p, -1); break;
	case K_DOWN: documents_scroll(p, 1); break;
	case K_PAGE_UP: documents_scroll(p, -page); break;
	case K_PAGE_DOWN: documents_scroll(p, page); break;
	case K_HOME: documents_set_top(p, 0); break;
	case K_END: documents_set_top(p, (uint32_t)d->text.n); break;
	case K_TAB: outline_open(p); break;
	case K_ESC:
		/* Esc cancels a number that is being typed; otherwise it removes the match marks; otherwise it closes
		 * the pane */
		if (count >= 0)
			return PANE_USED;
		if (p->words.n) {
			str_clear(&p->words);
			p->found_n = 0;
			return PANE_USED;
		}
		return PANE_CLOSE;
	case K_MOUSE:
		if (k->cp != 4 && k->cp != 5)
			return PANE_NOT_MINE;
		documents_scroll(p, k->cp == 4 ? -3 : 3);
		break;
	default: return PANE_NOT_MINE;
	}
	return PANE_USED;
}

static void documents_pane_title(const struct pane *pane, struct str *left, struct str *right)
{
	/* drop const, because documents_title() wraps chunks and caches them */
	struct documents_pane *p = (struct documents_pane *)pane;

	documents_title(p, p->w, left, right);
}

static unsigned documents_pane_state(const struct pane *pane)
{
	const struct documents_pane *p = (const struct documents_pane *)pane;

	return (p->asking ? PANE_FIELD : 0u) | (p->words.n ? PANE_MATCHES : 0u);
}

/* clang-format off */
const struct pane_ops documents_pane = {
	.help_name = "documents", .flags = PANE_SEARCHES | PANE_SHARES,
	.hints = (const struct hint[]){
		{"Esc", "Close"}, {"F3", "Find"}, {"PgDn", "Page"}, {"Home", "Top"}, {"End", "End"}, {"Tab", "Outline"},
		{"Right", "Next document"}, {"F6", "Browse"}, {0},
	},
	.browsing = (const struct hint[]){
		{"Esc", "Write"}, {"j k", "Line"}, {"Space", "Page"}, {"/", "Find"}, {"n", "Next"}, {"g G", "Ends"}, {"o", "Outline"},
		{"40%", "Go to"}, {"q", "Close"}, {0},
	},
	.create = documents_pane_create, .release = documents_pane_release,
	.draw = documents_pane_draw, .title = documents_pane_title, .state = documents_pane_state, .key = documents_pane_key,
};
/* clang-format on */
