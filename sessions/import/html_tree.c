/* sessions/import/html_tree.c - parses HTML as browsers do, by gumbo.
 *
 * First, one pass over the bytes does what gumbo does not do. It bounds the depth of the tree, because gumbo's time
 * grows with the square of the depth. It turns <noscript> into <template>, whose contents are left out: browsers run
 * scripts and do not show <noscript>. It writes XHTML as HTML. The pass finds tags only by their names, so it may take
 * text in an attribute's value for a tag. No text is lost by this. */
#include "sessions/import/html.h"
#include "engine/base/utf8.h"

#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX   500
#define FORMAT_MAX  64
#define BLOCK_BYTES ((size_t)1 << 20)

/* ---- the bytes ---- */

/* Kinds of elements, by how they nest. */
enum kind {
	NESTS,  /* an element of this kind may be inside an element of the same name */
	CLOSES, /* an element of this kind ends where the next element of the same name begins */
	INLINE,
	/* inline; if a paragraph ends before the element's end tag, the element stays open in the next paragraph */
	FORMAT,
	VOID,
	SINGLE, /* a page may have only one element of this name */
};

enum { TAGS = 256 };
struct tags {
	unsigned char open[DEPTH_MAX]; /* [n] open elements, GumboTag */
	size_t n;
	unsigned of[TAGS];      /* [tag] number of open elements */
	unsigned dropped[TAGS]; /* [tag] number of dropped start tags whose end tags are still to come */
	unsigned format;        /* number of open elements of kind FORMAT */
};

static enum kind kind_of(GumboTag t)
{
	switch (t) {
	case GUMBO_TAG_HTML:
	case GUMBO_TAG_HEAD:
	case GUMBO_TAG_BODY: return SINGLE;
	case GUMBO_TAG_P:
	case GUMBO_TAG_LI:
	case GUMBO_TAG_DT:
	case GUMBO_TAG_DD:
	case GUMBO_TAG_OPTION:
	case GUMBO_TAG_OPTGROUP:
	case GUMBO_TAG_RP:
	case GUMBO_TAG_RT:
	case GUMBO_TAG_CAPTION:
	case GUMBO_TAG_COLGROUP:
	case GUMBO_TAG_TBODY:
	case GUMBO_TAG_THEAD:
	case GUMBO_TAG_TFOOT:
	case GUMBO_TAG_TR:
	case GUMBO_TAG_TD:
	case GUMBO_TAG_TH:
	case GUMBO_TAG_H1:
	case GUMBO_TAG_H2:
	case GUMBO_TAG_H3:
	case GUMBO_TAG_H4:
	case GUMBO_TAG_H5:
	case GUMBO_TAG_H6: return CLOSES;
	case GUMBO_TAG_A:
	case GUMBO_TAG_B:
	case GUMBO_TAG_BIG:
	case GUMBO_TAG_CODE:
	case GUMBO_TAG_EM:
	case GUMBO_TAG_FONT:
	case GUMBO_TAG_I:
	case GUMBO_TAG_NOBR:
	case GUMBO_TAG_S:
	case GUMBO_TAG_SMALL:
	case GUMBO_TAG_STRIKE:
	case GUMBO_TAG_STRONG:
	case GUMBO_TAG_TT:
	case GUMBO_TAG_U: return FORMAT;
	case GUMBO_TAG_AREA:
	case GUMBO_TAG_BASE:
	case GUMBO_TAG_BASEFONT:
	case GUMBO_TAG_BGSOUND:
	case GUMBO_TAG_BR:
	case GUMBO_TAG_COL:
	case GUMBO_TAG_EMBED:
	case GUMBO_TAG_FRAME:
	case GUMBO_TAG_HR:
	case GUMBO_TAG_IMAGE:
	case GUMBO_TAG_IMG:
	case GUMBO_TAG_INPUT:
	case GUMBO_TAG_KEYGEN:
	case GUMBO_TAG_LINK:
	case GUMBO_TAG_META:
	case GUMBO_TAG_PARAM:
	case GUMBO_TAG_SOURCE:
	case GUMBO_TAG_TRACK:
	case GUMBO_TAG_WBR: return VOID;
	default: return t > GUMBO_TAG_A && t <= GUMBO_TAG_SPAN ? INLINE : NESTS;
	}
}

