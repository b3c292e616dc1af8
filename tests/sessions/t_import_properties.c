/* tests/sessions/t_import_properties.c - the title and author of a file's metadata stand before its text, if the text
 * does not begin with them (sessions/import/properties.c). */
#include "sessions/import/import_private.h"
#include "tests/lib/test.h"
#include "tests/lib/zip.h"

#include <stdio.h>
#include <string.h>

/* Convert a book with this metadata and text. */
static void book(const char *metadata, const char *text, struct doc *d)
{
	char package[1000], chapter[3000];
	const struct part parts[] = { { "META-INF/container.xml", "<container><rootfile full-path='o'/></container>" },
		                      { "o", package },
		                      { "a", chapter } };
	struct err e = { 0 };
	size_t n;
	char *p;

	snprintf(
		package, sizeof package,
		"<package xmlns:dc='d' xmlns:opf='o'><metadata>%s</metadata><manifest><item id='1' href='a'/></manifest>"
		"<spine><itemref idref='1'/></spine></package>",
		metadata);
	snprintf(chapter, sizeof chapter, "<html><head><title>x</title></head><body>%s</body></html>", text);
	*d = (struct doc){ 0 };
	p = zip(parts, LEN(parts), &n);
	CHECK_MSG(!epub_import(p, n, d, &e), "%s", e.msg);
}

static void book_becomes(const char *metadata, const char *text, const char *want)
{
	struct doc d;

	book(metadata, text, &d);
	CHECK_STR(d.text.p, want);
	doc_free(&d);
}

#define TITLE   "<dc:title>The Grey Lamp</dc:title>"
#define CREATOR "<dc:creator opf:role='aut' opf:file-as='Morris, William'>William\n  Morris</dc:creator>"
TEST(epub_title_and_author)
{
	struct doc d;

	book_becomes(TITLE CREATOR, "<p>text", "Title: The Grey Lamp\nAuthor: William Morris\n\ntext");
	book_becomes(CREATOR "<dc:creator opf:role='trl'>No One</dc:creator><dc:creator>B &amp; C</dc:creator>",
	             "<p>text", "Author: William Morris, B & C\n\ntext");
	book_becomes(TITLE "<dc:title>other</dc:title>", "<p>text", "Title: The Grey Lamp\n\ntext");
	book_becomes("<dc:creator>Homer</dc:creator><dc:title> </dc:title>", "<p>text", "Author: Homer\n\ntext");
	book_becomes("<dc:creator/><dc:contributor>Ed</dc:contributor>", "<p>text", "text");
	/* The text begins with them: a person in another order, both in capitals. */
	book_becomes(TITLE CREATOR, "<h1>THE GREY\nLAMP</h1><p>by Morris, William",
	             "THE GREY LAMP\n\nby Morris, William");
	/* It has the words, but not the title, and a part of the name. */
	book_becomes(TITLE CREATOR, "<p>The lamp was grey, and so was William.",
	             "Title: The Grey Lamp\nAuthor: William Morris\n\nThe lamp was grey, and so was William.");
	/* Marks move with the text. */
	book(TITLE CREATOR, "<span epub:type='pagebreak' title='7'/><h2>One</h2><p>text", &d);
	CHECK_STR(d.text.p, "Title: The Grey Lamp\nAuthor: William Morris\n\nOne\n\ntext");
	doc_mark_paragraphs(&d);
	CHECK(doc_mark_at(&d, MARK_PAGE, 0) && !strcmp(doc_mark_at(&d, MARK_PAGE, 0)->text, "7"));
	CHECK(!doc_mark_at(&d, MARK_HEADING, 44));
	CHECK(doc_mark_at(&d, MARK_HEADING, 45) && !strcmp(doc_mark_at(&d, MARK_HEADING, 45)->text, "One"));
	doc_free(&d);
}

