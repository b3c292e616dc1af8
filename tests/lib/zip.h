/* tests/lib/zip.h - builds a zip archive (DOCX, EPUB, OpenDocument) from parts that a test gives. */
#ifndef WEIR_TEST_ZIP_H
#define WEIR_TEST_ZIP_H

#include "tests/lib/test.h"

#include <string.h>

#include <archive.h>
#include <archive_entry.h>

struct part {
	const char *name, *text;
};

/* Return the bytes of a part's text, without the NUL at its end. A text in UTF-16LE begins with a byte order mark and
 * ends with two NUL bytes. */
static inline size_t part_size(const struct part *p)
{
	size_t n = 0;

	if (memcmp(p->text, "\xff\xfe", 2))
		return strlen(p->text);
	while (p->text[n] || p->text[n + 1])
		n += 2;
	return n;
}

/* Build the archive of these parts. The result is valid until the next call. */
static inline char *zip(const struct part *p, size_t n, size_t *size)
{
	static char buf[1 << 20];
	struct archive *a = archive_write_new();

	archive_write_set_format_zip(a);
	CHECK_INT(archive_write_open_memory(a, buf, sizeof buf, size), ARCHIVE_OK);
	for (size_t i = 0; i < n; i++) {
		struct archive_entry *e = archive_entry_new();
		archive_entry_set_pathname(e, p[i].name);
		archive_entry_set_size(e, (la_int64_t)part_size(&p[i]));
		archive_entry_set_filetype(e, AE_IFREG);
		archive_entry_set_perm(e, 0600);
		archive_write_header(a, e);
		archive_write_data(a, p[i].text, part_size(&p[i]));
		archive_entry_free(e);
	}
	archive_write_close(a);
	archive_write_free(a);
	return buf;
}

#endif