static int is_inline(GumboTag t)
{
	enum kind k = kind_of(t);

	return k == INLINE || k == FORMAT;
}

/* End k->open[i] and the elements in it, except those of kind FORMAT. */
static void end_open(struct tags *k, size_t i)
{
	size_t kept = i;

	for (; i < k->n; i++)
		if (kind_of(k->open[i]) == FORMAT)
			k->open[kept++] = k->open[i];
		else
			k->of[k->open[i]]--;
	k->n = kept;
}

/* End k->open[i], but not the elements in it. */
static void remove_open(struct tags *k, size_t i)
{
	k->of[k->open[i]]--;
	k->format -= kind_of(k->open[i]) == FORMAT;
	memmove(k->open + i, k->open + i + 1, k->n - i - 1);
	k->n--;
}

/* Return the index + 1 of the innermost open element t; 0 = there is none. */
static size_t find_open(const struct tags *k, GumboTag t)
{
	size_t i = k->of[t] ? k->n : 0;

	while (i && k->open[i - 1] != t)
		i--;
	return i;
}

/* End the elements that must end where start tag t begins: an open paragraph, and an open element of the same name. */
static void make_way(struct tags *k, GumboTag t, enum kind kind)
{
	size_t i = k->n;

	if (t == GUMBO_TAG_A && (i = find_open(k, t)))
		remove_open(k, i - 1);
	if (kind != NESTS && kind != CLOSES)
		return;
	while (i && is_inline(k->open[i - 1]))
		i--;
	if (i && k->open[i - 1] == GUMBO_TAG_P)
		end_open(k, i - 1);
	for (i = k->n; kind == CLOSES && i && kind_of(k->open[i - 1]) != NESTS; i--)
		if (k->open[i - 1] == t) {
			end_open(k, i - 1);
			return;
		}
}

/* Begin an element. Returns 1; 0 = its start tag must be dropped, because the tree would be too deep. */
static int tag_begins(struct tags *k, GumboTag t)
{
	enum kind kind = kind_of(t);

	if (kind == VOID || kind == SINGLE)
		return 1;
	make_way(k, t, kind);
	if (k->n == DEPTH_MAX || (kind == FORMAT && k->format >= FORMAT_MAX && t != GUMBO_TAG_A)) {
		k->dropped[t]++;
		return 0;
	}
	k->open[k->n++] = (unsigned char)t;
	k->of[t]++;
	k->format += kind == FORMAT;
	return 1;
}

/* End an element. Returns 1; 0 = its end tag must be dropped, because its start tag was dropped. */
static int tag_ends(struct tags *k, GumboTag t)
{
	size_t i;

	if (k->dropped[t]) {
		k->dropped[t]--;
		return 0;
	}
	i = find_open(k, t);
	if (!i)
		return 1;
	if (kind_of(t) == FORMAT) {
		remove_open(k, i - 1);
		return 1;
	}
	/* the end of an inline element does not end the blocks in it */
	for (size_t j = i; kind_of(t) == INLINE && j < k->n; j++)
		if (!is_inline(k->open[j]))
			return 1;
	end_open(k, i - 1);
	return 1;
}

/* 1 if the contents of the element contain no markup. */
static int is_raw(GumboTag t)
{
	return t == GUMBO_TAG_SCRIPT || t == GUMBO_TAG_STYLE || t == GUMBO_TAG_TEXTAREA || t == GUMBO_TAG_TITLE ||
	       t == GUMBO_TAG_XMP || t == GUMBO_TAG_IFRAME || t == GUMBO_TAG_NOEMBED || t == GUMBO_TAG_NOFRAMES;
}