/* A value is one line of at most 300 bytes, without half a character. */
TEST(hostile_values)
{
	struct str metadata = { 0 };
	struct doc d;

	str_adds(&metadata, "<dc:creator>");
	for (int i = 0; i < 200; i++)
		str_adds(&metadata, "\xc3\xa9");
	str_adds(&metadata, "</dc:creator>");
	book(metadata.p, "<p>text", &d);
	str_free(&metadata);
	CHECK_INT(d.text.n, strlen("Author: \n\ntext") + 300);
	CHECK(!strncmp(d.text.p + 8 + 298, "\xc3\xa9\n\ntext", 8));
	doc_free(&d);
	book_becomes("<dc:creator>A\tB\n\nTitle: C&#xa;D</dc:creator>", "<p>text", "Author: A B Title: C D\n\ntext");
}

static void docx_becomes(const char *author, const char *want)
{
	char core[300];
	const struct part parts[] = {
		{ "word/document.xml",
		  "<w:document xmlns:w='w'><w:body><w:p><w:r><w:t>text</w:t></w:r></w:p></w:body></w:document>" },
		{ "_rels/.rels",
		  "<Relationships><Relationship Id='1' Type='http://x/metadata/core-properties' Target='docProps/c.xml'/></Relationships>" },
		{ "docProps/c.xml", core },
	};
	struct doc d = { 0 };
	struct err e = { 0 };
	size_t n;
	char *p;

	snprintf(
		core, sizeof core,
		"<c xmlns:dc='d'><dc:title>Microsoft Word - x</dc:title><dc:creator>%s</dc:creator><lastModifiedBy>Z Z</lastModifiedBy></c>",
		author);
	p = zip(parts, LEN(parts), &n);
	CHECK_MSG(!docx_import(p, n, &d, &e), "%s", e.msg);
	CHECK_STR(d.text.p, want);
	doc_free(&d);
}

/* Programs write such properties without being asked: names of accounts and titles are left out. */
TEST(docx_author)
{
	docx_becomes("William Morris", "Author: William Morris\n\ntext");
	docx_becomes("\xe6\x9d\x91\xe4\xb8\x8a", "Author: \xe6\x9d\x91\xe4\xb8\x8a\n\ntext");
	docx_becomes("admin", "text");
	docx_becomes("Microsoft Office User", "text");
	docx_becomes("", "text");
}

static void page_becomes(int (*import)(const char *p, size_t n, struct doc *, struct err *), const char *page,
                         const char *want)
{
	struct doc d = { 0 };
	struct err e = { 0 };

	CHECK_MSG(!import(page, strlen(page), &d, &e), "%s", e.msg);
	CHECK_STR(str_text(&d.text), want);
	doc_free(&d);
}

TEST(html_author)
{
	page_becomes(html_import, "<title>T</title><meta name=Author content='William  Morris'><p>text",
	             "Author: William Morris\n\ntext");
	page_becomes(html_import, "<meta name=author content='William Morris'><p>By William Morris",
	             "By William Morris");
	page_becomes(html_import, "<meta name=author content=wp-admin><p>text", "text");
	page_becomes(html_import, "<meta name=author><meta content='A B'><p>text", "text");
}

TEST(pdf_author)
{
#define PAGE                                                                                                           \
	"<page width=\"600\" height=\"800\"><flow><block><line xMin=\"10\" yMin=\"10\" xMax=\"60\" yMax=\"20\">"       \
	"<word xMin=\"10\" yMin=\"10\" xMax=\"60\" yMax=\"20\">text</word></line></block></flow></page>"
	page_becomes(
		pdf_import,
		"<head><title>x</title><meta name=\"Author\" content=\"William &amp; Odd Morris\"/></head><doc>" PAGE
		"</doc>",
		"Author: William & Odd Morris\n\ntext");
	page_becomes(pdf_import, "<head><meta name=\"Author\" content=\"(anonymous)\"/></head><doc>" PAGE "</doc>",
	             "text");
	page_becomes(pdf_import, "<head></head><doc>" PAGE "<meta name=\"Author\" content=\"A B\"/></doc>", "text");
}
