/* sessions/import/epub.c - converts EPUB 2 and 3.
 *
 * The file META-INF/container.xml names the package file, which has title and authors, and whose spine lists the
 * chapters in reading order. A chapter without a heading gets its title in the table of contents as heading. */
#include "sessions/import/import_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SPINE_MAX 10000
/* maximum number of bytes of the style sheets that are read; a sheet counts once for each chapter that links it */
#define CSS_MAX   (64u << 20)

/* An item of the manifest. `href` is its path inside the archive. */
struct item {
	char *id, *href, *type;
};
/* An entry of the table of contents. */
struct label {
	char *href, *text;
};

struct epub {
	struct zip zip;
	char *package; /* path of the package file */
	struct item *item;
	size_t n_item;
	char **spine; /* ids of manifest items, in reading order */
	size_t n_spine;
	struct label *label;
	size_t n_label;
	struct str text; /* text of the current label */
	int in_label, in_nav_point;
	char *toc;           /* path of the table of contents: NCX (EPUB 2) or navigation document (EPUB 3) */
	size_t encrypted;    /* number of encrypted entries other than fonts */
	const char *chapter; /* path of the chapter that is converted */
	size_t css;          /* number of bytes of the style sheets that chapters have linked so far */
	struct properties properties;
};

static int ends_in(const char *name, const char *ending)
{
	size_t n = strlen(name), k = strlen(ending);

	return n > k && !strcasecmp(name + n - k, ending);
}

/* 1 if the entry of the archive may be a chapter, or may describe the book. */
static int is_text_entry(const char *name)
{
	static const char *const other[] = {
		".jpg", ".jpeg", ".png",   ".gif", ".webp", ".css", ".ttf",
		".otf", ".woff", ".woff2", ".mp3", ".mp4",  ".m4a", ".js",
	};

	for (size_t i = 0; i < LEN(other); i++)
		if (ends_in(name, other[i]))
			return 0;
	return 1;
}

static int want_epub_entry(const char *name)
{
	return is_text_entry(name) || ends_in(name, ".css");
}

static char *attr_copy(const struct xml_attr *a)
{
	return a ? xstrndup(a->value, a->n) : xstrndup("", 0);
}

/* ---- container.xml, the package file ---- */

static void container_start(void *ud, const char *name, const struct xml_attr *a, size_t n)
{
	struct epub *b = ud;
	const struct xml_attr *path = xml_attr(a, n, "full-path");

	if (!strcmp(name, "rootfile") && path && !b->package)
		b->package = zip_path("", path->value, path->n);
}

static void package_start(void *ud, const char *name, const struct xml_attr *a, size_t n)
{
	struct epub *b = ud;
	const struct xml_attr *href, *type;

	properties_start(&b->properties, name, a, n);
	if (!strcmp(name, "item") && (href = xml_attr(a, n, "href")) && b->n_item < SPINE_MAX) {
		char *path = zip_path(b->package, href->value, href->n);
		if (!path)
			return;
		b->item = xrealloc(b->item, (b->n_item + 1) * sizeof *b->item);
		b->item[b->n_item++] =
			(struct item){ attr_copy(xml_attr(a, n, "id")), path, attr_copy(xml_attr(a, n, "media-type")) };
		type = xml_attr(a, n, "properties");
		if ((type && memmem(type->value, type->n, "nav", 3)) ||
		    xml_attr_is(a, n, "media-type", "application/x-dtbncx+xml")) {
			/* The table of contents: EPUB 3's navigation document, else EPUB 2's NCX. */
			if (!b->toc || type) {
				free(b->toc);
				b->toc = xstrndup(path, strlen(path));
			}
		}
	} else if (!strcmp(name, "itemref") && b->n_spine < SPINE_MAX) {
		b->spine = xrealloc(b->spine, (b->n_spine + 1) * sizeof *b->spine);
		b->spine[b->n_spine++] = attr_copy(xml_attr(a, n, "idref"));
	}
}

static void package_end(void *ud, const char *name)
{
	struct epub *b = ud;

	(void)name;
	b->properties.into = NULL;
}

static void package_text(void *ud, const char *s, size_t n)
{
	struct epub *b = ud;

	properties_text(&b->properties, s, n);
}

/* Count encrypted chapters and package files. Obfuscated fonts, which are listed as encrypted as well, are not
 * counted. */
static void encryption_start(void *ud, const char *name, const struct xml_attr *a, size_t n)
{
	struct epub *b = ud;
	const struct xml_attr *uri;

	if (strcmp(name, "CipherReference") || !(uri = xml_attr(a, n, "URI")))
		return;
	char *path = zip_path("", uri->value, uri->n);
	b->encrypted += path && is_text_entry(path);
	free(path);
}

/* ---- the table of contents ---- */