/* Return the end of the tag that begins at p, which is the address after its '>', or `end`. */
static const char *tag_end(const char *p, const char *end)
{
	char quote = 0;

	for (; p < end; p++)
		if (quote)
			quote = *p == quote ? 0 : quote;
		else if (*p == '"' || *p == '\'')
			quote = *p;
		else if (*p == '>')
			return p + 1;
	return end;
}

static size_t name_length(const char *p, const char *end)
{
	size_t n = 0;

	while (p + n < end && !byte_is_blank(p[n]) && p[n] != '>' && p[n] != '/')
		n++;
	return n;
}

/* Return the end of the contents of a raw element (is_raw()). The contents begin at p, and end at the element's end tag
 * or at `end`. */
static const char *raw_end(const char *p, const char *end, const char *name, size_t n)
{
	while ((p = memmem(p, (size_t)(end - p), "</", 2)) && (size_t)(end - p) >= n + 2) {
		if (!strncasecmp(p + 2, name, n))
			return p;
		p += 2;
	}
	return end;
}

/* Return the first occurrence of `what`, or `end`. */
static const char *find(const char *p, const char *end, const char *what)
{
	const char *at = p < end ? memmem(p, (size_t)(end - p), what, strlen(what)) : NULL;

	return at ? at : end;
}

/* Copy a CDATA section as text. Returns its end. */
static const char *copy_cdata(struct str *out, const char *p, const char *end)
{
	const char *to = find(p += 9, end, "]]>");

	for (; p < to; p++)
		if (*p == '<' || *p == '&')
			str_adds(out, *p == '<' ? "&lt;" : "&amp;");
		else
			str_add(out, p, 1);
	return to + (to < end ? 3 : 0);
}

/* Copy the beginning of the tag at p: '<' and its name. In XHTML, copy a whole start tag. If the tag begins a raw
 * element (is_raw()), copy the element's contents, too. If the tag must be dropped, write <br> or <wbr> instead.
 * Returns the end of what was copied. */
static const char *copy_tag(struct tags *k, struct str *out, const char *p, const char *end, int xml)
{
	int close = p[1] == '/';
	const char *name = p + 1 + close, *to;
	size_t n = name_length(name, end);
	GumboTag t = gumbo_tagn_enum(name, (unsigned)MIN(n, 100));

	if (!close ? !tag_begins(k, t) : !tag_ends(k, t)) {
		str_adds(out, is_inline(t) ? "<wbr" : "<br");
		return name + n;
	}
	if (t == GUMBO_TAG_NOSCRIPT) {
		str_adds(out, close ? "</template" : "<template");
		return name + n;
	}
	if (close && xml && kind_of(t) == VOID)
		return tag_end(name, end);
	if (close || !(xml || is_raw(t))) {
		str_add(out, p, (size_t)(name + n - p));
		return name + n;
	}
	to = tag_end(name, end);
	if (xml && to < end && to[-2] == '/' && kind_of(t) != VOID) {
		str_add(out, p, (size_t)(to - 2 - p));
		str_adds(out, "></");
		str_add(out, name, n);
		str_adds(out, ">");
		tag_ends(k, t);
		return to;
	}
	if (is_raw(t))
		to = raw_end(to, end, name, n);
	str_add(out, p, (size_t)(to - p));
	return to;
}

static int is_alpha(char c)
{
	return byte_is_upper(c) || byte_is_lower(c);
}

/* Write the page to `out` in the form that gumbo parses (see the top of this file). */
static void prepare(struct str *out, const char *p, size_t n, int xml)
{
	const char *end = p + n;
	struct tags k = { 0 };

	while (p < end) {
		const char *at = memchr(p, '<', (size_t)(end - p)), *to;

		at = at ? at : end;
		str_add(out, p, (size_t)(at - p));
		p = at;
		if (end - p < 3) {
			str_add(out, p, (size_t)(end - p));
			return;
		}
		if (is_alpha(p[1]) || (p[1] == '/' && is_alpha(p[2]))) {
			p = copy_tag(&k, out, p, end, xml);
		} else if (xml && end - p > 9 && !memcmp(p, "<![CDATA[", 9)) {
			p = copy_cdata(out, p, end);
		} else {
			/* copy a comment as a whole */
			to = !memcmp(p, "<!-", 3) ? find(p + 2, end, "-->") : p + 1;
			str_add(out, p, (size_t)(to - p));
			p = to;
		}
	}
}

