/* sessions/import/opc.c - finds the parts of an Office file (DOCX, XLSX, PPTX; Open Packaging Conventions, ECMA-376
 * part 2): a part names other parts by ids, and a file of relationships beside the part gives the path for each id. */
#include "sessions/import/import_private.h"

#include <stdlib.h>
#include <string.h>

#define RELATIONS_MAX 10000

struct reader {
	struct opc *o;
	const char *part;
};

static char *value_of(const struct xml_attr *a)
{
	return a ? xstrndup(a->value, a->n) : xstrndup("", 0);
}

static void relation_start(void *ud, const char *name, const struct xml_attr *a, size_t n)
{
	struct reader *r = ud;
	const struct xml_attr *to = xml_attr(a, n, "Target");
	char *target;

	if (strcmp(name, "Relationship") || !to || r->o->n >= RELATIONS_MAX ||
	    xml_attr_is(a, n, "TargetMode", "External") || !(target = zip_path(r->part, to->value, to->n)))
		return;
	GROW(r->o->relation, r->o->n, r->o->cap);
	r->o->relation[r->o->n++] =
		(struct opc_relation){ value_of(xml_attr(a, n, "Id")), value_of(xml_attr(a, n, "Type")), target };
}

void opc_read(struct opc *o, const struct zip *zip, const char *part)
{
	static const struct xml_handler handler = { .start = relation_start };
	const char *slash = strrchr(part, '/'), *name = slash ? slash + 1 : part;
	struct reader r = { o, part };
	const struct zip_entry *z;
	struct str path = { 0 };

	*o = (struct opc){ .zip = zip };
	str_addf(&path, "%.*s_rels/%s.rels", (int)(name - part), part, name);
	if ((z = zip_find(zip, path.p)))
		xml_parse(z->name, z->p, z->n, &handler, &r, NULL);
	str_free(&path);
}

void opc_free(struct opc *o)
{
	for (size_t i = 0; i < o->n; i++) {
		free(o->relation[i].id);
		free(o->relation[i].type);
		free(o->relation[i].target);
	}
	free(o->relation);
	*o = (struct opc){ 0 };
}

const struct zip_entry *opc_by_id(const struct opc *o, const struct xml_attr *id)
{
	for (size_t i = 0; id && i < o->n; i++)
		if (!strncmp(o->relation[i].id, id->value, id->n) && !o->relation[i].id[id->n])
			return zip_find(o->zip, o->relation[i].target);
	return NULL;
}

const struct zip_entry *opc_by_type(const struct opc *o, const char *type)
{
	for (size_t i = 0; i < o->n; i++) {
		const char *slash = strrchr(o->relation[i].type, '/');

		if (slash && !strcmp(slash + 1, type))
			return zip_find(o->zip, o->relation[i].target);
	}
	return NULL;
}

const struct zip_entry *opc_main(const struct zip *zip, const char *usual)
{
	struct opc file;
	const struct zip_entry *z;

	opc_read(&file, zip, "");
	z = opc_by_type(&file, "officeDocument");
	opc_free(&file);
	return z ? z : zip_find(zip, usual);
}

static void property_start(void *ud, const char *name, const struct xml_attr *a, size_t n)
{
	properties_start(ud, name, a, n);
}

static void property_end(void *ud, const char *name)
{
	struct properties *of = ud;

	(void)name;
	of->into = NULL;
}

static void property_text(void *ud, const char *s, size_t n)
{
	properties_text(ud, s, n);
}

void opc_properties(const struct zip *zip, struct doc *d)
{
	static const struct xml_handler handler = { .start = property_start,
		                                    .end = property_end,
		                                    .text = property_text };
	struct properties of = { 0 };
	struct opc file;
	const struct zip_entry *z;

	opc_read(&file, zip, "");
	z = opc_by_type(&file, "core-properties");
	if (z)
		xml_parse(z->name, z->p, z->n, &handler, &of, NULL);
	properties_write(d, &of, 0);
	properties_free(&of);
	opc_free(&file);
}

int opc_want(const char *name)
{
	static const char *const large[] = { "pivotCache/", "calcChain", "externalLinks/", "customXml/", "theme/" };
	size_t n = strlen(name);

	for (size_t i = 0; i < LEN(large); i++)
		if (strstr(name, large[i]))
			return 0;
	return (n > 4 && !strcasecmp(name + n - 4, ".xml")) || (n > 5 && !strcasecmp(name + n - 5, ".rels"));
}

static int is_below(const struct zip_entry *z, const char *beginning)
{
	return !strncasecmp(z->name, beginning, strlen(beginning)) && !strstr(z->name, "_rels/");
}

struct counter {
	const char *element;
	size_t n;
};

static void counter_start(void *ud, const char *name, const struct xml_attr *a, size_t n)
{
	struct counter *c = ud;

	(void)a, (void)n;
	c->n += !strcmp(name, c->element);
}

static size_t count(const struct zip_entry *z, const char *element)
{
	static const struct xml_handler handler = { .start = counter_start };
	struct counter c = { .element = element };

	xml_parse(z->name, z->p, z->n, &handler, &c, NULL);
	return c.n;
}

size_t opc_count(const struct zip *zip, const char *beginning, const char *element)
{
	size_t n = 0;

	for (size_t i = 0; i < zip->n; i++)
		n += is_below(&zip->entry[i], beginning) && count(&zip->entry[i], element);
	return n;
}

size_t opc_elements(const struct zip *zip, const char *beginning, const char *element)
{
	size_t n = 0;

	for (size_t i = 0; i < zip->n; i++)
		n += is_below(&zip->entry[i], beginning) ? count(&zip->entry[i], element) : 0;
	return n;
}