static void label_end(struct epub *b, char *href)
{
	size_t n = b->text.n;

	if (href && n && b->n_label < SPINE_MAX) {
		b->label = xrealloc(b->label, (b->n_label + 1) * sizeof *b->label);
		b->label[b->n_label++] = (struct label){ href, xstrndup(b->text.p, n) };
	} else {
		free(href);
	}
	str_clear(&b->text);
}

/* Parse the table of contents. EPUB 2: <navPoint><navLabel><text>..</text></navLabel><content src=".."/></navPoint>.
 * EPUB 3: <nav><a href="..">..</a></nav>. */
static void toc_start(void *ud, const char *name, const struct xml_attr *a, size_t n)
{
	struct epub *b = ud;
	const struct xml_attr *to;

	if (!strcmp(name, "navLabel")) {
		str_clear(&b->text);
		b->in_label = 1;
	} else if (!strcmp(name, "content") && (to = xml_attr(a, n, "src"))) {
		label_end(b, zip_path(b->toc, to->value, to->n));
	} else if (!strcmp(name, "a") && (to = xml_attr(a, n, "href"))) {
		char *href = zip_path(b->toc, to->value, to->n);
		str_clear(&b->text);
		b->in_label = 1;
		if (href && b->n_label < SPINE_MAX) {
			b->label = xrealloc(b->label, (b->n_label + 1) * sizeof *b->label);
			b->label[b->n_label++] = (struct label){ href, NULL };
		} else {
			free(href);
		}
	}
}

static void toc_end(void *ud, const char *name)
{
	struct epub *b = ud;

	if (!strcmp(name, "navLabel")) {
		b->in_label = 0;
	} else if (!strcmp(name, "a")) {
		b->in_label = 0;
		if (b->n_label && !b->label[b->n_label - 1].text)
			b->label[b->n_label - 1].text = xstrndup(str_text(&b->text), b->text.n);
	}
}

static void toc_text(void *ud, const char *s, size_t n)
{
	struct epub *b = ud;

	if (b->in_label && b->text.n < 1000)
		str_add(&b->text, s, n);
}

static const char *label_of(const struct epub *b, const char *href)
{
	for (size_t i = 0; i < b->n_label; i++)
		if (b->label[i].text && b->label[i].text[strspn(b->label[i].text, " \n\t\r")] &&
		    !strcmp(b->label[i].href, href))
			return b->label[i].text;
	return NULL;
}

/* ---- the book ---- */

static int parse_part(struct epub *b, const char *path, const struct xml_handler *h, int needed, struct err *e)
{
	const struct zip_entry *entry = zip_find(&b->zip, path);

	if (entry)
		return xml_parse(path, entry->p, entry->n, h, b, needed ? e : NULL);
	return needed ? err_set(e, ERR_DOCUMENT, "is damaged: it lacks '%.100s'", path) : 0;
}

static const struct item *item_of(const struct epub *b, const char *id)
{
	for (size_t i = 0; i < b->n_item; i++)
		if (!strcmp(b->item[i].id, id))
			return &b->item[i];
	return NULL;
}

/* ---- SVG pages ---- */

struct picture {
	struct writer *w;
	/* in_text is the number of open elements inside text elements; `skip` is the number of open elements inside
	 * <style> and the like */
	int in_text, skip;
};

static int is_picture_text(const char *name)
{
	return !strcmp(name, "text") || !strcmp(name, "title") || !strcmp(name, "desc") || !strcmp(name, "p");
}

static void picture_start(void *ud, const char *name, const struct xml_attr *a, size_t n)
{
	struct picture *x = ud;

	if (x->skip || !strcmp(name, "style") || !strcmp(name, "script") || !strcmp(name, "metadata")) {
		x->skip++;
	} else if (is_picture_text(name)) {
		writer_gap(x->w, GAP_LINE);
		x->in_text++;
	} else if (!strcmp(name, "tspan") && (xml_attr(a, n, "x") || xml_attr(a, n, "y"))) {
		writer_gap(x->w, GAP_SPACE);
	}
}

static void picture_end(void *ud, const char *name)
{
	struct picture *x = ud;

	if (x->skip) {
		x->skip--;
	} else if (is_picture_text(name)) {
		x->in_text -= x->in_text > 0;
		writer_gap(x->w, GAP_LINE);
	}
}

static void picture_text(void *ud, const char *s, size_t n)
{
	struct picture *x = ud;

	if (x->in_text && !x->skip)
		writer_text(x->w, s, n);
}

/* Write the texts of a chapter that is an SVG picture. */
static void add_picture(struct writer *w, const struct zip_entry *z)
{
	static const struct xml_handler handler = { .start = picture_start, .end = picture_end, .text = picture_text };
	struct picture x = { .w = w };

	xml_parse(z->name, z->p, z->n, &handler, &x, NULL);
	writer_gap(w, GAP_BLOCK);
}