/* ---- the tree ---- */

struct html_block {
	struct html_block *next;
	size_t used, size;
	_Alignas(16) char bytes[];
};

/* Allocate memory for gumbo's tree from blocks that are freed together. gumbo's own function frees a tree by recursion,
 * which overflows the stack if elements are nested deeply. */
static void *tree_alloc(void *ud, size_t n)
{
	struct html_tree *t = ud;
	struct html_block *b = t->blocks;
	size_t need = (n + 15) & ~(size_t)15;

	if (!b || need > b->size - b->used) {
		size_t size = MAX(BLOCK_BYTES, need);

		b = xmalloc(sizeof *b + size);
		*b = (struct html_block){ .next = t->blocks, .size = size };
		t->blocks = b;
	}
	b->used += need;
	return b->bytes + b->used - need;
}

static void tree_free(void *ud, void *p)
{
	(void)ud, (void)p;
}

void html_tree_parse(struct html_tree *t, const char *p, size_t n, int xml)
{
	GumboOptions o = kGumboDefaultOptions;

	*t = (struct html_tree){ 0 };
	prepare(&t->bytes, p, n, xml);
	o.allocator = tree_alloc;
	o.deallocator = tree_free;
	o.userdata = t;
	o.max_errors = 0;
	t->root = gumbo_parse_with_options(&o, str_text(&t->bytes), t->bytes.n)->root;
}

void html_tree_free(struct html_tree *t)
{
	for (struct html_block *b = t->blocks, *next; b; b = next) {
		next = b->next;
		free(b);
	}
	str_free(&t->bytes);
}

/* ---- nodes ---- */

const GumboVector *html_children(const GumboNode *n)
{
	return n->type == GUMBO_NODE_ELEMENT ? &n->v.element.children : NULL;
}

void html_name(const GumboNode *n, char *out, size_t cap)
{
	const GumboElement *e = &n->v.element;
	GumboStringPiece tag = e->original_tag;
	const char *name = gumbo_normalized_tagname(e->tag);
	size_t len = strlen(name);

	if (e->tag == GUMBO_TAG_UNKNOWN) {
		gumbo_tag_from_original_text(&tag);
		name = tag.data;
		len = tag.length;
	}
	len = MIN(len, cap - 1);
	for (size_t i = 0; i < len; i++)
		out[i] = byte_is_upper(name[i]) ? (char)(name[i] + 32) : name[i];
	out[len] = 0;
}

const char *html_attr(const GumboNode *n, const char *name)
{
	const GumboVector *all = &n->v.element.attributes;

	for (unsigned i = 0; i < all->length; i++) {
		const GumboAttribute *a = all->data[i];

		if (!strcmp(a->name, name))
			return a->value;
	}
	return NULL;
}

const GumboNode *html_before(const GumboNode *n)
{
	const GumboVector *all = n->parent ? html_children(n->parent) : NULL;
	size_t i = n->index_within_parent;

	if (!all || i >= all->length || all->data[i] != n)
		return NULL;
	while (i-- > 0) {
		const GumboNode *before = all->data[i];

		if (before->type == GUMBO_NODE_ELEMENT)
			return before;
	}
	return NULL;
}

int html_has_word(const char *s, const char *word, size_t n)
{
	while (s && *s) {
		size_t k = strcspn(s, " \t\n\r\f");

		if (k == n && !strncasecmp(s, word, n))
			return 1;
		s += k;
		s += strspn(s, " \t\n\r\f");
	}
	return 0;
}

int html_has_class(const GumboNode *n, const char *class)
{
	return html_has_word(html_attr(n, "class"), class, strlen(class));
}
