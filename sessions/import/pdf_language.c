/* sessions/import/pdf_language.c - finds the language that the catalog of a PDF names: "/Lang (de-AT)".
 * Since PDF 1.5 the catalog may be in an object stream, which is compressed. */
#include "sessions/import/import_private.h"
#include "engine/base/utf8.h"

#include <string.h>
#include <zlib.h>

enum {
	STREAMS_MAX = 1000,     /* maximum number of object streams that are unpacked to find the catalog */
	UNPACKED_MAX = 1 << 20, /* maximum number of bytes that are unpacked of one stream */
	DICTIONARY_MAX = 1000,  /* maximum distance in bytes between a stream's type and its data */
	PACKED_MAX = 1 << 20,   /* maximum number of bytes that are read of one stream */
	TAG_MAX = 15            /* maximum length of a language's name in bytes; a longer name is truncated */
};

/* Append the language after "/Lang" in the text of objects. Returns 0 if there is no language. */
static int find_language(const char *p, size_t n, struct str *out)
{
	const char *end = p + n;

	while (p < end && (p = memmem(p, (size_t)(end - p), "/Lang", 5)) && end - p > 8) {
		p += 5;
		while (p < end && byte_is_blank(*p))
			p++;
		if (p == end || *p++ != '(')
			continue;
		for (; p < end && out->n < TAG_MAX && (byte_is_letter(*p) || *p == '-'); p++)
			str_add(out, p, 1);
		return 1;
	}
	return 0;
}

/* Unpack the beginning of a stream to out[UNPACKED_MAX]. Returns the number of bytes; 0 if the data are not packed. */
static size_t unpack(const char *p, size_t n, char *out)
{
	z_stream z = { .next_in = (Bytef *)(uintptr_t)p,
		       .avail_in = (uInt)MIN(n, PACKED_MAX),
		       .next_out = (Bytef *)out,
		       .avail_out = UNPACKED_MAX };

	if (inflateInit(&z) != Z_OK)
		return 0;
	inflate(&z, Z_FINISH); /* after an error, use the bytes that were unpacked before it */
	inflateEnd(&z);
	return UNPACKED_MAX - z.avail_out;
}

void pdf_language(const char *p, size_t n, struct str *out)
{
	static char unpacked[UNPACKED_MAX];
	const char *end = p + n, *data;
	int found = find_language(p, n, out);

	for (int i = 0; !found && i < STREAMS_MAX && (p = memmem(p, (size_t)(end - p), "/ObjStm", 7)); i++) {
		p += 7;
		data = memmem(p, MIN((size_t)(end - p), DICTIONARY_MAX), "stream", 6);
		if (!data)
			continue;
		data += 6;
		while (data < end && (*data == '\r' || *data == '\n'))
			data++;
		n = unpack(data, (size_t)(end - data), unpacked);
		found = memmem(unpacked, n, "/Catalog", 8) && find_language(unpacked, n, out);
	}
}