/* ---- the spine ---- */

/* Find a style sheet that the current chapter links. */
static const char *find_sheet(void *ud, const char *href, size_t *n)
{
	struct epub *b = ud;
	char *path = zip_path(b->chapter, href, strlen(href));
	const struct zip_entry *z = path ? zip_find(&b->zip, path) : NULL;

	free(path);
	if (!z || z->n > CSS_MAX - b->css)
		return NULL;
	b->css += z->n;
	*n = z->n;
	return z->p;
}

static size_t add_chapter(struct writer *w, struct epub *b, const struct item *it, const struct zip_entry *z)
{
	const struct html_sheets sheets = { find_sheet, b };
	struct doc *d = w->doc;
	struct str text = { 0 };
	size_t from, marks = d->n_mark, hidden = 0;
	const char *label = label_of(b, it->href);
	int has_heading = 0;

	writer_gap(w, GAP_BLOCK);
	from = d->text.n;
	if (ends_in(it->href, ".svg") || !strcmp(it->type, "image/svg+xml")) {
		add_picture(w, z);
	} else {
		charset_decode_page(z->p, z->n, &text);
		b->chapter = it->href;
		hidden = html_convert(w, str_text(&text), text.n, &sheets);
	}
	str_free(&text);
	writer_heading_end(w);
	for (size_t i = marks; i < d->n_mark; i++)
		has_heading |= d->mark[i].kind == MARK_HEADING;
	while (from < d->text.n && d->text.p[from] == '\n')
		from++;
	if (!has_heading && label && d->text.n > from)
		doc_mark(d, MARK_HEADING, 1, from, label, strlen(label));
	return hidden;
}

static int read_book(struct epub *b, struct doc *d, struct err *e)
{
	struct writer w = { .doc = d };
	size_t hidden = 0, missing = 0;
	/* done[i] is 1 after chapter i was read, because the spine may name a chapter twice */
	unsigned char *done = xcalloc(b->zip.n + 1, 1);

	for (size_t i = 0; i < b->n_spine && !w.full; i++) {
		const struct item *it = item_of(b, b->spine[i]);
		const struct zip_entry *z = it ? zip_find(&b->zip, it->href) : NULL;
		if (!z)
			missing += !it || is_text_entry(it->href);
		else if (!done[z - b->zip.entry]) {
			done[z - b->zip.entry] = 1;
			hidden += add_chapter(&w, b, it, z);
		}
	}
	free(done);
	writer_end(&w);
	properties_write(d, &b->properties, 1);
	if (hidden)
		doc_note(d, HIDDEN_TEXT, hidden, hidden == 1 ? " was" : "s were");
	if (missing)
		doc_note(d, "%zu of %zu chapters are missing in the file", missing, b->n_spine);
	if (!b->n_spine)
		return err_set(e, ERR_DOCUMENT, "is damaged: its package file names no chapters");
	return d->text.n ? 0 : err_set(e, ERR_DOCUMENT, "holds no text");
}

static int import_book(struct epub *b, const char *p, size_t n, struct doc *d, struct err *e)
{
	static const struct xml_handler container = { .start = container_start },
					package = { .start = package_start, .end = package_end, .text = package_text },
					encryption = { .start = encryption_start },
					toc = { .start = toc_start, .end = toc_end, .text = toc_text };
	const struct zip_entry *z;

	if (zip_read(&b->zip, p, n, want_epub_entry, e) || parse_part(b, "META-INF/container.xml", &container, 1, e))
		return -1;
	if (!b->package)
		return err_set(e, ERR_DOCUMENT, "is damaged: its container names no package file");
	parse_part(b, "META-INF/encryption.xml", &encryption, 0, NULL);
	if (b->encrypted)
		return err_set(e, ERR_DOCUMENT, "is encrypted (DRM): its text cannot be read");
	if (parse_part(b, b->package, &package, 1, e))
		return -1;
	z = b->toc ? zip_find(&b->zip, b->toc) : NULL;
	if (z)
		xml_parse(b->toc, z->p, z->n, &toc, b, NULL);
	return read_book(b, d, e);
}

int epub_import(const char *p, size_t n, struct doc *d, struct err *e)
{
	struct epub b = { 0 };
	int rc = import_book(&b, p, n, d, e);

	for (size_t i = 0; i < b.n_item; i++) {
		free(b.item[i].id);
		free(b.item[i].href);
		free(b.item[i].type);
	}
	for (size_t i = 0; i < b.n_spine; i++)
		free(b.spine[i]);
	for (size_t i = 0; i < b.n_label; i++) {
		free(b.label[i].href);
		free(b.label[i].text);
	}
	free(b.item);
	free(b.spine);
	free(b.label);
	free(b.package);
	free(b.toc);
	str_free(&b.text);
	properties_free(&b.properties);
	zip_free(&b.zip);
	return rc;
}
