/* sessions/import/html_formula.c - writes the formulas of a page: MathML, or what older pages have instead.
 *
 * KaTeX and MathJax write each formula twice: as visible letters (aria-hidden), and as MathML for screen readers.
 * MathJax also leaves a script with the formula's source behind. Only one of these forms becomes text. */
#include "sessions/import/html_elements.h"

#include "engine/base/utf8.h"

#include <string.h>

/* Write the separator before the next part of <mfenced>. `parts` is the number of parts that have begun. Separator i
 * stands after part i, and the last separator stands after all further parts. */
static void separator_write(struct html *h, const char *separators, unsigned parts)
{
	const char *at = separators, *next = at;
	int32_t cp;

	for (unsigned i = 0; i < parts && *next; i++) {
		at = next;
		next += utf8_decode(at, strlen(at), &cp);
	}
	writer_text(h->w, at, (size_t)(next - at));
}

/* Begin a part of <mmultiscripts>: the base, then its subscripts and superscripts in pairs, "_a" and "^b". Subscripts
 * and superscripts at the left of the base are also written after the base. */
static void script_begin(struct html *h, struct html_frame *f, struct html_frame *outer, const char *name)
{
	unsigned i = outer->parts++;

	if (!strcmp(name, "mprescripts")) {
		outer->parts = 1;
	} else if (strcmp(name, "none") != 0) {
		f->part = 1;
		f->ranges = h->n_main + h->n_article + h->n_by;
		f->part_begin = writer_part_begin(h->w, !i ? "" : i % 2 ? "_" : "^");
	}
}

static void fence_begin(struct html *h, struct html_frame *f, const GumboNode *node)
{
	const char *open = html_attr(node, "open"), *close = html_attr(node, "close"),
		   *separators = html_attr(node, "separators");

	open = open ? open : "(";
	writer_text(h->w, open, strlen(open));
	f->close = close ? close : ")";
	f->separators = separators ? separators : ",";
}

/* Write the separator between two rows or cells of a matrix: "1 2; 3 4". */
static void between_cells(struct html *h, const char *outer)
{
	if (!strcmp(outer, "mtable"))
		writer_text(h->w, ";", 1);
	if (!strcmp(outer, "mtable") || !strcmp(outer, "mtr") || !strcmp(outer, "mlabeledtr"))
		writer_gap(h->w, GAP_SPACE);
}

void html_formula_begin(struct html *h, struct html_frame *f, const char *name, const GumboNode *node)
{
	static const struct {
		const char *name, *second, *third;
	} formulas[] = {
		{ "mfrac", "/", "" },  { "msup", "^", "" },  { "msub", "_", "" },        { "msubsup", "_", "^" },
		{ "munder", "_", "" }, { "mover", "^", "" }, { "munderover", "_", "^" }, { "mroot", "^(1/", "" },
	};
	struct html_frame *outer = h->depth > 1 ? &h->frame[h->depth - 2] : NULL;

	if (outer && !strcmp(outer->name, "mmultiscripts")) {
		script_begin(h, f, outer, name);
	} else if (outer && outer->separators) {
		separator_write(h, outer->separators, outer->parts++);
	} else if (outer && outer->signs[0]) {
		unsigned i = outer->parts++;

		f->part = 1;
		f->ranges = h->n_main + h->n_article + h->n_by;
		f->part_begin = writer_part_begin(h->w, i == 1 || i == 2 ? outer->signs[i - 1] : "");
	} else if (outer && outer->parts++) {
		between_cells(h, outer->name);
	}
	if (*name != 'm')
		return;
	if (!strcmp(name, "mfenced"))
		fence_begin(h, f, node);
	if (!strcmp(name, "msqrt"))
		writer_text(h->w, "\xe2\x88\x9a", 3);
	for (size_t i = 0; i < LEN(formulas); i++)
		if (!strcmp(name, formulas[i].name)) {
			f->signs[0] = formulas[i].second;
			f->signs[1] = formulas[i].third;
		}
}

void html_formula_end(struct html *h, const struct html_frame *f)
{
	/* Write no brackets if a range of the main text began or ended inside this part, because brackets would move
	 * the range's offsets. */
	if (f->part && f->ranges == h->n_main + h->n_article + h->n_by)
		writer_part_end(h->w, f->part_begin);
	if (f->signs[0] && f->parts > 1 && !strcmp(f->name, "mroot"))
		writer_text(h->w, ")", 1);
	if (f->close)
		writer_text(h->w, f->close, strlen(f->close));
}

void html_formula_picture(struct html *h, const GumboNode *node)
{
	static const char display[] = "{\\displaystyle ";
	const char *alt = html_attr(node, "alt"), *class = html_attr(node, "class");
	size_t n = alt ? strlen(alt) : 0, k = sizeof display - 1;

	if (!n ||
	    !((*alt == '$' && n > 1 && alt[n - 1] == '$') || !strncmp(alt, "\\(", 2) || !strncmp(alt, "\\[", 2) ||
	      !strncmp(alt, "{\\", 2) || has_word(class, "math") || has_word(class, "tex") || has_word(class, "latex")))
		return;
	if (n > k && !strncmp(alt, display, k) && alt[n - 1] == '}')
		alt += k, n -= k + 1;
	writer_text(h->w, alt, n);
}

int html_formula_repeats(const GumboNode *node, const char *name)
{
	const GumboNode *before;
	const GumboVector *all;

	if (html_has_class(node, "MathJax_Preview"))
		return 1;
	if (!strcmp(name, "script")) {
		before = html_before(node);
		return before && (html_has_class(before, "MathJax") || html_has_class(before, "MathJax_Display") ||
		                  html_has_class(before, "MathJax_SVG") || html_has_class(before, "MathJax_CHTML") ||
		                  html_has_class(before, "mjx-chtml") || html_has_class(before, "MathJax_SVG_Display"));
	}
	if (!has_word(html_attr(node, "aria-hidden"), "true") || !node->parent)
		return 0;
	all = html_children(node->parent);
	for (unsigned i = 0; all && i < all->length && i < 8; i++) {
		const GumboNode *other = all->data[i];
		char of[24];

		if (other == node || other->type != GUMBO_NODE_ELEMENT)
			continue;
		html_name(other, of, sizeof of);
		if (html_has_class(other, "katex-mathml") || html_has_class(other, "MJX_Assistive_MathML") ||
		    !strcmp(of, "mjx-assistive-mml"))
			return 1;
	}
	return 0;
}

int html_formula_script(const GumboNode *node, const char *name)
{
	const char *type = html_attr(node, "type");

	return type && !strcmp(name, "script") && !strncasecmp(type, "math/tex", 8) &&
	       !html_formula_repeats(node, name);
}
