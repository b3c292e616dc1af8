/* sessions/import/xml.c - parses the XML files of EPUB, Office files and OpenDocument. Parsing ends at a declaration of
 * an entity, so entities can neither grow without bound nor read files. */
#include "sessions/import/import_private.h"

#include <stdlib.h>
#include <string.h>

#include <libxml/parser.h>
#include <libxml/parserInternals.h>
#include <libxml/xmlerror.h>

/* The first part that the parser gets has PART_FIRST bytes. Each further part is twice as long, up to PART_MOST bytes.
 * Parsing ends with the part that contains the first error, because libxml2 would go on only to report further errors.
 * With 1 MB of "<a <a <a", these reports took 1 s. */
enum { PART_FIRST = 4096, PART_MOST = 65536 };

struct xml {
	const struct xml_handler *handler;
	void *ud;
	xmlParserCtxtPtr ctxt;
	struct xml_attr *attr;
	size_t cap;
	int entities;
};

static void on_start(void *ud, const xmlChar *name, const xmlChar *prefix, const xmlChar *uri, int n_ns,
                     const xmlChar **ns, int n_attr, int n_default, const xmlChar **a)
{
	struct xml *x = ud;
	size_t n = n_attr > 0 ? (size_t)n_attr : 0;

	(void)prefix, (void)uri, (void)n_ns, (void)ns, (void)n_default;
	if (n > x->cap) {
		x->cap = 2 * n;
		x->attr = xrealloc(x->attr, x->cap * sizeof *x->attr);
	}
	for (size_t i = 0; i < n; i++, a += 5)
		x->attr[i] = (struct xml_attr){ (const char *)a[0], (const char *)a[3], (size_t)(a[4] - a[3]) };
	if (x->handler->start)
		x->handler->start(x->ud, (const char *)name, x->attr, n);
}

static void on_end(void *ud, const xmlChar *name, const xmlChar *prefix, const xmlChar *uri)
{
	struct xml *x = ud;

	(void)prefix, (void)uri;
	if (x->handler->end)
		x->handler->end(x->ud, (const char *)name);
}

static void on_text(void *ud, const xmlChar *s, int n)
{
	struct xml *x = ud;

	if (x->handler->text && n > 0)
		x->handler->text(x->ud, (const char *)s, (size_t)n);
}

static void on_declared_entity(void *ud, const xmlChar *name, int type, const xmlChar *id, const xmlChar *system,
                               xmlChar *content)
{
	struct xml *x = ud;

	(void)name, (void)type, (void)id, (void)system, (void)content;
	x->entities = 1;
	xmlStopParser(x->ctxt);
}

static xmlEntityPtr on_entity(void *ud, const xmlChar *name)
{
	(void)ud;
	return xmlGetPredefinedEntity(name);
}

int xml_parse(const char *what, const char *p, size_t n, const struct xml_handler *handler, void *ud, struct err *e)
{
	struct xml x = { .handler = handler, .ud = ud };
	size_t at = 0, most = PART_FIRST;
	int line, rc = 0;

	if (n > INT32_MAX || !(x.ctxt = xmlCreatePushParserCtxt(NULL, NULL, NULL, 0, NULL)))
		return err_set(e, ERR_FIT, "needs more memory than there is");
	*x.ctxt->sax = (xmlSAXHandler){ .initialized = XML_SAX2_MAGIC,
		                        .startElementNs = on_start,
		                        .endElementNs = on_end,
		                        .characters = on_text,
		                        .ignorableWhitespace = on_text,
		                        .cdataBlock = on_text,
		                        .entityDecl = on_declared_entity,
		                        .getEntity = on_entity };
	x.ctxt->userData = &x;
	/* XML_PARSE_NOENT makes libxml2 pass "&amp;" in an attribute as "&". Otherwise it would pass "&#38;". */
	xmlCtxtUseOptions(x.ctxt, XML_PARSE_NOENT | XML_PARSE_NONET | XML_PARSE_NOERROR | XML_PARSE_NOWARNING);
	do {
		size_t some = MIN(n - at, most);

		xmlParseChunk(x.ctxt, p + at, (int)some, at + some == n);
		at += some;
		most = MIN(2 * most, (size_t)PART_MOST);
	} while (at < n && !x.ctxt->disableSAX);
	line = x.ctxt->input ? x.ctxt->input->line : 0;
	if (x.entities)
		rc = err_set(e, ERR_DOCUMENT, "declares entities in '%.100s', which is not allowed there", what);
	else if (!x.ctxt->wellFormed)
		rc = err_set(e, ERR_DOCUMENT, "is damaged: '%.100s' is not well-formed XML after line %d", what, line);
	xmlFreeParserCtxt(x.ctxt);
	free(x.attr);
	return rc;
}

const struct xml_attr *xml_attr(const struct xml_attr *a, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(a[i].name, name))
			return &a[i];
	return NULL;
}

long xml_number(const struct xml_attr *a, long otherwise)
{
	char s[24];

	if (!a || !a->n || a->n >= sizeof s)
		return otherwise;
	memcpy(s, a->value, a->n);
	s[a->n] = 0;
	return strtol(s, NULL, 10);
}

int xml_attr_is(const struct xml_attr *a, size_t n, const char *name, const char *value)
{
	const struct xml_attr *found = xml_attr(a, n, name);

	return found && found->n == strlen(value) && !memcmp(found->value, value, found->n);
}

const char *xml_decode(const char *p, size_t n, struct str *text)
{
	const char *xml, *end;

	charset_decode_page(p, n, text);
	xml = str_text(text);
	/* skip the XML declaration, because it names the encoding that the text had before it was decoded */
	end = strncmp(xml, "<?xml", 5) ? NULL : strstr(xml, "?>");
	return end ? end + 2 : xml;
}
